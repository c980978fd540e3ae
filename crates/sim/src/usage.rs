//! The billed tokens of one request by kind, for every protocol. The caches decide the kinds; the
//! protocols have their own names for them.

use crate::models::Model;

/// The billed tokens of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that are neither read from nor written to the cache.
    pub input: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written for five minutes, or all written tokens in protocols with one lifetime only.
    pub cache_write_5m: u64,
    /// Tokens written for one hour.
    pub cache_write_1h: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Output tokens of thinking, which `output` includes.
    pub thinking: u64,
}

impl Usage {
    /// Returns all input tokens, cached or not.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h
    }

    /// Returns the simulated price in nano-dollars: cache writes at 1.25 and 2 times the input
    /// price, cache reads at the model's own multiplier.
    #[must_use]
    pub fn cost_nano(&self, model: &Model) -> u64 {
        let input = model.input_nano;
        self.input * input
            + self.cache_read * input * model.read_permille / 1000
            + self.cache_write_5m * input * 5 / 4
            + self.cache_write_1h * input * 2
            + self.output * model.output_nano
    }
}
