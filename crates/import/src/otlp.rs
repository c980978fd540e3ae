//! Traces of OpenTelemetry as JSON, with the attributes `gen_ai.*`: a turn is a span that asked a
//! model, and spans of tools are the results of its calls.

mod span;

use std::collections::BTreeMap;

use softland_session::wire::Tokens;

use crate::content::{read_arguments, read_result};
use crate::draft::{Results, TurnDraft, parse_stop};
use crate::fields::{Fields, array_elements};
use crate::input::{Input, JsonError};
use crate::step::{ConversationId, ConversationStart};
use crate::step_output::{MessageFacts, StepOutput};
use span::{Operation, Span};

pub(crate) fn read_recording(input: &mut Input<'_>, out: &mut StepOutput<'_>) {
    let mut spans: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    while input.peek().is_some() {
        if let Err(broken) = take_export(input, out, &mut spans) {
            out.list_broken(input, &broken);
            input.pass_line();
        }
    }
    if spans.is_empty() {
        out.list_unreadable(None, "no span in it has attributes `gen_ai.*`");
    }
    for (session, mut spans) in spans {
        spans.sort_by_key(|span| (span.start, span.operation == Operation::Tool));
        emit_conversation(out, &session, &spans);
    }
}

/// Reads one export: a line, or a document.
fn take_export(
    input: &mut Input<'_>,
    out: &mut StepOutput<'_>,
    spans: &mut BTreeMap<String, Vec<Span>>,
) -> Result<(), JsonError> {
    let line = input.line_number();
    let Some(piece) = input.take_value()? else {
        out.list_unreadable(Some(line), "an export is longer than 64 MiB");
        return Ok(());
    };
    out.list_mended(&piece);
    let read = Fields::from_json(&piece.text).and_then(|export| {
        for resource in array_elements(export.raw("resourceSpans").unwrap_or_default()) {
            let resource = Fields::from_json(resource)?;
            for scope in array_elements(resource.raw("scopeSpans").unwrap_or_default()) {
                let scope = Fields::from_json(scope)?;
                for span in array_elements(scope.raw("spans").unwrap_or_default()) {
                    if let Some((session, span)) = span::read_span(span, line)? {
                        spans.entry(session).or_default().push(span);
                    }
                }
            }
        }
        Ok(())
    });
    if let Err(reason) = read {
        out.list_unreadable(Some(line), reason);
    }
    Ok(())
}

/// Hands on a conversation. Where no request for a model is recorded, the agent's own span is its
/// turn.
fn emit_conversation(out: &mut StepOutput<'_>, session: &str, spans: &[Span]) {
    let asks = spans.iter().any(|span| span.operation == Operation::Model);
    let is_turn = |span: &Span| match span.operation {
        Operation::Model => true,
        Operation::Agent => !asks,
        Operation::Tool => false,
    };
    let talk = out.begin_conversation(&ConversationStart {
        session: Some(session),
        line: spans.first().map(|span| span.line),
        ..ConversationStart::default()
    });
    let mut asked = 0;
    for (at, span) in spans.iter().enumerate().filter(|(_, span)| is_turn(span)) {
        let behind = spans.get(at + 1..).unwrap_or_default();
        let end = behind.iter().position(is_turn).unwrap_or(behind.len());
        let tools: Vec<&Span> =
            behind[..end].iter().filter(|span| span.operation == Operation::Tool).collect();
        emit_questions(out, talk, span, &mut asked);
        emit_turn(out, talk, span, &tools);
    }
    out.end_conversation(talk);
}

/// Hands on the questions that a request holds beyond those before it.
fn emit_questions(out: &mut StepOutput<'_>, talk: ConversationId, span: &Span, asked: &mut usize) {
    let messages = span.text("gen_ai.input.messages").unwrap_or_default();
    let mut questions = Vec::new();
    for message in array_elements(&messages) {
        let Ok(message) = Fields::from_json(message) else { continue };
        let texts: Vec<String> = parts_of(&message)
            .into_iter()
            .filter(|part| part.text("type").as_deref() == Some("text"))
            .filter_map(|part| part.owned_text("content").or_else(|| part.owned_text("text")))
            .collect();
        if message.text("role").as_deref() == Some("user") && !texts.is_empty() {
            questions.push(texts.join("\n"));
        }
    }
    for question in questions.iter().skip(*asked) {
        let (time, line) = (Some(span.start / 1_000_000), Some(span.line));
        let said = MessageFacts { time, line, ..MessageFacts::default() };
        out.send_texts(talk, &[question.as_str()], said);
    }
    *asked = questions.len().max(*asked);
}

