//! The data about models that is known before a request is sent: prices, windows, maxima,
//! capabilities.
//!
//! There are two bodies of data: the generated table of prices and sizes ([`find_model`],
//! [`Model`]) and the hand-kept rows of what each model's API accepts ([`find_capability()`]).
//! Nothing here looks at a request or decides anything; it answers questions about a name. Money is
//! in plain integers: prices in pico-dollars per token (10⁻¹² USD, so that $0.0375 per million
//! tokens is exactly 37,500), costs in nano-dollars (10⁻⁹ USD).

pub mod billing;
pub mod capability;
mod names;
mod table;
#[cfg(test)]
mod tests;

use crate::money::NanoUsd;

pub use capability::{Capability, capability_of_row, find_capability};
pub use table::{TABLE_DATE, TABLE_SOURCE};

/// Prices of one model's tokens, each in pico-dollars per token.
///
/// Prices are of text tokens at standard speed; other fees are in [`billing`]. A price that the
/// source lacks is filled in so that it is never too low (`docs/models.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    /// An input token that is neither read from a cache nor written to it.
    pub input: u64,
    /// An output token, thinking included.
    pub output: u64,
    /// An input token read from the prompt cache.
    pub cache_read: u64,
    /// An input token written to the cache with the short (5 minutes) or only lifetime.
    pub cache_write_5m: u64,
    /// An input token written to the cache for an hour.
    pub cache_write_1h: u64,
}

impl Price {
    /// Creates a price from amounts per million tokens. The prices of the cache that are not given are
    /// filled in so that they are never too low (`docs/models.md`).
    #[must_use]
    pub fn from_rates(
        input: NanoUsd,
        output: NanoUsd,
        cache_read: Option<NanoUsd>,
        cache_write: Option<NanoUsd>,
    ) -> Self {
        // Pico-dollars per token, rounded up.
        let rate = |nano: NanoUsd| nano.0.div_ceil(1000);
        let (input, output) = (rate(input), rate(output));
        let write = cache_write.map(rate);
        Self {
            input,
            output,
            cache_read: cache_read.map_or(input, rate),
            cache_write_5m: write.unwrap_or_else(|| input.saturating_add(input.div_ceil(4))),
            cache_write_1h: write.unwrap_or(0).max(input.saturating_mul(2)),
        }
    }

    /// Returns the cost of tokens of each kind in nano-dollars, rounded up once at the end and
    /// saturating at `u64::MAX` (18 billion dollars).
    ///
    /// `input` counts uncached tokens only. OpenAI's usage has all input tokens in one number; the
    /// caller subtracts the cached ones first.
    #[must_use]
    pub fn cost_nano(
        &self,
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write_5m: u64,
        cache_write_1h: u64,
    ) -> u64 {
        let parts = [
            (self.input, input),
            (self.output, output),
            (self.cache_read, cache_read),
            (self.cache_write_5m, cache_write_5m),
            (self.cache_write_1h, cache_write_1h),
        ];
        let pico = parts.iter().fold(0u128, |sum, &(price, tokens)| {
            sum.saturating_add(u128::from(price) * u128::from(tokens))
        });
        u64::try_from(pico.div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Returns the most that one input token can cost, in pico-dollars: as plain input or written
    /// to the cache (`hour`: with the one-hour lifetime).
    #[must_use]
    pub fn highest_input(&self, hour: bool) -> u64 {
        let written =
            if hour { self.cache_write_1h.max(self.cache_write_5m) } else { self.cache_write_5m };
        self.input.max(self.cache_read).max(written)
    }

    /// Returns the prices multiplied by `thousandths`/1000, rounded up.
    #[must_use]
    pub fn scaled_by(self, thousandths: u64) -> Self {
        let of = |pico: u64| pico.saturating_mul(thousandths).div_ceil(1000);
        Self {
            input: of(self.input),
            output: of(self.output),
            cache_read: of(self.cache_read),
            cache_write_5m: of(self.cache_write_5m),
            cache_write_1h: of(self.cache_write_1h),
        }
    }

    /// Returns the higher of the two prices of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_read: self.cache_read.max(other.cache_read),
            cache_write_5m: self.cache_write_5m.max(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.max(other.cache_write_1h),
        }
    }
}

/// The price of requests whose whole input is longer than a threshold. *All* their tokens, output
/// included, are billed at it, not only those above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The threshold: the price applies if the input, cached or not, has more tokens.
    pub above: u64,
    /// The price of such a request.
    pub price: Price,
}

/// The price within a daily window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// First minute of the UTC day, inclusive.
    pub from_minute: u16,
    /// Last minute of the UTC day, exclusive.
    pub until_minute: u16,
    /// The price of requests within it.
    pub price: Price,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// The provider whose prices these are: `anthropic`, `openai`, `openrouter`,
    /// `deepseek`, `groq`, `xai`, `mistral` or `google`.
    pub provider: &'static str,
    /// The model's id at that provider, in lower case.
    pub id: &'static str,
    /// The most tokens that a request and its answer may have, if known.
    pub context_window: Option<u32>,
    /// The most output tokens that a request may ask for, if known.
    pub max_output: Option<u32>,
    /// The price outside tiers and daily windows, on [`TABLE_DATE`].
    pub price: Price,
    /// Long-input prices, in ascending order of their thresholds.
    pub tiers: &'static [Tier],
    /// Daily windows with another price.
    pub hours: &'static [Hours],
}

impl Model {
    /// Returns the price of a request with `input_tokens` of input, including cached tokens.
    ///
    /// `minute_of_day` is the UTC minute (0..1440) at which the request was sent; without it daily
    /// windows are left out. No model of the table has both windows and tiers (a test).
    #[must_use]
    pub fn price_for(&self, input_tokens: u64, minute_of_day: Option<u16>) -> Price {
        if let Some(minute) = minute_of_day {
            // The source tries the later window first.
            let window = (self.hours.iter().rev())
                .find(|row| row.from_minute <= minute && minute < row.until_minute);
            if let Some(window) = window {
                return window.price;
            }
        }
        let tier = self.tiers.iter().rev().find(|t| input_tokens > t.above);
        tier.map_or(self.price, |tier| tier.price)
    }

    /// Returns the highest price at which a request with at most `input_tokens` of input can be
    /// billed, at any time of day: each price is the highest of those that may apply.
    #[must_use]
    pub fn highest_price(&self, input_tokens: u64) -> Price {
        let tiers = self.tiers.iter().filter(|t| input_tokens > t.above);
        let prices = tiers.map(|t| t.price).chain(self.hours.iter().map(|h| h.price));
        prices.fold(self.price, Price::max)
    }
}

/// Finds the row of a model by the name that a request or a recording gives it. Returns `None` if
/// no price is known.
///
/// `provider` is the upstream's name (`x-ai` and `xai` are one). Without it, or if it is unknown,
/// the model's name alone decides. The exact id goes first, then the provider's other names for it,
/// then the name without the parts that routes and hosts put around it: `anthropic/…`,
/// `us.anthropic.…`, `bedrock/…`, `-latest`, `:free`, `-v1:0`, `[1m]` and dates (`-20250929`,
/// `@20250929`, `-2025-09-29`). A dated id with a price of its own (`gpt-4o-2024-05-13`) keeps it.
#[must_use]
pub fn find_model(provider: Option<&str>, model: &str) -> Option<&'static Model> {
    names::find_model(provider, model)
}

/// Returns all rows, sorted by (provider, id).
#[must_use]
pub fn all_models() -> &'static [Model] {
    table::MODELS
}
