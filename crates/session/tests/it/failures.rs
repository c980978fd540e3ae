//! Failures that other systems had, each as a test. `docs/failures/` tells the stories.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use softland_session::core::models::find_capability;
use softland_session::core::policy::{Landing, Policy};
use softland_session::core::{
    Admission, Facts, Outcome, PinnedRecords, Reason, Role, SignalKind, lines,
};
use softland_session::wire::{Api, request::Request};
use softland_session::{Context, Done, Event, Exchange, Intervention, Output, Step};

const MODEL: &str = "claude-sonnet-5-5";

// --- one classifier

/// "Is this empty" was decided in five places, and each fix opened another.
#[test]
fn every_way_of_being_empty_is_treated_alike() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let ways = [
        vec![],
        vec![text("")],
        vec![text(" \n\t")],
        vec![text("\u{200b}\u{feff}")],
        vec![text("[no answer]")],
        vec![text(""), text("\n")],
        vec![thinking.clone()],
        vec![thinking, text(" ")],
    ];
    for way in &ways {
        for streams in [false, true] {
            let mut client = Client::new(Role::Engine, Policy::default());
            client.streams = streams;
            client.round(&[("a", "grep", json!({"pattern": "x"}))], "found");
            let mut exchange = client.begin();
            let mut sent = BTreeSet::new();
            for n in 1..=3 {
                assert!(sent.insert(send(&mut exchange)), "{way:?}: an unchanged retry");
                let out = answer(&mut exchange, streams, way, "end_turn");
                assert_eq!(signals(&out), [SignalKind::Empty], "{way:?} {n}");
            }
            let done = done(&mut exchange);
            let ended = done.ended.unwrap();
            assert_eq!((ended.outcome, ended.reason), (Outcome::Stopped, Reason::Empty), "{way:?}");
            let said = done.answer.unwrap();
            assert!(
                done.local && said.len() > lines::NO_ANSWER.len() && said.contains("softland's")
            );
        }
    }
    // A turn with a call is none, whatever its text.
    let mut exchange = Client::new(Role::Engine, Policy::default()).begin();
    let call = call("a", "grep", &json!({}));
    let out =
        answer(&mut exchange, false, &[json!({"type": "text", "text": " "}), call], "tool_use");
    assert_eq!(signals(&out), []);
    assert!(done(&mut exchange).ended.is_none());
}

// --- no dangling call

/// A limit middleware cut a turn off after its calls: every later request was refused.
#[test]
fn every_call_is_answered_in_every_request() {
    let policy = Policy { tool_calls_limit: Some(3), ..Policy::default() };
    let mut client = Client::new(Role::Engine, policy);
    let batch = |turn: usize, calls: usize| -> Vec<Value> {
        (0..calls).map(|n| call(&format!("t{turn}n{n}"), "grep", &json!({"pattern": n}))).collect()
    };
    // Five calls where three may run, then two more although told to answer, then a half-written
    // one.
    let mut requests = 0;
    for (turn, calls) in [(0, 1), (1, 4), (2, 2)] {
        let mut exchange = client.begin();
        let body = send(&mut exchange);
        assert_all_answered(&body);
        requests += 1;
        answer(&mut exchange, false, &batch(turn, calls), "tool_use");
        match exchange.next_step().unwrap() {
            Step::Done(done) => client.run_calls(*done),
            Step::Send(body) => {
                assert_all_answered(&body);
                let cut = [json!({"type": "text", "text": "so"}), call("cut", "grep", &json!({}))];
                answer(&mut exchange, false, &cut, "max_tokens");
                assert_all_answered(&send(&mut exchange));
                answer(
                    &mut exchange,
                    false,
                    &[json!({"type": "text", "text": "Three."})],
                    "end_turn",
                );
                client.run_calls(done(&mut exchange));
            }
        }
    }
    assert_eq!(requests, 3);
    client.say("and now?");
    // A call that the output limit cut is nobody's: the text before it is kept, and continued.
    let mut exchange = client.begin();
    let cut = [json!({"type": "text", "text": "Let me"}), call("half", "grep", &json!({}))];
    send(&mut exchange);
    answer(&mut exchange, false, &cut, "max_tokens");
    let body = send(&mut exchange);
    assert_all_answered(&body);
    assert!(text(&body).contains("Let me") && !text(&body).contains("half"), "{}", text(&body));
    let body = send(&mut client.begin());
    assert_all_answered(&body);
    let ids = String::from_utf8(body).unwrap().matches("\"tool_use_id\"").count();
    assert!(ids >= 5, "the history was lost: {ids} results");
}

