//! The texts, calls and results of a run as event lines: from events as they happen, and from the
//! history that a request carries.

use serde_json::{Value, json};
use softland_ledger::Step;
use softland_session::Event;
use softland_session::core::lines;
use softland_session::wire::request::{
    Block, BlockKind, Content, Message, Request, ResultContent, Role, ToolResult,
};

/// The largest text, call input or result that is sent to pages, in bytes.
const MOST: usize = 256 << 10;

/// One turn of a history.
pub(crate) struct HistoryTurn {
    pub(crate) turn: u64,
    /// The text and the calls of the model, block by block.
    pub(crate) said: Vec<Step>,
    /// The results of its calls.
    pub(crate) results: Vec<Step>,
}

/// Converts an event to a line; `None` if the event is reported in another way.
pub(crate) fn event_step(event: &Event, at: u64, turn: u64) -> Option<Step> {
    let (name, fields) = match event {
        Event::TextStart => ("text_start", json!({})),
        Event::TextDelta(text) => ("text_delta", json!({"text": text})),
        Event::ThinkingStart => ("thinking_start", json!({})),
        Event::ThinkingDelta(text) => ("thinking_delta", json!({"text": text})),
        Event::ToolStart { id, name } => ("tool_start", json!({"id": id, "name": name})),
        Event::ToolInputDelta { id, partial_json } => {
            ("tool_input_delta", json!({"id": id, "partial_json": partial_json}))
        }
        Event::BlockStop { index } => ("block_stop", json!({"index": index})),
        Event::Signal(_)
        | Event::Intervention { .. }
        | Event::Shaped(_)
        | Event::Advice(_)
        | Event::Usage(_) => {
            return None;
        }
    };
    Some(make_step(at, turn, name, &fields))
}

/// Creates a line of a tape that has no number yet.
pub(crate) fn make_step(at: u64, turn: u64, event: &str, fields: &Value) -> Step {
    Step { seq: 0, at, turn, event: event.to_owned(), fields: fields.to_string(), late: false }
}

/// Returns the question of the run, and its turns before turn `turn`, which the request asks for.
/// If the history was compacted, only its newest turns are there.
pub(crate) fn read_history(
    request: &Request<'_>,
    turn: u64,
    at: u64,
) -> (Option<String>, Vec<HistoryTurn>) {
    let list = own_messages(request);
    let own = own_turns(&list, turn);
    let text = request.text;
    let mut turns = Vec::new();
    for (n, begins) in own.iter().enumerate() {
        let number = turn.saturating_sub((own.len() - n) as u64);
        let ends = own.get(n + 1).copied().unwrap_or(list.len());
        let said = list.get(*begins).map(|message| message_steps(message, text, at, number));
        let said = said.unwrap_or_default();
        let after = list.get(begins + 1..ends).unwrap_or_default();
        let results = after.iter().flat_map(|message| result_steps(message, at, number)).collect();
        turns.push(HistoryTurn { turn: number, said, results });
    }
    (question_in(&list, turn), turns)
}

/// Returns the messages of the client's history: those of a request, without the turns that were
/// empty and the nudges behind them, which softland keeps in it.
fn own_messages<'r, 'b>(request: &'r Request<'b>) -> Vec<&'r Message<'b>> {
    let mut own = Vec::new();
    let mut nudged = false;
    for message in &request.messages.list {
        let text = || message_text(message);
        let empty = message.role == Role::Assistant
            && !has_call(message)
            && text().is_some_and(|text| text.trim() == lines::NO_ANSWER);
        let nudge =
            nudged && message.role == Role::User && text().is_some_and(|t| t == lines::NUDGE);
        nudged = empty;
        if !empty && !nudge {
            own.push(message);
        }
    }
    own
}

fn has_call(message: &Message<'_>) -> bool {
    let Content::Blocks { blocks, .. } = &message.content else { return false };
    blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolUse { .. }))
}

