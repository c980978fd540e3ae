//! Where the money of a turn went, and what was lost to the provider's prompt cache: tokens that had
//! been in the cache a turn earlier and were written or sent again.

use serde::{Deserialize, Serialize};

use crate::models::Price;
use crate::{Digest, NanoUsd};

/// Tokens that may be written again without being counted: providers cache whole blocks, and the end
/// of a prompt moves.
pub const LEAST_REWRITE: u64 = 2000;

/// A context below this share of the one before, in percent, was compacted.
const COMPACTED: u64 = 60;

/// The time in milliseconds after which no provider keeps a prompt.
const KEPT_AT_MOST: u64 = 24 * 3600 * 1000;

/// The tokens of one turn, by price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnTokens {
    /// Input tokens neither read from nor written to the cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache for five minutes, or for a time that is not known.
    pub cache_write_5m: u64,
    /// Input tokens written to the cache for an hour.
    pub cache_write_1h: u64,
}

impl TurnTokens {
    /// Returns the tokens written to the cache.
    #[must_use]
    pub const fn cache_write(&self) -> u64 {
        self.cache_write_5m.saturating_add(self.cache_write_1h)
    }

    /// Returns all tokens of the input.
    #[must_use]
    pub const fn context(&self) -> u64 {
        self.input.saturating_add(self.cache_read).saturating_add(self.cache_write())
    }

    /// Returns the time in milliseconds that the shortest-lived write is kept; `None` without a
    /// write.
    const fn time_to_live(&self) -> Option<u64> {
        match (self.cache_write_5m, self.cache_write_1h) {
            (0, 0) => None,
            (0, _) => Some(3600 * 1000),
            _ => Some(300 * 1000),
        }
    }
}

/// The reason why tokens that had been in the cache were written or sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// The model was switched.
    Model,
    /// The context was compacted, and rebuilt.
    Compaction,
    /// The pause was longer than the cache's time to live.
    Idle,
    /// Something earlier in the request had changed.
    Edited,
    /// The cause is not recorded.
    Unknown,
}

impl LossCause {
    /// All causes, in the order in which they are looked for.
    pub const ALL: [Self; 5] =
        [Self::Model, Self::Compaction, Self::Idle, Self::Edited, Self::Unknown];

    /// Returns the word for the cause, as reports spell it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Compaction => "compaction",
            Self::Idle => "idle",
            Self::Edited => "edited",
            Self::Unknown => "unknown",
        }
    }
}

/// Tokens that had been in the cache a turn earlier and were written or sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// The tokens.
    pub tokens: u64,
    /// The cause.
    pub cause: LossCause,
    /// Time in milliseconds since the turn before, if both times are known.
    pub pause: Option<u64>,
    /// Time to live of the newest write before, in milliseconds, if it is known.
    pub kept: Option<u64>,
}

/// One turn, as far as it shows the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTurn {
    /// The tokens.
    pub tokens: TurnTokens,
    /// The digest of the model's name, if it is known.
    pub model: Option<Digest>,
    /// Time in milliseconds since 1970, if it is known.
    pub time: Option<u64>,
}

/// The effect of one turn on the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheChange {
    /// The tokens of the input that the turn before had sent already.
    pub known: u64,
    /// The known tokens that had been in the cache and were written or sent again, if they are
    /// many.
    pub rewrite: Option<Rewrite>,
    /// True if the context shrank so much that it was compacted.
    pub compacted: bool,
}

/// The prompt cache of one conversation of one agent, as its turns show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptCache {
    before: Option<CacheTurn>,
    /// Time to live of the newest write, in milliseconds.
    time_to_live: Option<u64>,
    /// True if the model's turns have shown a cache: without one, nothing is lost.
    cached: bool,
}

impl PromptCache {
    /// Takes the next turn.
    pub fn take_turn(&mut self, turn: CacheTurn) -> CacheChange {
        let effect = self.before.map(|before| self.compare(&before, &turn)).unwrap_or_default();
        let shows = turn.tokens.cache_read > 0 || turn.tokens.cache_write() > 0;
        let same = self.before.is_some_and(|before| !is_switch(&before, &turn));
        self.cached = shows || (self.cached && same);
        self.time_to_live =
            turn.tokens.time_to_live().or_else(|| self.time_to_live.filter(|_| same));
        self.before = Some(turn);
        effect
    }

    fn compare(&self, before: &CacheTurn, turn: &CacheTurn) -> CacheChange {
        let (then, now) = (before.tokens.context(), turn.tokens.context());
        let known = then.min(now);
        let shrank = u128::from(now) * 100 < u128::from(then) * u128::from(COMPACTED);
        let compacted =
            shrank && then.saturating_sub(now) > LEAST_REWRITE && !is_switch(before, turn);
        let again = known.saturating_sub(turn.tokens.cache_read);
        let pause = turn.time.zip(before.time).map(|(now, then)| now.saturating_sub(then));
        let rewrite = (again > LEAST_REWRITE && self.cached).then(|| {
            let cause = if is_switch(before, turn) {
                LossCause::Model
            } else if shrank {
                LossCause::Compaction
            } else {
                self.cause_from_pause(pause)
            };
            Rewrite { tokens: again, cause, pause, kept: self.time_to_live }
        });
        CacheChange { known, rewrite, compacted }
    }

