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

/// What a message says, as blocks.
fn content(message: &Value) -> Vec<Value> {
    let text = message["content"].as_str().filter(|text| !text.is_empty());
    let mut content: Vec<Value> = Vec::from_iter(text.map(|t| json!({"type": "text", "text": t})));
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
    done: bool,
}

impl Reader {
    pub(super) fn done(&mut self) {
        assert!(!self.done && !self.response.stop.is_empty(), "[DONE] before the finish, or twice");
        self.done = true;
        self.response.end = End::Whole;
    }

    pub(super) fn chunk(&mut self, chunk: &Value) {
        assert!(!self.done, "behind [DONE]: {chunk}");
        if let Some(error) = chunk.get("error") {
            let message = error["message"].as_str().expect("a message");
            self.response.end = End::Error(message.to_owned());
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
        let Some(choice) = chunk["choices"].get(0) else { return };
        let delta = &choice["delta"];
        if !self.response.stop.is_empty() {
            assert_eq!(delta, &json!({}), "behind the finish");
            assert!(choice["finish_reason"].is_null(), "a second finish");
        }
        for key in ["content", "reasoning_content", "reasoning"] {
            if let Some(piece) = delta[key].as_str() {
                message[key] =
                    (message[key].as_str().unwrap_or_default().to_owned() + piece).into();
            }
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            call(message, piece);
        }
        if let Some(finish) = choice["finish_reason"].as_str() {
            self.response.stop = finish.to_owned();
        }
    }

    pub(super) fn into_response(self, comments: Vec<String>) -> Response {
        let message = self.message.unwrap_or(Value::Null);
        let (content, items) = (content(&message), vec![message]);
        Response { content, items, comments, ..self.response }
    }
}

fn call(message: &mut Value, piece: &Value) {
    if !message["tool_calls"].is_array() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().expect("a list");
    let at = usize::try_from(piece["index"].as_u64().expect("an index")).expect("small");
    assert!(at <= calls.len(), "indexes count: {piece}");
    if at == calls.len() {
        calls.push(json!({"id": piece["id"], "type": "function",
            "function": {"name": piece["function"]["name"], "arguments": ""}}));
    }
    let call = calls.get_mut(at).expect("a call");
    let function = &mut call["function"];
    let more = piece["function"]["arguments"].as_str().unwrap_or_default();
    function["arguments"] =
        (function["arguments"].as_str().expect("text").to_owned() + more).into();
}
