//! No request makes the simulator panic: every answer has one of the provider's statuses, and every
//! refusal a message.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support;

use proptest::prelude::*;
use serde_json::{Value, json};
use softland_sim::{Binding, Config, Request, Scenario, Sim};

/// A request with every kind of content.
fn rich() -> Value {
    json!({
        "model": "claude-opus-4-8", "max_tokens": 64, "stream": true, "temperature": 1,
        "stop_sequences": ["END"], "cache_control": {"type": "ephemeral"},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": true},
        "output_config": {"effort": "low"},
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "tools": support::tools(),
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "héllo"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sim1.claude-opus-4-8.1.0.1.0.2.3"},
                {"type": "tool_use", "id": "toolu_01Sim00000001m9t1c1", "name": "grep", "input": {"pattern": "x"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01Sim00000001m9t1c1", "content": [{"type": "text", "text": "a:1:x"}]}]},
            {"role": "system", "content": "go on"},
        ],
    })
}

/// Replaces the `n`-th value of a tree, in its own order.
fn replace(value: &mut Value, n: &mut usize, with: &Value) {
    if *n == 0 {
        *value = with.clone();
        *n = usize::MAX;
        return;
    }
    *n = n.saturating_sub(1);
    match value {
        Value::Array(items) => items.iter_mut().for_each(|v| replace_in(v, n, with)),
        Value::Object(fields) => fields.values_mut().for_each(|v| replace_in(v, n, with)),
        _ => {}
    }
}

fn replace_in(value: &mut Value, n: &mut usize, with: &Value) {
    if *n < 1_000_000 {
        replace(value, n, with);
    }
}

fn send(sim: &Sim, path: &str, body: &[u8]) -> u16 {
    let headers = [("x-api-key", "k"), ("anthropic-version", "2023-06-01")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()));
    let response = sim.respond(0, &Request { method: "POST", path, headers: &headers, body });
    if response.status != 200 {
        let reply: Value = serde_json::from_slice(&response.collect_bytes().0).unwrap();
        assert!(!reply["error"]["message"].as_str().unwrap().is_empty(), "{reply}");
    }
    response.status
}

fn anything() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!(true)),
        any::<i64>().prop_map(Value::from),
        Just(json!(1e300)),
        "[ -~é\n]{0,12}".prop_map(Value::from),
        Just(json!([])),
        Just(json!([null])),
        Just(json!({})),
        Just(json!({"type": "text", "text": "x"})),
        Just(json!("sim1.claude-opus-4-8.ffffffffffffffff.9.9.1.1.1")),
        Just(json!("toolu_01Simfffm99999999999999999999t1c1")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn changed_requests_are_answered(
        changes in prop::collection::vec((0..90_usize, anything()), 0..4),
        scenario in prop::sample::select(Scenario::builtin_names().map(|(n, _)| n).collect::<Vec<_>>()),
        count in any::<bool>(),
    ) {
        let mut body = rich();
        for (mut n, with) in changes {
            replace(&mut body, &mut n, &with);
        }
        let sim = Sim::new(Config {
            accept_foreign_signatures: count,
            binding: Binding::Always,
            piece_bytes: Some(3),
            ..Config::new(Scenario::from_name(scenario).unwrap())
        });
        let path = if count { "/v1/messages/count_tokens" } else { "/v1/messages" };
        let status = send(&sim, path, body.to_string().as_bytes());
        prop_assert!([200, 400, 404, 529].contains(&status), "{status}");
    }

    #[test]
    fn bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let sim = support::sim("reader");
        prop_assert_eq!(send(&sim, "/v1/messages", &bytes), 400);
    }
}

#[test]
fn deep_nesting_is_refused() {
    let body = "[".repeat(100_000);
    assert_eq!(send(&support::sim("reader"), "/v1/messages", body.as_bytes()), 400);
}
