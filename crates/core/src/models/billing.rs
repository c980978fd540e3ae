//! The fees beside tokens at their standard price: for the way in which a request is served, and
//! for the uses of tools that the provider runs.
//!
//! Amounts are the highest that a source gives, so that a reservation is never too low. Sources
//! were read 2026-11-26 unless a row says otherwise:
//!
//! - (A) Anthropic, platform.claude.com/docs/en/about-claude/pricing: fast mode (six times the
//!   standard price on Opus 4.6 and 4.7, twice the standard price from Opus 4.8 on),
//!   `inference_geo` (1.1 times), $10 for 1,000 web searches, no fee for web fetch, $0.05 for an
//!   hour of a container, at least five minutes; batches at half the price.
//! - (G) genai-prices 0.2.3: the prices of `speed: fast` and of `service_tier` beside the standard
//!   ones, OpenAI's as of 2026-10-12.
//! - (O) OpenAI, developers.openai.com/api/docs/pricing and the models' own pages: $10 for 1,000
//!   web searches ($25 with the preview tools), batches at half the price, $2.50 for 1,000 file searches, $0.03, $0.12, $0.48
//!   and $1.92 for a container of 1, 4, 16 and 64 GB; `ultrafast` six times the standard price
//!   (three times until 2027-02-28 on gpt-6.2-sol: the higher price is taken).
//! - (S) OpenAI's guides to web search and to file search: the results of a search are within a
//!   context of 128,000 tokens; a chunk has at most 4,096 tokens, and a file search returns at most
//!   50 of them.
//! - (X) xAI, docs.x.ai/developers/pricing: $25 for 1,000 sources of live search, 50 at most.
//! - (R) OpenRouter's `web` plugin: $4 for 1,000 results.

use crate::money::NanoUsd;

/// The vendor whose API a request speaks, and whose fees it is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Anthropic's.
    Anthropic,
    /// OpenAI's, also for vendors with the same API.
    OpenAi,
}

/// The service tier of a request, if it has a price of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PricingTier {
    /// The standard price, also without any setting.
    Standard,
    /// Anthropic's `speed: fast`.
    Fast,
    /// OpenAI's `priority`, or `fast` by its newer name.
    Priority,
    /// OpenAI's `flex`.
    Flex,
    /// A request of a batch, whose answer comes within a day.
    Batch,
    /// OpenAI's `ultrafast`.
    Ultrafast,
    /// An unknown name: the highest price there is.
    Unknown,
}

/// A price in thousandths of the standard one.
struct PriceMultiple {
    tier: PricingTier,
    /// The beginning of the ids of its models.
    models: &'static str,
    thousandths: u64,
}

const fn price_multiple(
    tier: PricingTier,
    models: &'static str,
    thousandths: u64,
) -> PriceMultiple {
    PriceMultiple { tier, models, thousandths }
}

/// The first row that fits counts. A model that no row names has the last row of its tier. Rounded
/// up.
const MULTIPLES: &[PriceMultiple] = &[
    // (G)
    price_multiple(PricingTier::Fast, "claude-fable-5-2", 2000),
    price_multiple(PricingTier::Fast, "claude-mythos-5-2", 2000),
    price_multiple(PricingTier::Fast, "claude-opus-4-8", 2000),
    price_multiple(PricingTier::Fast, "claude-opus-5", 2000),
    // (A)
    price_multiple(PricingTier::Fast, "", 6000),
    // (G)
    price_multiple(PricingTier::Priority, "gpt-4.1-nano", 2000),
    price_multiple(PricingTier::Priority, "gpt-4.1", 1750),
    price_multiple(PricingTier::Priority, "gpt-4o-2024-05-13", 1750),
    price_multiple(PricingTier::Priority, "gpt-4o-mini", 1667),
    price_multiple(PricingTier::Priority, "gpt-4o", 1700),
    price_multiple(PricingTier::Priority, "o3", 1750),
    price_multiple(PricingTier::Priority, "o4-mini", 1819),
    price_multiple(PricingTier::Priority, "gpt-5-mini", 1800),
    price_multiple(PricingTier::Priority, "gpt-5.5", 2500),
    price_multiple(PricingTier::Priority, "gpt-5", 2000),
    price_multiple(PricingTier::Priority, "gpt-6", 2000),
    price_multiple(PricingTier::Priority, "", 2500),
    price_multiple(PricingTier::Flex, "gpt-5.4", 520),
    price_multiple(PricingTier::Flex, "gpt-5", 500),
    price_multiple(PricingTier::Flex, "gpt-6", 500),
    price_multiple(PricingTier::Flex, "o3", 500),
    price_multiple(PricingTier::Flex, "o4-mini", 503),
    price_multiple(PricingTier::Flex, "", 1000),
    // (A) and (O): a batch costs half.
    price_multiple(PricingTier::Batch, "claude-", 500),
    price_multiple(PricingTier::Batch, "gpt-", 500),
    price_multiple(PricingTier::Batch, "o3", 500),
    price_multiple(PricingTier::Batch, "o4-mini", 500),
    price_multiple(PricingTier::Batch, "", 1000),
    // (O)
    price_multiple(PricingTier::Ultrafast, "", 6000),
    price_multiple(PricingTier::Unknown, "", 6000),
];

