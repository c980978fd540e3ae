//! Every rule as a row: a change to a good request, and the provider's answer to it.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

mod access;
mod contents;
mod fields;
mod thinking;
mod tools;

use crate::support::{body, post, sim};
use serde_json::{Value, json};

const OLD: &str = "claude-sonnet-4-5";
const NEW: &str = "claude-opus-4-8";

/// A round of one call and its result.
fn round() -> Value {
    json!([
        {"role": "user", "content": "find it"},
        {"role": "assistant", "content": [call("toolu_1")]},
        {"role": "user", "content": [result("toolu_1")]},
    ])
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "grep", "input": {"pattern": "x"}})
}

fn result(id: &str) -> Value {
    json!({"type": "tool_result", "tool_use_id": id, "content": "a.md:1:x"})
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn assistant(content: Value) -> Value {
    json!({"role": "assistant", "content": content})
}

fn system(content: &str) -> Value {
    json!({"role": "system", "content": content})
}

/// An empty `said` means that the request is accepted.
#[track_caller]
fn check(name: &str, betas: &str, body: &Value, status: u16, said: &str) {
    let sim = sim("reader");
    let response = post(&sim, 0, "/v1/messages", betas, body);
    let (bytes, _) = response.collect_bytes();
    let reply: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let message = reply["error"]["message"].as_str().unwrap_or("");
    assert_eq!(response.status, status, "{name}: {message}");
    assert!(message.contains(said), "{name}: `{message}` has no `{said}`");
    assert_eq!(sim.refused_requests(), u64::from(status != 200), "{name}");
    if status == 400 {
        assert_eq!(reply["error"]["type"], "invalid_request_error", "{name}");
        let count = post(&sim, 0, "/v1/messages/count_tokens", betas, &counted(body));
        let free = ["max_tokens", "temperature", "top_p", "top_k", "stop_sequences"];
        if !free.iter().any(|f| message.contains(f)) {
            assert_eq!(count.status, 400, "{name}: count_tokens accepts it");
        }
    }
}

fn counted(body: &Value) -> Value {
    let mut body = body.clone();
    let fields = body.as_object_mut().unwrap();
    for key in
        ["max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream", "metadata"]
    {
        fields.remove(key);
    }
    body
}

fn with(model: &str, messages: Value, changes: Value) -> Value {
    let mut body = body(model, messages);
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
            value => body[key] = value.clone(),
        }
    }
    body
}

fn hello() -> Value {
    json!([user(json!("hello"))])
}
