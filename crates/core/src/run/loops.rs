//! The loop rules together, and the consequence of a loop under the policy: a note, then landing.

use alloc::vec::Vec;

use crate::because::Because;
use crate::digest::Digest;
use crate::policy::{OnLoop, Policy};
use crate::rules::{Round, Signal, cycle::Cycle, errors::Errors, repeat::Repeat, sweep::Sweep};

/// The number of turns after a note within which the same loop, seen again, lands the run.
const AGAIN: u64 = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct Loops {
    repeat: Repeat,
    cycle: Cycle,
    errors: Errors,
    sweep: Sweep,
    /// The loops that were noted, each with its turn.
    noted: Vec<(Digest, u64)>,
}

/// The consequence of a loop.
pub(super) enum Consequence {
    Nothing,
    Note(Because),
    Land(Because),
    Stop(Because),
}

impl Loops {
    /// Shows a round to every rule.
    pub(super) fn round(&mut self, round: &Round, policy: &Policy) -> Vec<Signal> {
        let mut signals = Vec::new();
        let mut see = |seen: Option<Signal>| {
            if let Some(signal) = seen {
                signals.push(signal);
            }
        };
        see(self.repeat.round(round, policy));
        see(self.cycle.round(round, policy));
        see(self.errors.round(round, policy));
        see(self.sweep.round(round, policy));
        signals
    }

    /// Returns the policy's consequence of the first signal that reached its limit.
    pub(super) fn consequence(
        &mut self,
        signals: &[Signal],
        turn: u64,
        policy: &Policy,
    ) -> Consequence {
        let found = signals.iter().find_map(|s| s.because.clone().map(|b| (s.identity, b)));
        let Some((identity, because)) = found else { return Consequence::Nothing };
        match policy.on_loop {
            OnLoop::Observe => Consequence::Nothing,
            OnLoop::Stop => Consequence::Stop(because),
            OnLoop::Land => Consequence::Land(because),
            OnLoop::Ladder => {
                let again = self.noted.iter().any(|(id, at)| *id == identity && at + AGAIN >= turn);
                if again {
                    return Consequence::Land(because);
                }
                self.noted.retain(|(_, at)| at + AGAIN >= turn);
                self.noted.push((identity, turn));
                Consequence::Note(because)
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
