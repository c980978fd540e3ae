//! The charges of a request beside its tokens, and the whole bill of a response.
//!
//! The prices themselves are data of the core. The caller says which price is in force for a
//! request: a configuration's own, or a tier for long inputs.

#[cfg(test)]
mod tests;

use softland_core::NanoUsd;
use softland_core::models::Price;
use softland_core::models::billing::{self, HostedTool, PricingTier, ToolRunner, Vendor};
use softland_wire::json::{Cursor, Error, Kind};
use softland_wire::request::{Request, Tool};
use softland_wire::{Api, ServiceTier, Tokens};

/// The service that a request asks for, and the prices of its provider's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    vendor: Vendor,
    asked: PricingTier,
    in_one_country: bool,
    /// The price of a web search.
    search: NanoUsd,
    /// The price of a container for programs.
    container: NanoUsd,
    /// The charge for the request, whatever comes back.
    always: NanoUsd,
}

impl Default for Fees {
    fn default() -> Self {
        Self::for_vendor(Vendor::OpenAi)
    }
}

impl Fees {
    /// Returns the fees of a request that asks for nothing special, or that is no longer known.
    #[must_use]
    pub const fn for_vendor(vendor: Vendor) -> Self {
        Self {
            vendor,
            asked: PricingTier::Standard,
            in_one_country: false,
            search: billing::WEB_SEARCH,
            container: billing::CONTAINER_SMALL,
            always: NanoUsd::ZERO,
        }
    }

    /// Reads the fees of a request.
    #[must_use]
    pub fn from_request(request: &Request<'_>) -> Self {
        let (terms, vendor) = (&request.terms, vendor_of(request.api));
        let plain = Self::for_vendor(vendor);
        let (mut search, mut container) = (plain.search, plain.container);
        for tool in request.tools.iter().flat_map(|tools| &tools.list) {
            let kind = tool.kind.map(|kind| billing::find_tool_runner(vendor, &kind.unescape()));
            let Some(ToolRunner::Provider(hosted)) = kind else { continue };
            let fee = fee_of(&hosted, &ToolLimits::from_tool(tool, request.text));
            match hosted.fee {
                billing::WEB_SEARCH | billing::WEB_SEARCH_PREVIEW => search = search.max(fee),
                billing::CONTAINER_LARGE => container = container.max(fee),
                _ => {}
            }
        }
        let mut always = NanoUsd::ZERO;
        if terms.search {
            always += billing::WEB_SEARCH_PREVIEW;
        }
        if terms.plugins {
            always += billing::PLUGIN;
        }
        Self {
            vendor,
            asked: billing_tier(terms.served),
            in_one_country: terms.in_one_country,
            search,
            container,
            always,
        }
    }

    /// Returns the most that the request's tokens may cost, in thousandths of their standard price.
    /// A cheaper tier counts as standard, since the provider may not grant it.
    #[must_use]
    pub fn max_thousandths(&self, model: &str) -> u64 {
        billing::price_thousandths(model, self.asked, self.in_one_country).max(1000)
    }

    /// Returns the bill of a response: its tokens at `price`, which is for standard service,
    /// adjusted to the service that it got, and its uses of the provider's tools. The bill is never
    /// less than the response states itself.
    #[must_use]
    pub fn bill_response(&self, model: &str, tokens: &Tokens, price: &Price) -> NanoUsd {
        let beside = &tokens.beside;
        let served = match beside.served {
            ServiceTier::Unsaid => self.asked,
            said => billing_tier(said),
        };
        let in_one_country = self.in_one_country || beside.in_one_country;
        let price = price.scaled_by(billing::price_thousandths(model, served, in_one_country));
        let Tokens { input, output, cache_read, cache_write_5m, cache_write_1h, .. } = *tokens;
        let tokens = price.cost_nano(input, output, cache_read, cache_write_5m, cache_write_1h);
        let of = |uses: u32, fee: NanoUsd| NanoUsd(fee.0.saturating_mul(u64::from(uses)));
        let programs = match self.vendor {
            Vendor::Anthropic => {
                of(beside.programs, billing::CONTAINER_LEAST).min(billing::CONTAINER_HOUR)
            }
            // One container serves a response.
            Vendor::OpenAi => of(beside.programs.min(1), self.container),
        };
        let fees = self.always
            + of(beside.web_searches, self.search)
            + of(beside.file_searches, billing::FILE_SEARCH)
            + of(beside.images, billing::IMAGE)
            + of(beside.sources, billing::SOURCE)
            + programs;
        (NanoUsd(tokens) + fees).max(NanoUsd(beside.stated.unwrap_or(0)))
    }
}

