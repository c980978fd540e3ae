//! Tools that the provider runs: those that a request declares, and the uses that `tool_limits`
//! leave them.
//!
//! softland cannot refuse a call to such a tool, so the request says how many are left. Where no
//! call is left, the run lands.

use std::collections::BTreeSet;

use softland_core::models::billing::{self, ToolRunner};
use softland_core::tables::hosted_name;
use softland_core::{Reason, Run};
use softland_wire::request::{Request, Tool};
use softland_wire::{Api, Splice};

use crate::price::{limits_uses, vendor_of};

/// Prefixes of the types of Anthropic's own tools that the client runs.
const BY_CLIENT: [&str; 4] = ["custom", "bash_", "text_editor_", "memory_"];
/// The types of OpenAI's own tools that OpenAI runs, and the names that their calls count under.
const OPENAI: [(&str, &str); 5] = [
    ("web_search", "web_search"),
    ("file_search", "file_search"),
    ("code_interpreter", "code_interpreter"),
    ("image_generation", "image_generation"),
    ("mcp", "mcp"),
];

/// Returns the names of the tools that the provider runs, as their calls are counted.
pub(super) fn declared_names(request: &Request<'_>) -> BTreeSet<String> {
    let tools = request.tools.iter().flat_map(|tools| &tools.list);
    tools.filter_map(|tool| name_of(request.api, tool)).collect()
}

fn name_of(api: Api, tool: &Tool<'_>) -> Option<String> {
    let kind = tool.kind?.unescape();
    match api {
        Api::Anthropic => {
            let by_client = BY_CLIENT.iter().any(|own| kind.starts_with(own));
            // Tools for a computer or a browser are toolsets: the client runs them.
            let toolset = kind.starts_with("computer") || kind.starts_with("browser");
            (!by_client && !toolset).then(|| hosted_name(&tool.name.unescape()).to_owned())
        }
        Api::Responses => {
            let known = OPENAI.iter().find(|(own, _)| kind.starts_with(own))?;
            Some(known.1.to_owned())
        }
        Api::Chat => None,
    }
}

/// True if the run lands for the limit of a tool that the provider runs. The provider would run the
/// tool for any request that may still call tools.
pub(super) fn is_landing_for_hosted_tool(run: &Run) -> bool {
    let because = run.phase().because();
    because
        .is_some_and(|because| matches!(&because.reason, Reason::Tool(tool) if run.is_hosted(tool)))
}

/// Says in a request how often each tool of the provider may be used. A tool with a limit gets what
/// is left of it; a tool that can be bounded, and says no number itself, gets `uses`. Anthropic's
/// tools are bounded one by one, OpenAI's all together.
pub(super) fn write_use_limits(
    request: &Request<'_>,
    run: &Run,
    uses: Option<u64>,
    splice: &mut Splice,
) {
    let tools: &[Tool<'_>] = request.tools.as_ref().map_or(&[], |tools| &tools.list);
    let most = |tool: &Tool<'_>| {
        let uses = uses.filter(|_| says_nothing(request, tool));
        uses_left(request.api, run, tool).into_iter().chain(uses).min()
    };
    if request.api == Api::Responses {
        let all = tools.iter().filter_map(|tool| Some((most(tool)?, tool)));
        if let Some((most, tool)) = all.min_by_key(|(most, _)| *most) {
            splice.limit_tool_uses(request, tool, most);
        }
        return;
    }
    for tool in tools {
        if let Some(most) = most(tool) {
            splice.limit_tool_uses(request, tool, most);
        }
    }
}

/// Returns the uses that a tool's limit leaves, at least 1. No API takes a zero: a run without any
/// left lands.
fn uses_left(api: Api, run: &Run, tool: &Tool<'_>) -> Option<u64> {
    let policy = run.policy();
    let name = name_of(api, tool).filter(|_| !policy.is_observing())?;
    let used = run.used().by_tool.get(&name).copied().unwrap_or(0);
    Some(policy.tool_limits.get(&name)?.saturating_sub(used).max(1))
}

/// True if a tool can be bounded, and the request does not say how often it may be used.
fn says_nothing(request: &Request<'_>, tool: &Tool<'_>) -> bool {
    let kind =
        tool.kind.map(|kind| billing::find_tool_runner(vendor_of(request.api), &kind.unescape()));
    let counted = matches!(kind, Some(ToolRunner::Provider(hosted)) if hosted.counted);
    counted && !limits_uses(request, tool)
}
