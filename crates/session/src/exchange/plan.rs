//! Decides what a request allows, and writes the body that goes upstream.

use std::collections::BTreeSet;

use bytes::Bytes;
use softland_core::models::capability::{Capability, Thinking};
use softland_core::policy::{Batch, Landing};
use softland_core::{
    Admission, Because, Call, Facts, LadderSettings, MessageEffects, NextAction, Reason, Role, Run,
    Rung, Signal, SignalKind, TurnClass, is_known_answer_tool, tables,
};
use softland_wire::json::write_str;
use softland_wire::request::{BlockKind, Content, Request, ThinkingMode, Tool, ToolChoiceKind};
use softland_wire::{Api, Splice};

use super::{Exchange, additions, hosted};
use crate::chain;
use crate::framing::UsageOptions;
use crate::out::{Event, Intervention, Output};

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
            Landing::Auto | Landing::Ask if hosted::lands_run(run) => Landing::None,
            landing => landing,
        },
        empty_limit: policy.empty_limit,
        empty_before: run.empty_in_row(),
        may_force: may_force_answer && capability.may_force(thinking_of(request)),
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

fn declares_tools(request: &Request<'_>) -> bool {
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

/// Returns the thinking mode that a body asks for.
pub(super) fn read_thinking(api: Api, body: &[u8]) -> Option<Thinking> {
    Request::from_body(api, body).ok().and_then(|request| thinking_of(&request))
}

fn thinking_of(request: &Request<'_>) -> Option<Thinking> {
    match request.thinking.mode {
        ThinkingMode::Absent | ThinkingMode::Other => None,
        ThinkingMode::Disabled => Some(Thinking::Disabled),
        ThinkingMode::Enabled { .. } => Some(Thinking::Enabled),
        ThinkingMode::Adaptive => Some(Thinking::Adaptive),
    }
}

/// True if calls of a response to the governed history pass as they come.
pub(super) fn calls_pass(run: &Run, role: Role) -> bool {
    role == Role::Engine
        || run.policy().batch != Batch::None
        || run.policy().tool_calls_limit.is_none()
}

/// Reports what would have been done about an empty turn.
pub(super) fn report_observed(run: &Run, class: TurnClass, out: &mut Output) {
    if class != TurnClass::Empty {
        return;
    }
    let (empties, limit) = (run.empty_in_row() + 1, run.policy().empty_limit.max(1));
    let because = Because::from_counts(Reason::Empty, empties, limit);
    let turn = run.used().turns + 1;
    if empties < limit {
        return report_empty(turn, &because, out);
    }
    let signal = Signal::from_turn(SignalKind::Empty, turn, Some(because.clone()));
    out.events.push(Event::Signal(signal));
    report_rung(Rung::LocalAnswer, Some(&because), None, out);
}

/// Returns the class of a turn where the policy only observes and takes the turn as the client
/// would.
pub(super) fn as_observed(class: TurnClass) -> TurnClass {
    match class {
        TurnClass::Empty | TurnClass::Truncated | TurnClass::Paused => TurnClass::Silent,
        class => class,
    }
}

/// Returns the body of the next request: the governed history, its tail, and the changes of the
/// rung.
pub(super) fn upstream_body(exchange: &Exchange) -> Bytes {
    let rung = match &exchange.next {
        Some(NextAction::Send { rung, .. }) => *rung,
        _ => None,
    };
    let tokens = max_tokens(exchange);
    let keeps_choice = !matches!(rung, Some(Rung::None | Rung::Respond));
    if exchange.tail.is_empty() && keeps_choice && tokens.is_none() {
        return apply_edits(exchange, &exchange.lines);
    }
    // The body was scanned when the exchange began.
    let Ok(request) = Request::from_body(exchange.api, &exchange.body) else {
        return exchange.body.clone();
    };
    let mut splice = exchange.lines.clone();
    let log = request.elsewhere.then(|| additions::unlogged_items(exchange)).flatten();
    if log.is_none() {
        splice.append_messages(&request, &exchange.tail);
    }
    match (rung, &exchange.forced_answer) {
        (Some(Rung::None), _) if declares_tools(&request) => {
            splice.set_tool_choice(&request, choice_of_none(exchange.api));
        }
        (Some(Rung::Respond), Some(tool)) => {
            splice.set_tool_choice(&request, &choice_of_tool(exchange.api, tool));
        }
        _ => {}
    }
    if let Some(tokens) = tokens {
        splice.set_max_tokens(&request, tokens);
    }
    if let Some(items) = log {
        let body = chain::continued_body(&request, &splice, &items);
        return body.unwrap_or_else(|| exchange.body.clone());
    }
    apply_edits(exchange, &splice)
}

/// Returns what the client of a stream asks to know of usage, and true in `hidden_usage` if
/// softland needs to know more: limits on money and tokens count what the provider reports.
pub(super) fn usage_options(request: &Request<'_>, run: &Run, at: u64) -> UsageOptions {
    let usage = request.stream_options.and_then(|options| options.include_usage);
    let usage = usage.is_some_and(|asked| asked.value);
    // An engine asks for the usage itself, wherever the provider takes that.
    let counts =
        run.role() == Role::Gateway && run.policy().counts_usage() && !run.policy().is_observing();
    let hidden_usage = request.api == Api::Chat && request.stream && counts && !usage;
    UsageOptions { usage, hidden_usage, at }
}

/// Returns the tool choice that allows no tool.
fn choice_of_none(api: Api) -> &'static str {
    match api {
        Api::Anthropic => r#"{"type":"none"}"#,
        Api::Chat | Api::Responses => r#""none""#,
    }
}

