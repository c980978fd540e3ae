//! Decides what a request allows, and writes the body that goes upstream.

use std::collections::BTreeSet;

use softland_core::models::capability::{Capability, Thinking};
use softland_core::policy::{Batch, Landing};
use softland_core::{Facts, LadderSettings, Role, Run, TurnClass, is_known_answer_tool};
use softland_wire::Api;
use softland_wire::request::{BlockKind, Content, Request, ThinkingMode, Tool, ToolChoiceKind};

use super::hosted;
use crate::framing::StreamTerms;
use crate::tags::{TagReader, uses_tags};

/// Returns the tools by which a client seems to take its answers: its only tool, if the client
/// forces it, and the tools that are known for it by name.
pub(crate) fn answer_tools(request: &Request<'_>) -> Vec<String> {
    let forces = client_forces(request);
    let only = only_tool(request).filter(|_| forces);
    let known = tools_of(request).filter(|name| is_known_answer_tool(name, forces));
    only.into_iter().chain(known).collect()
}

/// Returns the tool to force for the answer: one that the policy names, else one that the client
/// forces.
pub(super) fn answer_to_force(request: &Request<'_>, run: &Run) -> Option<String> {
    let named = &run.policy().answer_tool;
    let declared = tools_of(request).find(|tool| named.contains(tool));
    let forced = || answer_tools(request).into_iter().find(|tool| run.is_answer_tool(tool));
    declared.or_else(|| forced().filter(|_| client_forces(request)))
}

/// True if the client lets the model do nothing but call tools.
pub(crate) fn client_forces(request: &Request<'_>) -> bool {
    let choice = request.tool_choice.as_ref().map(|choice| choice.kind);
    matches!(choice, Some(ToolChoiceKind::Any | ToolChoiceKind::Tool(_)))
}

/// Returns the client's only tool; `None` if it has others, or any of the provider's.
fn only_tool(request: &Request<'_>) -> Option<String> {
    match &*request.tools.as_ref()?.list {
        [tool] => Some(tool.name.unescape().into_owned()).filter(|_| is_own(tool)),
        _ => None,
    }
}

/// Returns the names of the client's own tools.
fn tools_of<'r>(request: &'r Request<'_>) -> impl Iterator<Item = String> + use<'r> {
    let tools = request.tools.iter().flat_map(|tools| &tools.list);
    tools.filter(|tool| is_own(tool)).map(|tool| tool.name.unescape().into_owned())
}

/// True if the client runs the tool.
fn is_own(tool: &Tool<'_>) -> bool {
    tool.kind.is_none_or(|kind| kind.eq_str("custom") || kind.eq_str("function"))
}

pub(super) fn ladder_setting(
    request: &Request<'_>,
    run: &Run,
    capability: &Capability,
    facts: &Facts,
    may_force_answer: bool,
    reader: Option<&TagReader>,
) -> LadderSettings {
    let policy = run.policy();
    let forces = client_forces(request);
    let role = run.role();
    LadderSettings {
        role,
        landing: match policy.landing {
            Landing::Auto | Landing::Ask if hosted::is_landing_for_hosted_tool(run) => {
                Landing::None
            }
            landing => landing,
        },
        empty_limit: policy.empty_limit,
        empty_before: run.empty_in_row(),
        may_force: may_force_answer && capability.may_force_tool(thinking_of(request)),
        wants_tool: !policy.answer_tool.is_empty() || forces,
        client_forces: forces,
        may_none: capability.none,
        declares: declares_tools(request),
        refusals_before: shown_refusals(run) + facts.tool_refusals,
        repairs: role == Role::Engine
            || has_tools(request)
            || reader.is_some_and(|reader| uses_tags(request, &reader.shape.tags)),
        affordable: run
            .request_allowance(facts, request.max_tokens.map(|most| most.value))
            .affordable,
    }
}

/// Returns the number of turns that tools' own limits refused, as the transcript and its record
/// show.
pub(super) fn shown_refusals(run: &Run) -> u64 {
    run.used().refused_tool.as_ref().map_or(0, |(_, refusals)| *refusals)
}

/// Returns every call id of a history.
pub(super) fn call_ids(request: &Request<'_>) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for message in &request.messages.list {
        let Content::Blocks { blocks, .. } = &message.content else { continue };
        for block in blocks {
            if let BlockKind::ToolUse { id, .. } = &block.kind {
                ids.insert(id.unescape().into_owned());
            }
        }
    }
    ids
}

pub(super) fn declares_tools(request: &Request<'_>) -> bool {
    request.tools.as_ref().is_some_and(|tools| !tools.list.is_empty())
}

fn has_tools(request: &Request<'_>) -> bool {
    declares_tools(request)
        || request.messages.list.iter().any(|message| match &message.content {
            Content::Text(..) => false,
            Content::Blocks { blocks, .. } => {
                blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolResult(_)))
            }
        })
}

/// Returns the thinking mode that a request asks for.
pub(super) fn thinking_of(request: &Request<'_>) -> Option<Thinking> {
    match request.thinking.mode {
        ThinkingMode::Absent | ThinkingMode::Other => None,
        ThinkingMode::Disabled => Some(Thinking::Disabled),
        ThinkingMode::Enabled { .. } => Some(Thinking::Enabled),
        ThinkingMode::Adaptive => Some(Thinking::Adaptive),
    }
}

/// True if calls of a response to the governed history pass as they come.
pub(super) fn passes_calls_unchanged(run: &Run, role: Role) -> bool {
    role == Role::Engine
        || run.policy().batch != Batch::None
        || run.policy().tool_calls_limit.is_none()
}

/// Returns the class of a turn where the policy only observes and takes the turn as the client
/// would.
pub(super) fn as_observed(class: TurnClass) -> TurnClass {
    match class {
        TurnClass::Empty | TurnClass::Truncated | TurnClass::Paused => TurnClass::Silent,
        class => class,
    }
}

/// Returns what the client of a stream asks to know of usage, with true in `hidden_usage` if
/// softland needs to know more: limits on money and tokens, and budgets, count what the provider
/// reports.
pub(super) fn stream_terms(
    request: &Request<'_>,
    run: &Run,
    facts: &Facts,
    at: u64,
) -> StreamTerms {
    let usage = request.stream_options.and_then(|options| options.include_usage);
    let usage = usage.is_some_and(|asked| asked.value);
    // An engine asks for the usage itself, wherever the provider takes that.
    let counts = run.policy().counts_usage() || facts.is_budgeted;
    let counts = run.role() == Role::Gateway && counts && !run.policy().is_observing();
    let hidden_usage = request.api == Api::Chat && request.stream && counts && !usage;
    StreamTerms { usage, hidden_usage, at, delays: false }
}

/// Returns the thinking tokens that a request asks for within its output.
pub(super) fn thinking_budget(request: &Request<'_>) -> u64 {
    match request.thinking.mode {
        ThinkingMode::Enabled { budget } => budget,
        _ => 0,
    }
}
