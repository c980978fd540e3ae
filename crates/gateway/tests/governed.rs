//! Governed requests through a real gateway, in front of the strict simulator: countdown, landing,
//! repair, identity, money, all over loopback sockets.

mod support;

use std::sync::Arc;

use serde_json::{Value, json};
use softland_gateway::Settings;
use softland_session::core::policy::{Policy, Value as Key};
use softland_sim::{Config, Scenario, Sim};
use support::{Message, Running};

/// A simulator behind a socket.
struct Upstream {
    sim: Arc<Sim>,
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Upstream {
    async fn playing(scenario: &str) -> Self {
        let scenario = Scenario::named(scenario).unwrap();
        Self::of(Config::new(scenario)).await
    }

    async fn of(config: Config) -> Self {
        let sim = Arc::new(Sim::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let served = Arc::clone(&sim);
        let task = tokio::spawn(async move {
            softland_sim::serve(listener, served, std::future::pending()).await.unwrap();
        });
        Self { sim, url, task }
    }

    fn refused(&self) -> u64 {
        self.sim.stats().refused
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client with tools and a loop, knowing nothing of softland.
struct Client<'a> {
    gateway: &'a Running,
    headers: Vec<String>,
    body: Value,
}

impl<'a> Client<'a> {
    fn new(gateway: &'a Running, stream: bool) -> Self {
        let tools = ["read_file", "list_dir"].map(|name| {
            json!({"name": name, "input_schema": {"type": "object",
                "properties": {"path": {"type": "string"}}, "required": ["path"]}})
        });
        let body = json!({
            "model": "claude-sonnet-4-5", "max_tokens": 4000, "stream": stream, "tools": tools,
            "messages": [{"role": "user", "content": "Look at the notes and say what is in them."}]
        });
        let headers = ["x-api-key: any", "anthropic-version: 2023-06-01"].map(str::to_owned);
        Self { gateway, headers: headers.into(), body }
    }

    fn with(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }

    async fn post(&self) -> Message {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let body = self.body.to_string();
        self.gateway.ask(self.gateway.request("POST /v1/messages", &headers, &body)).await
    }

    fn messages(&mut self) -> &mut Vec<Value> {
        self.body["messages"].as_array_mut().unwrap()
    }

    fn takes(&mut self, content: &[Value]) {
        self.messages().push(json!({"role": "assistant", "content": content}));
        let results: Vec<Value> = content
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|block| {
                let text = format!("notes of {}", block["input"]);
                json!({"type": "tool_result", "tool_use_id": block["id"], "content": text})
            })
            .collect();
        if !results.is_empty() {
            self.messages().push(json!({"role": "user", "content": results}));
        }
    }

    /// Runs to the end; the turns, and the last response.
    async fn run(&mut self) -> (u32, Message, Vec<Value>) {
        for turn in 1..60 {
            let response = self.post().await;
            assert_eq!(response.status(), 200, "{}", response.text());
            let content = content_of(&response);
            let calls = content.iter().any(|block| block["type"] == "tool_use");
            self.takes(&content);
            if !calls {
                return (turn, response, content);
            }
        }
        panic!("the run does not end");
    }
}

/// The blocks of a response, streamed or not.
fn content_of(response: &Message) -> Vec<Value> {
    let kind = response.header("content-type").unwrap_or_default();
    if !kind.starts_with("text/event-stream") {
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        return body["content"].as_array().unwrap().clone();
    }
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    let mut stopped = false;
    for line in response.text().lines().filter_map(|line| line.strip_prefix("data: ")) {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                assert_eq!(event["index"], blocks.len());
                blocks.push(event["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let at = usize::try_from(event["index"].as_u64().unwrap()).unwrap();
                let delta = &event["delta"];
                if let Some(text) = delta["text"].as_str() {
                    let before = blocks[at]["text"].as_str().unwrap().to_owned();
                    blocks[at]["text"] = json!(before + text);
                }
                inputs[at] += delta["partial_json"].as_str().unwrap_or_default();
            }
            "message_stop" => stopped = true,
            _ => {}
        }
    }
    assert!(stopped, "no message_stop in {}", response.text());
    for (block, input) in blocks.iter_mut().zip(inputs) {
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&input).unwrap_or(json!({}));
        }
    }
    blocks
}

fn text_of(content: &[Value]) -> String {
    content.iter().filter_map(|block| block["text"].as_str()).collect()
}

fn settings(upstream: &Upstream, keys: &[(&str, Key)]) -> Settings {
    let mut policy = Policy::default();
    for (key, value) in keys {
        policy.set(key, value).unwrap();
    }
    let mut settings = support::settings(&upstream.url);
    settings.policies.insert("default".to_owned(), policy);
    settings
}

#[tokio::test]
async fn a_run_is_counted_down_and_landed_streaming_and_not() {
    for stream in [true, false] {
        for scenario in ["looper", "sweeper", "stubborn", "mute", "parallel"] {
            let upstream = Upstream::playing(scenario).await;
            let keys = [("tool_calls_limit", Key::Int(4)), ("repeat_limit", Key::Int(50))];
            let gateway = Running::with(settings(&upstream, &keys)).await;
            let mut client = Client::new(&gateway, stream);
            let (turns, last, content) = client.run().await;
            let name = format!("{scenario}, stream: {stream}");
            assert!(!text_of(&content).trim().is_empty(), "{name}: no answer");
            assert!(turns <= 6, "{name}: {turns} turns");
            assert_eq!(last.header("x-softland-phase"), Some("landing"), "{name}");
            assert_eq!(last.header("x-softland-tool-calls"), Some("4/4"), "{name}");
            assert_eq!(upstream.refused(), 0, "{name}: {:?}", upstream.sim.stats().refusals);
        }
    }
}

