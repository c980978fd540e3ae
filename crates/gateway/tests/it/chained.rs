//! Clients that leave the history to the provider (`previous_response_id`, `conversation`) are
//! governed like those that send all of it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::support::client::Client;
use crate::support::reading::{Response, read};
use crate::support::script::{Form, whole};
use crate::support::sim::{Simulated, governed, text};
use crate::support::{self, Message, Provider, Running};
use serde_json::{Value, json};
use softland_gateway::Clock;
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

const LIMIT: (&str, Key) = ("tool_calls_limit", Key::Int(4));
const TURNS: usize = 40;

/// Whoever asks a question has read the answer before it, which takes so long, in milliseconds:
/// what comes at once behind a landing is taken for its client's own.
const READING: u64 = 5_000;

/// A clock that goes as time does, and what it is ahead of it, in milliseconds.
fn clock() -> (Clock, Arc<AtomicU64>) {
    let (ahead, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let read = Arc::clone(&ahead);
    let clock = Arc::new(move || {
        let passed = u64::try_from(began.elapsed().as_millis()).unwrap_or(0);
        1_790_000_000_000 + passed + read.load(Ordering::SeqCst)
    });
    (clock, ahead)
}

/// A client that sends only what is new.
struct Chained {
    client: Client,
    /// True if it sends a lone text as a string.
    plain: bool,
}

impl Chained {
    fn new(stream: bool) -> Self {
        let mut client = Client::on(Api::Responses, stream);
        client.body.as_object_mut().unwrap().remove("store");
        Self { client, plain: false }
    }

    fn asks(&mut self, question: &str) {
        let question = match self.plain {
            true => json!(question),
            false => json!([{"role": "user", "content": question}]),
        };
        self.client.body["input"] = question;
    }

    async fn turn(&mut self, gateway: &Running) -> (Message, Response) {
        let message = self.client.post(gateway).await;
        assert_eq!(message.status(), 200, "{}", message.text());
        let response = read(&message);
        self.client.body["previous_response_id"] = response.id.clone().into();
        let results = response.calls().into_iter().map(|(id, _, input)| {
            json!({"type": "function_call_output", "call_id": id,
                "output": format!("notes of {input}")})
        });
        self.client.body["input"] = results.collect();
        (message, response)
    }

    /// To the end of a run: the phases and the last response.
    async fn run(&mut self, gateway: &Running) -> (Vec<String>, Message, Response) {
        let mut phases = Vec::new();
        for _ in 0..TURNS {
            let (message, response) = self.turn(gateway).await;
            phases.push(message.header("x-softland-phase").unwrap().to_owned());
            if response.calls().is_empty() {
                return (phases, message, response);
            }
        }
        panic!("the run does not end");
    }
}

#[tokio::test]
async fn a_run_is_governed_as_if_it_sent_everything() {
    for stream in [true, false] {
        for scenario in ["looper", "sweeper", "stubborn", "mute", "parallel", "empty", "thinker"] {
            let name = format!("{scenario}, stream: {stream}");
            let keys = [LIMIT, ("repeat_limit", Key::Int(50))];
            let mut both = Vec::new();
            for chained in [false, true] {
                let upstream = Simulated::playing(scenario).await;
                let gateway = Running::with(governed(&upstream.url, &keys)).await;
                let mut client = Chained::new(stream);
                let (phases, last, response) = if chained {
                    client.run(&gateway).await
                } else {
                    let mut phases = Vec::new();
                    loop {
                        let (message, response) = client.client.turn(&gateway).await;
                        phases.push(message.header("x-softland-phase").unwrap().to_owned());
                        if response.calls().is_empty() {
                            break (phases, message, response);
                        }
                    }
                };
                let stats = upstream.sim.stats();
                assert_eq!(upstream.refused(), 0, "{name}, {chained}: {:?}", stats.refusals);
                let calls = last.header("x-softland-tool-calls").map(str::to_owned);
                assert!(!response.text().trim().is_empty(), "{name}");
                // Calls that were taken out the provider knows: there they are answered.
                let text = (scenario != "parallel").then(|| response.text());
                both.push((phases, calls, text));
            }
            assert_eq!(both[0], both[1], "{name}");
        }
    }
}

#[tokio::test]
async fn a_chain_goes_on_behind_a_landing() {
    for stream in [true, false] {
        for plain in [true, false] {
            for scenario in ["sweeper", "stubborn", "mute", "parallel", "empty"] {
                let name = format!("{scenario}, stream: {stream}, plain: {plain}");
                let upstream = Simulated::playing(scenario).await;
                let (clock, ahead) = clock();
                let settings = governed(&upstream.url, &[LIMIT]);
                let gateway = Running::with_clock(settings, clock).await;
                let mut client = Chained::new(stream);
                client.plain = plain;
                let mut runs = std::collections::BTreeSet::new();
                for question in ["What is here?", "And there?", "And what of it all?"] {
                    ahead.fetch_add(READING, Ordering::SeqCst);
                    client.asks(question);
                    let (_, last, response) = client.run(&gateway).await;
                    assert!(!response.text().trim().is_empty(), "{name}: {question}");
                    runs.insert(last.header("x-softland-run").unwrap().to_owned());
                }
                assert_eq!(runs.len(), 3, "{name}: a question is a run");
                assert_eq!(upstream.refused(), 0, "{name}: {:?}", upstream.sim.stats().refusals);
            }
        }
    }
}

#[tokio::test]
async fn below_the_limits_not_a_byte_is_changed() {
    for plain in [true, false] {
        let mut sides = Vec::new();
        for limit in [None, Some(("tool_calls_limit", Key::Int(100)))] {
            let upstream = Simulated::playing("reader").await;
            let keys: Vec<_> = limit.into_iter().collect();
            let gateway = Running::with(governed(&upstream.url, &keys)).await;
            let mut client = Chained::new(true);
            client.plain = plain;
            client.asks("What is in the notes?");
            let (_, message, _) = client.run(&gateway).await;
            sides.push((client.client.body, message.without_end()));
        }
        assert_eq!(sides[0], sides[1]);
    }
}

/// With nothing to do, the provider gets exactly the client's request.
#[tokio::test]
async fn what_is_new_goes_on_as_it_was_sent() {
    let says = r#"{"id":"resp_1","object":"response","status":"completed","model":"gpt-5.2","output":[{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read_file","arguments":"{}","status":"completed"}],"usage":{"input_tokens":5,"output_tokens":5,"total_tokens":10}}"#;
    let says = support::response("200 OK", &["content-type: application/json"], says);
    let provider = Provider::says(says).await;
    let gateway = Running::with(governed(&provider.url(), &[LIMIT])).await;
    let head = ["authorization: Bearer any"];
    let bodies = [
        r#"{"model":"gpt-5.2", "input" : "hi" ,"tools":[{"type":"function","name":"read_file","parameters":{}}]}"#,
        r#"{"previous_response_id" : "resp_1","model":"gpt-5.2", "input" :[ {"type":"function_call_output","call_id":"call_1","output":"x"} ],"tools":[{"type":"function","name":"read_file","parameters":{}}]}"#,
    ];
    for (n, body) in bodies.iter().enumerate() {
        let got = gateway.ask(gateway.request("POST /v1/responses", &head, body)).await;
        assert_eq!(got.header("x-softland-tool-calls"), Some(&*format!("{n}/4")));
        let asked = provider.asked.lock().unwrap().last().unwrap().clone();
        assert_eq!(asked.text(), *body);
    }
}

#[tokio::test]
async fn an_unknown_history_is_counted_from_here() {
    let upstream = Simulated::playing("sweeper").await;
    let mut client = Chained::new(false);
    let before = Running::with(governed(&upstream.url, &[LIMIT])).await;
    for _ in 0..3 {
        client.turn(&before).await;
    }
    // Another gateway, which knows nothing.
    let keys = [LIMIT, ("cost_limit_usd", text("50.00"))];
    let gateway = Running::with(governed(&upstream.url, &keys)).await;
    let (message, _) = client.turn(&gateway).await;
    assert_eq!(message.header("x-softland-interventions"), None);
    gateway.until_metrics("{event=\"history_unknown\"} 1").await;
    let (_, last, response) = client.run(&gateway).await;
    assert!(!response.text().trim().is_empty());
    assert_eq!(last.status(), 200);
    assert_eq!(upstream.refused(), 0, "{:?}", upstream.sim.stats().refusals);
    assert!(gateway.metrics().await.contains("{event=\"history_unknown\"} 1"), "once only");
}

#[tokio::test]
async fn money_holds_for_a_chain() {
    for stream in [true, false] {
        let upstream = Simulated::playing("sweeper").await;
        let keys = [("cost_limit_usd", text("0.05"))];
        let gateway = Running::with(governed(&upstream.url, &keys)).await;
        let mut client = Chained::new(stream);
        client.asks("What is in the notes?");
        let (_, _, response) = client.run(&gateway).await;
        assert!(!response.text().trim().is_empty());
        assert!(upstream.billed() <= 50_000_000, "{}", upstream.billed());
        assert_eq!(upstream.refused(), 0, "{:?}", upstream.sim.stats().refusals);
    }
}

// --- conversations

/// A provider that keeps one conversation as a log, and refuses what the vendor would: an answer
/// to a call that is not there or is answered, and anything new while a call waits.
#[derive(Default)]
struct Log {
    items: Vec<Value>,
    refused: Vec<String>,
    turns: u32,
}

impl Log {
    fn waiting(&self) -> Vec<Value> {
        let of = |kind: &str, items: &[Value]| -> Vec<Value> {
            let items = items.iter().filter(|item| item["type"] == kind);
            items.map(|item| item["call_id"].clone()).collect()
        };
        let answered = of("function_call_output", &self.items);
        let mut calls = of("function_call", &self.items);
        calls.retain(|id| !answered.contains(id));
        calls
    }

    fn add(&mut self, body: &Value) {
        let input = match &body["input"] {
            Value::String(text) => vec![json!({"role": "user", "content": text})],
            Value::Array(items) => items.clone(),
            _ => Vec::new(),
        };
        for item in input {
            let waiting = self.waiting();
            match item["type"] == "function_call_output" {
                true if !waiting.contains(&item["call_id"]) => {
                    self.refused.push(format!("no call waits for {item}"));
                }
                false if !waiting.is_empty() => {
                    self.refused.push(format!("{waiting:?} waits, and not for {item}"));
                }
                _ => {}
            }
            self.items.push(item);
        }
        if !self.waiting().is_empty() {
            self.refused.push(format!("{:?} waits", self.waiting()));
        }
    }

    /// Returns the model's next turn.
    fn says(&mut self, scenario: &str, body: &Value) -> Vec<Value> {
        self.turns += 1;
        let call = |n: u32| {
            let id = format!("toolu_script{:04}{n}", self.turns);
            json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": id}})
        };
        let asked = self.items.last().is_some_and(|item| item.to_string().contains("Answer now"));
        let blocks = match scenario {
            "polite" | "parallel" if asked => Vec::new(),
            "mute" if body["tool_choice"] == "none" => Vec::new(),
            "empty" if self.turns.is_multiple_of(2) => return Vec::new(),
            "parallel" => (0..3).map(call).collect(),
            _ => vec![call(0)],
        };
        let text = json!({"type": "text", "text": "That is what is in the notes."});
        let blocks = if blocks.is_empty() && scenario != "mute" { vec![text] } else { blocks };
        for block in blocks.iter().filter(|block| block["type"] == "tool_use") {
            self.items.push(json!({"type": "function_call", "call_id": block["id"]}));
        }
        blocks
    }
}

async fn log(scenario: &'static str, stream: bool) -> (Provider, Arc<Mutex<Log>>) {
    let log = Arc::new(Mutex::new(Log::default()));
    let kept = Arc::clone(&log);
    let provider = Provider::does(move |asked, wire| {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let mut log = kept.lock().unwrap();
        match &body["conversation"] {
            Value::String(id) if id == "conv_1" => {}
            id if id["id"] == "conv_1" => {}
            other => log.refused.push(format!("no conversation: {other}")),
        }
        log.add(&body);
        let blocks = log.says(scenario, &body);
        let calls = blocks.iter().any(|block| block["type"] == "tool_use");
        let stop = if calls { "tool_use" } else { "end_turn" };
        let said = whole(Form::new(Api::Responses, stream), &blocks, stop);
        async move {
            wire.lock().await.send(said).await;
            true
        }
    });
    (provider.await, log)
}

/// A client that names a conversation, and sends what is new.
fn talks(stream: bool, name: &Value) -> Chained {
    let mut client = Chained::new(stream);
    client.client.body["conversation"] = name.clone();
    client
}

impl Chained {
    async fn talk(&mut self, gateway: &Running) -> (u64, Message, Response) {
        let mut calls = 0;
        for _ in 0..TURNS {
            let (message, response) = self.turn(gateway).await;
            self.client.body.as_object_mut().unwrap().remove("previous_response_id");
            let made = response.calls().len() as u64;
            if made == 0 {
                return (calls, message, response);
            }
            calls += made;
        }
        panic!("the run does not end");
    }
}

/// The calls of each question stay within the limit, the provider is never asked what it would
/// refuse, and a conversation goes on behind a landing.
#[tokio::test]
async fn c24_a_conversation_is_one_history() {
    let names = [json!("conv_1"), json!({"id": "conv_1"})];
    for (n, scenario) in ["polite", "stubborn", "mute", "parallel", "empty"].into_iter().enumerate()
    {
        for stream in [true, false] {
            let name = format!("{scenario}, stream: {stream}");
            let (provider, log) = log(scenario, stream).await;
            let keys = [LIMIT, ("repeat_limit", Key::Int(50))];
            let (clock, ahead) = clock();
            let gateway = Running::with_clock(governed(&provider.url(), &keys), clock).await;
            let mut client = talks(stream, &names[n % 2]);
            client.plain = stream;
            let mut runs = std::collections::BTreeSet::new();
            for question in ["What is here?", "And there?", "And what of it all?"] {
                ahead.fetch_add(READING, Ordering::SeqCst);
                client.asks(question);
                let (calls, last, response) = client.talk(&gateway).await;
                assert!(calls <= 4, "{name}: {calls} calls");
                assert!(calls == 4 || scenario == "empty", "{name}: {calls} calls");
                assert!(!response.text().trim().is_empty(), "{name}: {question}");
                let counted = last.header("x-softland-tool-calls").unwrap();
                assert_eq!(counted, format!("{calls}/4"), "{name}: {question}");
                runs.insert(last.header("x-softland-run").unwrap().to_owned());
            }
            assert_eq!(runs.len(), 3, "{name}: a question is a run");
            let refused = log.lock().unwrap().refused.clone();
            assert_eq!(refused, Vec::<String>::new(), "{name}");
            let metrics = gateway.metrics().await;
            assert!(metrics.contains("{event=\"history_unknown\"} 1"), "{name}: once only");
        }
    }
}

/// Below the limits, not a byte of what goes on is changed.
#[tokio::test]
async fn a_conversations_requests_go_on_as_they_were_sent() {
    let (provider, _) = log("stubborn", false).await;
    let keys = [("tool_calls_limit", Key::Int(100)), ("repeat_limit", Key::Int(50))];
    let gateway = Running::with(governed(&provider.url(), &keys)).await;
    let mut client = talks(false, &json!("conv_1"));
    for _ in 0..5 {
        let sent = client.client.body.to_string();
        client.turn(&gateway).await;
        client.client.body.as_object_mut().unwrap().remove("previous_response_id");
        let asked = provider.asked.lock().unwrap().last().unwrap().clone();
        assert_eq!(asked.text(), sent);
    }
}

/// Requests of one conversation that come at once wait for each other: each is decided on by what
/// the others led to, and none is forgotten.
#[tokio::test]
async fn requests_of_one_conversation_at_once_share_its_limit() {
    let (provider, _) = log("stubborn", true).await;
    let keys = [LIMIT, ("repeat_limit", Key::Int(50)), ("run_boundary", text("conversation"))];
    let gateway = Running::with(governed(&provider.url(), &keys)).await;
    let ask = async |n: u32| {
        let mut client = talks(true, &json!("conv_1"));
        client.asks(&format!("Question {n}?"));
        let (_, response) = client.turn(&gateway).await;
        response.calls().len()
    };
    let given = futures_util::future::join_all((0..12).map(ask)).await;
    assert_eq!(given.iter().sum::<usize>(), 4, "{given:?}");
}

/// A conversation may have been added to by others: it is priced at the window.
#[tokio::test]
async fn the_money_of_a_conversation_holds_for_what_does_not_show() {
    for (limit, sent) in [("0.10", false), ("20.00", true)] {
        let (provider, _) = log("stubborn", false).await;
        let keys = [("cost_limit_usd", text(limit))];
        let gateway = Running::with(governed(&provider.url(), &keys)).await;
        let mut client = talks(false, &json!("conv_1"));
        client.client = client.client.limited(100);
        let (message, _) = client.turn(&gateway).await;
        assert_eq!(provider.count() > 0, sent, "{limit}: {}", message.text());
    }
}
