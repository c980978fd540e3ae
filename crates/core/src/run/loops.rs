//! The loop rules together, and the consequence of a loop under the policy: a note, then landing.

use alloc::vec::Vec;

use crate::because::Because;
use crate::digest::Digest;
use crate::policy::{OnLoop, Policy};
use crate::rules::{
    Round, Signal, cycle::CycleDetector, errors::ErrorDetector, repeat::RepeatDetector,
    sweep::SweepDetector,
};

/// The number of turns after a note within which the same loop, seen again, lands the run.
const AGAIN: u64 = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct LoopDetectors {
    repeat: RepeatDetector,
    cycle: CycleDetector,
    errors: ErrorDetector,
    sweep: SweepDetector,
    /// The loops that were noted, each with its turn.
    noted: Vec<(Digest, u64)>,
}

/// The consequence of a loop.
pub(super) enum LoopConsequence {
    Nothing,
    Note(Because),
    Land(Because),
    Stop(Because),
}

impl LoopDetectors {
    /// Shows a round to every rule.
    pub(super) fn observe_round(&mut self, round: &Round, policy: &Policy) -> Vec<Signal> {
        let mut signals = Vec::new();
        let mut see = |seen: Option<Signal>| {
            if let Some(signal) = seen {
                signals.push(signal);
            }
        };
        see(self.repeat.observe_round(round, policy));
        see(self.cycle.observe_round(round, policy));
        see(self.errors.observe_round(round, policy));
        see(self.sweep.observe_round(round, policy));
        signals
    }

    /// Returns the policy's consequence of the first signal that reached its limit.
    pub(super) fn decide_consequence(
        &mut self,
        signals: &[Signal],
        turn: u64,
        policy: &Policy,
    ) -> LoopConsequence {
        let found = signals.iter().find_map(|s| s.because.clone().map(|b| (s.identity, b)));
        let Some((identity, because)) = found else { return LoopConsequence::Nothing };
        match policy.on_loop {
            OnLoop::Observe => LoopConsequence::Nothing,
            OnLoop::Stop => LoopConsequence::Stop(because),
            OnLoop::Land => LoopConsequence::Land(because),
            OnLoop::Ladder => {
                let again = self.noted.iter().any(|(id, at)| *id == identity && at + AGAIN >= turn);
                if again {
                    return LoopConsequence::Land(because);
                }
                self.noted.retain(|(_, at)| at + AGAIN >= turn);
                self.noted.push((identity, turn));
                LoopConsequence::Note(because)
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.repeat.clear();
        self.cycle.clear();
        self.errors.clear();
        self.noted.clear();
    }
}