/// `inference_geo` of one country, in thousandths of the price. (A)
const IN_ONE_COUNTRY: u64 = 1100;

/// Returns the price of a model's tokens in this tier, in thousandths of their standard price.
#[must_use]
pub fn price_thousandths(model: &str, tier: PricingTier, in_one_country: bool) -> u64 {
    let name = model.rsplit('/').next().unwrap_or(model);
    let row = MULTIPLES.iter().find(|row| row.tier == tier && name.starts_with(row.models));
    let served = row.map_or(1000, |row| row.thousandths);
    if in_one_country { (served * IN_ONE_COUNTRY).div_ceil(1000) } else { served }
}

/// A tool that a provider runs within a request: the cost of a use, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedTool {
    /// The vendor of the tool.
    pub vendor: Vendor,
    /// The beginning of the `type` in its declaration.
    pub kind: &'static str,
    /// The fee for a use, beside tokens.
    pub fee: NanoUsd,
    /// The most tokens that a use returns, if that is documented.
    pub brings: Option<u64>,
    /// True if the request can limit the number of uses: `max_uses` of the tool at Anthropic,
    /// `max_tool_calls` of the request at OpenAI.
    pub counted: bool,
}

const fn hosted_tool(
    vendor: Vendor,
    kind: &'static str,
    fee: u64,
    brings: Option<u64>,
    counted: bool,
) -> HostedTool {
    HostedTool { vendor, kind, fee: NanoUsd(fee), brings, counted }
}

/// The most tokens that a search of OpenAI's returns. (S)
const SEARCH: Option<u64> = Some(128_000);
/// The most tokens that a search of files returns: 50 chunks of 4,096 tokens. (S)
const FILES: Option<u64> = Some(50 * 4_096);

/// A search of the web. (A, O)
pub const WEB_SEARCH: NanoUsd = NanoUsd(10_000_000);
/// A search of the web by a preview tool, or by `web_search_options`. (O)
pub const WEB_SEARCH_PREVIEW: NanoUsd = NanoUsd(25_000_000);
/// A search of files. (O)
pub const FILE_SEARCH: NanoUsd = NanoUsd(2_500_000);
/// An hour of a container of Anthropic's, and the five minutes that are billed at least. (A)
pub const CONTAINER_HOUR: NanoUsd = NanoUsd(50_000_000);
/// See [`CONTAINER_HOUR`].
pub const CONTAINER_LEAST: NanoUsd = NanoUsd(4_166_667);
/// A container of OpenAI's with 1 GB, and the largest. (O)
pub const CONTAINER_SMALL: NanoUsd = NanoUsd(30_000_000);
/// See [`CONTAINER_SMALL`].
pub const CONTAINER_LARGE: NanoUsd = NanoUsd(1_920_000_000);
/// An image of the highest quality and size. (O)
pub const IMAGE: NanoUsd = NanoUsd(250_000_000);
/// A source of live search; [`SOURCES`] is their maximum. (X)
pub const SOURCE: NanoUsd = NanoUsd(25_000_000);
/// See [`SOURCE`].
pub const SOURCES: u64 = 50;
/// The fee of a web search by OpenRouter's plugin with the most results it takes (25). (R)
pub const PLUGIN: NanoUsd = NanoUsd(100_000_000);

