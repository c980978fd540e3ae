//! Chat Completions.

use serde_json::{Value, json};

/// Half of a body that is not streamed.
pub(super) const HALF: &str = "{\"id\":\"chatcmpl-script\",\"object\":\"chat.completion\",\
    \"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"";

/// The message that says these blocks.
pub(super) fn message(blocks: &[Value]) -> Value {
    let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let content = if texts.is_empty() { Value::Null } else { texts.concat().into() };
    let mut message = json!({"role": "assistant", "content": content});
    let calls: Vec<Value> = calls(blocks).collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

fn calls(blocks: &[Value]) -> impl Iterator<Item = Value> {
    blocks.iter().filter(|block| block["type"] == "tool_use").map(|block| {
        json!({"id": block["id"], "type": "function",
            "function": {"name": block["name"], "arguments": block["input"].to_string()}})
    })
}

fn finish(stop: &str) -> &str {
    match stop {
        "end_turn" => "stop",
        "tool_use" => "tool_calls",
        "max_tokens" => "length",
        other => other,
    }
}

fn usage([input, output]: [u64; 2]) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output})
}

/// A whole completion.
pub(super) fn body(blocks: &[Value], stop: &str, tokens: [u64; 2]) -> Value {
    json!({"id": "chatcmpl-script", "object": "chat.completion", "created": 1_795_300_000,
        "model": "gpt-4.1", "usage": usage(tokens),
        "choices": [{"index": 0, "message": message(blocks), "logprobs": null,
            "finish_reason": finish(stop)}]})
}

fn chunk(choices: &Value, usage: &Value) -> String {
    let mut chunk = json!({"id": "chatcmpl-script", "object": "chat.completion.chunk",
        "created": 1_795_300_000, "model": "gpt-4.1", "choices": choices});
    if !usage.is_null() {
        chunk["usage"] = usage.clone();
    }
    format!("data: {chunk}\n\n")
}

fn delta(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
    chunk(&json!([choice]), &Value::Null)
}

/// The head, and a text that goes on.
pub(super) fn begun(text: &str) -> String {
    let head = delta(&json!({"role": "assistant", "content": ""}), None);
    if text.is_empty() { head } else { head + &delta(&json!({"content": text}), None) }
}

/// A whole stream.
pub(super) fn events(blocks: &[Value], stop: &str, tokens: Option<[u64; 2]>) -> String {
    let mut events = begun("");
    for block in blocks.iter().filter(|block| block["type"] == "text") {
        events += &delta(&json!({"content": block["text"]}), None);
    }
    for (n, mut call) in calls(blocks).enumerate() {
        let arguments = call["function"]["arguments"].take();
        call["index"] = n.into();
        call["function"]["arguments"] = "".into();
        events += &delta(&json!({"tool_calls": [call]}), None);
        let more = json!({"index": n, "function": {"arguments": arguments}});
        events += &delta(&json!({"tool_calls": [more]}), None);
    }
    events += &delta(&json!({}), Some(finish(stop)));
    if let Some(tokens) = tokens {
        events += &chunk(&json!([]), &usage(tokens));
    }
    events + "data: [DONE]\n\n"
}
