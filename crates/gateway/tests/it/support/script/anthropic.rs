//! Messages.

use serde_json::{Value, json};

use super::{INPUT, event};

/// Half of a body that is not streamed.
pub(super) const HALF: &str = "{\"type\":\"message\",\"content\":[{\"type\":\"text\",\"text\":\"";

/// A whole message.
pub(super) fn body(blocks: &[Value], stop: &str, [input, output]: [u64; 2]) -> Value {
    json!({"id": "msg_script", "type": "message", "role": "assistant",
        "model": "claude-sonnet-4-5", "content": blocks, "stop_reason": stop,
        "stop_sequence": null, "usage": {"input_tokens": input, "output_tokens": output}})
}

fn head(input: u64) -> String {
    event(&json!({"type": "message_start", "message": {"id": "msg_script", "type": "message",
        "role": "assistant", "content": [], "model": "claude-sonnet-4-5", "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": input, "output_tokens": 1}}}))
}

/// The head, and a text that goes on.
pub(super) fn begun(text: &str) -> String {
    let mut events = head(INPUT);
    if !text.is_empty() {
        events += &event(&json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}}));
        events += &event(&json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": text}}));
    }
    events
}

/// A whole stream.
pub(super) fn events(blocks: &[Value], stop: &str, [input, output]: [u64; 2]) -> String {
    let mut events = head(input);
    for (n, block) in blocks.iter().enumerate() {
        let mut start = block.clone();
        let delta = match block["type"].as_str() {
            Some("text") => json!({"type": "text_delta", "text": block["text"]}),
            Some("tool_use") => {
                json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
            }
            _ => Value::Null,
        };
        match start["type"].as_str() {
            Some("text") => start["text"] = json!(""),
            Some("tool_use") => start["input"] = json!({}),
            _ => {}
        }
        events +=
            &event(&json!({"type": "content_block_start", "index": n, "content_block": start}));
        if !delta.is_null() {
            events += &event(&json!({"type": "content_block_delta", "index": n, "delta": delta}));
        }
        events += &event(&json!({"type": "content_block_stop", "index": n}));
    }
    let usage = json!({"input_tokens": input, "output_tokens": output});
    events += &event(&json!({"type": "message_delta",
        "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}));
    events + &event(&json!({"type": "message_stop"}))
}