/// The first row that fits counts. A tool that no row names may return any amount, any number of
/// times.
const HOSTED: &[HostedTool] = &[
    hosted_tool(Vendor::Anthropic, "web_search_", WEB_SEARCH.0, None, true),
    hosted_tool(Vendor::Anthropic, "web_fetch_", 0, None, true),
    hosted_tool(Vendor::Anthropic, "code_execution_", CONTAINER_HOUR.0, None, false),
    hosted_tool(Vendor::OpenAi, "web_search_preview", WEB_SEARCH_PREVIEW.0, SEARCH, true),
    hosted_tool(Vendor::OpenAi, "web_search", WEB_SEARCH.0, SEARCH, true),
    hosted_tool(Vendor::OpenAi, "file_search", FILE_SEARCH.0, FILES, true),
    hosted_tool(Vendor::OpenAi, "image_generation", IMAGE.0, Some(0), true),
    hosted_tool(Vendor::OpenAi, "code_interpreter", CONTAINER_LARGE.0, None, false),
    hosted_tool(Vendor::OpenAi, "shell", CONTAINER_LARGE.0, None, false),
];

/// Anthropic's own tools whose results the client sends.
const RUN_BY_CLIENT: [&str; 6] =
    ["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_"];

/// The same for OpenAI's tools.
const RUN_BY_CLIENT_OPENAI: [&str; 4] = ["local_shell", "apply_patch", "computer", "tool_search"];

/// The runner of a tool that is declared by a `type` of its provider's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRunner {
    /// The client: its results are in the requests.
    Client,
    /// The provider, at these terms.
    Provider(HostedTool),
    /// The provider, at terms that are not known here.
    Unknown,
}

/// Finds the runner of a tool of this `type`.
#[must_use]
pub fn find_tool_runner(vendor: Vendor, kind: &str) -> ToolRunner {
    let by_client: &[&str] = match vendor {
        Vendor::Anthropic => &RUN_BY_CLIENT,
        Vendor::OpenAi => &RUN_BY_CLIENT_OPENAI,
    };
    if by_client.iter().any(|known| kind.starts_with(known)) {
        return ToolRunner::Client;
    }
    let row = HOSTED.iter().find(|row| row.vendor == vendor && kind.starts_with(row.kind));
    row.map_or(ToolRunner::Unknown, |row| ToolRunner::Provider(*row))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_first_row_of_a_tier_that_fits_counts_and_the_dearest_where_none_does() {
        for (model, tier, country, expected) in [
            ("gpt-5.1", PricingTier::Priority, false, 2000),
            ("gpt-5.5", PricingTier::Priority, false, 2500),
            ("openai/gpt-4o-mini", PricingTier::Priority, false, 1667),
            ("anyone's", PricingTier::Priority, false, 2500),
            ("gpt-5.4-mini", PricingTier::Flex, false, 520),
            ("anyone's", PricingTier::Flex, false, 1000),
            ("anthropic/claude-sonnet-5", PricingTier::Batch, false, 500),
            ("gpt-6.2-sol", PricingTier::Batch, false, 500),
            ("anyone's", PricingTier::Batch, false, 1000),
            ("claude-opus-4-6", PricingTier::Fast, false, 6000),
            ("claude-opus-5", PricingTier::Fast, false, 2000),
            ("claude-opus-5-5", PricingTier::Fast, true, 2200),
            ("claude-sonnet-5", PricingTier::Standard, true, 1100),
            ("claude-sonnet-5", PricingTier::Standard, false, 1000),
            ("gpt-6.2-sol", PricingTier::Unknown, false, 6000),
        ] {
            assert_eq!(price_thousandths(model, tier, country), expected, "{model} {tier:?}");
        }
    }

    #[test]
    fn every_tier_but_the_standard_has_a_last_row_for_any_model() {
        for tier in [
            PricingTier::Fast,
            PricingTier::Priority,
            PricingTier::Flex,
            PricingTier::Batch,
            PricingTier::Ultrafast,
            PricingTier::Unknown,
        ] {
            let rows: Vec<_> = MULTIPLES.iter().filter(|row| row.tier == tier).collect();
            let last = rows.last().expect("a row");
            assert!(last.models.is_empty(), "{tier:?}");
            assert!(rows.iter().all(|row| row.thousandths <= last.thousandths), "{tier:?}");
        }
    }

    #[test]
    fn tools_are_told_apart_by_who_runs_them() {
        assert_eq!(find_tool_runner(Vendor::Anthropic, "bash_20250124"), ToolRunner::Client);
        assert_eq!(find_tool_runner(Vendor::OpenAi, "local_shell"), ToolRunner::Client);
        assert_eq!(find_tool_runner(Vendor::OpenAi, "mcp"), ToolRunner::Unknown);
        let ToolRunner::Provider(search) =
            find_tool_runner(Vendor::OpenAi, "web_search_2025_08_26")
        else {
            panic!("the provider runs it");
        };
        assert_eq!((search.fee, search.brings), (WEB_SEARCH, Some(128_000)));
    }
}
