//! Requests as bodies and as whole HTTP requests with places to write a run's number into: a short
//! history with two tool calls (1.5 KB), and a coding agent's of 1 MB.

#[expect(clippy::unwrap_used, reason = "a corpus that cannot be made should stop")]
#[path = "../../../crates/session/benches/corpus/mod.rs"]
mod corpus;

use memchr::memmem;
use serde_json::{Value, json};

use crate::DONE;

/// Bytes of the short body.
pub const SHORT: usize = 1536;
/// Turns of the long history: about 1 MB.
pub const LONG_TURNS: usize = 400;
/// Tool calls of it are three quarters of this, so that a quarter of its results carry a line.
pub const LONG_LIMIT: u64 = 587;
/// The long history's model; the short one's is another, so that a route can tell them apart.
pub const LONG_MODEL: &str = "claude-opus-5-5";

/// A run's number stands behind this letter.
const NUMBER: &str = "N00000000";
/// A session's name, for a header; its run's number is written into it.
pub const SESSION: &str = "bench-N00000000";
/// In the newest tool result, where the run goes on.
const MORE: &str = "state: more";

/// The API that a gateway's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's.
    Messages,
    /// OpenAI's Chat Completions.
    Chat,
    /// OpenAI's Responses.
    Responses,
}

impl Wire {
    fn path(self) -> &'static str {
        match self {
            Self::Messages => "/v1/messages",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }
}

/// Which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 1.5 KB, answered whole.
    Short,
    /// The same, streamed.
    ShortStream,
    /// 1 MB, answered whole.
    Long,
}

/// A prepared request.
#[derive(Clone)]
pub struct Template {
    bytes: Vec<u8>,
    numbers: Vec<usize>,
    state: Option<usize>,
}

impl Template {
    /// The request with these headers, `host` among them, beside those that its body needs.
    pub fn new(wire: Wire, kind: Kind, headers: &[(String, String)]) -> Self {
        let body = body(wire, kind);
        let mut head = format!(
            "POST {} HTTP/1.1\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n",
            wire.path(),
            body.len()
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let bytes = [head.into_bytes(), body].concat();
        let numbers = memmem::find_iter(&bytes, NUMBER).map(|at| at + 1).collect();
        let state = memmem::rfind(&bytes, MORE.as_bytes());
        Self { bytes, numbers, state }
    }

    /// Makes this a request of that run, its last one or not.
    pub fn set(&mut self, run: u64, last: bool) {
        let digits = format!("{:08}", run % 100_000_000);
        for at in &self.numbers {
            self.bytes[*at..*at + digits.len()].copy_from_slice(digits.as_bytes());
        }
        if let Some(at) = self.state {
            let word = if last { DONE } else { MORE };
            self.bytes[at..at + word.len()].copy_from_slice(word.as_bytes());
        }
    }

    /// The bytes to send.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A request's body.
pub fn body(wire: Wire, kind: Kind) -> Vec<u8> {
    match (wire, kind) {
        (Wire::Messages, Kind::Long) => long_messages(),
        (Wire::Chat | Wire::Responses, Kind::Long) => long_chat(wire),
        (Wire::Messages, kind) => padded(|pad| short_messages(kind, pad)),
        (Wire::Chat, kind) => padded(|pad| short_chat(kind, pad)),
        (Wire::Responses, kind) => padded(|pad| short_responses(kind, pad)),
    }
}

/// The body with as much text in its human message as makes it [`SHORT`].
fn padded(body: impl Fn(&str) -> Value) -> Vec<u8> {
    let missing = SHORT.saturating_sub(body("").to_string().len());
    let pad: String = "Mind the berths and the tides. ".chars().cycle().take(missing).collect();
    body(&pad).to_string().into_bytes()
}

const TASK: &str = "Find out why the list of arrivals loses its order.";
const RESULT: &str = "118: let berth = lock.read().berth(id);\nstate: more";

fn short_messages(kind: Kind, pad: &str) -> Value {
    let session = json!({"session_id": format!("bench-{NUMBER}")}).to_string();
    let call = |n: u32| {
        json!({"role": "assistant", "content": [{"type": "tool_use",
            "id": format!("toolu_01call{NUMBER}{n:04}"), "name": "read_file",
            "input": {"path": format!("src/harbour/part_{n}.rs")}}]})
    };
    let result = |n: u32, text: &str| {
        json!({"role": "user", "content": [{"type": "tool_result",
            "tool_use_id": format!("toolu_01call{NUMBER}{n:04}"), "content": text}]})
    };
    json!({"model": "claude-sonnet-5-5", "max_tokens": 1024, "metadata": {"user_id": session},
        "stream": kind == Kind::ShortStream, "system": "You are a careful engineer.",
        "tools": [{"name": "read_file", "description": "Reads a file.", "input_schema": schema()}],
        "messages": [{"role": "user", "content": format!("Task {NUMBER}. {TASK} {pad}")},
            call(1), result(1, "use std::collections::BTreeMap;"), call(2), result(2, RESULT)]})
}

fn short_chat(kind: Kind, pad: &str) -> Value {
    let call = |n: u32| {
        let arguments = format!("{{\"path\":\"src/harbour/part_{n}.rs\"}}");
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("call_{n}"),
            "type": "function", "function": {"name": "read_file", "arguments": arguments}}]})
    };
    let result = |n: u32, text: &str| json!({"role": "tool", "tool_call_id": format!("call_{n}"), "content": text});
    let tool = json!({"name": "read_file", "description": "Reads a file.", "parameters": schema()});
    json!({"model": "gpt-5-mini", "max_tokens": 1024, "stream": kind == Kind::ShortStream,
        "tools": [{"type": "function", "function": tool}],
        "messages": [{"role": "system", "content": "You are a careful engineer."},
            {"role": "user", "content": format!("Task {NUMBER}. {TASK} {pad}")},
            call(1), result(1, "use std::collections::BTreeMap;"), call(2), result(2, RESULT)]})
}