/// The most that the provider's own tools can add to a request, in tokens and money.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostedToolBound {
    /// The charges for their uses, beside tokens.
    pub fees: NanoUsd,
    /// The most uses, and the most tokens that one use brings.
    pub uses: Option<(u64, u64)>,
    /// The name of a tool whose results have no bound, if there is one.
    pub unbounded: Option<String>,
    /// True if any of them could be bounded by a number of uses that the request does not say.
    pub countable: bool,
}

impl HostedToolBound {
    /// Reads the declarations of a request. `added` is the number of uses that is added where the
    /// request says none.
    #[must_use]
    pub fn from_request(request: &Request<'_>, added: Option<u64>) -> Self {
        let vendor = vendor_of(request.api);
        let terms = &request.terms;
        let mut bound = Self::default();
        let (mut fee, mut most) = (NanoUsd::ZERO, None);
        let mut counted = |uses: u64, brings: u64| {
            let (all, tokens) = most.unwrap_or((0_u64, 0_u64));
            most = Some(match vendor {
                Vendor::Anthropic => (all.saturating_add(uses), tokens.max(brings)),
                // There is one number for all tools of a request.
                Vendor::OpenAi => (uses, tokens.max(brings)),
            });
        };
        for tool in request.tools.iter().flat_map(|tools| &tools.list) {
            let Some(kind) = tool.kind.map(|kind| kind.unescape()) else { continue };
            let hosted = match billing::find_tool_runner(vendor, &kind) {
                ToolRunner::Client => continue,
                ToolRunner::Unknown => {
                    bound.unbounded.get_or_insert_with(|| kind.into_owned());
                    continue;
                }
                ToolRunner::Provider(hosted) => hosted,
            };
            let own = ToolLimits::from_tool(tool, request.text);
            let said = match vendor {
                Vendor::Anthropic => own.max_uses,
                Vendor::OpenAi => terms.max_tool_calls.map(|(most, _)| most),
            };
            bound.countable |= hosted.counted && said.is_none();
            let uses = said.or(added).filter(|_| hosted.counted);
            let each = fee_of(&hosted, &own);
            let times = |uses: u64| NanoUsd(each.0.saturating_mul(uses));
            match vendor {
                Vendor::Anthropic => bound.fees += times(uses.unwrap_or(1)),
                Vendor::OpenAi if hosted.counted => fee = fee.max(times(uses.unwrap_or(1))),
                Vendor::OpenAi => bound.fees += each,
            }
            match (uses, hosted.brings.or(own.max_content_tokens)) {
                (Some(uses), Some(brings)) => counted(uses, brings),
                (Some(0), None) => {}
                _ => drop(bound.unbounded.get_or_insert_with(|| kind.into_owned())),
            }
        }
        bound.fees += fee;
        bound.uses = most;
        bound.unbounded = bound.unbounded.or_else(|| member_without_bound(request));
        if terms.search {
            bound.fees += billing::WEB_SEARCH_PREVIEW;
        }
        if terms.plugins {
            bound.fees += billing::PLUGIN;
        }
        if terms.live_search {
            bound.fees += NanoUsd(billing::SOURCE.0 * billing::SOURCES);
        }
        bound
    }

    /// Returns the most input tokens that are billed for a request of `input` tokens. At each step
    /// the provider reads all that it has, and no more than the window.
    #[must_use]
    pub fn max_billed_input(&self, input: u64, window: u64) -> u64 {
        if self.unbounded.is_some() {
            return window;
        }
        let Some((uses, brings)) = self.uses else { return input };
        let mut sum = 0_u64;
        for step in 0..=uses {
            let here = input.saturating_add(brings.saturating_mul(step)).min(window);
            if here == window {
                // Every later step reads a whole window too.
                let steps = uses - step + 1;
                return sum.saturating_add(window.saturating_mul(steps));
            }
            sum = sum.saturating_add(here);
        }
        sum
    }
}