// --- repetition is counted where it shows

/// A counter lived on a copy and never fired; another looked into a single message only.
#[test]
fn repeats_are_counted_across_turns_without_any_store() {
    for role in [Role::Engine, Role::Gateway] {
        for copies in 1..=3 {
            let mut client = Client::new(role, Policy::default());
            for n in 0..copies {
                client
                    .round(&[(&format!("c{n}"), "grep", json!({"pattern": "x"}))], "nothing found");
            }
            let (body, out) = client.begin_told();
            let repeats = copies == 3;
            assert_eq!(signals(&out) == [SignalKind::Repeat], repeats, "{role:?} {copies}");
            assert_eq!(interventions(&out) == [Intervention::Note], repeats, "{role:?} {copies}");
            assert_eq!(text(&body).contains("has returned the same result 3 times"), repeats);
            if let Some(Event::Signal(signal)) = out.events.first() {
                assert_eq!(signal.evidence.turns, [1, 2, 3]);
            }
        }
        // Copies inside one parallel round are one.
        let mut client = Client::new(role, Policy::default());
        let same = json!({"pattern": "x"});
        let names = ["a", "b", "c", "d"].map(|id| (id, "grep", same.clone()));
        client.round(&names, "nothing found");
        assert_eq!(signals(&client.begin_told().1), [], "{role:?}");
    }
}

// --- honest work is left alone

/// A detector that ignored results killed polling, paging and batch work; one that used message
/// counts killed sub-agents whose count stays flat.
#[test]
fn polling_paging_batches_and_flat_histories_go_on() {
    let untouched = |client: &Client, what: &str, n: usize| {
        let (_, out) = client.begin_told();
        assert_eq!(interventions(&out), [], "{what}, round {n}");
        let loops = signals(&out).into_iter().filter(|signal| *signal != SignalKind::Sweep).count();
        assert_eq!(loops, 0, "{what}, round {n}");
    };
    let mut polling = Client::new(Role::Gateway, Policy::default());
    let mut paging = Client::new(Role::Gateway, Policy::default());
    let mut batches = Client::new(Role::Gateway, Policy::default());
    for n in 0..40 {
        let id = format!("c{n}");
        polling.round(&[(&id, "get_job_status", json!({"job": 7}))], &format!("{n} of 40 done"));
        untouched(&polling, "polling", n);
        paging.round(&[(&id, "read_file", json!({"path": "a", "offset": n * 100}))], "…");
        untouched(&paging, "paging", n);
        let two = [format!("{id}a"), format!("{id}b")];
        let call = |n: usize| json!({"path": format!("out/{n}"), "content": "x"});
        batches.round(
            &[(&two[0], "write_file", call(2 * n)), (&two[1], "write_file", call(2 * n + 1))],
            "written",
        );
        untouched(&batches, "batches", n);
        // A sub-agent whose client keeps only the newest round: the count of messages is flat.
        let mut flat = Client::new(Role::Gateway, Policy::default());
        flat.round(&[(&id, "grep", json!({"pattern": n}))], &format!("found {n}"));
        untouched(&flat, "a flat history", n);
    }
    // What does not change is a loop all the same: at `repeat_limit`, or later for a poll.
    for (tool, limit) in [("grep", 3), ("get_job_status", 10)] {
        let mut client = Client::new(Role::Gateway, Policy::default());
        for n in 1..=limit {
            client.round(&[(&format!("c{n}"), tool, json!({"a": 7}))], "12 lamps");
            let noted = interventions(&client.begin_told().1) == [Intervention::Note];
            assert_eq!(noted, n == limit, "{tool} {n}");
        }
    }
}

// --- limits hold for batches and for replicas

/// A budget checked before and added after let twenty parallel calls through.
#[test]
fn a_batch_cannot_pass_the_limit() {
    let policy = Policy { tool_calls_limit: Some(3), ..Policy::default() };
    let ids: Vec<_> = (0..20).map(|n| format!("c{n:02}")).collect();
    let calls: Vec<_> = ids.iter().map(|id| call(id, "grep", &json!({"pattern": id}))).collect();
    for role in [Role::Engine, Role::Gateway] {
        for streams in [false, true] {
            let mut client = Client::new(role, policy.clone());
            client.streams = streams;
            client.round(&[("before", "grep", json!({"pattern": "x"}))], "found");
            let mut exchange = client.begin();
            send(&mut exchange);
            let out = answer(&mut exchange, streams, &calls, "tool_use");
            let done = done(&mut exchange);
            let ran: Vec<_> = done.calls.iter().filter(|c| c.admission.is_run()).collect();
            assert_eq!(ran.iter().map(|c| &*c.id).collect::<Vec<_>>(), ["c00", "c01"], "{role:?}");
            let refused =
                |c: &&softland_session::PendingCall| matches!(c.admission, Admission::Refused(_));
            assert_eq!(done.calls.iter().filter(refused).count(), 18);
            if role == Role::Gateway {
                let shown = text(&out.bytes);
                let seen: Vec<_> =
                    ids.iter().filter(|id| shown.contains(&format!("\"{id}\""))).collect();
                assert_eq!(seen, ["c00", "c01"], "the client would have run the others");
            }
        }
    }
}