fn short_responses(kind: Kind, pad: &str) -> Value {
    let call = |n: u32| {
        let arguments = format!("{{\"path\":\"src/harbour/part_{n}.rs\"}}");
        json!({"type": "function_call", "call_id": format!("call_{n}"), "name": "read_file",
            "arguments": arguments})
    };
    let result = |n: u32, text: &str| json!({"type": "function_call_output", "call_id": format!("call_{n}"), "output": text});
    json!({"model": "gpt-5-mini", "max_output_tokens": 1024, "store": false,
        "stream": kind == Kind::ShortStream, "instructions": "You are a careful engineer.",
        "tools": [{"type": "function", "name": "read_file", "description": "Reads a file.",
            "parameters": schema()}],
        "input": [{"role": "user", "content": format!("Task {NUMBER}. {TASK} {pad}")},
            call(1), result(1, "use std::collections::BTreeMap;"), call(2), result(2, RESULT)]})
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]})
}

/// The corpus of the session's benchmark, answered whole, so that what is measured is the request.
fn long_messages() -> Vec<u8> {
    history(LONG_TURNS)
}

/// A coding agent's history of so many turns, about 2.5 KB each, to be answered whole.
pub fn history(turns: usize) -> Vec<u8> {
    let body = corpus::request(turns);
    let whole = b"\"stream\":false";
    match memmem::find(&body, b"\"stream\":true") {
        Some(at) => [&body[..at], whole, &body[at + whole.len() - 1..]].concat(),
        None => body,
    }
}

/// The same history, each message as one text.
fn long_chat(wire: Wire) -> Vec<u8> {
    let request: Value = serde_json::from_slice(&corpus::request(LONG_TURNS)).unwrap_or_default();
    let messages: Vec<Value> = request["messages"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|message| json!({"role": message["role"], "content": text_of(&message["content"])}))
        .collect();
    let body = match wire {
        Wire::Responses => json!({"model": "gpt-5-mini", "store": false, "input": messages}),
        _ => json!({"model": "gpt-5-mini", "max_tokens": 1024, "messages": messages}),
    };
    body.to_string().into_bytes()
}

fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    blocks
        .map(|block| match (&block["text"], &block["content"]) {
            (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
            (_, Value::Array(parts)) => parts[0]["text"].as_str().unwrap_or_default().to_owned(),
            _ => block.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bodies_are_equally_long() {
        for wire in [Wire::Messages, Wire::Chat, Wire::Responses] {
            for kind in [Kind::Short, Kind::ShortStream] {
                assert_eq!(body(wire, kind).len(), SHORT, "{wire:?} {kind:?}");
            }
            assert!((900_000..1_200_000).contains(&body(wire, Kind::Long).len()));
        }
    }

    #[test]
    fn the_run_is_written_everywhere() {
        let mut template = Template::new(Wire::Messages, Kind::Short, &[]);
        template.set(42, true);
        let text = String::from_utf8(template.bytes().to_vec()).expect("text");
        assert!(!text.contains(NUMBER) && text.contains("Task N00000042."));
        assert!(text.contains("bench-N00000042") && text.contains("state: done"));
        let body = text.split("\r\n\r\n").nth(1).expect("a body");
        serde_json::from_str::<Value>(body).expect("JSON");
        template.set(43, false);
        assert!(memmem::find(template.bytes(), b"state: more").is_some());
    }

    #[test]
    fn the_long_one_is_not_streamed() {
        let body = body(Wire::Messages, Kind::Long);
        let request: Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!((&request["stream"], &request["model"]), (&json!(false), &json!(LONG_MODEL)));
    }
}
