//! `errors`: rounds in a row in which every call failed, with the same tools and the same error.
//! Twice as many rounds with no more different errors than the limit are the same loop: the same
//! errors keep coming, in any order. Errors that are always new are progress. A round in which a
//! call works, other tools, or a person's message start the count afresh.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;

use super::{Evidence, NAMED, Round, Signal, SignalKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::policy::Policy;

/// The streak: the newest failed rounds with no more different errors than the limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorDetector {
    failed: VecDeque<FailedRound>,
    /// The number of rounds with each error.
    errors: BTreeMap<Digest, u64>,
    /// The number of newest rounds that have one error.
    same: usize,
}

/// A round that failed as a whole.
#[derive(Clone, Copy, Debug)]
struct FailedRound {
    turn: u64,
    tools: Digest,
    /// The tools with their errors.
    error: Digest,
}

impl ErrorDetector {
    pub(crate) fn observe_round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        if round.calls.is_empty() {
            return None;
        }
        let newest = describe_failure(round);
        let tools = self.failed.back().map(|failed| failed.tools);
        if newest.map(|newest| newest.tools) != tools {
            self.clear();
        }
        let newest = newest?;
        let limit = policy.error_limit;
        if limit == 0 {
            return None;
        }
        self.push_round(newest, limit);
        if self.same as u64 >= limit {
            return Some(self.build_signal(round, self.same, newest.error, None, policy));
        }
        let few = self.failed.len();
        if (few as u64) < limit.saturating_mul(2) {
            return None;
        }
        let text = alloc::format!("{few} failed rounds, at most {limit} different errors");
        Some(self.build_signal(round, few, newest.tools, Some(text), policy))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Adds a round, and drops the oldest rounds while there are more different errors than `most`.
    fn push_round(&mut self, newest: FailedRound, most: u64) {
        let again = self.failed.back().is_some_and(|failed| failed.error == newest.error);
        self.same = if again { self.same + 1 } else { 1 };
        self.failed.push_back(newest);
        *self.errors.entry(newest.error).or_default() += 1;
        while self.errors.len() as u64 > most {
            let Some(oldest) = self.failed.pop_front() else { return };
            if let Some(count) = self.errors.get_mut(&oldest.error) {
                *count -= 1;
                if *count == 0 {
                    self.errors.remove(&oldest.error);
                }
            }
        }
    }

    fn build_signal(
        &self,
        round: &Round,
        count: usize,
        identity: Digest,
        text: Option<String>,
        policy: &Policy,
    ) -> Signal {
        let first = round.calls.first();
        let named = usize::try_from(policy.error_limit.saturating_mul(2)).unwrap_or(usize::MAX);
        let named = count.min(named.max(NAMED));
        let members = self.failed.iter().skip(self.failed.len().saturating_sub(named));
        Signal {
            signal: SignalKind::Errors,
            evidence: Evidence {
                turns: members.map(|failed| failed.turn).collect(),
                call: first.map(|call| String::from(call.words.label())),
                result: first.and_then(|call| call.result),
                text,
                ..Evidence::default()
            },
            because: Some(Because::from_counts(Reason::Errors, count as u64, policy.error_limit)),
            identity,
        }
    }
}

/// Returns the tools and errors of a round that failed as a whole. A tool that was called twice in
/// it counts as one tool.
fn describe_failure(round: &Round) -> Option<FailedRound> {
    let none = FailedRound { turn: round.turn, tools: Digest::EMPTY, error: Digest::EMPTY };
    let mut names = BTreeSet::new();
    round.calls.iter().try_fold(none, |sum, call| {
        let result = call.result.filter(|_| call.failed)?;
        let tools =
            if names.insert(call.name) { sum.tools.combined_with(call.name) } else { sum.tools };
        Some(FailedRound {
            tools,
            error: sum.error.combined_with(call.name.followed_by(result)),
            ..sum
        })
    })
}
