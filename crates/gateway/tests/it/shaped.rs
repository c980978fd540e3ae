//! Clients whose models write their calls as text, through a gateway that reads them there: they
//! count, are told what is left and are landed as declared calls are.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in test helpers to panic is to fail the test"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::support::client::{APIS, Client};
use crate::support::reading::{End, Response, read};
use crate::support::script::{Reply, Scripted};
use crate::support::sim::{Simulated, governed};
use crate::support::{Message, Running};
use serde_json::json;
use softland_gateway::{PartialBlocks, Route, Settings, Shape, Shaping, StopAfter, Tags};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

const OPEN: &str = "<use_tool>";
const CLOSE: &str = "</use_tool>";
const TURNS: usize = 40;

fn shaped(url: &str, keys: &[(&str, Key)], shape: Shape, keepalive: Duration) -> Settings {
    let mut settings = governed(url, keys);
    let (model, name) = ("*".to_owned(), "tags".to_owned());
    settings.routes.push(Route { model, policy: None, upstream: None, shape: Some(name.clone()) });
    settings.shapes.insert(name, Shaping { shape: Arc::new(shape), keepalive });
    settings
}

fn watch() -> Shape {
    Shape::watch_only(Tags::new(["use_tool"]).unwrap())
}

/// A client that tells its model to write calls as text, and reads them there.
struct Tagger(Client);

impl Tagger {
    fn new(api: Api, stream: bool) -> Self {
        let tool = json!({"name": "read_file", "description": "Reads a file.",
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}});
        let told = format!("Write calls between {OPEN} and {CLOSE}. Tools:\n{tool}\n");
        let mut client = Client::on(api, stream);
        client.body.as_object_mut().unwrap().remove("tools");
        match api {
            Api::Anthropic => client.body["system"] = told.into(),
            Api::Responses => client.body["instructions"] = told.into(),
            Api::Chat => client.messages().insert(0, json!({"role": "system", "content": told})),
        }
        Self(client)
    }

    /// Takes a response in; true if there were calls, whose results go back.
    fn takes(&mut self, response: &Response) -> bool {
        match self.0.api {
            Api::Anthropic => {
                let said = json!({"role": "assistant", "content": response.content});
                self.0.messages().push(said);
            }
            Api::Chat | Api::Responses => self.0.messages().extend(response.items.iter().cloned()),
        }
        let text = response.text();
        let calls = text.split(OPEN).skip(1).filter(|call| call.contains(CLOSE)).count();
        let result = "<tool_result name=\"read_file\">\nit is what it is\n</tool_result>\n";
        if calls > 0 {
            self.0.says(&result.repeat(calls));
        }
        calls > 0
    }

    async fn run(&mut self, gateway: &Running) -> (Vec<String>, Message, Response) {
        let mut phases = Vec::new();
        for _ in 0..TURNS {
            let message = self.0.post(gateway).await;
            assert_eq!(message.status(), 200, "{}", message.text());
            let response = read(&message);
            phases.push(message.header("x-softland-phase").unwrap().to_owned());
            if !self.takes(&response) {
                return (phases, message, response);
            }
        }
        panic!("the run does not end");
    }
}

#[tokio::test]
async fn a_run_is_counted_down_and_landed() {
    for api in APIS {
        for stream in [true, false] {
            for scenario in ["looper", "sweeper", "stubborn", "parallel", "tail"] {
                let name = format!("{api:?}, {scenario}, stream: {stream}");
                let upstream = Simulated::playing(scenario).await;
                let keys = [("tool_calls_limit", Key::Int(4)), ("repeat_limit", Key::Int(50))];
                let shape = Shape { suppress_tail: true, ..watch() };
                let settings = shaped(&upstream.url, &keys, shape, Duration::from_secs(15));
                let gateway = Running::with(settings).await;
                let (phases, last, response) = Tagger::new(api, stream).run(&gateway).await;
                assert!(!response.text().trim().is_empty(), "{name}: no answer");
                assert!(phases.len() <= 6, "{name}: {phases:?}");
                assert_eq!(upstream.refused(), 0, "{name}: {:?}", upstream.sim.stats().refusals);
                if scenario != "tail" {
                    assert_eq!(last.header("x-softland-phase"), Some("landing"), "{name}");
                    assert_eq!(last.header("x-softland-tool-calls"), Some("4/4"), "{name}");
                }
            }
        }
    }
}

/// Without a shape it is text, and nothing but text.
#[tokio::test]
async fn without_a_shape_nothing_is_read_in_a_text() {
    let upstream = Simulated::playing("tail").await;
    let gateway =
        Running::with(governed(&upstream.url, &[("tool_calls_limit", Key::Int(1))])).await;
    let (_, last, _) = Tagger::new(Api::Anthropic, true).run(&gateway).await;
    assert_eq!(last.header("x-softland-run"), None, "metered only");
}

