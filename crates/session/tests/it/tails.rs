//! What stands behind a history: how a tail comes back in later requests, and that nothing stands
//! behind an open call which may not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::borrow::Cow;

use serde_json::{Value, json};
use softland_core::policy::Policy;
use softland_core::{Because, Facts, Millis, Outcome, Quantity, Reason, Role, lines};
use softland_session::wire::{Api, request::Request};
use softland_session::{Context, Done, Exchange, OpenedRequest, Output, Step, StoredConversation};
use softland_sim::{Binding, Config, Scenario, Sim};

const MODEL: &str = "claude-opus-4-6";

fn request(model: &str, messages: &[Value]) -> Vec<u8> {
    let tools = json!([{"name": "grep", "input_schema": {"type": "object"}}]);
    let thinking = json!({"type": "adaptive"});
    json!({"model": model, "max_tokens": 1000, "messages": messages, "tools": tools,
        "thinking": thinking})
    .to_string()
    .into_bytes()
}

fn begin(
    role: Role,
    model: &str,
    messages: &[Value],
    remembered: StoredConversation<'_>,
) -> Exchange {
    let body = request(model, messages);
    let scanned = Request::from_body(Api::Anthropic, &body).unwrap();
    let context = Context::new(role, Policy::default(), None, model);
    let opened = OpenedRequest::read_history(&scanned, body.clone().into(), context, remembered);
    opened.into_exchange(&Facts::default(), &mut Output::default())
}

fn sent(exchange: &mut Exchange) -> Value {
    match exchange.next_step().unwrap() {
        Step::Send(body) => serde_json::from_slice(&body).unwrap(),
        Step::Done(done) => panic!("nothing was sent: {done:?}"),
    }
}

fn done(exchange: &mut Exchange) -> Done {
    match exchange.next_step().unwrap() {
        Step::Done(done) => *done,
        Step::Send(body) => panic!("{body:?}"),
    }
}

fn answer(exchange: &mut Exchange, content: &Value, stop: &str) {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
        "content": content, "stop_reason": stop, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 10}
    });
    exchange.push_whole(whole.to_string().as_bytes(), &mut Output::default()).unwrap();
}

fn time_is_up() -> Because {
    let minute = Quantity::Time(Millis(60_000));
    Because::new(Reason::Time, minute, minute)
}

/// The strict simulator takes these messages, signatures of others apart.
fn assert_taken(body: &Value) {
    let mut config = Config::new(Scenario::Scripted(Vec::new()));
    config.accept_foreign_signatures = true;
    config.binding = Binding::Never;
    let sim = Sim::new(config);
    let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let bytes = body.to_string().into_bytes();
    let request = softland_sim::Request {
        method: "POST",
        path: "/v1/messages",
        headers: &headers,
        body: &bytes,
    };
    let status = sim.respond(0, &request).status;
    assert_eq!(status, 200, "{:?}\n{}", sim.stats().refusals, body["messages"]);
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn assistant(content: &[Value]) -> Value {
    json!({"role": "assistant", "content": content})
}

fn thinking(text: &str) -> Value {
    json!({"type": "thinking", "thinking": text, "signature": "c2ln"})
}

fn call(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "grep", "input": {}})
}

fn results(id: &str, text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]})
}

fn search(id: &str) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}})
}

fn found(id: &str) -> Value {
    json!({"type": "web_search_tool_result", "tool_use_id": id, "content": []})
}

/// A client's round, an empty turn with thinking, a nudge, and a call: what the next request holds
/// when the client sends its history back as `edit` leaves it.
fn after_a_nudge(edit: impl FnOnce(&mut Vec<Value>)) -> (Value, Value) {
    let mut messages = vec![user("go"), assistant(&[call("toolu_01")]), results("toolu_01", "one")];
    let mut exchange = begin(Role::Gateway, MODEL, &messages, StoredConversation::default());
    sent(&mut exchange);
    answer(&mut exchange, &json!([thinking("hidden")]), "end_turn");
    let nudged = sent(&mut exchange);
    answer(&mut exchange, &json!([thinking("shown"), call("toolu_02")]), "tool_use");
    let done = done(&mut exchange);
    let kept = StoredConversation {
        tails: Cow::Owned(done.tail.into_iter().collect()),
        results: Cow::Owned(done.seen.into_iter().collect()),
        ..StoredConversation::default()
    };
    assert_eq!((kept.tails.len(), kept.results.len()), (1, 1));
    messages.push(assistant(&[thinking("shown"), call("toolu_02")]));
    messages.push(results("toolu_02", "two"));
    edit(&mut messages);
    let next = sent(&mut begin(Role::Gateway, MODEL, &messages, kept));
    assert_taken(&next);
    (nudged["messages"].clone(), next["messages"].clone())
}

