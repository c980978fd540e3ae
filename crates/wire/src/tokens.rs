//! Token counts, in the units that softland uses for every provider.

use crate::anthropic::ResponseBlock;
use crate::json::{Cursor, Error};

/// The largest count taken from a response. A larger count is nonsense and would make every sum
/// that includes it useless.
const MOST: u64 = 1_000_000_000;

/// Reads a token count that a response reports. Returns `None` for any other value.
pub(crate) fn read_token_count(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Error> {
    Ok(cursor.read_uint_or_skip()?.map(|count| count.min(MOST)))
}

/// Token counts by price, and extra charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Input tokens neither read from nor written to the cache.
    pub input: u64,
    /// Output tokens, including thinking.
    pub output: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache for five minutes. A write without a known time to live
    /// counts here, because five minutes is the API's default.
    pub cache_write_5m: u64,
    /// Input tokens written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Conditions that change the price of the tokens, and extra charges.
    pub beside: ExtraCharges,
}

/// Conditions a response reports that change the price of its tokens, and extra charges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct ExtraCharges {
    /// Web searches that the provider ran.
    pub web_searches: u32,
    /// File searches that the provider ran.
    pub file_searches: u32,
    /// Programs that the provider ran.
    pub programs: u32,
    /// Images that the provider generated with a tool of its own.
    pub images: u32,
    /// Sources that the provider read and bills individually (xAI's live search).
    pub sources: u32,
    /// The service tier, if reported.
    pub served: ServiceTier,
    /// True if the response was computed within one country, which has its own price.
    pub in_one_country: bool,
    /// The cost stated by the provider, in billionths of a US dollar.
    pub stated: Option<u64>,
}

/// The service tier of a request, by the names that providers set a price for.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ServiceTier {
    /// The tier is not stated.
    #[default]
    Unsaid,
    /// `batch`
    Batch,
    /// `flex`
    Flex,
    /// `default`, `standard`, or a tier that is paid in advance (`scale`).
    Standard,
    /// `priority`, or OpenAI's newer name for it, `fast`.
    Priority,
    /// Anthropic's `speed: fast`.
    Fast,
    /// `ultrafast`
    Ultrafast,
    /// An unknown name: billed at the highest of the provider's prices.
    Other,
}

impl ServiceTier {
    /// Returns the tier for a `service_tier` of a request or a response. Anthropic's `priority` is
    /// paid in advance and has no separate price.
    #[must_use]
    pub fn from_tier(tier: &str, anthropic: bool) -> Self {
        match tier {
            "" | "auto" => Self::Unsaid,
            "default" | "standard" | "standard_only" | "scale" => Self::Standard,
            "priority" if anthropic => Self::Standard,
            "priority" | "fast" => Self::Priority,
            "flex" => Self::Flex,
            "batch" => Self::Batch,
            "ultrafast" => Self::Ultrafast,
            _ => Self::Other,
        }
    }

    /// Returns the tier for Anthropic's `speed`.
    #[must_use]
    pub fn from_speed(speed: &str) -> Self {
        match speed {
            "" => Self::Unsaid,
            "standard" => Self::Standard,
            "fast" => Self::Fast,
            _ => Self::Other,
        }
    }
}

impl ExtraCharges {
    /// Counts a use of one of OpenAI's tools by the type of its item. Other items do not count.
    pub fn count_item(&mut self, item: &str) {
        let uses = match item {
            "web_search_call" => &mut self.web_searches,
            "file_search_call" => &mut self.file_searches,
            "code_interpreter_call" | "shell_call" => &mut self.programs,
            "image_generation_call" => &mut self.images,
            _ => return,
        };
        *uses = uses.saturating_add(1);
    }

    /// Counts a use of one of Anthropic's tools if the block is one. Searches reported by the
    /// response itself take precedence.
    pub(crate) fn count_block(&mut self, block: &ResponseBlock) {
        if let ResponseBlock::ToolUse { name, server: true, .. } = block {
            self.count_server_tool(name);
        }
    }

    /// Counts a use of one of Anthropic's tools by its name. Other tools do not count.
    pub fn count_server_tool(&mut self, name: &str) {
        let uses = match name {
            "web_search" => &mut self.web_searches,
            "code_execution" | "bash_code_execution" | "text_editor_code_execution" => {
                &mut self.programs
            }
            _ => return,
        };
        *uses = uses.saturating_add(1);
    }