/// Returns the number of uses to add to a request that sets none for its tools. It follows from the
/// limit of money, so it is the same for the whole run. The tools' results may cost a quarter of
/// the limit; one use is always allowed.
#[must_use]
pub fn uses_under(limit: NanoUsd, dearest_input: u64, api: Api) -> u64 {
    const MOST: u64 = 8;
    let brings = match vendor_of(api) {
        Vendor::Anthropic => 0,
        Vendor::OpenAi => 128_000,
    };
    let cost = |uses: u64| {
        let tokens = brings * uses * (uses + 1) / 2;
        NanoUsd::from_tokens(tokens, dearest_input) + NanoUsd(billing::WEB_SEARCH.0 * uses)
    };
    (1..=MOST).rev().find(|uses| cost(*uses).0 <= limit.0 / 4).unwrap_or(1)
}

/// True if a request limits the uses of a tool of its provider.
pub(crate) fn limits_uses(request: &Request<'_>, tool: &Tool<'_>) -> bool {
    match request.api {
        Api::Anthropic => ToolLimits::from_tool(tool, request.text).max_uses.is_some(),
        Api::Responses => request.terms.max_tool_calls.is_some(),
        Api::Chat => false,
    }
}

/// Returns the fee for one use. A container is priced by the memory that it asks for.
fn fee_of(hosted: &HostedTool, own: &ToolLimits) -> NanoUsd {
    match (hosted.fee, own.memory) {
        (billing::CONTAINER_LARGE, ContainerMemory::Least) => billing::CONTAINER_SMALL,
        (fee, _) => fee,
    }
}

/// Returns the name of a member by which a request asks for something without a bound.
fn member_without_bound(request: &Request<'_>) -> Option<String> {
    let terms = &request.terms;
    let members = [
        (terms.mcp_servers, "mcp_servers"),
        (terms.search, "web_search_options"),
        (terms.live_search, "search_parameters"),
        (terms.plugins, "plugins"),
    ];
    members.into_iter().find(|(asked, _)| *asked).map(|(_, name)| name.to_owned())
}

/// The bounds in a tool's declaration.
#[derive(Debug, Default)]
struct ToolLimits {
    max_uses: Option<u64>,
    max_content_tokens: Option<u64>,
    memory: ContainerMemory,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ContainerMemory {
    #[default]
    Least,
    Any,
}

impl ToolLimits {
    fn from_tool(tool: &Tool<'_>, body: &str) -> Self {
        let mut limits = Self::default();
        // The declaration was scanned with the request, so there is no error to report.
        let _ = limits.read_members(&mut Cursor::new(tool.span.slice_of(body)));
        limits
    }

    fn read_members(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "max_uses" => self.max_uses = cursor.read_uint_or_skip()?,
                "max_content_tokens" => self.max_content_tokens = cursor.read_uint_or_skip()?,
                "memory_limit" => {
                    let asked = cursor.read_string_or_skip()?;
                    let least = asked.is_some_and(|(text, _)| text.eq_str("1g"));
                    self.memory = if least { ContainerMemory::Least } else { ContainerMemory::Any };
                }
                "container" | "environment" if cursor.peek()? == Kind::Object => {
                    self.read_members(cursor)?;
                }
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

/// Returns the vendor whose format an API's requests have.
#[must_use]
pub const fn vendor_of(api: Api) -> Vendor {
    match api {
        Api::Anthropic => Vendor::Anthropic,
        Api::Chat | Api::Responses => Vendor::OpenAi,
    }
}

const fn billing_tier(served: ServiceTier) -> PricingTier {
    match served {
        ServiceTier::Unsaid | ServiceTier::Standard => PricingTier::Standard,
        ServiceTier::Batch => PricingTier::Batch,
        ServiceTier::Flex => PricingTier::Flex,
        ServiceTier::Priority => PricingTier::Priority,
        ServiceTier::Fast => PricingTier::Fast,
        ServiceTier::Ultrafast => PricingTier::Ultrafast,
        ServiceTier::Other => PricingTier::Unknown,
    }
}
