//! The most that a request can use and be billed for, before it is sent.
//!
//! The gateway reserves this amount. The audit uses the same figures to say where a recorded run
//! would have ended. This module knows no account and no price list: the caller gives the prices.

mod size;

use softland_core::NanoUsd;
use softland_core::models::{Model, Price};

pub use size::{InputSize, cache_writes};

/// The lifetime of what a request may write to the provider's prompt cache, by its marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheWrites {
    /// No mark: nothing is written.
    #[default]
    Nothing,
    /// Marks without a lifetime, or of five minutes.
    Minutes,
    /// A mark of an hour.
    Hour,
}

/// The most that a request can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageBound {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// The cache writes, which decide at which price the input may be billed.
    pub writes: CacheWrites,
    /// Charges beside those for tokens.
    pub fees: NanoUsd,
}

impl UsageBound {
    /// Returns the highest possible charge for the input, and the fees.
    #[must_use]
    pub fn input_cost(&self, price: &Price) -> NanoUsd {
        let dearest = match self.writes {
            CacheWrites::Nothing => price.input.max(price.cache_read),
            CacheWrites::Minutes => price.highest_input(false),
            CacheWrites::Hour => price.highest_input(true),
        };
        NanoUsd::from_tokens(self.input, dearest) + self.fees
    }

    /// Returns the highest possible charge for the whole request.
    #[must_use]
    pub fn total_cost(&self, price: &Price) -> NanoUsd {
        self.input_cost(price) + NanoUsd::from_tokens(self.output, price.output)
    }
}

/// The newest known ancestor of a request. An ancestor is a request whose messages are the first
/// messages of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAncestor {
    /// The ancestor's input tokens, cached or not, and the output tokens of its response.
    pub tokens: u64,
    /// The size of the ancestor.
    pub size: InputSize,
}

/// Returns the most input tokens that a request can have: the tokens of its ancestor, one token for
/// every new byte of text, and media by [`InputSize`]. The result is at most `window`, and it is
/// the window for a request with a new part whose size does not show.
#[must_use]
pub fn input_bound(known: Option<KnownAncestor>, size: InputSize, window: u64) -> u64 {
    let (tokens, before) = match known {
        Some(known) => (known.tokens, known.size),
        None => (size.unwritten, InputSize::default()),
    };
    if size.unseen > before.unseen {
        return window;
    }
    let text = size.text.saturating_sub(before.text);
    let media = size.media.saturating_sub(before.media);
    tokens.saturating_add(text).saturating_add(media).min(window)
}

/// Bytes of a request for each token, roughly: English prose has four and more, code and JSON have
/// three to four.
const BYTES_A_TOKEN: u64 = 4;

/// Estimates the input tokens of a request from the tokens of its ancestor and its new text and
/// media. A part whose size does not show is left out. The estimate is for limits of tokens; for
/// money there is `input_bound`.
#[must_use]
pub fn input_estimate(known: Option<KnownAncestor>, size: InputSize) -> u64 {
    let (tokens, before) = match known {
        Some(known) => (known.tokens, known.size),
        None => (size.unwritten, InputSize::default()),
    };
    let text = size.text.saturating_sub(before.text) / BYTES_A_TOKEN;
    let media = size.media.saturating_sub(before.media);
    tokens.saturating_add(text).saturating_add(media)
}

/// Returns the most output tokens that a request can get: the smaller of its own limit and its
/// model's, or the window where neither is known.
#[must_use]
pub fn output_bound(asked: Option<u64>, model: Option<&Model>) -> u64 {
    let most = model.and_then(|model| model.max_output).map(u64::from);
    match (asked, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (asked, most) => asked.or(most).unwrap_or_else(|| context_window(model)),
    }
}

/// The window of a model that is not in the table: the largest of Anthropic's (a test compares it
/// with the table).
const LARGEST_WINDOW: u64 = 1_000_000;

/// Returns the most tokens that a request and its answer may have together. A model with a price of
/// its own for input beyond its usual window has the large window on request.
#[must_use]
pub fn context_window(model: Option<&Model>) -> u64 {
    let usual = model.and_then(|model| Some((u64::from(model.context_window?), model.tiers)));
    match usual {
        Some((usual, tiers)) if tiers.iter().all(|tier| tier.above < usual) => usual,
        Some((usual, _)) => usual.max(LARGEST_WINDOW),
        None => LARGEST_WINDOW,
    }
}