#[test]
fn a_tail_comes_back_as_it_was() {
    let (nudged, next) = after_a_nudge(|_| {});
    let (nudged, next) = (nudged.as_array().unwrap(), next.as_array().unwrap());
    assert_eq!(nudged[..], next[..nudged.len()]);
    assert_eq!(nudged.len(), 5, "{nudged:?}");
    assert_eq!(nudged[3]["content"][0], thinking("hidden"));
    assert_eq!(next[5]["content"], json!([thinking("shown"), call("toolu_02")]));
}

/// What thinking in a tail is signed over has changed: it is left out, the rest stays.
#[test]
fn thinking_in_a_tail_goes_with_what_stood_before_it() {
    let cleared = "[Old tool result content cleared]";
    let (nudged, next) = after_a_nudge(|messages| messages[2] = results("toolu_01", cleared));
    assert_eq!(next[2]["content"][0]["content"], cleared);
    assert_eq!(next[3]["content"], json!([{"type": "text", "text": lines::NO_ANSWER}]));
    assert_eq!(next[4], nudged[4]);
    assert_eq!(next[5]["content"], json!([thinking("shown"), call("toolu_02")]));
}

/// In a stream the thinking before a nudge was shown: with it, the client drops that of the tail.
#[test]
fn thinking_that_the_client_drops_is_dropped_from_the_tail() {
    let frames = |blocks: &[Value], stop: &str| {
        let mut text = String::new();
        let mut event = |kind: &str, mut data: Value| {
            data["type"] = json!(kind);
            text.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
        };
        let usage = json!({"input_tokens": 9, "output_tokens": 9});
        event(
            "message_start",
            json!({"message": {"id": "msg_1", "type": "message",
            "role": "assistant", "model": MODEL, "content": [], "stop_reason": null, "usage": usage}}),
        );
        for (index, block) in blocks.iter().enumerate() {
            event("content_block_start", json!({"index": index, "content_block": block}));
            event("content_block_stop", json!({"index": index}));
        }
        event("message_delta", json!({"delta": {"stop_reason": stop}, "usage": usage}));
        event("message_stop", json!({}));
        text
    };
    let start = [user("go"), assistant(&[call("toolu_01")]), results("toolu_01", "one")];
    let streamed = |messages: &[Value], kept: StoredConversation<'_>| {
        let mut body: Value = serde_json::from_slice(&request(MODEL, messages)).unwrap();
        body["stream"] = json!(true);
        let body = body.to_string().into_bytes();
        let scanned = Request::from_body(Api::Anthropic, &body).unwrap();
        let context = Context::new(Role::Gateway, Policy::default(), None, MODEL);
        let opened = OpenedRequest::read_history(&scanned, body.clone().into(), context, kept);
        opened.into_exchange(&Facts::default(), &mut Output::default())
    };
    let mut exchange = streamed(&start, StoredConversation::default());
    let mut out = Output::default();
    for (blocks, stop) in
        [(vec![thinking("first")], "end_turn"), (vec![call("toolu_02")], "tool_use")]
    {
        sent(&mut exchange);
        exchange.push_bytes(frames(&blocks, stop).as_bytes(), &mut out).unwrap();
        exchange.finish_response(&mut out).unwrap();
    }
    let shown = String::from_utf8(out.bytes).unwrap();
    assert!(shown.contains("first") && shown.contains("toolu_02"), "{shown}");
    let tails: std::collections::BTreeMap<_, _> = done(&mut exchange).tail.into_iter().collect();
    for drops in [false, true] {
        let mut turn = vec![thinking("first"), call("toolu_02")];
        if drops {
            turn.remove(0);
        }
        let mut messages = start.to_vec();
        messages.extend([assistant(&turn), results("toolu_02", "two")]);
        let kept =
            StoredConversation { tails: Cow::Borrowed(&tails), ..StoredConversation::default() };
        let next = sent(&mut streamed(&messages, kept));
        assert_taken(&next);
        let (tail, turn) = (&next["messages"][3]["content"], &next["messages"][5]["content"]);
        assert_eq!(tail[0] == thinking("first"), !drops, "{next}");
        assert_eq!(*turn, json!([call("toolu_02")]), "what was shown before it is not there twice");
    }
}

