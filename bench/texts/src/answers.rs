//! What the mock answers: Anthropic Messages, OpenAI Chat Completions and Responses, whole and as
//! streams of 68 events and about 15 KB, a text and a tool call with its usage.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::STAMP;

/// Events of a stream.
pub const EVENTS: usize = 68;
/// Text deltas of it.
const TEXTS: usize = 40;
/// Pieces of the call's input.
const PIECES: usize = 20;
/// Characters of one; half of them where the protocol's own words are longer.
const PIECE: usize = 90;

/// The end of every complete stream of Messages.
pub const MESSAGES_END: &str = "message_stop";
/// The end of every complete stream of Chat Completions.
pub const CHAT_END: &str = "[DONE]";

/// The end of every complete stream of Responses.
pub const RESPONSES_END: &str = "\"total_tokens\":1120";

/// A whole Messages response: a text and a call, or the final answer.
pub fn message(last: bool) -> Bytes {
    let text = json!({"type": "text", "text": words(180)});
    let call = json!({"type": "tool_use", "id": "toolu_01bench0000000000000001",
        "name": "read_file", "input": {"path": "src/harbour/arrivals.rs", "offset": 1}});
    let (content, stop) =
        if last { (json!([text]), "end_turn") } else { (json!([text, call]), "tool_use") };
    let body = json!({"id": format!("msg_{STAMP}0"), "type": "message", "role": "assistant",
        "model": "claude-sonnet-5-5", "content": content, "stop_reason": stop,
        "stop_sequence": null, "usage": usage(60)});
    body.to_string().into()
}

