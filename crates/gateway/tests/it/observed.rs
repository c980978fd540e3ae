//! `mode = "observe"`: not a byte is changed, in either direction, and the ledger and the event
//! log say what would have been done.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;

use crate::support::client::{Client, all};
use crate::support::reading::read;
use crate::support::script::{Reply, Scripted, calls, nothing, says};
use crate::support::sim::{governed, text};
use crate::support::{Running, Wire};
use serde_json::{Value, json};
use softland_ledger::{Query, Reader, Run};
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

/// The same call each time.
fn again(n: u32) -> Reply {
    let id = format!("toolu_again{n:08}");
    let call = json!({"type": "tool_use", "id": id, "name": "read_file",
        "input": {"path": "a.md"}});
    Reply::Says(vec![call], "tool_use")
}

fn batch(calls: u32) -> Reply {
    let call = |n: u32| {
        json!({"type": "tool_use", "id": format!("toolu_batch{n:08}"), "name": "list_dir",
            "input": {"path": format!("{n}")}})
    };
    Reply::Says((0..calls).map(call).collect(), "tool_use")
}

/// The records of a conversation, and its result.
struct Observed {
    run: Run,
    /// Events of the ledger but `usage`, by name, with their fields.
    steps: Vec<(String, Value)>,
    /// The lines of the event log.
    lines: Vec<Value>,
}

impl Observed {
    /// Interventions and signals, in order.
    fn words(&self) -> Vec<&str> {
        let words = self.steps.iter().filter_map(|(name, fields)| fields[name].as_str());
        words.collect()
    }

    fn because(&self, word: &str) -> Value {
        let found = self.steps.iter().find(|(name, fields)| fields[name] == word);
        found.map(|(_, fields)| fields["because"].clone()).unwrap_or_default()
    }
}

/// Plays a conversation through a gateway that observes and past it: both are the same.
async fn observed(api: Api, stream: bool, keys: &[(&str, Key)], replies: &[Reply]) -> Observed {
    let folder = tempfile::tempdir().expect("a folder");
    let (upstream, direct) =
        (Scripted::plays(replies.to_vec()).await, Scripted::plays(replies.to_vec()).await);
    let keys = [keys, &[("mode", text("observe"))]].concat();
    let mut settings = governed(&upstream.url(), &keys);
    settings.ledger = Some(folder.path().join("ledger.db").into());
    settings.log.events = Some(folder.path().join("events.ndjson"));
    let mut gateway = Running::with(settings).await;
    let mut client = Client::on(api, stream).told_usage().with("x-softland-session: s");
    for n in 0..replies.len() {
        let request = client.request(&gateway);
        let got = gateway.ask(&request).await;
        let wanted = Wire::to(direct.provider.address).await.ask(&request).await;
        assert_eq!((got.status(), got.text()), (wanted.status(), wanted.text()), "turn {n}");
        assert_eq!(got.header("x-softland-interventions"), None);
        let asked = upstream.provider.asked.lock().expect("no panic").clone();
        assert_eq!(asked.len(), n + 1, "no request of softland's own");
        assert_eq!(asked[n].text(), client.body.to_string(), "turn {n}");
        let response = read(&got);
        if response.content.is_empty() {
            client.says("Please go on.");
        } else {
            client.takes_response(&response);
        }
    }
    gateway.stopped().await;
    written(folder.path())
}

fn written(folder: &Path) -> Observed {
    let reader = Reader::open(folder.join("ledger.db")).expect("a ledger");
    let runs = reader.list_runs(&Query::default()).expect("runs");
    let run = runs.last().expect("a run").clone();
    let steps = reader.read_steps(&run.run).expect("steps").into_iter();
    let steps = steps
        .filter(|step| step.event != "usage")
        .map(|step| (step.event, serde_json::from_str(&step.fields).expect("an object")));
    let log = std::fs::read_to_string(folder.join("events.ndjson")).expect("an event log");
    let lines: Vec<Value> =
        log.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let observed = Observed { run, steps: steps.collect(), lines };
    let of_run = observed.lines.iter().filter(|line| line["run"] == observed.run.run.as_str());
    let logged: Vec<&str> =
        of_run.filter_map(|line| line[line["event"].as_str()?].as_str()).collect();
    assert_eq!(logged, observed.words(), "the event log says the same");
    observed
}

#[tokio::test]
async fn what_a_limit_would_have_done_is_said() {
    for (api, stream) in all() {
        let replies = [calls(1), calls(2), calls(3), calls(4), says("all of it")];
        let keys = [("tool_calls_limit", Key::Int(2))];
        let seen = observed(api, stream, &keys, &replies).await;
        let words = seen.words();
        for word in ["countdown", "ask"] {
            assert!(words.contains(&word), "stream {stream}: {words:?}");
        }
        assert_eq!(seen.because("ask")["reason"], "tool_calls", "stream {stream}");
        assert_eq!((seen.run.turns, seen.run.requests), (5, 5));
        let end = seen.run.end.as_ref().expect("it ended");
        assert_eq!(end.outcome.word(), "answered", "stream {stream}: the model ended it");
        assert_eq!(seen.run.tool_calls, Some(4), "stream {stream}");
        assert!(seen.run.cost.is_some_and(|cost| cost.0 > 0));
    }
}

#[tokio::test]
async fn a_batch_beyond_the_limit_is_said() {
    for (api, stream) in all() {
        let keys = [("tool_calls_limit", Key::Int(3))];
        let seen = observed(api, stream, &keys, &[batch(5), says("all of it")]).await;
        let words = seen.words();
        assert!(words.contains(&"refuse") || words.contains(&"ask"), "stream {stream}: {words:?}");
        assert_eq!(seen.run.tool_calls, Some(5), "stream {stream}: all of them ran");
    }
}

#[tokio::test]
async fn empty_turns_and_loops_are_said() {
    for (api, stream) in all() {
        let seen = observed(api, stream, &[], &[calls(1), nothing(), says("at last")]).await;
        assert_eq!(seen.words(), ["empty", "nudge"], "{stream}");
        let keys = [("empty_limit", Key::Int(1))];
        let seen = observed(api, stream, &keys, &[calls(1), nothing(), says("at last")]).await;
        assert_eq!(seen.words(), ["empty", "local_answer"], "{stream}");
        let loops: Vec<Reply> = (0..5).map(again).chain([says("all")]).collect();
        let seen = observed(api, stream, &[], &loops).await;
        let words = seen.words();
        assert!(words.contains(&"repeat") && words.contains(&"note"), "{stream}: {words:?}");
    }
}

#[tokio::test]
async fn money_is_counted_and_refuses_nothing() {
    for (api, stream) in all() {
        let keys = [("cost_limit_usd", text("0.000001"))];
        let seen = observed(api, stream, &keys, &[calls(1), calls(2), says("all")]).await;
        assert_eq!(seen.run.requests, 3);
        let words = seen.words();
        assert!(words.contains(&"ask") || words.contains(&"local_answer"), "{stream}: {words:?}");
    }
}
