//! Chat Completions, read strictly: one head, one finish, one end.

use serde_json::{Value, json};

use super::{End, Response};

/// A whole response.
pub(super) fn whole(body: &Value) -> Response {
    let choice = &body["choices"][0];
    let message = &choice["message"];
    assert_eq!(message["role"], "assistant", "{body}");
    Response {
        id: body["id"].as_str().expect("an id").to_owned(),
        content: content(message),
        items: vec![message.clone()],
        stop: choice["finish_reason"].as_str().expect("a finish reason").to_owned(),
        usage: body["usage"].clone(),
        end: End::Whole,
        comments: Vec::new(),
    }
}

/// Converts a message to blocks.
fn content(message: &Value) -> Vec<Value> {
    let mut content: Vec<Value> = Vec::new();
    let text = |key: &str| message[key].as_str().filter(|text| !text.is_empty());
    let thought = text("reasoning_content").or_else(|| text("reasoning"));
    if thought.is_some() || message["reasoning_details"].is_array() {
        content.push(json!({"type": "thinking", "thinking": thought}));
    }
    for said in ["content", "refusal"].into_iter().filter_map(text) {
        content.push(json!({"type": "text", "text": said}));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().expect("arguments");
        let input = serde_json::from_str(arguments).unwrap_or(Value::Null);
        content.push(json!({"type": "tool_use", "id": call["id"], "name": function["name"],
            "input": input}));
    }
    content
}

/// The chunks of a stream, as far as they came.
#[derive(Default)]
pub(super) struct Reader {
    response: Response,
    message: Option<Value>,
    /// Of each call, in order.
    indexes: Vec<u64>,
    done: bool,
}

impl Reader {
    pub(super) fn done(&mut self) {
        assert!(!self.done, "[DONE] twice");
        self.done = true;
        // Vendors say it behind an error, too.
        if self.response.end == End::Cut {
            assert!(!self.response.stop.is_empty(), "[DONE] before the finish");
            self.response.end = End::Whole;
        }
    }

    pub(super) fn chunk(&mut self, chunk: &Value) {
        assert!(!self.done && self.response.end == End::Cut, "behind the end: {chunk}");
        if let Some(error) = chunk.get("error") {
            let message = error["message"].as_str().expect("a message");
            self.response.end = End::Error(message.to_owned());
            return;
        }
        let choice = &chunk["choices"][0];
        if self.message.is_none() && choice.is_null() && chunk["object"] == "" {
            // What Azure says of its filters before it begins.
            return;
        }
        assert_eq!(chunk["object"], "chat.completion.chunk", "{chunk}");
        let id = chunk["id"].as_str().expect("an id");
        if self.message.is_none() {
            self.response.id = id.to_owned();
        }
        assert_eq!(self.response.id, id, "one id");
        if !chunk["usage"].is_null() {
            self.response.usage = chunk["usage"].clone();
        }
        let message =
            self.message.get_or_insert_with(|| json!({"role": "assistant", "content": null}));
        if choice.is_null() {
            return;
        }
        let delta = &choice["delta"];
        let finish = choice["finish_reason"].as_str();
        if !self.response.stop.is_empty() {
            let says = |(key, value): (&String, &Value)| {
                key != "role" && !value.is_null() && value.as_str() != Some("")
            };
            assert!(!delta.as_object().expect("a delta").iter().any(says), "behind the finish");
            // Vendors repeat it with the usage.
            assert!(finish.is_none_or(|f| f == self.response.stop), "a second finish");
        }
        for key in ["content", "reasoning_content", "reasoning", "refusal"] {
            if let Some(piece) = delta[key].as_str() {
                message[key] =
                    (message[key].as_str().unwrap_or_default().to_owned() + piece).into();
            }
        }
        if let Some(details) = delta["reasoning_details"].as_array() {
            let had = message["reasoning_details"].as_array().cloned().unwrap_or_default();
            message["reasoning_details"] = [had, details.clone()].concat().into();
        }
        // The index of Anthropic's layer is that of the content block.
        let gaps = chunk["model"].as_str().is_some_and(|model| model.starts_with("claude-"));
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            call(message, &mut self.indexes, piece, gaps);
        }
        if let Some(finish) = finish {
            self.response.stop = finish.to_owned();
        }
    }

    pub(super) fn into_response(self, comments: Vec<String>) -> Response {
        let message = self.message.unwrap_or(Value::Null);
        let (content, items) = (content(&message), vec![message]);
        Response { content, items, comments, ..self.response }
    }
}

fn call(message: &mut Value, indexes: &mut Vec<u64>, piece: &Value, gaps: bool) {
    if !message["tool_calls"].is_array() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().expect("a list");
    let index = piece["index"].as_u64().expect("an index");
    let known = indexes.iter().position(|known| *known == index);
    let at = known.unwrap_or_else(|| {
        let next = indexes.last().map_or(0, |last| last + 1);
        assert!(index == next || (gaps && index > next), "indexes count: {piece}");
        indexes.push(index);
        calls.push(json!({"id": piece["id"], "type": "function",
            "function": {"name": piece["function"]["name"], "arguments": ""}}));
        calls.len() - 1
    });
    assert_eq!(at + 1, calls.len(), "one call after the other: {piece}");
    let function = &mut calls.get_mut(at).expect("a call")["function"];
    let more = piece["function"]["arguments"].as_str().unwrap_or_default();
    function["arguments"] =
        (function["arguments"].as_str().expect("text").to_owned() + more).into();
}
