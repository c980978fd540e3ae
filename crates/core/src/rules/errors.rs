//! `errors`: rounds in a row in which every call failed, with the same tools and the same error.
//! Twice as many, among which there are no more different errors than that, are the same loop:
//! the same errors keep coming, in whatever order. Ever new errors are progress; a round in which
//! one call works, other tools and a person's word begin afresh.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Evidence, Round, Signal, SignalKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::policy::Policy;

/// The streak.
#[derive(Clone, Debug, Default)]
pub(crate) struct Errors {
    failed: Vec<Failed>,
}

/// A round that failed as a whole.
#[derive(Clone, Copy, Debug)]
struct Failed {
    turn: u64,
    tools: Digest,
    /// The tools with their errors.
    error: Digest,
}

impl Errors {
    pub(crate) fn round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        if round.calls.is_empty() {
            return None;
        }
        let newest = failure(round);
        let tools = self.failed.last().map(|failed| failed.tools);
        if newest.map(|newest| newest.tools) != tools {
            self.failed.clear();
        }
        let newest = newest?;
        self.failed.push(newest);
        let limit = policy.error_limit;
        if limit == 0 {
            return None;
        }
        let same = self.failed.iter().rev().take_while(|f| f.error == newest.error).count();
        if same as u64 >= limit {
            return Some(self.signal(round, same, newest.error, None, policy));
        }
        let few = self.of_few(limit);
        if (few as u64) < limit.saturating_mul(2) {
            return None;
        }
        let text = alloc::format!("{few} failed rounds, at most {limit} different errors");
        Some(self.signal(round, few, newest.tools, Some(text), policy))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// How many of the newest rounds have no more than so many different errors.
    fn of_few(&self, most: u64) -> usize {
        let mut errors = BTreeSet::new();
        let few = |failed: &&Failed| {
            errors.insert(failed.error);
            errors.len() as u64 <= most
        };
        self.failed.iter().rev().take_while(few).count()
    }

    fn signal(
        &self,
        round: &Round,
        count: usize,
        identity: Digest,
        text: Option<String>,
        policy: &Policy,
    ) -> Signal {
        let first = round.calls.first();
        let members = self.failed.iter().skip(self.failed.len().saturating_sub(count));
        Signal {
            signal: SignalKind::Errors,
            evidence: Evidence {
                turns: members.map(|failed| failed.turn).collect(),
                call: first.map(|call| String::from(call.words.label())),
                result: first.and_then(|call| call.result),
                text,
            },
            because: Some(Because::count(Reason::Errors, count as u64, policy.error_limit)),
            identity,
        }
    }
}

/// The tools and errors of a round that failed as a whole. A tool that was called twice in it is
/// one tool.
fn failure(round: &Round) -> Option<Failed> {
    let none = Failed { turn: round.turn, tools: Digest::EMPTY, error: Digest::EMPTY };
    let mut names = BTreeSet::new();
    round.calls.iter().try_fold(none, |sum, call| {
        let result = call.result.filter(|_| call.failed)?;
        let tools = if names.insert(call.name) { sum.tools.with(call.name) } else { sum.tools };
        Some(Failed { tools, error: sum.error.with(call.name.then(result)), ..sum })
    })
}
