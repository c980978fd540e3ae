//! What a client of a gateway sees of one request: defects that real clients have met.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::Role;
use softland_core::policy::{Policy, PolicyValue as Key};
use softland_session::wire::Api;
use softland_session::{Context, Exchange, Output, Step};

fn begin(body: &Value, key: (&str, Key)) -> Exchange {
    let mut policy = Policy::default();
    policy.set_key(key.0, &key.1).unwrap();
    let context = Context::new(Role::Gateway, policy, None, "claude-sonnet-4-5");
    Exchange::from_request(body.to_string().into_bytes(), context, &mut Output::default()).unwrap()
}

fn sent(exchange: &mut Exchange) -> Value {
    match exchange.next_step().unwrap() {
        Step::Send(body) => serde_json::from_slice(&body).unwrap(),
        Step::Done(done) => panic!("nothing was sent: {done:?}"),
    }
}

/// A client that wants an object forces a tool, and its answer is a call of the known one: at a
/// limit it must come through, though every other call is refused.
#[test]
fn a_forced_answer_lands_and_is_never_counted() {
    let call =
        |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1000, "tool_choice": {"type": "any"},
        "tools": [{"name": "shell", "input_schema": {"type": "object"}},
                  {"name": "final_result", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "write"},
            {"role": "assistant", "content": [call("toolu_000000000001", "shell")]},
            {"role": "user", "content": [{"type": "tool_result", "content": "written",
                "tool_use_id": "toolu_000000000001"}]}
        ]
    });
    for limit in [1, 5] {
        let mut exchange = begin(&body, ("tool_calls_limit", Key::Int(limit)));
        assert_eq!(exchange.run().used().calls, 1);
        sent(&mut exchange);
        let response = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [call("toolu_000000000002", "final_result")], "stop_reason": "tool_use",
            "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 10}
        });
        let mut out = Output::default();
        exchange.push_whole(response.to_string().as_bytes(), &mut out).unwrap();
        let Step::Done(done) = exchange.next_step().unwrap() else { panic!("not done") };
        assert!(done.ended.is_some(), "limit {limit}: the answer ends the run");
        let shown: Value = serde_json::from_slice(&out.bytes).unwrap();
        assert_eq!(shown["content"], response["content"], "limit {limit}");
        assert_eq!(shown["stop_reason"], "tool_use", "limit {limit}");
    }
}

/// Providers send a ping right behind the start of a text. It stays there.
#[test]
fn a_ping_stays_behind_the_start_of_a_text() {
    let body = json!({
        "model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": true,
        "messages": [{"role": "user", "content": "hello"}]
    });
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let start = event(
        "message_start",
        json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 1}}}),
    );
    let text = json!({"type": "text", "text": ""});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": text});
    let delta = |text: &str| {
        let delta = json!({"type": "text_delta", "text": text});
        event(
            "content_block_delta",
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        )
    };
    let ping = event("ping", json!({"type": "ping"}));
    let stop = event("content_block_stop", json!({"type": "content_block_stop", "index": 0}));
    let ends = event(
        "message_delta",
        json!({"type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": null},
        "usage": {"output_tokens": 5}}),
    );
    let last = event("message_stop", json!({"type": "message_stop"}));
    let start_block = event("content_block_start", block);
    let whole =
        [&*start, &*start_block, &*ping, &*delta(" "), &*delta("Hi"), &*stop, &*ends, &*last];
    let whole = whole.concat();
    for piece in [1, 7, whole.len()] {
        let mut exchange = begin(&body, ("tool_calls_limit", Key::Int(5)));
        sent(&mut exchange);
        let mut out = Output::default();
        for bytes in whole.as_bytes().chunks(piece) {
            exchange.push_bytes(bytes, &mut out).unwrap();
        }
        exchange.finish_response(&mut out).unwrap();
        assert!(matches!(exchange.next_step().unwrap(), Step::Done(_)));
        assert_eq!(String::from_utf8(out.bytes).unwrap(), whole, "pieces of {piece}");
    }
    // The second one is a sign of life, and is not held.
    let mut exchange = begin(&body, ("tool_calls_limit", Key::Int(5)));
    sent(&mut exchange);
    let mut out = Output::default();
    let held = [&*start, &*start_block, &*ping, &*ping].concat();
    exchange.push_bytes(held.as_bytes(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out.bytes).unwrap(), [&*start, &*ping].concat());
}

