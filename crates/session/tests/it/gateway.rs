//! What a client of a gateway sees of one request: defects that real clients have met.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_core::Role;
use softland_core::policy::{Policy, Value as Key};
use softland_session::{Context, Exchange, Out, Step};

fn begin(body: &Value, key: (&str, Key)) -> Exchange {
    let mut policy = Policy::default();
    policy.set(key.0, &key.1).unwrap();
    let context = Context::new(Role::Gateway, policy, None, "claude-sonnet-4-5");
    Exchange::begin(body.to_string().into_bytes(), context, &mut Out::default()).unwrap()
}

fn sent(exchange: &mut Exchange) -> Value {
    match exchange.step() {
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
        let mut out = Out::default();
        exchange.whole(response.to_string().as_bytes(), &mut out).unwrap();
        let Step::Done(done) = exchange.step() else { panic!("not done") };
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
        let mut out = Out::default();
        for bytes in whole.as_bytes().chunks(piece) {
            exchange.push(bytes, &mut out).unwrap();
        }
        exchange.finish(&mut out).unwrap();
        assert!(matches!(exchange.step(), Step::Done(_)));
        assert_eq!(String::from_utf8(out.bytes).unwrap(), whole, "pieces of {piece}");
    }
    // The second one is a sign of life, and is not held.
    let mut exchange = begin(&body, ("tool_calls_limit", Key::Int(5)));
    sent(&mut exchange);
    let mut out = Out::default();
    let held = [&*start, &*start_block, &*ping, &*ping].concat();
    exchange.push(held.as_bytes(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out.bytes).unwrap(), [&*start, &*ping].concat());
}