/// One kept its counters per replica, so N replicas let N times the limit through.
#[test]
fn replicas_agree_without_talking() {
    let policy = Policy { tool_calls_limit: Some(3), ..Policy::default() };
    let mut client = Client::new(Role::Gateway, policy);
    for n in 0..3 {
        let (body, _) = client.begin_told();
        assert_eq!(client.begin_told().0, body, "another replica sent something else");
        client.round(&[(&format!("c{n}"), "grep", json!({"pattern": n}))], "found");
    }
    let mut replica = client.begin();
    assert!(text(&send(&mut replica)).contains("Tool call limit reached (3 of 3)"));
    answer(&mut replica, false, &[call("more", "grep", &json!({"pattern": "y"}))], "tool_use");
    assert!(matches!(replica.next_step().unwrap(), Step::Send(_)), "a fourth call got through");
}

// --- a limit is no error

/// A gateway answered a limit with 429, and clients retried 6 to 19 times.
#[test]
fn a_stop_is_a_valid_answer() {
    let policy = Policy { tool_calls_limit: Some(1), landing: Landing::Stop, ..Policy::default() };
    for streams in [false, true] {
        let mut client = Client::new(Role::Gateway, policy.clone());
        client.streams = streams;
        client.round(&[("a", "grep", json!({"pattern": "x"}))], "b.md:3: twelve");
        let mut out = Output::default();
        let mut exchange =
            Exchange::from_request(client.body(), client.context(), &mut out).unwrap();
        let Step::Done(done) = exchange.next_step().unwrap() else {
            panic!("a stop needs no request")
        };
        assert_eq!(done.ended.unwrap().outcome, Outcome::Stopped);
        let bytes = text(&out.bytes);
        assert!(bytes.contains("tool_calls_limit") && bytes.contains("1 of 1"), "{bytes}");
        assert!(bytes.contains("b.md:3: twelve"), "what was gathered is missing: {bytes}");
        assert!(!bytes.contains("\"error\""), "{bytes}");
        if streams {
            let order = [
                "event: message_start",
                "event: content_block_start",
                "\"end_turn\"",
                "event: message_stop",
            ];
            let at: Vec<_> = order.iter().map(|part| bytes.find(part).unwrap()).collect();
            assert!(at.is_sorted(), "{bytes}");
        } else {
            let message: Value = serde_json::from_str(&bytes).unwrap();
            assert_eq!(message["type"], "message");
            assert_eq!(message["stop_reason"], "end_turn");
            assert_eq!(message["model"], MODEL);
        }
    }
}

// --- the forced answer

/// A forced answer came back empty, and the fallback raised.
#[test]
fn a_forced_answer_that_is_none_takes_the_next_rung() {
    let respond = Policy {
        tool_calls_limit: Some(1),
        landing: Landing::Respond,
        answer_tool: vec!["respond".to_owned()],
        ..Policy::default()
    };
    let auto = Policy { tool_calls_limit: Some(1), ..Policy::default() };
    let half = json!({"type": "tool_use", "id": "z", "name": "respond", "input": {"answer": "ha"}});
    let none: [(Vec<Value>, &str); 5] = [
        (vec![], "end_turn"),
        (vec![json!({"type": "text", "text": "  "})], "end_turn"),
        (vec![call("y", "grep", &json!({"pattern": "again"}))], "tool_use"),
        (vec![half], "max_tokens"),
        (vec![], "refusal"),
    ];
    // Claude Haiku 4.5 takes a forced tool, the newest models do not.
    for model in ["claude-haiku-4-5", MODEL, "nobody-knows"] {
        for policy in [&respond, &auto] {
            for (reply, stop) in &none {
                let mut client = Client::new(Role::Engine, policy.clone());
                client.model = model;
                client.round(&[("a", "grep", json!({"pattern": "x"}))], "b.md:3: twelve");
                let mut exchange = client.begin();
                let mut requests = 0;
                let done = loop {
                    match exchange.next_step().unwrap() {
                        Step::Done(done) => break done,
                        Step::Send(body) => assert_all_answered(&body),
                    }
                    requests += 1;
                    assert!(requests <= 4, "{model} {stop}: no end");
                    answer(&mut exchange, false, reply, stop);
                };
                let ended = done.ended.unwrap();
                assert_eq!(ended.outcome, Outcome::Stopped, "{model} {reply:?}");
                assert_eq!(ended.reason, Reason::ToolCalls);
                let said = done.answer.unwrap();
                assert!(done.local && said.contains("tool_calls_limit") && said.contains("twelve"));
            }
        }
    }
}

