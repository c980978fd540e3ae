//! `cycle`: a cycle of two to four rounds, results included, that repeats. `repeat` handles a cycle
//! of a single round. Cycles with a poll in them have the poll's limit.

use alloc::vec::Vec;

use super::{Evidence, NAMED, Round, Signal, SignalKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::policy::Policy;

const LONGEST: usize = 4;

/// The last rounds, and the time that each period has held, in rounds.
#[derive(Clone, Debug, Default)]
pub(crate) struct CycleDetector {
    /// The newest last; at most [`LONGEST`].
    recent: Vec<CycleRound>,
    /// The number of rounds in a row that equalled the round `period` rounds before, by period − 1.
    held: [u64; LONGEST],
}

#[derive(Clone, Copy, Debug)]
struct CycleRound {
    digest: Digest,
    polls: bool,
}

impl CycleDetector {
    pub(crate) fn observe_round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        if round.calls.is_empty() {
            return None;
        }
        let Some(digest) = round.digest() else {
            self.clear();
            return None;
        };
        for (period, held) in (1..).zip(&mut self.held) {
            let before = self.recent.len().checked_sub(period).and_then(|at| self.recent.get(at));
            let same = before.is_some_and(|member| member.digest == digest);
            *held = if same { *held + 1 } else { 0 };
        }
        if self.recent.len() == LONGEST {
            self.recent.remove(0);
        }
        self.recent.push(CycleRound { digest, polls: round.has_poll() });
        (2..=LONGEST).find_map(|period| self.find_cycle(period, round.turn, policy))
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn find_cycle(&self, period: usize, turn: u64, policy: &Policy) -> Option<Signal> {
        let members = self.recent.get(self.recent.len().checked_sub(period)?..)?;
        let polls = members.iter().any(|member| member.polls);
        let limit = if polls { policy.poll_limit } else { policy.cycle_limit };
        let held = *self.held.get(period - 1)?;
        let repeats = held / period as u64 + 1;
        let shorter = self.held.iter().take(period - 1).any(|shorter| *shorter >= held);
        if limit == 0 || held == 0 || repeats < limit || shorter {
            return None;
        }
        // The newest turns, and at least as many as the limit asks for.
        let named = limit.saturating_mul(period as u64).max(NAMED as u64);
        let span = (held + period as u64).min(named).min(turn);
        Some(Signal {
            signal: SignalKind::Cycle,
            evidence: Evidence {
                turns: (turn + 1 - span..=turn).collect(),
                text: Some(alloc::format!("a cycle of {period} rounds")),
                ..Evidence::default()
            },
            because: Some(Because::from_counts(Reason::Cycle, repeats, limit)),
            identity: members
                .iter()
                .fold(Digest::EMPTY, |sum, member| sum.combined_with(member.digest)),
        })
    }
}
