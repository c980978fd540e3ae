//! `errors`: rounds in a row in which every call failed, with the same tools and the same error.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Evidence, Round, Signal, SignalKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::policy::Policy;

/// The streak.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    same: Option<Digest>,
    turns: Vec<u64>,
}

impl Errors {
    pub(crate) fn round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        if round.calls.is_empty() {
            return None;
        }
        let error = failure(round);
        if error.is_none() || error != self.same {
            self.turns.clear();
        }
        self.same = error;
        let identity = error?;
        self.turns.push(round.turn);
        let count = self.turns.len() as u64;
        if policy.error_limit == 0 || count < policy.error_limit {
            return None;
        }
        let first = round.calls.first();
        Some(Signal {
            signal: SignalKind::Errors,
            evidence: Evidence {
                turns: self.turns.clone(),
                call: first.map(|call| String::from(&*call.label)),
                result: first.and_then(|call| call.result),
                text: None,
            },
            because: Some(Because::count(Reason::Errors, count, policy.error_limit)),
            identity,
        })
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The tools and errors of a round that failed as a whole.
fn failure(round: &Round) -> Option<Digest> {
    round.calls.iter().try_fold(Digest::EMPTY, |sum, call| {
        let result = call.result.filter(|_| call.failed)?;
        Some(sum.with(call.name.then(result)))
    })
}
