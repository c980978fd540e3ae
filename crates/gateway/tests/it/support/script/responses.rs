//! Responses.

use serde_json::{Value, json};

use super::event;

/// Half of a body that is not streamed.
pub(super) const HALF: &str = "{\"id\":\"resp_script\",\"object\":\"response\",\"output\":[{\
    \"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"";

/// The items that say these blocks.
pub(super) fn items(blocks: &[Value]) -> Vec<Value> {
    let item = |(n, block): (usize, &Value)| match block["type"].as_str() {
        Some("tool_use") => json!({"type": "function_call", "id": format!("fc_script{n}"),
            "call_id": block["id"], "name": block["name"],
            "arguments": block["input"].to_string(), "status": "completed"}),
        _ => json!({"type": "message", "id": format!("msg_script{n}"), "role": "assistant",
            "status": "completed", "content": [part(&block["text"])]}),
    };
    blocks.iter().enumerate().map(item).collect()
}

fn part(text: &Value) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn response(status: &str, output: &[Value], usage: &Value) -> Value {
    json!({"id": "resp_script", "object": "response", "created_at": 1_795_300_000,
        "status": status, "model": "gpt-5.2", "error": null, "incomplete_details": null,
        "output": output, "store": false, "usage": usage})
}

/// A whole response.
pub(super) fn body(blocks: &[Value], stop: &str, [input, output]: [u64; 2]) -> Value {
    let usage = json!({"input_tokens": input, "output_tokens": output,
        "total_tokens": input + output});
    let cut = stop == "max_tokens";
    let status = if cut { "incomplete" } else { "completed" };
    let mut body = response(status, &items(blocks), &usage);
    if cut {
        body["incomplete_details"] = json!({"reason": "max_output_tokens"});
    }
    body
}

/// Numbers the events.
#[derive(Default)]
struct Events {
    text: String,
    next: u64,
}

impl Events {
    fn say(&mut self, mut data: Value) {
        data["sequence_number"] = self.next.into();
        self.next += 1;
        self.text += &event(&data);
    }

    fn begin(&mut self) {
        for kind in ["response.created", "response.in_progress"] {
            let response = response("in_progress", &[], &Value::Null);
            self.say(json!({"type": kind, "response": response}));
        }
    }

    /// Behind the beginning of an item.
    fn about(&mut self, kind: &str, n: usize, id: &Value, more: &[(&str, Value)]) {
        let mut data = json!({"type": kind, "output_index": n, "item_id": id});
        for (key, value) in more {
            data[*key] = value.clone();
        }
        self.say(data);
    }

    fn item(&mut self, n: usize, item: &Value) {
        let mut added = item.clone();
        added["status"] = "in_progress".into();
        let id = &item["id"];
        if item["type"] == "function_call" {
            added["arguments"] = "".into();
            self.say(json!({"type": "response.output_item.added", "output_index": n,
                "item": added}));
            let arguments = &item["arguments"];
            let kind = "response.function_call_arguments";
            self.about(&format!("{kind}.delta"), n, id, &[("delta", arguments.clone())]);
            self.about(&format!("{kind}.done"), n, id, &[("arguments", arguments.clone())]);
        } else {
            let text = &item["content"][0]["text"];
            self.text(n, id, added, text);
            let at = ("content_index", json!(0));
            let done = [at.clone(), ("text", text.clone())];
            self.about("response.output_text.done", n, id, &done);
            self.about("response.content_part.done", n, id, &[at, ("part", part(text))]);
        }
        self.say(json!({"type": "response.output_item.done", "output_index": n, "item": item}));
    }

    /// The beginning of a message, and its text.
    fn text(&mut self, n: usize, id: &Value, mut added: Value, text: &Value) {
        added["content"] = json!([]);
        self.say(json!({"type": "response.output_item.added", "output_index": n, "item": added}));
        let at = ("content_index", json!(0));
        let empty = ("part", part(&json!("")));
        self.about("response.content_part.added", n, id, &[at.clone(), empty]);
        self.about("response.output_text.delta", n, id, &[at, ("delta", text.clone())]);
    }
}

/// The head, and a text that goes on.
pub(super) fn begun(text: &str) -> String {
    let mut events = Events::default();
    events.begin();
    if !text.is_empty() {
        let [item] = items(&[json!({"type": "text", "text": ""})]).try_into().expect("one");
        events.text(0, &item["id"].clone(), item, &json!(text));
    }
    events.text
}

/// A whole stream.
pub(super) fn events(blocks: &[Value], stop: &str, tokens: [u64; 2]) -> String {
    let mut events = Events::default();
    events.begin();
    for (n, item) in items(blocks).iter().enumerate() {
        events.item(n, item);
    }
    let body = body(blocks, stop, tokens);
    let kind = format!("response.{}", body["status"].as_str().expect("a status"));
    events.say(json!({"type": kind, "response": body}));
    events.text
}
