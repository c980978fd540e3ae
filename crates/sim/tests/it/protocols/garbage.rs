//! No request makes the simulator panic: every answer has one of the vendor's statuses, and every
//! refusal a message.

use crate::protocols::apis::{Api, user};
use proptest::prelude::*;
use serde_json::{Value, json};
use softland_sim::{Config, Request, Scenario, Sim};

/// A request with every kind of content.
fn rich(api: Api, model: &str) -> Value {
    let mut body = api.body(model, vec![user("héllo")]);
    body["stream"] = true.into();
    body["tool_choice"] = "auto".into();
    body["parallel_tool_calls"] = false.into();
    let more = match api {
        Api::Chat => vec![
            json!({"role": "user", "content": [{"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "data:"}}]}),
            json!({"role": "assistant", "content": null, "reasoning_content": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0,
                    "signature": "simr.1.0.0"}],
                "tool_calls": [{"id": "call_sim00000001r0i0", "type": "function",
                    "function": {"name": "grep", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "call_sim00000001r0i0", "content": "a:1:x"}),
        ],
        _ => vec![
            json!({"type": "reasoning", "id": "rs_sim00000001rxi0", "summary": [],
                "encrypted_content": "simr.1.0.0"}),
            json!({"type": "function_call", "id": "fc_sim00000001r0i1", "call_id": "c",
                "name": "grep", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c", "output": [
                {"type": "input_text", "text": "x"}]}),
        ],
    };
    if api == Api::Responses {
        body["reasoning"] = json!({"effort": "low", "summary": "auto"});
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    api.push(&mut body, more);
    body
}

/// Replaces the `n`-th value of a tree, in its own order; counts down.
fn replace(value: &mut Value, n: &mut usize, with: &Value) -> bool {
    if *n == 0 {
        *value = with.clone();
        return true;
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().any(|v| replace(v, n, with)),
        Value::Object(fields) => fields.values_mut().any(|v| replace(v, n, with)),
        _ => false,
    }
}

fn send(sim: &Sim, path: &str, body: &[u8]) -> u16 {
    let headers = [("authorization".to_owned(), "Bearer k".to_owned())];
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
        Just(json!({"type": "item_reference", "id": "x"})),
        Just(json!("simr.ffffffffffffffff.9.1")),
        Just(json!("call_simffffffffffffffffr99999999999999999999i1")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn changed_requests_are_answered(
        changes in prop::collection::vec((0..70_usize, anything()), 0..4),
        scenario in prop::sample::select(Scenario::builtin_names().map(|(n, _)| n).collect::<Vec<_>>()),
        api in prop::sample::select(vec![Api::Chat, Api::Responses]),
        model in prop::sample::select(vec!["gpt-4o", "gpt-5.6", "deepseek-v4-flash",
            "anthropic/claude-haiku-4.5", "glm-4.7", "llama-3.3-70b-versatile", "model-router",
            "claude-haiku-4-5"]),
        lenient in any::<bool>(),
    ) {
        let mut body = rich(api, model);
        for (mut n, with) in changes {
            replace(&mut body, &mut n, &with);
        }
        let sim = Sim::new(Config {
            accept_foreign_signatures: lenient,
            piece_bytes: Some(3),
            rotate_item_ids: lenient,
            ..Config::new(Scenario::from_name(scenario).unwrap())
        });
        let status = send(&sim, api.path(), body.to_string().as_bytes());
        prop_assert!([200, 400, 404, 500, 503].contains(&status), "{status}");
    }

    #[test]
    fn bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let sim = crate::protocols::apis::sim("reader");
        for api in [Api::Chat, Api::Responses] {
            prop_assert_eq!(send(&sim, api.path(), &bytes), 400);
        }
    }
}