/// Two messages of the system's in a row are not accepted everywhere.
#[test]
fn a_nudge_behind_a_message_of_the_systems_is_the_pair() {
    for (note, roles) in [(false, vec!["system"]), (true, vec!["system", "assistant", "user"])] {
        let mut messages = vec![user("go")];
        if note {
            messages.push(json!({"role": "system", "content": "It is late."}));
        }
        let mut exchange =
            begin(Role::Gateway, "claude-opus-5", &messages, StoredConversation::default());
        sent(&mut exchange);
        answer(&mut exchange, &json!([]), "end_turn");
        let nudged = sent(&mut exchange);
        let said: Vec<&str> = nudged["messages"].as_array().unwrap()[1..]
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(said, roles);
        assert_taken(&nudged);
    }
}

/// A search was paused and the turn goes on. Whatever else comes of it, nothing but its result
/// stands behind an open call of the provider's.
#[test]
fn nothing_stands_behind_an_open_call_of_the_providers() {
    let paused = json!([{"type": "text", "text": "Let me look."}, search("srvtoolu_1")]);
    let begin = || {
        let mut exchange = begin(Role::Engine, MODEL, &[user("go")], StoredConversation::default());
        sent(&mut exchange);
        answer(&mut exchange, &paused, "pause_turn");
        assert_taken(&sent(&mut exchange));
        exchange
    };
    let open = |body: &Value| body["messages"].to_string().contains("srvtoolu_1");

    // The result came: the call stays.
    let mut exchange = begin();
    answer(&mut exchange, &json!([found("srvtoolu_1")]), "end_turn");
    let nudged = sent(&mut exchange);
    assert!(open(&nudged), "{nudged}");
    answer(&mut exchange, &json!([{"type": "text", "text": "Found."}]), "end_turn");
    assert_eq!(done(&mut exchange).messages.len(), 4);

    // An empty turn, a cut one, and the end of the time: it does not.
    let mut exchange = begin();
    answer(&mut exchange, &json!([]), "end_turn");
    let nudged = sent(&mut exchange);
    assert!(!open(&nudged), "{nudged}");
    assert_taken(&nudged);

    let mut exchange = begin();
    answer(&mut exchange, &json!([{"type": "text", "text": "half"}]), "max_tokens");
    let more = sent(&mut exchange);
    assert!(!open(&more), "{more}");
    assert_taken(&more);

    let mut exchange = begin();
    exchange.land_at_limit(time_is_up(), &mut Output::default());
    let landing = sent(&mut exchange);
    assert!(!open(&landing) && landing.to_string().contains("Time limit"), "{landing}");
    assert_taken(&landing);

    // It is paused for good: what is kept of it can be gone on from.
    let mut exchange = begin();
    while !exchange.is_done() {
        answer(&mut exchange, &paused, "pause_turn");
        if !exchange.is_done() {
            sent(&mut exchange);
        }
    }
    let kept = done(&mut exchange);
    assert!(kept.ended.is_some());
    let mut messages = vec![user("go")];
    messages.extend(kept.messages.iter().map(|m| serde_json::from_slice::<Value>(m).unwrap()));
    messages.push(user("and now?"));
    let next: Value = serde_json::from_slice(&request(MODEL, &messages)).unwrap();
    assert_taken(&next);
}

/// A client lets a paused turn go on, and the time is over meanwhile.
#[test]
fn the_time_is_over_while_a_client_lets_a_paused_turn_go_on() {
    let text = json!({"type": "text", "text": "Let me look."});
    for (turn, left) in
        [(vec![text.clone(), search("srvtoolu_1")], 2), (vec![search("srvtoolu_1")], 1)]
    {
        let messages = [user("go"), assistant(&turn)];
        let mut exchange = begin(Role::Gateway, MODEL, &messages, StoredConversation::default());
        assert_taken(&sent(&mut exchange));
        exchange.land_at_limit(time_is_up(), &mut Output::default());
        let landing = sent(&mut exchange);
        assert!(!landing["messages"].to_string().contains("srvtoolu_1"), "{landing}");
        assert_eq!(landing["messages"].as_array().unwrap().len(), left + 2, "{landing}");
        assert_taken(&landing);
        answer(&mut exchange, &json!([text]), "end_turn");
        assert_eq!(done(&mut exchange).ended.unwrap().outcome, Outcome::Landed);
    }
    // Its empty rest is passed on: there is no place for a nudge.
    let messages = [user("go"), assistant(&[search("srvtoolu_1")])];
    let mut exchange = begin(Role::Gateway, MODEL, &messages, StoredConversation::default());
    sent(&mut exchange);
    answer(&mut exchange, &json!([]), "end_turn");
    assert!(done(&mut exchange).ended.is_none());
}