fn emit_turn(out: &mut StepOutput<'_>, talk: ConversationId, span: &Span, tools: &[&Span]) {
    let (time, line) = (Some(span.start / 1_000_000), Some(span.line));
    let mut draft = TurnDraft { time, line, ..TurnDraft::default() };
    let model = ["gen_ai.response.model", "gen_ai.request.model"];
    draft.model = model.iter().find_map(|key| span.text(key));
    draft.tokens = span.has_usage().then(|| read_tokens(span));
    draft.cost = span.dollars("gen_ai.usage.cost");
    let said = span.text("gen_ai.output.messages");
    for message in array_elements(said.as_deref().unwrap_or_default()) {
        let Ok(message) = Fields::from_json(message) else { continue };
        draft.stop = message.text("finish_reason").map(|word| parse_stop(&word)).or(draft.stop);
        parts_of(&message).iter().for_each(|part| add_part(&mut draft, part));
    }
    // Where contents were not recorded, a turn counts as having said something.
    draft.gives |= said.is_none();
    let mut results = Results { time, line, ..Results::default() };
    let told = !draft.calls.is_empty();
    for tool in tools {
        let id = tool.text("gen_ai.tool.call.id").unwrap_or_else(|| tool.id.clone());
        if !told {
            let name = tool.text("gen_ai.tool.name").unwrap_or_default();
            let input = tool.text("gen_ai.tool.call.arguments").unwrap_or_else(|| "{}".to_owned());
            draft.add_call(id.clone(), name, input, false);
        }
        let result = tool.text("gen_ai.tool.call.result");
        let failed = tool.text("error.type").is_some();
        let mut json = Vec::new();
        let result = result.as_deref().unwrap_or_default();
        softland_session::wire::json::write_str(&mut json, result);
        let content = String::from_utf8(json).unwrap_or_default();
        results.list.push((id, read_result(&content, failed)));
    }
    draft.emit_turn(out, talk);
    if !tools.is_empty() {
        results.emit_results(out, talk);
    }
}

fn parts_of<'a>(message: &Fields<'a>) -> Vec<Fields<'a>> {
    let parts = array_elements(message.raw("parts").unwrap_or_default());
    parts.into_iter().filter_map(|part| Fields::from_json(part).ok()).collect()
}

fn add_part(draft: &mut TurnDraft, part: &Fields<'_>) {
    match &*part.text("type").unwrap_or_default() {
        "text" => {
            let text = part.str("content").or_else(|| part.str("text"));
            text.into_iter().for_each(|text| draft.add_text(text));
        }
        "reasoning" | "thinking" => draft.add_hidden(part.str("content")),
        "tool_call" => {
            let id = part.id("id").unwrap_or_default();
            let name = part.owned_text("name").unwrap_or_default();
            draft.add_call(id, name, read_arguments(part.raw("arguments")), false);
        }
        _ => draft.gives = true,
    }
}

/// Reads the usage of a span. Its input holds what was cached; instrumentations that leave that out
/// show it by an input that is smaller.
fn read_tokens(span: &Span) -> Tokens {
    let count = |keys: &[&str]| keys.iter().find_map(|key| span.count(key)).unwrap_or(0);
    let all = count(&["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"]);
    let read = count(&["gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.input_tokens.cached"]);
    let written = count(&["gen_ai.usage.cache_creation.input_tokens"]);
    let cached = if read + written > all { 0 } else { read + written };
    Tokens {
        input: all - cached,
        output: count(&["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"]),
        cache_read: read,
        cache_write_5m: written,
        ..Tokens::default()
    }
}