/// The events of a Messages stream; the first one's id carries the time it is written at.
pub fn message_events(last: bool, nanos: u128) -> Vec<Bytes> {
    let mut events = vec![
        message_head(nanos),
        event("ping", json!({"type": "ping"})),
        event(
            "content_block_start",
            json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}),
        ),
    ];
    let texts = if last { TEXTS + PIECES + 2 } else { TEXTS };
    events
        .extend((0..texts).map(|n| delta(0, json!({"type": "text_delta", "text": piece(n, 110)}))));
    events.push(event("content_block_stop", json!({"type": "content_block_stop", "index": 0})));
    if !last {
        events.push(event(
            "content_block_start",
            json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "toolu_01bench0000000000000001",
                "name": "read_file", "input": {}}}),
        ));
        events.extend(
            call_input(PIECE)
                .into_iter()
                .map(|json| delta(1, json!({"type": "input_json_delta", "partial_json": json}))),
        );
        let stop = json!({"type": "content_block_stop", "index": 1});
        events.push(event("content_block_stop", stop));
    }
    let stop = if last { "end_turn" } else { "tool_use" };
    events.push(event(
        "message_delta",
        json!({"type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 700}}),
    ));
    events.push(event("message_stop", json!({"type": "message_stop"})));
    events
}

/// The head event of a Messages stream.
pub fn message_head(nanos: u128) -> Bytes {
    let message = json!({"id": format!("msg_{STAMP}{nanos}"), "type": "message",
        "role": "assistant", "model": "claude-sonnet-5-5", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage(1)});
    event("message_start", json!({"type": "message_start", "message": message}))
}

/// A whole chat completion.
pub fn completion(last: bool) -> Bytes {
    let call = json!([{"id": "call_bench0000000000000001", "type": "function", "function":
        {"name": "read_file", "arguments": "{\"path\":\"src/harbour/arrivals.rs\",\"offset\":1}"}}]);
    let (calls, stop) = if last { (Value::Null, "stop") } else { (call, "tool_calls") };
    let message = json!({"role": "assistant", "content": words(180), "tool_calls": calls});
    let body = json!({"id": format!("chatcmpl-{STAMP}0"), "object": "chat.completion",
        "created": 1_790_000_000, "model": "gpt-5-mini",
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
        "usage": {"prompt_tokens": 420, "completion_tokens": 60, "total_tokens": 480}});
    body.to_string().into()
}

/// The events of a chat completion's stream, as many and of about the same size.
pub fn completion_events(last: bool, nanos: u128) -> Vec<Bytes> {
    let mut events = vec![completion_head(nanos)];
    let texts = if last { TEXTS + PIECES + 4 } else { TEXTS + 3 };
    events.extend((0..texts).map(|n| chunk(0, json!({"content": piece(n, 40)}), None)));
    if !last {
        let named = json!({"name": "read_file", "arguments": ""});
        let call = json!([{"index": 0, "id": "call_bench0000000000000001", "type": "function",
            "function": named}]);
        events.push(chunk(0, json!({"tool_calls": call}), None));
        events.extend(call_input(PIECE / 2).into_iter().map(|json| {
            let call = json!([{"index": 0, "function": {"arguments": json}}]);
            chunk(0, json!({"tool_calls": call}), None)
        }));
    }
    events.push(chunk(0, json!({}), Some(if last { "stop" } else { "tool_calls" })));
    events.push(data(
        json!({"id": format!("chatcmpl-{STAMP}0"), "object": "chat.completion.chunk",
        "created": 1_790_000_000, "model": "gpt-5-mini", "choices": [],
        "usage": {"prompt_tokens": 420, "completion_tokens": 700, "total_tokens": 1120}}),
    ));
    events.push(Bytes::from_static(b"data: [DONE]\n\n"));
    events
}

/// The head event of a chat completion's stream.
pub fn completion_head(nanos: u128) -> Bytes {
    chunk(nanos, json!({"role": "assistant", "content": ""}), None)
}

/// A whole response of the Responses API.
pub fn response(last: bool) -> Bytes {
    let mut items = vec![message_item(&words(180), "completed")];
    if !last {
        let arguments = "{\"path\":\"src/harbour/arrivals.rs\",\"offset\":1}";
        items.push(call_item(arguments, "completed"));
    }
    responded(0, "completed", items).to_string().into()
}

/// The events of a Responses stream, as many and of about the same size.
pub fn response_events(last: bool, nanos: u128) -> Vec<Bytes> {
    let mut events = Numbered::default();
    events.add("response.created", json!({"response": responded(nanos, "in_progress", vec![])}));
    events.add("response.in_progress", json!({"response": responded(0, "in_progress", vec![])}));
    let place = json!({"item_id": "msg_bench_item", "output_index": 0, "content_index": 0});
    let at = |more: Value| merged(&place, &more);
    let item = json!({"output_index": 0, "item": message_item("", "in_progress")});
    events.add("response.output_item.added", item);
    events.add("response.content_part.added", at(json!({"part": part("")})));
    let texts: Vec<String> =
        (0..if last { 60 } else { 37 }).map(|n| piece(n, if last { 4 } else { 2 })).collect();
    for text in &texts {
        events.add("response.output_text.delta", at(json!({"delta": text, "logprobs": []})));
    }
    let text = texts.concat();
    events.add("response.output_text.done", at(json!({"text": text, "logprobs": []})));
    events.add("response.content_part.done", at(json!({"part": part(&text)})));
    let said = message_item(&text, "completed");
    events.add("response.output_item.done", json!({"output_index": 0, "item": said}));
    let mut items = vec![said];
    if !last {
        let place = json!({"item_id": "fc_bench_item", "output_index": 1});
        let at = |more: Value| merged(&place, &more);
        let item = json!({"output_index": 1, "item": call_item("", "in_progress")});
        events.add("response.output_item.added", item);
        let pieces = call_input(14);
        for json in &pieces {
            events.add("response.function_call_arguments.delta", at(json!({"delta": json})));
        }
        let whole = json!({"arguments": pieces.concat()});
        events.add("response.function_call_arguments.done", at(whole));
        let item = call_item(&pieces.concat(), "completed");
        events.add("response.output_item.done", json!({"output_index": 1, "item": item}));
        items.push(item);
    }
    events.add("response.completed", json!({"response": responded(0, "completed", items)}));
    events.events
}

/// The head event of a Responses stream.
pub fn response_head(nanos: u128) -> Bytes {
    let mut events = Numbered::default();
    events.add("response.created", json!({"response": responded(nanos, "in_progress", vec![])}));
    events.events.concat().into()
}

#[derive(Default)]
struct Numbered {
    events: Vec<Bytes>,
}

impl Numbered {
    fn add(&mut self, kind: &str, more: Value) {
        let head = json!({"type": kind, "sequence_number": self.events.len()});
        self.events.push(event(kind, merged(&head, &more)));
    }
}

fn merged(first: &Value, second: &Value) -> Value {
    let members = [first, second].into_iter().filter_map(Value::as_object).flatten();
    members.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn responded(nanos: u128, status: &str, output: Vec<Value>) -> Value {
    let usage = json!({"input_tokens": 420, "output_tokens": 700, "total_tokens": 1120});
    let usage = if status == "completed" { usage } else { Value::Null };
    json!({"id": format!("resp_{STAMP}{nanos}"), "object": "response",
        "created_at": 1_790_000_000, "status": status, "model": "gpt-5-mini", "output": output,
        "usage": usage})
}

fn message_item(text: &str, status: &str) -> Value {
    let content = if text.is_empty() { json!([]) } else { json!([part(text)]) };
    json!({"id": "msg_bench_item", "type": "message", "role": "assistant", "status": status,
        "content": content})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn call_item(arguments: &str, status: &str) -> Value {
    json!({"id": "fc_bench_item", "type": "function_call", "status": status,
        "call_id": "call_bench0000000000000001", "name": "read_file", "arguments": arguments})
}

fn chunk(nanos: u128, delta: Value, finish: Option<&str>) -> Bytes {
    data(json!({"id": format!("chatcmpl-{STAMP}{nanos}"), "object": "chat.completion.chunk",
        "created": 1_790_000_000, "model": "gpt-5-mini",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

fn delta(index: usize, delta: Value) -> Bytes {
    let json = json!({"type": "content_block_delta", "index": index, "delta": delta});
    event("content_block_delta", json)
}

fn event(name: &str, json: Value) -> Bytes {
    format!("event: {name}\ndata: {json}\n\n").into()
}

fn data(json: Value) -> Bytes {
    format!("data: {json}\n\n").into()
}

fn usage(output: u64) -> Value {
    json!({"input_tokens": 420, "output_tokens": output,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0})
}

/// The pieces of a call's input: one JSON object together.
fn call_input(length: usize) -> Vec<String> {
    let note = words(PIECES * length);
    let whole = json!({"path": "src/harbour/arrivals.rs", "note": note}).to_string();
    let size = whole.len().div_ceil(PIECES);
    whole.as_bytes().chunks(size).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// A piece of text, as long as a burst of a fast model.
fn piece(n: usize, length: usize) -> String {
    format!("{n} {}", words(length))
}

fn words(length: usize) -> String {
    "the ferry leaves the harbour at dawn and the list keeps its order "
        .chars()
        .cycle()
        .take(length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_of_one_size() {
        for last in [false, true] {
            let all =
                [message_events(last, 0), completion_events(last, 0), response_events(last, 0)];
            for events in all {
                let bytes: usize = events.iter().map(Bytes::len).sum();
                assert!((14_000..16_000).contains(&bytes), "{last}: {bytes} bytes");
                assert_eq!(events.len(), EVENTS);
            }
        }
    }

    #[test]
    fn call_inputs_are_json() {
        assert_eq!(call_input(PIECE).len(), PIECES);
        serde_json::from_str::<Value>(&call_input(PIECE).concat()).expect("JSON");
    }
}