/// A request with a tool of the provider's, behind so many turns with one search and one call each.
fn searched(api: Api, turns: usize, own: &Value) -> Value {
    let id = |n: usize| format!("toolu_00000000000{n}");
    match api {
        Api::Anthropic => {
            let mut tool = json!({"type": "web_search_20250305", "name": "web_search"});
            tool.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let mut messages = vec![json!({"role": "user", "content": "look"})];
            for n in 0..turns {
                messages.push(json!({"role": "assistant", "content": [
                    {"type": "server_tool_use", "id": format!("srvtoolu_{n}"), "name": "web_search",
                        "input": {"query": n}},
                    {"type": "web_search_tool_result", "tool_use_id": format!("srvtoolu_{n}"),
                        "content": []},
                    {"type": "tool_use", "id": id(n), "name": "read", "input": {"n": n}}]}));
                messages.push(json!({"role": "user", "content": [{"type": "tool_result",
                    "tool_use_id": id(n), "content": format!("read {n}")}]}));
            }
            json!({"model": "claude-sonnet-4-5", "max_tokens": 900, "messages": messages,
                "tools": [{"name": "read", "input_schema": {"type": "object"}}, tool]})
        }
        _ => {
            let mut input = vec![json!({"role": "user", "content": "look"})];
            for n in 0..turns {
                input.extend([
                    json!({"type": "web_search_call", "id": format!("ws_{n}"), "status": "completed",
                        "action": {"type": "search", "query": n.to_string()}}),
                    json!({"type": "function_call", "call_id": id(n), "name": "read",
                        "arguments": format!("{{\"n\":{n}}}")}),
                    json!({"type": "function_call_output", "call_id": id(n),
                        "output": format!("read {n}")}),
                ]);
            }
            let mut body = json!({"model": "gpt-5.2", "input": input, "tools": [
                {"type": "function", "name": "read", "parameters": {}}, {"type": "web_search"}]});
            body.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            body
        }
    }
}

/// What a request says of how often the provider may search.
fn uses(api: Api, body: &Value) -> &Value {
    match api {
        Api::Anthropic => &body["tools"][1]["max_uses"],
        _ => &body["max_tool_calls"],
    }
}

/// Nobody can refuse what the provider runs: the request says how many uses are left, and where
/// none is, it may call nothing any more.
#[test]
fn c25_the_limit_of_a_providers_tool_is_in_the_request() {
    for (api, member, model) in [
        (Api::Anthropic, "max_uses", "claude-sonnet-4-5"),
        (Api::Responses, "max_tool_calls", "gpt-5.2"),
    ] {
        for (limit, turns, own, wanted) in [
            (3, 0, None, Some(3)),
            (3, 1, None, Some(2)),
            (3, 2, None, Some(1)),
            (3, 1, Some(9), Some(2)),
            (3, 1, Some(1), Some(1)),
            (3, 3, None, None),
            (3, 4, Some(2), None),
            (0, 0, None, None),
        ] {
            let name = format!("{api:?}: {turns} of {limit}, {own:?}");
            let own = own.map_or_else(|| json!({}), |uses| json!({ member: uses }));
            let body = searched(api, turns, &own);
            let mut policy = Policy::default();
            policy.set_key("tool_limits", &Key::Text(format!("web_search={limit}"))).unwrap();
            let mut context = Context::new(Role::Gateway, policy, None, model);
            context.api = api;
            let bytes = body.to_string().into_bytes();
            let mut exchange =
                Exchange::from_request(bytes, context, &mut Output::default()).unwrap();
            assert_eq!(exchange.run().used().calls, turns as u64, "{name}");
            let used = exchange.run().used().by_tool.get("web_search").copied().unwrap_or(0);
            assert_eq!(used, turns as u64, "{name}");
            let sent = sent(&mut exchange);
            match wanted {
                Some(left) => {
                    assert_eq!(*uses(api, &sent), left, "{name}: {sent}");
                    assert_eq!(sent.get("tool_choice"), None, "{name}");
                }
                None => {
                    let none =
                        sent["tool_choice"] == "none" || sent["tool_choice"]["type"] == "none";
                    assert!(none, "{name}: {sent}");
                    assert!(sent.to_string().contains("Answer now"), "{name}: {sent}");
                }
            }
        }
        // Other limits, and what only observes, change nothing.
        for (key, value) in
            [("tool_limits", "read=9"), ("tool_calls_limit", "9"), ("mode", "observe")]
        {
            let body = searched(api, 1, &json!({}));
            let mut policy = Policy::default();
            if key == "mode" {
                policy.set_key("tool_limits", &Key::Text("web_search=1".to_owned())).unwrap();
            }
            policy.set_key(key, &Key::Text(value.to_owned())).unwrap();
            let mut context = Context::new(Role::Gateway, policy, None, model);
            context.api = api;
            let bytes = body.to_string().into_bytes();
            let mut exchange =
                Exchange::from_request(bytes, context, &mut Output::default()).unwrap();
            assert_eq!(*uses(api, &sent(&mut exchange)), Value::Null, "{api:?} {key}");
        }
    }
}
