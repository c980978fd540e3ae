//! What a simulator was asked and what it billed. Prices are simulated: estimated tokens at the
//! listed prices.

use crate::usage::Usage;
use std::collections::VecDeque;

/// Charges and refusals kept; totals go on.
const KEPT: usize = 10_000;

/// One response that was billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// When it was asked for, in the caller's milliseconds.
    pub at_ms: u64,
    /// The model it posed as.
    pub model: &'static str,
    /// The scenario that answered.
    pub scenario: String,
    /// Tokens.
    pub usage: Usage,
    /// Simulated price in nano-dollars.
    pub cost_nano: u64,
    /// Why it stopped, in Anthropic's words whatever the protocol.
    pub stop: &'static str,
}

/// One request that was refused by a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalNote {
    /// The status.
    pub status: u16,
    /// The `error.type`.
    pub kind: &'static str,
    /// The message.
    pub message: String,
}

/// Counters since the start, and the last 10,000 charges and refusals.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Requests of any kind.
    pub requests: u64,
    /// Responses that were billed.
    pub responses: u64,
    /// Requests that a rule refused.
    pub refused: u64,
    /// Failures that a scenario wanted: they are no refusals.
    pub faults: u64,
    /// Simulated price of everything in nano-dollars.
    pub cost_nano: u64,
    /// The last charges.
    pub charges: VecDeque<Charge>,
    /// The last refusals.
    pub refusals: VecDeque<RefusalNote>,
}

impl Stats {
    pub(crate) fn charge(&mut self, charge: Charge) {
        self.responses += 1;
        self.cost_nano += charge.cost_nano;
        push(&mut self.charges, charge);
    }

    pub(crate) fn refuse(&mut self, refusal: RefusalNote) {
        self.refused += 1;
        push(&mut self.refusals, refusal);
    }
}

fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(item);
}
