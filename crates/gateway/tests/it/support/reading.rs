//! A response as a strict client reads it: nothing may follow an end, every block has its place.

mod chat;
mod responses;

use serde_json::{Value, json};

use super::Message;

/// The end of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// As the protocol says.
    Whole,
    /// With the protocol's `error` event, or an error as the body.
    Error(String),
    /// It broke off.
    #[default]
    Cut,
}

/// The content of a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) id: String,
    pub(crate) content: Vec<Value>,
    /// The entries for the history, if they are not `content`.
    pub(crate) items: Vec<Value>,
    pub(crate) stop: String,
    pub(crate) usage: Value,
    pub(crate) end: End,
    /// Comments of the stream, without their colon.
    pub(crate) comments: Vec<String>,
}

impl Response {
    /// The visible text.
    pub(crate) fn text(&self) -> String {
        self.content.iter().filter_map(|block| block["text"].as_str()).collect()
    }

    /// Returns true if the model ended the response by itself, with an answer or with calls.
    pub(crate) fn is_natural(&self) -> bool {
        matches!(&*self.stop, "end_turn" | "tool_use" | "stop" | "tool_calls" | "completed")
    }

    /// Id, name and input of each call.
    pub(crate) fn calls(&self) -> Vec<(String, String, Value)> {
        let calls = self.content.iter().filter(|block| block["type"] == "tool_use");
        let text = |block: &Value, key: &str| block[key].as_str().unwrap_or_default().to_owned();
        calls.map(|call| (text(call, "id"), text(call, "name"), call["input"].clone())).collect()
    }
}

/// Reads a response of status 200. Panics where it is none of the protocol.
pub(crate) fn read(message: &Message) -> Response {
    let kind = message.header("content-type").unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        return read_stream(message.text());
    }
    let body: Value = serde_json::from_slice(&message.body).expect("JSON");
    match body["object"].as_str() {
        Some("chat.completion") => return chat::whole(&body),
        Some("response") => return responses::whole(&body),
        _ => {}
    }
    assert_eq!(body["type"], "message", "{body}");
    assert_eq!(body["role"], "assistant", "{body}");
    let mut content = body["content"].as_array().expect("content").clone();
    for block in content.iter_mut().filter(|block| block["type"] == "tool_use") {
        if !block["input"].is_object() {
            block["input"] = json!({"INVALID_JSON": block["input"].to_string()});
        }
    }
    Response {
        id: body["id"].as_str().expect("an id").to_owned(),
        content,
        items: Vec::new(),
        stop: body["stop_reason"].as_str().expect("a stop reason").to_owned(),
        usage: body["usage"].clone(),
        end: End::Whole,
        comments: Vec::new(),
    }
}

/// Reads a stream, as far as it came.
pub(crate) fn read_stream(text: &str) -> Response {
    let frames: Vec<&str> = text.split("\n\n").collect();
    let (last, whole) = frames.split_last().expect("one at least");
    let frames: Vec<Frame> = whole.iter().map(|frame| Frame::of(frame)).collect();
    let comments: Vec<String> = frames.iter().flat_map(|f| f.comments.clone()).collect();
    let events = || frames.iter().filter(|frame| !frame.data.is_empty());
    let first = events().find(|frame| frame.data != "[DONE]").map(Frame::json).unwrap_or_default();
    let kind = first["type"].as_str().unwrap_or_default();
    let bare_error = first["error"].is_object() && kind.is_empty();
    let response = if first["choices"].is_array() || bare_error {
        let mut reader = chat::Reader::default();
        events().for_each(|frame| match &*frame.data {
            "[DONE]" => reader.done(),
            _ => reader.chunk(&frame.json()),
        });
        reader.into_response(comments)
    } else if kind.starts_with("response.") || !first["sequence_number"].is_null() {
        let mut reader = responses::Reader::default();
        events().for_each(|frame| reader.event(&frame.json()));
        reader.into_response(comments)
    } else {
        let mut reader = Reader::default();
        events().for_each(|frame| reader.frame(frame));
        Response { comments, ..reader.response }
    };
    // What stands behind the last blank line is half a frame: only of a stream that was cut.
    assert!(last.is_empty() || response.end == End::Cut, "behind the end: {last:?}");
    response
}

/// The text between two blank lines.
struct Frame {
    name: String,
    data: String,
    comments: Vec<String>,
}

