//! Helpers that the tests of this crate share: a client with its own reader of the protocols.
#![expect(clippy::unwrap_used, reason = "a test helper: to panic is to fail the test")]

use serde_json::{Value, json};
use softland_sim::{Config, Request, Response, Scenario, Sim};

pub(crate) const STRICT: &str = "claude-opus-5-5";

pub(crate) fn sim(scenario: &str) -> Sim {
    Sim::new(Config::new(Scenario::from_name(scenario).unwrap()))
}

pub(crate) fn post(sim: &Sim, now: u64, path: &str, betas: &str, body: &Value) -> Response {
    let headers =
        [("x-api-key", "k"), ("anthropic-version", "2023-06-01"), ("anthropic-beta", betas)]
            .map(|(k, v)| (k.to_owned(), v.to_owned()));
    let body = serde_json::to_vec(body).unwrap();
    sim.respond(now, &Request { method: "POST", path, headers: &headers, body: &body })
}

/// Returns the status and JSON of a request that does not stream.
pub(crate) fn ask(sim: &Sim, body: &Value) -> (u16, Value) {
    ask_at(sim, 0, body)
}

pub(crate) fn ask_at(sim: &Sim, now: u64, body: &Value) -> (u16, Value) {
    let response = post(sim, now, "/v1/messages", "", body);
    let (bytes, _) = response.collect_bytes();
    (response.status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// Returns the events of a stream.
pub(crate) fn events(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    text.split("\n\n")
        .filter_map(|event| event.lines().find_map(|l| l.strip_prefix("data: ")))
        .filter_map(|data| serde_json::from_str(data).ok())
        .collect()
}

/// Returns the message that a stream builds.
pub(crate) fn assemble(events: &[Value]) -> Value {
    let mut message = Value::Null;
    let mut json = String::new();
    for event in events {
        match event["type"].as_str().unwrap() {
            "message_start" => message = event["message"].clone(),
            "content_block_start" => {
                json.clear();
                message["content"].as_array_mut().unwrap().push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let last = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                for (delta, field) in
                    [("text", "text"), ("thinking", "thinking"), ("signature", "signature")]
                {
                    if let Some(piece) = event["delta"][delta].as_str() {
                        last[field] = format!("{}{piece}", last[field].as_str().unwrap()).into();
                    }
                }
                json.push_str(event["delta"]["partial_json"].as_str().unwrap_or(""));
            }
            "content_block_stop" => {
                let last = message["content"].as_array_mut().unwrap().last_mut().unwrap();
                if !json.is_empty() {
                    last["input"] = serde_json::from_str(&json).unwrap_or_else(|_| json!({}));
                }
            }
            "message_delta" => {
                for (key, value) in event["delta"].as_object().unwrap() {
                    message[key] = value.clone();
                }
                for (key, value) in event["usage"].as_object().unwrap() {
                    message["usage"][key] = value.clone();
                }
            }
            _ => {}
        }
    }
    message
}

pub(crate) fn tool(name: &str, properties: &[&str]) -> Value {
    let fields: serde_json::Map<String, Value> =
        properties.iter().map(|p| ((*p).to_owned(), json!({"type": "string"}))).collect();
    json!({"name": name, "description": name,
        "input_schema": {"type": "object", "properties": fields, "required": [properties[0]]}})
}

pub(crate) fn tools() -> Value {
    let mut read = tool("read_file", &["path"]);
    for field in ["offset", "limit"] {
        read["input_schema"]["properties"][field] = json!({"type": "integer"});
    }
    json!([tool("list_dir", &["path"]), tool("grep", &["pattern", "path"]), read])
}

pub(crate) fn body(model: &str, messages: Value) -> Value {
    json!({"model": model, "max_tokens": 4096, "messages": messages, "tools": tools()})
}

/// The result of a run of [`drive`].
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) calls: Vec<(String, Value)>,
    pub(crate) requests: usize,
    pub(crate) last: Value,
    pub(crate) messages: Vec<Value>,
}

impl Run {
    pub(crate) fn text(&self) -> String {
        let blocks = self.last["content"].as_array().cloned().unwrap_or_default();
        blocks.iter().filter_map(|b| b["text"].as_str()).collect()
    }
}

/// Runs a plain tool loop: answers calls with `tool`, and ends at the first turn without calls or
/// after `most` requests.
pub(crate) fn drive(
    sim: &Sim,
    mut body: Value,
    most: usize,
    mut tool: impl FnMut(&str, &Value) -> Value,
) -> Run {
    let mut run = Run { calls: Vec::new(), requests: 0, last: Value::Null, messages: Vec::new() };
    while run.requests < most {
        let (status, reply) = ask(sim, &body);
        run.requests += 1;
        assert_eq!(status, 200, "{reply}");
        run.last = reply;
        let content = run.last["content"].as_array().unwrap().clone();
        let results: Vec<Value> = content
            .iter()
            .filter(|b| b["type"] == "tool_use")
            .map(|call| {
                let name = call["name"].as_str().unwrap();
                run.calls.push((name.to_owned(), call["input"].clone()));
                let content = tool(name, &call["input"]);
                json!({"type": "tool_result", "tool_use_id": call["id"], "content": content})
            })
            .collect();
        let messages = body["messages"].as_array_mut().unwrap();
        if !content.is_empty() {
            messages.push(json!({"role": "assistant", "content": content}));
        }
        run.messages.clone_from(messages);
        if results.is_empty() {
            break;
        }
        messages.push(json!({"role": "user", "content": results}));
    }
    run
}
