//! What one request is billed: tokens by their kind, the same for every protocol. Which tokens are
//! which is decided by the caches; the wire names are the protocols'.

use crate::models::Model;

/// What one request is billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input tokens that are neither read from nor written to the cache.
    pub input: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Tokens written for five minutes; with protocols that know one life only, all that are written.
    pub cache_write_5m: u64,
    /// Tokens written for an hour.
    pub cache_write_1h: u64,
    /// Output tokens, thinking included.
    pub output: u64,
    /// Of these, thinking.
    pub thinking: u64,
}

impl Usage {
    /// All input, cached or not.
    #[must_use]
    pub fn total_input(&self) -> u64 {
        self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h
    }

    /// The simulated price in nano-dollars: writes at 1.25 and 2 times the input price, reads at
    /// the model's own multiplier.
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
