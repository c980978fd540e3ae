//! The most that a request can use and be billed for, before it is sent.
//!
//! The gateway reserves this much, and the audit says with the same figures where a recorded run
//! would have ended. It knows no account and no price list: prices are the caller's to give.

mod size;

use softland_core::NanoUsd;
use softland_core::models::{Model, Price};

pub use size::{Size, writes};

/// What a request may write to the provider's prompt cache, by what it asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Writes {
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
pub struct Bound {
    /// Input tokens.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// At which price the input may be billed.
    pub writes: Writes,
    /// What is billed beside tokens.
    pub fees: NanoUsd,
}

impl Bound {
    /// The dearest that the input can be billed, and what is billed beside tokens.
    #[must_use]
    pub fn input_cost(&self, price: &Price) -> NanoUsd {
        let dearest = match self.writes {
            Writes::Nothing => price.input.max(price.cache_read),
            Writes::Minutes => price.dearest_input(false),
            Writes::Hour => price.dearest_input(true),
        };
        NanoUsd::of_tokens(self.input, dearest) + self.fees
    }

    /// The dearest that the whole request can be billed.
    #[must_use]
    pub fn cost(&self, price: &Price) -> NanoUsd {
        self.input_cost(price) + NanoUsd::of_tokens(self.output, price.output)
    }
}

/// What is known of the newest ancestor of a request: of a request whose messages are this one's
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// All its input tokens, cached or not, and the output it was answered with.
    pub tokens: u64,
    /// Its size.
    pub size: Size,
}

/// The most input tokens that a request can come to: what is known of its ancestor, and one for
/// every new byte of text; media by [`Size`]. What does not show its size, and what would be
/// more than the window, is the window.
#[must_use]
pub fn input_bound(known: Option<Known>, size: Size, window: u64) -> u64 {
    let (tokens, before) = match known {
        Some(known) => (known.tokens, known.size),
        None => (size.unwritten, Size::default()),
    };
    if size.unseen > before.unseen {
        return window;
    }
    let text = size.text.saturating_sub(before.text);
    let media = size.media.saturating_sub(before.media);
    tokens.saturating_add(text).saturating_add(media).min(window)
}

/// Bytes of a request that come to a token, nearly: English prose has four and more, code and JSON
/// have three to four.
const BYTES_A_TOKEN: u64 = 4;

/// What a request's input comes to in tokens, as near as that shows: what is known of its ancestor,
/// and its new text. What shows no size is left out. For limits of tokens; money is bounded.
#[must_use]
pub fn input_estimate(known: Option<Known>, size: Size) -> u64 {
    let (tokens, before) = match known {
        Some(known) => (known.tokens, known.size),
        None => (size.unwritten, Size::default()),
    };
    let text = size.text.saturating_sub(before.text) / BYTES_A_TOKEN;
    let media = size.media.saturating_sub(before.media);
    tokens.saturating_add(text).saturating_add(media)
}

/// The most output tokens that a request can get: the smaller of what it asks for and what its
/// model gives; the window, where neither is known.
#[must_use]
pub fn output_bound(asked: Option<u64>, model: Option<&Model>) -> u64 {
    let most = model.and_then(|model| model.max_output).map(u64::from);
    match (asked, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (asked, most) => asked.or(most).unwrap_or_else(|| window(model)),
    }
}

/// The window of a model that is not in the table: the largest of Anthropic's (a test compares it
/// with the table).
const LARGEST_WINDOW: u64 = 1_000_000;

/// The most that a request and its answer may have. A model with a price of its own for input
/// beyond its usual window has the large one on request.
#[must_use]
pub fn window(model: Option<&Model>) -> u64 {
    let usual = model.and_then(|model| Some((u64::from(model.context_window?), model.tiers)));
    match usual {
        Some((usual, tiers)) if tiers.iter().all(|tier| tier.above < usual) => usual,
        Some((usual, _)) => usual.max(LARGEST_WINDOW),
        None => LARGEST_WINDOW,
    }
}
