//! Statistics of a simulator: its requests and charges. Prices are simulated: estimated tokens at
//! the listed prices.

use crate::usage::Usage;
use std::collections::VecDeque;

/// The maximum number of charges and refusals to keep. Totals are not limited.
const KEPT: usize = 10_000;

/// One billed response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The time of the request, in the caller's milliseconds.
    pub at_ms: u64,
    /// The model that answered.
    pub model: &'static str,
    /// The scenario that answered.
    pub scenario: String,
    /// The tokens used.
    pub usage: Usage,
    /// The simulated price, in nano-dollars.
    pub cost_nano: u64,
    /// The stop reason, in Anthropic's terms for every protocol.
    pub stop: &'static str,
}

/// One request that a rule refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalNote {
    /// The status code.
    pub status: u16,
    /// The error's `type`.
    pub kind: &'static str,
    /// The message.
    pub message: String,
}

/// The counters since the start, and the last 10,000 charges and refusals.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// The number of requests of any kind.
    pub requests: u64,
    /// The number of billed responses.
    pub responses: u64,
    /// The number of requests that a rule refused.
    pub refused: u64,
    /// The number of failures that scenarios asked for. They do not count as refusals.
    pub faults: u64,
    /// The simulated price of all responses, in nano-dollars.
    pub cost_nano: u64,
    /// The last charges.
    pub charges: VecDeque<Charge>,
    /// The last refusals.
    pub refusals: VecDeque<RefusalNote>,
}

impl Stats {
    pub(crate) fn add_charge(&mut self, charge: Charge) {
        self.responses += 1;
        self.cost_nano += charge.cost_nano;
        push_bounded(&mut self.charges, charge);
    }

    pub(crate) fn add_refusal(&mut self, refusal: RefusalNote) {
        self.refused += 1;
        push_bounded(&mut self.refusals, refusal);
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == KEPT {
        list.pop_front();
    }
    list.push_back(item);
}
