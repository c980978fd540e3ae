//! The limits of tokens and time that a sub-agent takes from its parent while it runs.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use crate::support::client::Client;
use crate::support::reading::{End, read};
use crate::support::script::{INPUT, OUTPUT, Reply, Scripted, calls, says};
use crate::support::sim::{governed, text};
use crate::support::{Message, Running};
use serde_json::Value;
use softland_session::core::policy::{Policy, PolicyValue as Key};

const SESSION: &str = "x-claude-code-session-id: 1f0c6f5e-7a43-4a6e-9d4b-0a1c2b3d4e5f";

fn parent() -> Client {
    Client::new(true).with(SESSION)
}

fn child(n: u32) -> Client {
    let agent = format!("x-claude-code-agent-id: agent{n}");
    Client::new(true).with(SESSION).with(&agent).asking("Look at one part of it.")
}

/// A gateway whose default policy has these limits, and whose policy `none` has none.
async fn gateway(upstream: &Scripted, keys: &[(&'static str, Key)]) -> Running {
    let mut settings = governed(&upstream.url(), keys);
    settings.policies.insert("none".to_owned(), Policy::default());
    settings.header_policies = vec!["none".to_owned()];
    Running::with(settings).await
}

/// Returns how a run ended, and the reason.
async fn ended(gateway: &Running, message: &Message) -> (String, String) {
    let run = message.header("x-softland-run").unwrap();
    let got = gateway.ask(gateway.request(&format!("GET /api/runs/{run}"), &[], "")).await;
    let row: Value = serde_json::from_str(got.text()).unwrap();
    let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    (word("outcome"), word("reason"))
}

#[tokio::test]
async fn a_sub_agent_is_landed_by_its_parents_tokens() {
    let upstream = Scripted::plays((0..40).map(calls).collect()).await;
    let keys = [("tokens_limit", Key::Int(16_000)), ("reserve_tokens", Key::Int(500))];
    let gateway = gateway(&upstream, &keys).await;
    let mut parent = parent();
    parent.turn(&gateway).await;
    let mut turns = Vec::new();
    for n in 0..2 {
        let mut child = child(n).with("x-softland-policy: none");
        let (took, message, response) = child.run(&gateway).await;
        assert!(!response.text().is_empty());
        assert_eq!(ended(&gateway, &message).await.1, "tokens", "child {n}");
        turns.push(took);
    }
    assert!(turns[0] > 4 && turns[1] <= 2, "the first had what there was: {turns:?}");
    // What was held back for the parent's own answer is there.
    let before = upstream.provider.count();
    let (_, message, _) = parent.run(&gateway).await;
    assert_eq!(ended(&gateway, &message).await.1, "tokens");
    assert!(upstream.provider.count() > before, "it is asked for an answer");
    let used = upstream.provider.count() as u64 * (INPUT + OUTPUT);
    assert!(used <= 16_000 + INPUT, "{used}");
}

#[tokio::test]
async fn a_sub_agent_under_way_is_landed_when_its_parents_time_is_over() {
    let upstream = Scripted::plays(vec![calls(1), Reply::Hangs("begun"), says("What I have.")]);
    let upstream = upstream.await;
    let keys = [("time_limit", text("4s")), ("reserve_time", text("1s"))];
    let gateway = gateway(&upstream, &keys).await;
    parent().turn(&gateway).await;
    let child = child(1).with("x-softland-policy: none");
    let message = child.post(&gateway).await;
    let response = read(&message);
    assert_eq!(response.end, End::Whole, "{}", message.text());
    assert!(response.text().starts_with("begun"), "{}", response.text());
    assert_eq!(ended(&gateway, &message).await, ("landed".to_owned(), "time".to_owned()));
}