    /// Returns the uses and the tier that a response reports, or those that its content shows where
    /// these are more.
    #[must_use]
    pub fn or_shown(self, shown: Self) -> Self {
        Self {
            web_searches: self.web_searches.max(shown.web_searches),
            file_searches: self.file_searches.max(shown.file_searches),
            programs: self.programs.max(shown.programs),
            images: self.images.max(shown.images),
            sources: self.sources.max(shown.sources),
            served: self.served.max(shown.served),
            in_one_country: self.in_one_country || shown.in_one_country,
            stated: self.stated.or(shown.stated),
        }
    }

    /// Returns the sum of both, with the more expensive tier.
    const fn saturating_add(self, other: Self) -> Self {
        let dearer = self.served as u8 >= other.served as u8;
        Self {
            web_searches: self.web_searches.saturating_add(other.web_searches),
            file_searches: self.file_searches.saturating_add(other.file_searches),
            programs: self.programs.saturating_add(other.programs),
            images: self.images.saturating_add(other.images),
            sources: self.sources.saturating_add(other.sources),
            served: if dearer { self.served } else { other.served },
            in_one_country: self.in_one_country || other.in_one_country,
            stated: match (self.stated, other.stated) {
                (Some(one), Some(two)) => Some(one.saturating_add(two)),
                (Some(one), None) | (None, Some(one)) => Some(one),
                (None, None) => None,
            },
        }
    }
}

impl Tokens {
    /// Returns the total of input tokens: uncached, read and written.
    #[must_use]
    pub const fn input_total(&self) -> u64 {
        self.input
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write_5m)
            .saturating_add(self.cache_write_1h)
    }

    /// Returns true if nothing was reported: no token and no extra charge.
    #[must_use]
    pub fn is_unreported(&self) -> bool {
        let ExtraCharges { web_searches, file_searches, programs, images, sources, stated, .. } =
            self.beside;
        let uses = [web_searches, file_searches, programs, images, sources];
        self.input_total() == 0
            && self.output == 0
            && stated.is_none()
            && uses.iter().all(|uses| *uses == 0)
    }

    /// Clamps each count to the most that a response can be billed for.
    pub(crate) fn clamp_counts(self) -> Self {
        Self {
            input: self.input.min(MOST),
            output: self.output.min(MOST),
            cache_read: self.cache_read.min(MOST),
            cache_write_5m: self.cache_write_5m.min(MOST),
            cache_write_1h: self.cache_write_1h.min(MOST),
            beside: self.beside,
        }
    }

    /// Returns the sum. It saturates.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write_5m: self.cache_write_5m.saturating_add(other.cache_write_5m),
            cache_write_1h: self.cache_write_1h.saturating_add(other.cache_write_1h),
            beside: self.beside.saturating_add(other.beside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts are clamped, so that sums of them stay meaningful.
    #[test]
    fn what_no_response_can_have_is_not_counted() {
        let huge = 1_000_000_000_000_000_000_u64;
        let text = format!(r#"{{"input_tokens":{huge},"output_tokens":{huge}}}"#);
        let most = Tokens { input: MOST, output: MOST, ..Tokens::default() };
        let update = crate::anthropic::UsageUpdate::from_cursor(&mut Cursor::new(&text)).unwrap();
        let mut usage = crate::anthropic::Usage::default();
        usage.apply_update(&update);
        assert_eq!(usage.billed_tokens(), most);
        let usage = crate::responses::Usage::from_cursor(&mut Cursor::new(&text)).unwrap().unwrap();
        assert_eq!(usage.tokens, most);
        let text = format!(r#"{{"prompt_tokens":{huge},"completion_tokens":{huge}}}"#);
        let usage = crate::chat::Usage::from_cursor(&mut Cursor::new(&text)).unwrap().unwrap();
        assert_eq!(usage.tokens, most);
        let one = r#"{"type":"message","input_tokens":1000000000,"output_tokens":1000000000}"#;
        let text = format!(r#"{{"iterations":[{one},{one},{one}]}}"#);
        let update = crate::anthropic::UsageUpdate::from_cursor(&mut Cursor::new(&text)).unwrap();
        let mut usage = crate::anthropic::Usage::default();
        usage.apply_update(&update);
        assert_eq!(usage.billed_tokens(), most);
    }
}