/// Returns the tool choice that forces one tool.
fn choice_of_tool(api: Api, tool: &str) -> String {
    let (before, after): (&[u8], &[u8]) = match api {
        Api::Anthropic => (br#"{"type":"tool","name":"#, b"}"),
        Api::Chat => (br#"{"type":"function","function":{"name":"#, b"}}"),
        Api::Responses => (br#"{"type":"function","name":"#, b"}"),
    };
    let mut choice = before.to_vec();
    write_str(&mut choice, tool);
    choice.extend_from_slice(after);
    // The choice is written from text.
    String::from_utf8(choice).unwrap_or_default()
}

/// Returns the body with its edits; where there are none, the very same bytes.
pub(super) fn apply_edits(exchange: &Exchange, splice: &Splice) -> Bytes {
    let body = &exchange.body;
    if let Some(chain) = &exchange.chain {
        return chain.cut_body(splice, body);
    }
    if splice.is_empty() {
        return body.clone();
    }
    // The edits come from scans of this very body, each at a place of its own.
    splice.apply(body).map_or_else(|_| body.clone(), Bytes::from)
}

/// Returns the output limit in tokens, where it has to differ from the client's.
fn max_tokens(exchange: &Exchange) -> Option<u64> {
    let asked = exchange.asked;
    // Where the maximum is not known, more than the client asked for may be refused.
    let most = exchange.most.output.unwrap_or(0);
    let grown = asked.map(|asked| {
        let doubled = asked.saturating_mul(1 << exchange.grown.min(16));
        if exchange.grown == 0 { asked } else { doubled.min(most.max(asked)) }
    });
    let enforced = !exchange.run.policy().is_observing();
    let room =
        exchange.run.request_allowance(&exchange.facts, asked).output_room.filter(|_| enforced);
    let wanted = match (grown, room) {
        (Some(grown), Some(room)) => Some(grown.min(room.max(1))),
        // Without a limit of the client's the model's holds, and a larger limit may be refused.
        (None, room) => {
            let most = exchange.most.output.or(exchange.most.window);
            room.filter(|room| most.is_none_or(|most| *room < most))
        }
        (grown, None) => grown,
    };
    wanted.filter(|wanted| Some(*wanted) != asked)
}

/// Reports what the newest message led to. Lines that no request carries are not reported.
pub(super) fn report_effects(newest: MessageEffects, sent: bool, out: &mut Output) {
    out.events.extend(newest.signals.into_iter().map(Event::Signal));
    if !sent {
        return;
    }
    out.events.extend(newest.additions.into_iter().map(|addition| Event::Intervention {
        intervention: addition.kind.into(),
        because: addition.because,
        text: Some(addition.text),
    }));
}

/// Reports a note that stands behind the history.
pub(super) fn report_ask(because: &Because, out: &mut Output) {
    out.events.push(Event::Intervention {
        intervention: Intervention::Ask,
        because: Some(because.clone()),
        text: Some(softland_core::lines::format_ask(because)),
    });
}

pub(super) fn report_rung(
    rung: Rung,
    because: Option<&Because>,
    advice: Option<String>,
    out: &mut Output,
) {
    let intervention = Intervention::from(rung);
    out.events.extend(advice.clone().map(Event::Advice));
    out.events.push(Event::Intervention { intervention, because: because.cloned(), text: advice });
}

/// Returns the policy key to set where a call that is refused at a limit may be the client's
/// answer: the run has not called that tool before, and nothing is known of it.
pub(super) fn policy_advice(exchange: &Exchange, rung: Rung) -> Option<String> {
    let refuses = rung == Rung::Refuse && exchange.role == Role::Gateway;
    let reply = exchange.newest.as_ref().filter(|_| refuses)?;
    let used = &exchange.run.used().by_tool;
    let is_new = |call: &Call<'_>| !call.server && !used.contains_key(call.name);
    let mut calls = reply.calls_in(&reply.blocks).map(|(call, _)| call);
    let call = calls.find(|call| is_new(call) && tables::kind_of_tool(call.name).is_none())?;
    Some(format!(
        "`{0}` is refused at the limit; if its call is the client's answer, set \
         answer_tool = \"{0}\" in the policy",
        call.name
    ))
}

/// Reports calls that are taken out of a turn which goes on: once for each limit that refuses some
/// of them.
pub(super) fn report_taken_out(calls: &[Call<'_>], admissions: &[Admission], out: &mut Output) {
    let mut taken: Vec<(&Because, Vec<&str>)> = Vec::new();
    for (call, admission) in calls.iter().zip(admissions) {
        let (Admission::Refused(because) | Admission::ToolRefused(because)) = admission else {
            continue;
        };
        match taken.iter_mut().find(|(known, _)| known.reason == because.reason) {
            Some((_, names)) => names.push(call.name),
            None => taken.push((because, vec![call.name])),
        }
    }
    for (because, names) in taken {
        out.events.push(Event::Intervention {
            intervention: Intervention::Refuse,
            because: Some(because.clone()),
            text: Some(format!("taken out of the turn: {}", names.join(", "))),
        });
    }
}

/// Reports an empty turn that is nudged.
pub(super) fn report_empty(turn: u64, because: &Because, out: &mut Output) {
    out.events.push(Event::Signal(Signal::from_turn(
        SignalKind::Empty,
        turn,
        Some(because.clone()),
    )));
    out.events.push(Event::Intervention {
        intervention: Intervention::Nudge,
        because: Some(because.clone()),
        text: Some(softland_core::lines::NUDGE.to_owned()),
    });
}