// --- what was written stays

/// A note removed on the next request broke the cache and the binding of reasoning to its prefix.
#[test]
fn a_line_stays_where_it_was_written() {
    let with = |limit| Policy { tool_calls_limit: Some(limit), ..Policy::default() };
    let mut client = Client::new(Role::Gateway, with(6));
    let mut before = String::new();
    let mut lines_seen = 0;
    for n in 0..14 {
        let mut out = Output::default();
        let mut exchange =
            Exchange::from_request(client.body(), client.context(), &mut out).unwrap();
        let body = send(&mut exchange);
        let now = messages(&body);
        assert!(now.starts_with(&before), "request {n} is not an extension:\n{before}\n{now}");
        lines_seen = now.matches("tool calls remaining").count();
        before = now;
        // What the client keeps is its own history: it never saw a line.
        answer(
            &mut exchange,
            false,
            &[json!({"type": "text", "text": format!("Done {n}.")})],
            "end_turn",
        );
        client.records = done(&mut exchange).records;
        // The limit is raised in the configuration meanwhile; runs that began keep theirs.
        client.policy = with(6 + n);
        if n == 7 {
            client.assistant(&[json!({"type": "text", "text": "It was twelve."})]);
            client.say("And in July?");
        } else {
            client
                .round(&[(&format!("c{n}"), "grep", json!({"pattern": n}))], &format!("found {n}"));
        }
    }
    assert!(lines_seen >= 2, "nothing was tested: no countdown in\n{before}");
    assert!(before.contains("Tool call limit reached (6 of 6)"), "{before}");
}

// --- a client and its provider

/// A client with its history, and what it keeps from one exchange to the next.
struct Client {
    role: Role,
    policy: Policy,
    model: &'static str,
    streams: bool,
    history: Vec<Value>,
    records: PinnedRecords,
}

impl Client {
    fn new(role: Role, policy: Policy) -> Self {
        let history = vec![json!({"role": "user", "content": "How many were there in June?"})];
        Self { role, policy, model: MODEL, streams: false, history, records: BTreeMap::new() }
    }

    fn say(&mut self, text: &str) {
        self.history.push(json!({"role": "user", "content": text}));
    }

    fn assistant(&mut self, blocks: &[Value]) {
        self.history.push(json!({"role": "assistant", "content": blocks}));
    }

    /// A turn of calls, all of which brought the same.
    fn round(&mut self, calls: &[(&str, &str, Value)], result: &str) {
        let blocks: Vec<_> = calls.iter().map(|(id, name, input)| call(id, name, input)).collect();
        self.assistant(&blocks);
        let results: Vec<_> = calls
            .iter()
            .map(|(id, ..)| json!({"type": "tool_result", "tool_use_id": id, "content": result}))
            .collect();
        self.history.push(json!({"role": "user", "content": results}));
    }

    /// Takes over what an exchange brought, and answers its calls as an engine does.
    fn run_calls(&mut self, done: Done) {
        self.records = done.records;
        let messages = done.messages.iter().map(|message| serde_json::from_slice(message).unwrap());
        self.history.extend(messages);
        let results: Vec<_> = done
            .calls
            .iter()
            .map(|call| {
                let content = match &call.admission {
                    Admission::Refused(because) => lines::format_not_run(because),
                    _ => "found".to_owned(),
                };
                json!({"type": "tool_result", "tool_use_id": call.id, "content": content})
            })
            .collect();
        if !results.is_empty() {
            self.history.push(json!({"role": "user", "content": results}));
        }
    }

    fn body(&self) -> Vec<u8> {
        let tools = ["grep", "read_file", "write_file", "get_job_status", "respond"]
            .map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
        let body = json!({"model": self.model, "max_tokens": 1024, "stream": self.streams,
            "tools": tools, "messages": self.history});
        serde_json::to_vec(&body).unwrap()
    }

