//! Clients that leave the history to the provider (`previous_response_id`) are governed like those
//! that send all of it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use crate::support;

use crate::support::client::Client;
use crate::support::reading::{Response, read};
use crate::support::sim::{Simulated, governed, text};
use crate::support::{Message, Provider, Running};
use serde_json::json;
use softland_session::core::policy::Value as Key;
use softland_session::wire::Api;

const LIMIT: (&str, Key) = ("tool_calls_limit", Key::Int(4));
const TURNS: usize = 40;

/// A client that sends only what is new.
struct Chained {
    client: Client,
    /// Whether it sends a lone text as a string.
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
                let gateway = Running::with(governed(&upstream.url, &[LIMIT])).await;
                let mut client = Chained::new(stream);
                client.plain = plain;
                let mut runs = std::collections::BTreeSet::new();
                for question in ["What is here?", "And there?", "And what of it all?"] {
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
            sides.push((client.client.body, message.body));
        }
        assert_eq!(sides[0], sides[1]);
    }
}

/// What the provider was asked is what the client sent, where there is nothing to do.
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