    fn cause_from_pause(&self, pause: Option<u64>) -> LossCause {
        match (pause, self.time_to_live) {
            (Some(pause), Some(time_to_live)) if pause > time_to_live => LossCause::Idle,
            (Some(_), Some(_)) => LossCause::Edited,
            // Providers without writes state no time to live, and may forget earlier.
            (Some(pause), None) if pause > KEPT_AT_MOST => LossCause::Idle,
            _ => LossCause::Unknown,
        }
    }
}

fn is_switch(before: &CacheTurn, turn: &CacheTurn) -> bool {
    before.model.zip(turn.model).is_some_and(|(then, now)| then != now)
}

/// The cost of one turn, or of many, by class. The first five add up to the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendClasses {
    /// Output, and fees beside tokens.
    pub output: NanoUsd,
    /// Input without a cache.
    pub input: NanoUsd,
    /// Input read from the cache.
    pub cache_read: NanoUsd,
    /// Input written to the cache for the first time.
    pub cache_write: NanoUsd,
    /// Input that had been in the cache a turn earlier, and was written or sent again.
    pub cache_rewrite: NanoUsd,
    /// The part of `cache_rewrite` beyond the price of reading.
    pub lost: NanoUsd,
}

impl SpendClasses {
    /// Splits the cost of one turn. `fees` is the part of the cost that no token causes; the rest is
    /// split in proportion to the tokens at `price`. `rewritten` tokens are taken from those written
    /// first, and the rest of them from the uncached input.
    #[must_use]
    pub fn split(
        cost: NanoUsd,
        fees: NanoUsd,
        tokens: &TurnTokens,
        price: &Price,
        rewritten: u64,
    ) -> Self {
        let of = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let writes = of(tokens.cache_write_5m, price.cache_write_5m)
            + of(tokens.cache_write_1h, price.cache_write_1h);
        let written = tokens.cache_write();
        let from_writes = rewritten.min(written);
        let from_input = (rewritten - from_writes).min(tokens.input);
        let writes_again = writes * u128::from(from_writes) / u128::from(written.max(1));
        let input_again = of(from_input, price.input);
        let rewrite = writes_again + input_again;
        let weights = [
            of(tokens.output, price.output),
            of(tokens.input, price.input) - input_again,
            of(tokens.cache_read, price.cache_read),
            writes - writes_again,
            rewrite,
        ];
        let fees = NanoUsd(fees.0.min(cost.0));
        let [mut output, input, cache_read, cache_write, cache_rewrite] =
            share_out(cost.saturating_sub(fees), weights);
        output += fees;
        let read = of(from_writes + from_input, price.cache_read);
        let lost = scale_down(cache_rewrite, rewrite.saturating_sub(read), rewrite);
        Self { output, input, cache_read, cache_write, cache_rewrite, lost }
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.output += other.output;
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.cache_rewrite += other.cache_rewrite;
        self.lost += other.lost;
    }

    /// Returns the sum of the classes.
    #[must_use]
    pub fn total(&self) -> NanoUsd {
        [self.output, self.input, self.cache_read, self.cache_write, self.cache_rewrite]
            .into_iter()
            .sum()
    }
}

/// Shares an amount out by weights, to the last nano-dollar. Without weights, all is the first's.
fn share_out(amount: NanoUsd, weights: [u128; 5]) -> [NanoUsd; 5] {
    let all = weights.iter().fold(0_u128, |sum, weight| sum.saturating_add(*weight));
    if all == 0 {
        return [amount, NanoUsd::ZERO, NanoUsd::ZERO, NanoUsd::ZERO, NanoUsd::ZERO];
    }
    let (mut sum, mut given) = (0_u128, NanoUsd::ZERO);
    weights.map(|weight| {
        sum = sum.saturating_add(weight);
        let until = scale_down(amount, sum, all);
        let share = until.saturating_sub(given);
        given = until;
        share
    })
}

