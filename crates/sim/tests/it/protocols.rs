//! OpenAI's protocols beside Anthropic's: scenarios that act the same in all of them, and the
//! rules, billing and responses of each.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

mod apis;
mod cache;
mod chat;
mod dialects;
mod garbage;
mod reasoning;
mod responses;
mod scenarios;
mod served;

use apis::Api;
use serde_json::Value;
use softland_sim::Sim;

/// An empty `said` means that the request is accepted.
#[track_caller]
fn check(api: Api, name: &str, body: &Value, status: u16, said: &str) {
    let sim = apis::sim("reader");
    check_with(&sim, api, name, body, status, said);
    assert_eq!(sim.refused_requests(), u64::from(status != 200), "{name}");
}

#[track_caller]
fn check_with(sim: &Sim, api: Api, name: &str, body: &Value, status: u16, said: &str) {
    let (got, reply) = api.json(sim, body);
    let error = &reply["error"];
    let message = error["message"].as_str().unwrap_or("");
    let raw = error["metadata"]["raw"].as_str().unwrap_or("");
    assert_eq!(got, status, "{name}: {error}");
    assert!(message.contains(said) || raw.contains(said), "{name}: `{error}` has no `{said}`");
}

/// Returns a body with some fields set, and others (`null`) removed.
fn with(mut body: Value, changes: Value) -> Value {
    for (key, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(key)),
            value => body[key] = value.clone(),
        }
    }
    body
}