/// Returns the positions of the run's turns before turn `turn`: the newest ones of the history.
fn own_turns(list: &[&Message<'_>], turn: u64) -> Vec<usize> {
    let before = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
    let spoken = (0..list.len())
        .filter(|at| list.get(*at).is_some_and(|message| message.role == Role::Assistant));
    let spoken: Vec<usize> = spoken.collect();
    spoken.get(spoken.len().saturating_sub(before)..).unwrap_or_default().to_vec()
}

/// Returns the question of the run whose turn `turn` the request asks for.
pub(crate) fn find_question(request: &Request<'_>, turn: u64) -> Option<String> {
    question_in(&own_messages(request), turn)
}

fn question_in(list: &[&Message<'_>], turn: u64) -> Option<String> {
    let first = own_turns(list, turn).first().copied().unwrap_or(list.len());
    let asked = list.get(..first).unwrap_or_default().iter().rev();
    let asked = asked.take_while(|message| message.role != Role::Assistant);
    asked.filter(|message| message.role == Role::User).find_map(|m| message_text(m))
}

fn message_text(message: &Message<'_>) -> Option<String> {
    match &message.content {
        Content::Text(text, _) => Some(cut_text(&text.unescape()).0.to_owned()),
        Content::Blocks { blocks, .. } => {
            let texts = blocks.iter().filter_map(|block| match &block.kind {
                BlockKind::Text { text, .. } => Some(text.unescape()),
                _ => None,
            });
            let whole = texts.collect::<Vec<_>>().join("\n");
            (!whole.is_empty()).then(|| cut_text(&whole).0.to_owned())
        }
    }
}

fn message_steps(message: &Message<'_>, whole: &str, at: u64, turn: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut index = 0_u32;
    let mut tell = |begins: (&str, Value), more: Option<(&str, Value)>| {
        steps.push(make_step(at, turn, begins.0, &begins.1));
        steps.extend(more.map(|(event, fields)| make_step(at, turn, event, &fields)));
        steps.push(make_step(at, turn, "block_stop", &json!({"index": index})));
        index += 1;
    };
    match &message.content {
        Content::Text(text, _) => {
            let text = text.unescape();
            tell(
                ("text_start", json!({})),
                Some(("text_delta", json!({"text": cut_text(&text).0}))),
            );
        }
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                match &block.kind {
                    BlockKind::Text { text, .. } => {
                        let text = text.unescape();
                        let more = ("text_delta", json!({"text": cut_text(&text).0}));
                        tell(("text_start", json!({})), Some(more));
                    }
                    BlockKind::Thinking => {
                        let text = thinking_text(block, whole);
                        let more = ("thinking_delta", json!({"text": cut_text(&text).0}));
                        tell(("thinking_start", json!({})), (!text.is_empty()).then_some(more));
                    }
                    BlockKind::ToolUse { id, name, input, .. } => {
                        let (id, name) = (id.unescape(), name.unescape());
                        let input = input.text_in(whole);
                        let more = json!({"id": id, "partial_json": cut_text(&input).0});
                        let begins = ("tool_start", json!({"id": id, "name": name}));
                        tell(begins, Some(("tool_input_delta", more)));
                    }
                    BlockKind::RedactedThinking
                    | BlockKind::ToolResult(_)
                    | BlockKind::Other { .. } => {}
                }
            }
        }
    }
    steps
}

/// Returns the text of a thinking block of any protocol; empty if the block is sealed.
fn thinking_text(block: &Block<'_>, whole: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(block.span.slice_of(whole)) else {
        return String::new();
    };
    let plain = ["thinking", "reasoning_content", "text"];
    if let Some(text) = plain.iter().find_map(|name| value.get(name)?.as_str()) {
        return text.to_owned();
    }
    let parts = value.get("summary").and_then(Value::as_array);
    let texts = parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn result_steps(message: &Message<'_>, at: u64, turn: u64) -> Vec<Step> {
    let Content::Blocks { blocks, .. } = &message.content else { return Vec::new() };
    let results = blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolResult(result) => Some(result_step(result, at, turn)),
        _ => None,
    });
    results.collect()
}

fn result_step(result: &ToolResult<'_>, at: u64, turn: u64) -> Step {
    let mut unseen = 0;
    let content = match &result.content {
        ResultContent::Absent(_) => String::new(),
        ResultContent::Opaque(_) => "[no text]".to_owned(),
        ResultContent::Text(text, _) => text.unescape().into_owned(),
        ResultContent::Parts { parts, .. } => {
            unseen = parts.iter().filter(|part| part.text.is_none()).count();
            let texts = parts.iter().filter_map(|part| part.text.as_ref());
            texts.map(|(text, _)| text.unescape()).collect::<Vec<_>>().join("\n")
        }
    };
    let (shown, left) = cut_text(&content);
    let mut fields = json!({"id": result.tool_use_id.unescape(), "ok": !result.is_error,
        "content": shown});
    if left > 0 {
        fields["cut_bytes"] = left.into();
    }
    if unseen > 0 {
        fields["parts_without_text"] = unseen.into();
    }
    make_step(at, turn, "tool_result", &fields)
}

/// Returns the part of a text that pages get, and the number of bytes that are left out.
fn cut_text(text: &str) -> (&str, usize) {
    let shown = text.get(..text.floor_char_boundary(MOST)).unwrap_or_default();
    (shown, text.len() - shown.len())
}
