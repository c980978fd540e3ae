//! Token counts, in the one counting that softland keeps for every provider.

use crate::json::{Cursor, Error};

/// More than any response can have. What one reports beyond it is nonsense, and no sum that it goes
/// into would ever be of use again.
const MOST: u64 = 1_000_000_000;

/// A count that a response reports; `None` where it is none.
pub(crate) fn reported(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Error> {
    Ok(cursor.uint_or_skip()?.map(|count| count.min(MOST)))
}

/// Tokens by the price they are billed at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input neither read from nor written to the cache.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache for five minutes. A write without a known time to live counts
    /// here, as the API's default.
    pub cache_write_5m: u64,
    /// Input written to the cache for an hour.
    pub cache_write_1h: u64,
}

impl Tokens {
    /// All input: uncached, read and written.
    #[must_use]
    pub const fn input_total(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write_5m)
            .saturating_add(self.cache_write_1h)
    }

    /// What one response can be billed for at most.
    pub(crate) fn plausible(self) -> Self {
        Self {
            input: self.input.min(MOST),
            output: self.output.min(MOST),
            cache_read: self.cache_read.min(MOST),
            cache_write_5m: self.cache_write_5m.min(MOST),
            cache_write_1h: self.cache_write_1h.min(MOST),
        }
    }

    /// The sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write_5m: self.cache_write_5m.saturating_add(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What they would be billed for at most is a sum that others can be added to.
    #[test]
    fn what_no_response_can_have_is_not_counted() {
        let huge = 1_000_000_000_000_000_000_u64;
        let text = format!(r#"{{"input_tokens":{huge},"output_tokens":{huge}}}"#);
        let most = Tokens { input: MOST, output: MOST, ..Tokens::default() };
        let update = crate::anthropic::UsageUpdate::read(&mut Cursor::new(&text)).unwrap();
        let mut usage = crate::anthropic::Usage::default();
        usage.update(&update);
        assert_eq!(usage.billed(), most);
        let usage = crate::responses::Usage::read(&mut Cursor::new(&text)).unwrap().unwrap();
        assert_eq!(usage.tokens, most);
        let text = format!(r#"{{"prompt_tokens":{huge},"completion_tokens":{huge}}}"#);
        let usage = crate::chat::Usage::read(&mut Cursor::new(&text)).unwrap().unwrap();
        assert_eq!(usage.tokens, most);
        let one = r#"{"type":"message","input_tokens":1000000000,"output_tokens":1000000000}"#;
        let text = format!(r#"{{"iterations":[{one},{one},{one}]}}"#);
        let update = crate::anthropic::UsageUpdate::read(&mut Cursor::new(&text)).unwrap();
        let mut usage = crate::anthropic::Usage::default();
        usage.update(&update);
        assert_eq!(usage.billed(), most);
    }
}