fn says(text: &str) -> Reply {
    Reply::Says(vec![json!({"type": "text", "text": text})], "end_turn")
}

const CALL: &str =
    "<use_tool>\n{\"name\": \"read_file\", \"input\": {\"path\": \"a\"}}\n</use_tool>";

#[tokio::test]
async fn what_follows_a_call_is_kept_from_the_client_and_said_in_the_log() {
    for stream in [true, false] {
        let upstream = Scripted::plays(vec![says(&format!("First. {CALL} And so it is."))]).await;
        let shape = Shape { suppress_tail: true, ..watch() };
        let settings = shaped(&upstream.url(), &[], shape, Duration::from_secs(15));
        let gateway = Running::with(settings).await;
        let message = Tagger::new(Api::Anthropic, stream).0.post(&gateway).await;
        let response = read(&message);
        assert_eq!((response.text(), &response.end), (format!("First. {CALL}"), &End::Whole));
        gateway.until_metrics(r#"softland_interventions_total{intervention="trim_tail"} 1"#).await;
    }
}

/// The instructions of a request may speak of calls in any words, or nowhere.
#[tokio::test]
async fn c86_whatever_a_shape_changes_is_in_the_event_log() {
    let changes = [
        (
            Shape { suppress_tail: true, ..watch() },
            format!("{CALL} And so."),
            "intervention",
            "8 bytes",
        ),
        (
            Shape { drop_repeated: true, ..watch() },
            format!("{CALL} {CALL}"),
            "shaped",
            "repeats an earlier one was taken out",
        ),
        (
            Shape { partial: PartialBlocks::Drop, ..watch() },
            "It is <use_tool>{\"na".to_owned(),
            "shaped",
            "ended within a tool call",
        ),
        (Shape { stop_after: StopAfter::First, ..watch() }, format!("{CALL} x"), "shaped", "early"),
    ];
    for (shape, said, event, wanted) in changes {
        for (api, stream) in crate::support::client::all() {
            let upstream = Scripted::plays(vec![says(&said)]).await;
            let mut settings = shaped(&upstream.url(), &[], shape.clone(), Duration::from_secs(15));
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("events.ndjson");
            settings.log.events = Some(log.clone());
            let mut gateway = Running::with(settings).await;
            let mut client = Client::on(api, stream);
            client.body.as_object_mut().unwrap().remove("tools");
            let message = client.post(&gateway).await;
            assert_eq!(read(&message).end, End::Whole, "{}", message.text());
            gateway.stopped().await;
            let log = std::fs::read_to_string(log).unwrap();
            let events: Vec<serde_json::Value> =
                log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let told = events.iter().filter(|line| line["event"] == event);
            let told: Vec<&str> = told.map(|line| line["text"].as_str().unwrap()).collect();
            assert!(told.len() == 1 && told[0].contains(wanted), "{api:?} {stream}: {log}");
            assert_eq!(events[0]["run"].as_str(), message.header("x-softland-run"), "{log}");
        }
    }
}

#[tokio::test]
async fn a_response_that_is_ended_early_gives_its_upstream_up() {
    let burst = StopAfter::Burst { burst_ms: 50 };
    for stop_after in [StopAfter::First, burst] {
        // It never ends by itself.
        let upstream = Scripted::plays(vec![Reply::Hangs(
            "<use_tool>{\"name\":\"read_file\",\"input\":{}}</use_tool> and",
        )])
        .await;
        let settings =
            shaped(&upstream.url(), &[], Shape { stop_after, ..watch() }, Duration::from_secs(15));
        let gateway = Running::with(settings).await;
        let message = Tagger::new(Api::Anthropic, true).0.post(&gateway).await;
        let response = read(&message);
        assert_eq!(response.end, End::Whole, "{stop_after:?}: {}", message.text());
        assert_eq!(response.text().matches(CLOSE).count(), 1, "{stop_after:?}");
        upstream.until_left(1).await;
    }
}

#[tokio::test]
async fn a_client_hears_something_while_text_is_held() {
    let upstream = Scripted::plays(vec![Reply::Hangs("<use_tool>{")]).await;
    let settings = shaped(&upstream.url(), &[], watch(), Duration::from_millis(30));
    let gateway = Running::with(settings).await;
    let mut wire = gateway.client().await;
    wire.send(Tagger::new(Api::Anthropic, true).0.request(&gateway)).await;
    wire.until("event: ping").await;
    wire.until("event: ping").await;
}