    fn context(&self) -> Context {
        Context {
            api: Default::default(),
            role: self.role,
            policy: self.policy.clone().into(),
            records: self.records.clone(),
            facts: Facts::default(),
            capability: find_capability(Some("anthropic"), self.model),
            output_maximum: None,
            window: None,
            shape: None,
            chain: None,
            asked_at: 0,
        }
    }

    fn begin(&self) -> Exchange {
        Exchange::from_request(self.body(), self.context(), &mut Output::default()).unwrap()
    }

    /// The first request, and what was told on the way.
    fn begin_told(&self) -> (Vec<u8>, Output) {
        let mut out = Output::default();
        let mut exchange = Exchange::from_request(self.body(), self.context(), &mut out).unwrap();
        (send(&mut exchange), out)
    }
}

fn call(id: &str, name: &str, input: &Value) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": input})
}

fn send(exchange: &mut Exchange) -> Vec<u8> {
    match exchange.next_step().unwrap() {
        Step::Send(body) => body.to_vec(),
        Step::Done(done) => panic!("no request: {:?}", done.ended),
    }
}

fn done(exchange: &mut Exchange) -> Done {
    match exchange.next_step().unwrap() {
        Step::Done(done) => *done,
        Step::Send(body) => panic!("not done: {}", text(&body)),
    }
}

/// Feeds a response, and says what came of it.
fn answer(exchange: &mut Exchange, streams: bool, blocks: &[Value], stop: &str) -> Output {
    let mut out = Output::default();
    if streams {
        for byte in stream(blocks, stop).as_bytes() {
            exchange.push_bytes(std::slice::from_ref(byte), &mut out).unwrap();
        }
        exchange.finish_response(&mut out).unwrap();
    } else {
        let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
            "content": blocks, "stop_reason": stop, "stop_sequence": null,
            "usage": {"input_tokens": 10, "output_tokens": 5}});
        exchange.push_whole(&serde_json::to_vec(&message).unwrap(), &mut out).unwrap();
    }
    out
}

/// The same response as a stream.
fn stream(blocks: &[Value], stop: &str) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {"id": "msg_1",
        "type": "message", "role": "assistant", "model": MODEL, "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1}}})];
    for (index, block) in blocks.iter().enumerate() {
        let (empty, deltas) = match block["type"].as_str().unwrap() {
            "text" => (
                json!({"type": "text", "text": ""}),
                vec![json!({"type": "text_delta", "text": block["text"]})],
            ),
            "thinking" => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                vec![
                    json!({"type": "thinking_delta", "thinking": block["thinking"]}),
                    json!({"type": "signature_delta", "signature": block["signature"]}),
                ],
            ),
            _ => (
                call(block["id"].as_str().unwrap(), block["name"].as_str().unwrap(), &json!({})),
                vec![
                    json!({"type": "input_json_delta", "partial_json": block["input"].to_string()}),
                ],
            ),
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop,
        "stop_sequence": null}, "usage": {"output_tokens": 5}}));
    events.push(json!({"type": "message_stop"}));
    let event =
        |data: &Value| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap());
    events.iter().map(event).collect()
}

fn signals(out: &Output) -> Vec<SignalKind> {
    let kind = |event: &Event| match event {
        Event::Signal(signal) => Some(signal.signal),
        _ => None,
    };
    out.events.iter().filter_map(kind).collect()
}

fn interventions(out: &Output) -> Vec<Intervention> {
    let kind = |event: &Event| match event {
        Event::Intervention { intervention, .. } => Some(*intervention),
        _ => None,
    };
    out.events.iter().filter_map(kind).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The messages of a request, without the bracket that closes their list.
fn messages(body: &[u8]) -> String {
    let request = Request::from_body(Api::Anthropic, body).unwrap();
    let list = request.messages.span.slice_of(request.text);
    list.strip_suffix(']').unwrap().trim_end().to_owned()
}

/// Each call has exactly one result, in the very next message, and each result a call.
fn assert_all_answered(body: &[u8]) {
    let body: Value = serde_json::from_slice(body).unwrap();
    let ids = |message: Option<&Value>, kind: &str, id: &str| -> Vec<String> {
        let blocks = message.and_then(|m| m["content"].as_array()).into_iter().flatten();
        let ids = blocks.filter(|b| b["type"] == kind).map(|b| b[id].as_str().unwrap().to_owned());
        ids.collect()
    };
    let messages = body["messages"].as_array().unwrap();
    for (n, message) in messages.iter().enumerate() {
        let asked = ids(Some(message), "tool_use", "id");
        let answered = ids(messages.get(n + 1), "tool_result", "tool_use_id");
        if message["role"] == "assistant" {
            assert_eq!(asked, answered, "message {n}: {message}");
        }
    }
}