/// Returns `amount` × `part` / `whole`; zero without a whole.
fn scale_down(amount: NanoUsd, part: u128, whole: u128) -> NanoUsd {
    // Weights may be larger than the product can hold; their lowest bits do not matter then.
    let bits = (128 - whole.leading_zeros()).saturating_sub(64);
    let (part, whole) = (part >> bits, whole >> bits);
    if whole == 0 {
        return NanoUsd::ZERO;
    }
    let share = u128::from(amount.0) * part.min(whole) / whole;
    NanoUsd(u64::try_from(share).unwrap_or(amount.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price {
        input: 5_000_000,
        output: 25_000_000,
        cache_read: 500_000,
        cache_write_5m: 6_250_000,
        cache_write_1h: 10_000_000,
    };
    const MINUTE: u64 = 60_000;

    fn turn(minute: u64, input: u64, cache_read: u64, cache_write_5m: u64) -> CacheTurn {
        let tokens = TurnTokens { input, cache_read, cache_write_5m, ..TurnTokens::default() };
        let model = Some(Digest::from_bytes(b"m"));
        CacheTurn { tokens, model, time: Some(minute * MINUTE) }
    }

    /// The cause and the tokens of the last of these turns.
    fn last(turns: &[CacheTurn]) -> Option<(LossCause, u64)> {
        let mut cache = PromptCache::default();
        let effects =
            turns.iter().map(|turn| cache.take_turn(*turn)).collect::<alloc::vec::Vec<_>>();
        effects.last()?.rewrite.map(|rewrite| (rewrite.cause, rewrite.tokens))
    }

    #[test]
    fn b64_the_first_cause_that_applies_is_named() {
        let first = turn(0, 0, 0, 50_000);
        let hour = CacheTurn {
            tokens: TurnTokens { cache_write_1h: 50_000, ..TurnTokens::default() },
            ..first
        };
        let other = |turn: CacheTurn| CacheTurn { model: Some(Digest::from_bytes(b"o")), ..turn };
        let again = |minute| turn(minute, 0, 10_000, 45_000);
        for (turns, wanted) in [
            (&[first, turn(1, 0, 50_000, 5_000)][..], None),
            (&[first, turn(1, 0, 48_000, 5_000)], None),
            (&[first, turn(1, 0, 47_999, 5_000)], Some((LossCause::Edited, 2_001))),
            (&[first, again(5)], Some((LossCause::Edited, 40_000))),
            (&[first, again(6)], Some((LossCause::Idle, 40_000))),
            (&[hour, again(59)], Some((LossCause::Edited, 40_000))),
            (&[hour, again(61)], Some((LossCause::Idle, 40_000))),
            (&[first, other(again(6))], Some((LossCause::Model, 40_000))),
            (&[first, other(turn(1, 0, 10_000, 10_000))], Some((LossCause::Model, 10_000))),
            (&[first, turn(1, 0, 10_000, 19_999)], Some((LossCause::Compaction, 19_999))),
            (&[first, turn(1, 0, 10_000, 20_000)], Some((LossCause::Edited, 20_000))),
            (&[first, CacheTurn { time: None, ..again(6) }], Some((LossCause::Unknown, 40_000))),
            (&[first, again(1), turn(2, 0, 55_000, 3_000)], None),
        ] {
            assert_eq!(last(turns), wanted, "{turns:?}");
        }
    }

    #[test]
    fn a_turn_without_writes_keeps_the_time_to_live() {
        let turns = [turn(0, 0, 0, 50_000), turn(1, 100, 50_000, 0), turn(9, 50_100, 0, 0)];
        assert_eq!(last(&turns), Some((LossCause::Idle, 50_100)));
    }

    #[test]
    fn b66_nothing_is_lost_where_no_cache_was_seen() {
        let bare = |minute| turn(minute, 50_000, 0, 0);
        assert_eq!(last(&[bare(0), bare(1), bare(2)]), None);
        let read = turn(1, 10_000, 40_000, 0);
        assert_eq!(last(&[bare(0), read, bare(2)]), Some((LossCause::Unknown, 50_000)));
        assert_eq!(last(&[bare(0), read, bare(1500)]), Some((LossCause::Idle, 50_000)));
    }

    #[test]
    fn b63_the_classes_add_up_to_the_cost() {
        for again in [0, 1, 70_001, 101_003, 200_000] {
            let tokens = TurnTokens {
                input: 31_003,
                output: 777,
                cache_read: 12_345,
                cache_write_5m: 33_333,
                cache_write_1h: 36_667,
            };
            for (cost, fees) in [(1_234_567_891, 0), (1_234_567_891, 10_000_000), (3, 9), (0, 0)] {
                let parts =
                    SpendClasses::split(NanoUsd(cost), NanoUsd(fees), &tokens, &PRICE, again);
                assert_eq!(parts.total(), NanoUsd(cost), "{parts:?}");
                assert!(parts.lost <= parts.cache_rewrite, "{parts:?}");
            }
        }
    }

    #[test]
    fn b65_lost_is_what_writing_costs_beyond_reading() {
        let tokens = TurnTokens { input: 1000, cache_write_5m: 4000, ..TurnTokens::default() };
        let cost = NanoUsd(PRICE.cost_nano(1000, 0, 0, 4000, 0));
        let parts = SpendClasses::split(cost, NanoUsd::ZERO, &tokens, &PRICE, 4500);
        assert_eq!(parts.cache_write, NanoUsd::ZERO);
        assert_eq!(parts.input, NanoUsd(2_500_000));
        assert_eq!(parts.cache_rewrite, NanoUsd(27_500_000));
        assert_eq!(parts.lost, NanoUsd(27_500_000 - 2_250_000));
    }
}