impl Frame {
    fn of(text: &str) -> Self {
        let mut frame = Self { name: String::new(), data: String::new(), comments: Vec::new() };
        for line in text.lines() {
            if let Some(comment) = line.strip_prefix(':') {
                frame.comments.push(comment.trim().to_owned());
            } else if let Some(more) = line.strip_prefix("data:") {
                frame.data += more.trim_start();
            } else if let Some(event) = line.strip_prefix("event:") {
                event.trim().clone_into(&mut frame.name);
            }
        }
        frame
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.data).expect("an event is JSON")
    }
}

#[derive(Default)]
struct Reader {
    response: Response,
    started: bool,
    open: Option<String>,
    inputs: String,
    ends: u32,
}

impl Reader {
    fn frame(&mut self, frame: &Frame) {
        assert_eq!(self.response.end, End::Cut, "something follows the end: {}", frame.data);
        let event = frame.json();
        assert_eq!(event["type"], frame.name.as_str(), "the event's name is its type: {event}");
        self.event(&event);
    }

    fn event(&mut self, event: &Value) {
        let kind = event["type"].as_str().expect("a type");
        let first = kind == "message_start" || kind == "error" || kind == "ping";
        assert!(self.started || first, "{kind} stands before the head");
        match kind {
            "message_start" => {
                assert!(!self.started, "a second head");
                self.started = true;
                let message = &event["message"];
                self.response.id = message["id"].as_str().expect("an id").to_owned();
                self.response.usage = message["usage"].clone();
                assert_eq!(message["content"], json!([]));
            }
            "content_block_start" => self.block(event),
            "content_block_delta" => self.delta(event),
            "content_block_stop" => self.close(event),
            "message_delta" => {
                assert!(self.open.is_none(), "the message ends within a block");
                assert_eq!(self.ends, 0, "a second message_delta");
                self.ends += 1;
                let stop = event["delta"]["stop_reason"].as_str();
                self.response.stop = stop.expect("a stop reason").to_owned();
                self.response.usage = event["usage"].clone();
            }
            "message_stop" => {
                assert_eq!(self.ends, 1, "message_stop without message_delta");
                self.response.end = End::Whole;
            }
            "error" => {
                let message = event["error"]["message"].as_str().expect("a message");
                self.response.end = End::Error(message.to_owned());
            }
            "ping" => {}
            other => panic!("no event of the protocol: {other}"),
        }
    }

    fn block(&mut self, event: &Value) {
        assert!(self.open.is_none() && self.ends == 0, "blocks follow one another: {event}");
        assert_eq!(event["index"], self.response.content.len(), "indexes count: {event}");
        let block = &event["content_block"];
        self.open = Some(block["type"].as_str().expect("a type").to_owned());
        self.inputs.clear();
        self.response.content.push(block.clone());
    }

    fn delta(&mut self, event: &Value) {
        let open = self.open.as_deref().expect("a delta stands in its block");
        assert_eq!(event["index"], self.response.content.len() - 1);
        let block = self.response.content.last_mut().expect("a block");
        let delta = &event["delta"];
        let (key, of) = match delta["type"].as_str().expect("a type") {
            "text_delta" => ("text", "text"),
            "thinking_delta" => ("thinking", "thinking"),
            "signature_delta" => ("signature", "thinking"),
            "input_json_delta" => {
                assert!(open.ends_with("tool_use"), "arguments in {open}");
                self.inputs += delta["partial_json"].as_str().expect("a piece");
                return;
            }
            other => panic!("no delta of the protocol: {other}"),
        };
        assert_eq!(open, of, "{delta} in {open}");
        let more = delta[key].as_str().expect("a text");
        block[key] = json!(block[key].as_str().unwrap_or_default().to_owned() + more);
    }

    fn close(&mut self, event: &Value) {
        assert!(self.open.take().is_some(), "an end without its block: {event}");
        assert_eq!(event["index"], self.response.content.len() - 1);
        if !self.inputs.trim().is_empty() {
            let block = self.response.content.last_mut().expect("a block");
            // What clients do with a provider's mistakes.
            block["input"] = serde_json::from_str(&self.inputs)
                .ok()
                .filter(Value::is_object)
                .unwrap_or_else(|| json!({"INVALID_JSON": self.inputs}));
        }
    }
}
