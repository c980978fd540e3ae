//! Runs at their limits, and conversations that are found again.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use softland_session::core::policy::Policy;

use crate::support::{Host, Reply, add_round, call, question, says, text};

fn limited(calls: u64) -> Policy {
    Policy { tool_calls_limit: Some(calls), ..Policy::default() }
}

fn calls(n: usize) -> Reply {
    Reply::Whole(says(&json!([call(n)]), "tool_use"))
}

#[tokio::test]
async fn a_run_lands_with_an_answer() {
    let host = Host::new(limited(1), vec![calls(1), Reply::Whole(text())]);
    let mut body = question();
    let (status, answer) = host.ask(&body).await;
    assert_eq!((status, &answer["stop_reason"]), (200, &json!("tool_use")), "{answer}");
    add_round(&mut body, 1);
    let response = host.send(&body, &[]).await;
    assert_eq!(response.headers()["x-softland-phase"], "landing");
    assert_eq!(response.headers()["x-softland-tool-calls"], "1/1");
    let (_, answer) = crate::support::read_json(response).await;
    assert_eq!(answer["content"][0]["text"], "All is well with the notes.");
    let sent = host.script.sent.lock().expect("no panic");
    assert_ne!(sent[1]["messages"], body["messages"], "the model is told");
    assert_eq!(sent[1]["tools"], body["tools"], "the tools stay");
}

/// Returns the number of calls that is counted before the answer to this.
async fn counted(host: &Host, body: &Value) -> String {
    let response = host.send(body, &[("x-claude-code-session-id", "s")]).await;
    let counted = response.headers()["x-softland-tool-calls"].to_str().expect("text").to_owned();
    drop(response);
    counted
}

#[tokio::test]
async fn a_compacted_run_keeps_its_count() {
    let replies = (1..=4).map(calls).collect();
    let host = Host::new(limited(9), replies);
    let mut body = question();
    for n in 1..=3 {
        assert_eq!(counted(&host, &body).await, format!("{}/9", n - 1));
        add_round(&mut body, n);
    }
    let mut compacted = question();
    compacted["messages"][0]["content"] = json!(
        "This session is being continued from a previous conversation that ran out of context. \
         The notes 1 to 3 were read."
    );
    assert_eq!(counted(&host, &compacted).await, "3/9");
    // Another session has a count of its own.
    let other = host.send(&compacted, &[("x-claude-code-session-id", "t")]).await;
    assert_eq!(other.headers()["x-softland-tool-calls"], "0/9");
}
