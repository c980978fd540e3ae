//! The fees beside tokens at their standard price: for the way in which a request is served, and
//! for the uses of tools that the provider runs.
//!
//! Amounts are the highest that a source gives, so that a reservation is never too low. Sources
//! were read 2026-11-26 unless a row says otherwise:
//!
//! - (A) Anthropic, platform.claude.com/docs/en/about-claude/pricing: fast mode (six times the
//!   standard price on Opus 4.6 and 4.7, twice the standard price from Opus 4.8 on),
//!   `inference_geo` (1.1 times), $10 for 1,000 web searches, no fee for web fetch, $0.05 for an
//!   hour of a container, at least five minutes.
//! - (G) genai-prices 0.2.3: the prices of `speed: fast` and of `service_tier` beside the standard
//!   ones, OpenAI's as of 2026-10-12.
//! - (O) OpenAI, developers.openai.com/api/docs/pricing and the models' own pages: $10 for 1,000
//!   web searches ($25 with the preview tools), $2.50 for 1,000 file searches, $0.03, $0.12, $0.48
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
pub enum Tier {
    /// The standard price, also without any setting.
    Standard,
    /// Anthropic's `speed: fast`.
    Fast,
    /// OpenAI's `priority`, or `fast` by its newer name.
    Priority,
    /// OpenAI's `flex`.
    Flex,
    /// OpenAI's `ultrafast`.
    Ultrafast,
    /// An unknown name: the highest price there is.
    Unknown,
}

/// A price in thousandths of the standard one.
struct Multiple {
    tier: Tier,
    /// The beginning of the ids of its models.
    models: &'static str,
    thousandths: u64,
}

const fn times(tier: Tier, models: &'static str, thousandths: u64) -> Multiple {
    Multiple { tier, models, thousandths }
}

/// The first row that fits counts. A model that no row names has the last row of its tier. Rounded
/// up.
const MULTIPLES: &[Multiple] = &[
    // (G)
    times(Tier::Fast, "claude-fable-5-2", 2000),
    times(Tier::Fast, "claude-mythos-5-2", 2000),
    times(Tier::Fast, "claude-opus-4-8", 2000),
    times(Tier::Fast, "claude-opus-5", 2000),
    // (A)
    times(Tier::Fast, "", 6000),
    // (G)
    times(Tier::Priority, "gpt-4.1-nano", 2000),
    times(Tier::Priority, "gpt-4.1", 1750),
    times(Tier::Priority, "gpt-4o-2024-05-13", 1750),
    times(Tier::Priority, "gpt-4o-mini", 1667),
    times(Tier::Priority, "gpt-4o", 1700),
    times(Tier::Priority, "o3", 1750),
    times(Tier::Priority, "o4-mini", 1819),
    times(Tier::Priority, "gpt-5-mini", 1800),
    times(Tier::Priority, "gpt-5.5", 2500),
    times(Tier::Priority, "gpt-5", 2000),
    times(Tier::Priority, "gpt-6", 2000),
    times(Tier::Priority, "", 2500),
    times(Tier::Flex, "gpt-5.4", 520),
    times(Tier::Flex, "gpt-5", 500),
    times(Tier::Flex, "gpt-6", 500),
    times(Tier::Flex, "o3", 500),
    times(Tier::Flex, "o4-mini", 503),
    times(Tier::Flex, "", 1000),
    // (O)
    times(Tier::Ultrafast, "", 6000),
    times(Tier::Unknown, "", 6000),
];

/// `inference_geo` of one country, in thousandths of the price. (A)
const IN_ONE_COUNTRY: u64 = 1100;

/// Returns the price of a model's tokens in this tier, in thousandths of their standard price.
#[must_use]
pub fn thousandths(model: &str, tier: Tier, in_one_country: bool) -> u64 {
    let name = model.rsplit('/').next().unwrap_or(model);
    let row = MULTIPLES.iter().find(|row| row.tier == tier && name.starts_with(row.models));
    let served = row.map_or(1000, |row| row.thousandths);
    if in_one_country { (served * IN_ONE_COUNTRY).div_ceil(1000) } else { served }
}

/// A tool that a provider runs within a request: the cost of a use, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hosted {
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