#[tokio::test]
async fn the_head_says_what_was_done() {
    let upstream = Upstream::playing("sweeper").await;
    let gateway = Running::with(settings(&upstream, &[("tool_calls_limit", Key::Int(4))])).await;
    let mut client = Client::new(&gateway, false);
    let mut phases = Vec::new();
    let mut runs = std::collections::BTreeSet::new();
    loop {
        let response = client.post().await;
        phases.push(response.header("x-softland-phase").unwrap().to_owned());
        runs.insert(response.header("x-softland-run").unwrap().to_owned());
        let content = content_of(&response);
        client.takes(&content);
        if content.iter().all(|block| block["type"] != "tool_use") {
            break;
        }
    }
    assert_eq!(phases, ["silent", "silent", "countdown", "countdown", "landing"]);
    assert_eq!(runs.len(), 1, "a conversation without a name is found by its content: {runs:?}");
}

#[tokio::test]
async fn an_empty_turn_is_repaired() {
    for stream in [true, false] {
        let upstream = Upstream::playing("empty").await;
        let gateway = Running::with(settings(&upstream, &[])).await;
        let mut client = Client::new(&gateway, stream);
        let (_, _, content) = client.run().await;
        assert!(!text_of(&content).trim().is_empty(), "stream: {stream}");
        assert_eq!(upstream.refused(), 0);
        gateway.until_metrics(r#"softland_interventions_total{intervention="nudge"} 1"#).await;
    }
}

#[tokio::test]
async fn below_the_limits_not_a_byte_is_changed() {
    let upstream = Upstream::playing("reader").await;
    let gateway = Running::with(settings(&upstream, &[("tool_calls_limit", Key::Int(100))])).await;
    for stream in [true, false] {
        let direct = Running::with(support::settings(&upstream.url)).await;
        let mut governed = Client::new(&gateway, stream).with("x-softland-session: same");
        let (_, response, _) = governed.run().await;
        assert_eq!(response.header("x-softland-interventions"), None);
        drop(direct);
    }
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_under_a_cost_limit() {
    let upstream = Upstream::playing("reader").await;
    let keys = [("cost_limit_usd", Key::Text("1.00".to_owned()))];
    let gateway = Running::with(settings(&upstream, &keys)).await;
    let mut client = Client::new(&gateway, true);
    client.body["model"] = json!("mystery-7");
    let response = client.post().await;
    assert_eq!(response.status(), 400);
    assert_eq!(response.header("x-should-retry"), Some("false"));
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(body["type"], "error");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("mystery-7") && message.contains("[[price]]"), "{message}");
}

#[tokio::test]
async fn money_lands_a_run_and_is_never_overspent() {
    for stream in [true, false] {
        let upstream = Upstream::playing("sweeper").await;
        let keys = [("cost_limit_usd", Key::Text("0.20".to_owned()))];
        let gateway = Running::with(settings(&upstream, &keys)).await;
        let mut client = Client::new(&gateway, stream);
        let (_, response, content) = client.run().await;
        assert!(!text_of(&content).trim().is_empty());
        assert_eq!(response.header("x-softland-phase"), Some("landing"));
        let spent = upstream.sim.stats().cost_nano;
        assert!(spent <= 200_000_000, "{spent}");
        assert_eq!(upstream.refused(), 0, "{:?}", upstream.sim.stats().refusals);
    }
}

#[tokio::test]
async fn tokens_are_counted_on_the_governed_body() {
    let upstream = Upstream::playing("sweeper").await;
    let gateway = Running::with(settings(&upstream, &[("tool_calls_limit", Key::Int(1))])).await;
    let mut client = Client::new(&gateway, false);
    let content = content_of(&client.post().await);
    client.takes(&content);
    let mut body = client.body.clone();
    body.as_object_mut().unwrap().remove("max_tokens");
    body.as_object_mut().unwrap().remove("stream");
    let headers: Vec<&str> = client.headers.iter().map(String::as_str).collect();
    let path = "POST /v1/messages/count_tokens";
    let governed = gateway.ask(gateway.request(path, &headers, &body.to_string())).await;
    let direct = Running::with(support::settings(&upstream.url)).await;
    let plain = direct.ask(direct.request(path, &headers, &body.to_string())).await;
    let tokens = |response: &Message| {
        let body: Value = serde_json::from_slice(&response.body).unwrap();
        body["input_tokens"].as_u64().unwrap()
    };
    assert!(tokens(&governed) > tokens(&plain), "{} {}", tokens(&governed), tokens(&plain));
}

#[tokio::test]
async fn a_thread_is_refused_so_that_the_sdk_sends_everything() {
    let upstream = Upstream::playing("reader").await;
    let gateway = Running::with(settings(&upstream, &[])).await;
    let mut client = Client::new(&gateway, false);
    client.body["thread"] = json!({"type": "create"});
    let response = client.post().await;
    assert_eq!(response.status(), 400);
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(body["error"]["details"]["error_code"], "thread_unsupported_request");
}

#[tokio::test]
async fn who_only_observes_changes_nothing_and_says_what_would_have_been_done() {
    let upstream = Upstream::playing("parallel").await;
    let keys = [("tool_calls_limit", Key::Int(2)), ("mode", Key::Text("observe".to_owned()))];
    let gateway = Running::with(settings(&upstream, &keys)).await;
    let mut client = Client::new(&gateway, true);
    let (turns, response, _) = client.run().await;
    assert_eq!(turns, 4, "three batches and an answer, as without softland");
    assert_eq!(response.header("x-softland-interventions"), None);
    assert!(!client.body.to_string().contains("remaining"));
    gateway.until_metrics(r#"softland_interventions_total{intervention="ask"}"#).await;
}
