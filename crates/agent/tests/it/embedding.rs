//! The crate as a program embeds it: a scripted model, events as a stream, and README's example.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use softland_agent::core::Outcome;
use softland_agent::http::Api;
use softland_agent::testing::{ScriptedModel, ScriptedReply};
use softland_agent::{Agent, AnsweredBy, Event, EventKind, Tool, ToolContext, ToolDef, ToolOutput};
use tokio_util::sync::CancellationToken;

use crate::common::counting;

fn schema() -> Value {
    json!({"type": "object", "properties": {}})
}

/// An agent on a script, with a tool `stock` that counts.
fn scripted(api: Api, replies: Vec<ScriptedReply>) -> (Agent, Arc<ScriptedModel>) {
    let model = Arc::new(ScriptedModel::new(replies));
    let mut agent = Agent::new("shop", "test/script", Arc::clone(&model) as _);
    agent.options.api = api;
    agent.options.retry.base = Duration::ZERO;
    agent.tools.add_tool(Arc::new(counting("stock").0)).unwrap();
    (agent, model)
}

fn two_calls_and_an_answer() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::from_text("I look.")
            .with_call("stock", json!({"article": "lamps"}))
            .with_call("stock", json!({"article": "bulbs"})),
        ScriptedReply::from_text("Twelve."),
    ]
}

#[tokio::test]
async fn a_script_plays_through_every_api() {
    for api in Api::ALL {
        let (mut agent, model) = scripted(api, two_calls_and_an_answer());
        agent.policy.tool_calls_limit = Some(2);
        agent.policy.cost_limit_usd = Some("1".parse().unwrap());
        let report = agent.run("How many?", &mut |_| {}).await.unwrap();
        let (outcome, answer) = (report.ended.outcome.word(), report.answer.as_deref());
        assert_eq!((outcome, answer), ("landed", Some("Twelve.")), "{api:?}");
        assert_eq!((report.tool_calls, report.cost_usd), (2, Some(0.0)), "{api:?}");
        let requests = model.requests();
        assert_eq!(requests.len(), 2, "{api:?}");
        let last = requests.last().unwrap().to_string();
        assert!(last.contains("result 0") && last.contains("call_2"), "{api:?}: {last}");
    }
}

#[tokio::test]
async fn errors_are_retried_and_a_script_that_is_over_fails_the_run() {
    let replies = || vec![ScriptedReply::from_error(529, "busy"), ScriptedReply::from_text("Yes.")];
    for api in Api::ALL {
        let (agent, _) = scripted(api, replies());
        let report = agent.run("?", &mut |_| {}).await.unwrap();
        assert_eq!(report.answer.as_deref(), Some("Yes."), "{api:?}");
        let (agent, _) = scripted(api, Vec::new());
        let report = agent.run("?", &mut |_| {}).await.unwrap();
        let failure = report.failure.unwrap_or_default();
        assert!(failure.contains("no reply left"), "{api:?}: {failure}");
    }
}

fn words(events: &[Event]) -> Vec<String> {
    let word = |event: &Event| serde_json::to_value(event).unwrap()["event"].to_string();
    events.iter().map(word).collect()
}

#[tokio::test]
async fn a_stream_has_the_events_of_a_run_and_ends_with_its_last() {
    let mut called = Vec::new();
    let (agent, _) = scripted(Api::Anthropic, two_calls_and_an_answer());
    agent.run("How many?", &mut |event| called.push(event.clone())).await.unwrap();
    let (agent, _) = scripted(Api::Anthropic, two_calls_and_an_answer());
    let mut stream = agent.stream("How many?").unwrap();
    let mut streamed = Vec::new();
    while let Some(event) = stream.next_event().await {
        streamed.push(event);
    }
    assert!(stream.next_event().await.is_none());
    assert_eq!(words(&streamed), words(&called));
    assert!(matches!(streamed.last().unwrap().kind, EventKind::Done { .. }));
}

/// A tool that never ends and hands out its token.
struct Endless(Arc<Mutex<Option<CancellationToken>>>);

#[async_trait]
impl Tool for Endless {
    fn def(&self) -> ToolDef {
        ToolDef::new("endless", "does not end", schema())
    }

    async fn call(&self, _: Value, cx: &ToolContext) -> ToolOutput {
        *self.0.lock().unwrap() = Some(cx.cancel.clone());
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_dropped_stream_cancels_its_run() {
    let (mut agent, model) =
        scripted(Api::Anthropic, vec![ScriptedReply::from_call("endless", json!({}))]);
    let token = Arc::default();
    agent.tools.add_tool(Arc::new(Endless(Arc::clone(&token)))).unwrap();
    let mut stream = agent.stream("Go on.").unwrap();
    let running = async {
        while stream.next_event().await.is_some() {}
        panic!("the run ended");
    };
    let begun = async {
        while token.lock().unwrap().is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! { () = begun => {}, () = running => {} }
    assert!(!token.lock().unwrap().as_ref().unwrap().is_cancelled());
    drop(stream);
    assert!(token.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert_eq!(model.requests().len(), 1);
}

#[test]
fn readme_shows_the_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let example = include_str!("../../examples/own_tool.rs");
    let (_, shown) = readme.split_once("```rust\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let known: Vec<&str> = example.lines().map(str::trim).collect();
    for line in shown.lines().map(str::trim) {
        assert!(known.contains(&line), "not in own_tool.rs: {line}");
    }
}

/// Behind a gateway of softland's whose limit is reached: its own words are no answer of the model.
#[tokio::test]
async fn the_answer_of_a_gateway_is_not_the_models() {
    let words = "[This answer is softland's, not the model's.]\n\n";
    let of_limit = "The run reached its limit (tool_calls_limit: 3 of 3), and the model gave no answer. \
                    Done so far: 3 tool calls.";
    for (text, outcome, reason) in [
        (format!("{words}{of_limit}"), Outcome::Stopped, "tool_calls"),
        (format!("I look.\n\n{words}{of_limit}"), Outcome::Stopped, "tool_calls"),
        (format!("{words}In words of a later release."), Outcome::Stopped, "provider"),
        (format!("It says {words}"), Outcome::Answered, "final"),
    ] {
        for api in Api::ALL {
            let (agent, _) = scripted(api, vec![ScriptedReply::from_text(&text)]);
            let report = agent.run("What is the price?", &mut |_| {}).await.unwrap();
            let told = (report.ended.outcome, report.ended.reason.to_string());
            assert_eq!(told, (outcome, reason.to_owned()), "{text}");
            let local = outcome == Outcome::Stopped;
            assert_eq!(report.answered_by == Some(AnsweredBy::Local), local, "{text}");
            assert_eq!(report.answer.as_deref(), Some(&*text));
        }
    }
}
