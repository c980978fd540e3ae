//! A response as a client reads it, with a small reader of its own that takes nothing for granted.

use serde_json::{Value, json};

/// What a response says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) content: Vec<Value>,
    pub(crate) stop: String,
    /// It came to its end.
    pub(crate) whole: bool,
    /// Id, name and input of each call.
    pub(crate) calls: Vec<(String, String, Value)>,
    /// What goes back into the history, where the content does not stand for it.
    pub(crate) items: Vec<Value>,
}

/// Reads a response.
pub(crate) fn read(bytes: &[u8], streams: bool) -> Response {
    let mut reply = Response::default();
    if streams {
        read_stream(bytes, &mut reply);
    } else if let Ok(message) = serde_json::from_slice::<Value>(bytes) {
        reply.content = message["content"].as_array().cloned().unwrap_or_default();
        reply.stop = message["stop_reason"].as_str().unwrap_or_default().to_owned();
        reply.whole = true;
    }
    for (n, block) in reply.content.iter_mut().enumerate() {
        if block["type"] == "tool_use" {
            // What clients do with a provider's mistakes.
            if block["id"] == "" {
                block["id"] = json!(format!("call_{n}"));
            }
            if !block["input"].is_object() {
                block["input"] = json!({"INVALID_JSON": block["input"].to_string()});
            }
            let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
            reply.calls.push((text("id"), text("name"), block["input"].clone()));
        }
    }
    reply
}

fn read_stream(bytes: &[u8], reply: &mut Response) {
    let text = std::str::from_utf8(bytes).unwrap();
    let mut json = String::new();
    let mut open = false;
    let mut starts = 0;
    for frame in text.split("\n\n").filter(|frame| !frame.trim().is_empty()) {
        let data = frame.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or("{}");
        // Half an event stands at the end of a stream that was cut, and only there.
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        assert!(!reply.whole, "something follows the end: {event}");
        let index = event["index"].as_u64().map(|n| n as usize);
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                starts += 1;
                assert_eq!(starts, 1, "one head");
            }
            "content_block_start" => {
                assert!(!open && starts == 1, "blocks follow one another: {text}");
                assert_eq!(index, Some(reply.content.len()), "indexes count: {text}");
                open = true;
                json.clear();
                reply.content.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                assert!(open, "a delta without its block: {text}");
                assert_eq!(index, Some(reply.content.len() - 1));
                let block = reply.content.last_mut().unwrap();
                let delta = &event["delta"];
                let add = |block: &mut Value, key: &str| {
                    let more = delta[key].as_str().unwrap();
                    block[key] = json!(block[key].as_str().unwrap_or_default().to_owned() + more);
                };
                match delta["type"].as_str().unwrap() {
                    "text_delta" => add(block, "text"),
                    "thinking_delta" => add(block, "thinking"),
                    "signature_delta" => add(block, "signature"),
                    "input_json_delta" => json.push_str(delta["partial_json"].as_str().unwrap()),
                    other => panic!("unknown delta {other}"),
                }
            }
            "content_block_stop" => {
                assert!(open, "an end without its block: {text}");
                open = false;
                if !json.trim().is_empty() {
                    let block = reply.content.last_mut().unwrap();
                    block["input"] = serde_json::from_str(&json)
                        .ok()
                        .filter(Value::is_object)
                        .unwrap_or_else(|| json!({"INVALID_JSON": json}));
                }
            }
            "message_delta" => {
                assert!(!open, "the message ends within a block: {text}");
                let stop = event["delta"]["stop_reason"].as_str();
                reply.stop = stop.unwrap_or_default().to_owned();
            }
            "message_stop" => reply.whole = true,
            _ => {}
        }
    }
}

/// Which way of being empty a response is, if it is.
pub(crate) fn way_of_being_empty(bytes: &[u8], streams: bool) -> Option<&'static str> {
    if bytes.windows(12).any(|part| part == b"event: error") {
        return None;
    }
    let reply = read(bytes, streams);
    let says = |block: &Value| {
        block["type"] == "tool_use"
            || block["text"].as_str().is_some_and(|text| !text.trim().is_empty())
    };
    if !reply.whole || reply.stop != "end_turn" || reply.content.iter().any(says) {
        return None;
    }
    let is = |kind: &str| reply.content.iter().any(|block| block["type"] == kind);
    Some(match reply.content.len() {
        0 => "way no block",
        _ if is("text") => "way blank",
        _ => "way thinking",
    })
}
