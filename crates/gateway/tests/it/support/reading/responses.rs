//! Responses, read strictly: numbered events, items in order, one end that repeats what was shown.

use serde_json::{Value, json};

use super::{End, Response};

/// A whole response.
pub(super) fn whole(body: &Value) -> Response {
    let items = body["output"].as_array().expect("an output").clone();
    Response {
        id: body["id"].as_str().expect("an id").to_owned(),
        content: items.iter().filter_map(block).collect(),
        items,
        stop: body["status"].as_str().expect("a status").to_owned(),
        usage: body["usage"].clone(),
        end: match body["error"]["message"].as_str() {
            Some(message) if body["status"] == "failed" => End::Error(message.to_owned()),
            _ => End::Whole,
        },
        comments: Vec::new(),
    }
}

/// Converts an item to a block.
fn block(item: &Value) -> Option<Value> {
    match item["type"].as_str().expect("a type") {
        "message" => {
            let parts = item["content"].as_array().into_iter().flatten();
            let says = |part: &'_ Value| {
                part["text"].as_str().or_else(|| part["refusal"].as_str()).map(str::to_owned)
            };
            let text: String = parts.filter_map(says).collect();
            Some(json!({"type": "text", "text": text}))
        }
        "function_call" => {
            let arguments = item["arguments"].as_str().expect("arguments");
            let input: Value = serde_json::from_str(arguments).unwrap_or(Value::Null);
            Some(json!({"type": "tool_use", "id": item["call_id"], "name": item["name"],
                "input": input}))
        }
        "reasoning" => Some(json!({"type": "thinking", "thinking": item["summary"].to_string()})),
        _ => None,
    }
}

/// The events of a stream, as far as they came.
#[derive(Default)]
pub(super) struct Reader {
    response: Response,
    next: u64,
    items: Vec<Value>,
    texts: String,
    over: bool,
}

impl Reader {
    pub(super) fn event(&mut self, event: &Value) {
        assert!(!self.over, "behind the end: {event}");
        assert_eq!(event["sequence_number"], self.next, "numbers count: {event}");
        self.next += 1;
        let kind = event["type"].as_str().expect("a type");
        match kind {
            "response.created" => {
                let id = event["response"]["id"].as_str().expect("an id");
                assert!(self.response.id.is_empty(), "a second head");
                self.response.id = id.to_owned();
            }
            "response.completed" | "response.incomplete" => self.end(&event["response"]),
            "response.failed" => {
                self.over = true;
                let message = event["response"]["error"]["message"].as_str().expect("a message");
                self.response.end = End::Error(message.to_owned());
            }
            "error" => {
                // In the open, as the SDKs have it, or within, as it was recorded.
                let error = if event["error"].is_object() { &event["error"] } else { event };
                let message = error["message"].as_str().expect("a message");
                self.response.end = End::Error(message.to_owned());
            }
            "response.output_item.added" => {
                assert_eq!(event["output_index"], self.items.len(), "{event}");
                self.items.push(Value::Null);
                self.texts.clear();
            }
            "response.output_item.done" => {
                assert_eq!(event["output_index"], self.items.len() - 1, "{event}");
                let item = self.items.last_mut().expect("an item");
                assert!(item.is_null(), "ended twice: {event}");
                *item = event["item"].clone();
            }
            "response.output_text.delta" => {
                self.texts += event["delta"].as_str().expect("a piece");
            }
            _ => {}
        }
    }

    fn end(&mut self, response: &Value) {
        self.over = true;
        let strip = |item: &Value| {
            let mut item = item.clone();
            // It differs from event to event (recorded).
            item.as_object_mut().expect("an item").remove("encrypted_content");
            item
        };
        let output: Vec<Value> =
            response["output"].as_array().expect("an output").iter().map(strip).collect();
        let shown: Vec<Value> = self.items.iter().map(strip).collect();
        assert_eq!(output, shown, "the end repeats what was shown");
        assert_eq!(response["id"], self.response.id.as_str(), "one id");
        let comments = std::mem::take(&mut self.response.comments);
        self.response = Response { comments, ..whole(response) };
    }

    pub(super) fn into_response(mut self, comments: Vec<String>) -> Response {
        if !self.over {
            self.response.content =
                self.items.iter().filter(|i| !i.is_null()).filter_map(block).collect();
            if self.items.last().is_some_and(Value::is_null) && !self.texts.is_empty() {
                self.response.content.push(json!({"type": "text", "text": self.texts}));
            }
        }
        Response { comments, ..self.response }
    }
}