const fn hosted(
    vendor: Vendor,
    kind: &'static str,
    fee: u64,
    brings: Option<u64>,
    counted: bool,
) -> Hosted {
    Hosted { vendor, kind, fee: NanoUsd(fee), brings, counted }
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
const HOSTED: &[Hosted] = &[
    hosted(Vendor::Anthropic, "web_search_", WEB_SEARCH.0, None, true),
    hosted(Vendor::Anthropic, "web_fetch_", 0, None, true),
    hosted(Vendor::Anthropic, "code_execution_", CONTAINER_HOUR.0, None, false),
    hosted(Vendor::OpenAi, "web_search_preview", WEB_SEARCH_PREVIEW.0, SEARCH, true),
    hosted(Vendor::OpenAi, "web_search", WEB_SEARCH.0, SEARCH, true),
    hosted(Vendor::OpenAi, "file_search", FILE_SEARCH.0, FILES, true),
    hosted(Vendor::OpenAi, "image_generation", IMAGE.0, Some(0), true),
    hosted(Vendor::OpenAi, "code_interpreter", CONTAINER_LARGE.0, None, false),
    hosted(Vendor::OpenAi, "shell", CONTAINER_LARGE.0, None, false),
];

/// Anthropic's own tools whose results the client sends.
const RUN_BY_CLIENT: [&str; 6] =
    ["custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_"];

/// The same for OpenAI's tools.
const RUN_BY_CLIENT_OPENAI: [&str; 4] = ["local_shell", "apply_patch", "computer", "tool_search"];

/// The runner of a tool that is declared by a `type` of its provider's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunBy {
    /// The client: its results are in the requests.
    Client,
    /// The provider, at these terms.
    Provider(Hosted),
    /// The provider, at terms that are not known here.
    Unknown,
}

/// Finds the runner of a tool of this `type`.
#[must_use]
pub fn run_by(vendor: Vendor, kind: &str) -> RunBy {
    let by_client: &[&str] = match vendor {
        Vendor::Anthropic => &RUN_BY_CLIENT,
        Vendor::OpenAi => &RUN_BY_CLIENT_OPENAI,
    };
    if by_client.iter().any(|known| kind.starts_with(known)) {
        return RunBy::Client;
    }
    let row = HOSTED.iter().find(|row| row.vendor == vendor && kind.starts_with(row.kind));
    row.map_or(RunBy::Unknown, |row| RunBy::Provider(*row))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_first_row_of_a_tier_that_fits_counts_and_the_dearest_where_none_does() {
        for (model, tier, country, expected) in [
            ("gpt-5.1", Tier::Priority, false, 2000),
            ("gpt-5.5", Tier::Priority, false, 2500),
            ("openai/gpt-4o-mini", Tier::Priority, false, 1667),
            ("anyone's", Tier::Priority, false, 2500),
            ("gpt-5.4-mini", Tier::Flex, false, 520),
            ("anyone's", Tier::Flex, false, 1000),
            ("claude-opus-4-6", Tier::Fast, false, 6000),
            ("claude-opus-5", Tier::Fast, false, 2000),
            ("claude-opus-5-5", Tier::Fast, true, 2200),
            ("claude-sonnet-5", Tier::Standard, true, 1100),
            ("claude-sonnet-5", Tier::Standard, false, 1000),
            ("gpt-6.2-sol", Tier::Unknown, false, 6000),
        ] {
            assert_eq!(thousandths(model, tier, country), expected, "{model} {tier:?}");
        }
    }

    #[test]
    fn every_tier_but_the_standard_has_a_last_row_for_any_model() {
        for tier in [Tier::Fast, Tier::Priority, Tier::Flex, Tier::Ultrafast, Tier::Unknown] {
            let rows: Vec<_> = MULTIPLES.iter().filter(|row| row.tier == tier).collect();
            let last = rows.last().expect("a row");
            assert!(last.models.is_empty(), "{tier:?}");
            assert!(rows.iter().all(|row| row.thousandths <= last.thousandths), "{tier:?}");
        }
    }

    #[test]
    fn tools_are_told_apart_by_who_runs_them() {
        assert_eq!(run_by(Vendor::Anthropic, "bash_20250124"), RunBy::Client);
        assert_eq!(run_by(Vendor::OpenAi, "local_shell"), RunBy::Client);
        assert_eq!(run_by(Vendor::OpenAi, "mcp"), RunBy::Unknown);
        let RunBy::Provider(search) = run_by(Vendor::OpenAi, "web_search_2025_08_26") else {
            panic!("the provider runs it");
        };
        assert_eq!((search.fee, search.brings), (WEB_SEARCH, Some(128_000)));
    }
}
