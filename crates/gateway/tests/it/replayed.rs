//! A run's page afterwards: what was said stands in the turn that it was said in, with its time,
//! whatever softland itself said in between.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::Running;
use crate::support::client::{APIS, Client};
use crate::support::events::Events;
use crate::support::script::{Reply, Scripted, calls, nothing, says};
use crate::support::sim::governed;
use serde_json::Value;
use softland_session::core::policy::PolicyValue as Key;
use softland_session::wire::Api;

const HOUR: u64 = 3_600_000;

/// A page's lines of a run.
struct Page {
    lines: Vec<Value>,
}

impl Page {
    /// Plays a run to its end in a gateway that keeps contents, or in one that keeps nothing, and
    /// returns its page an hour later. Each request takes a minute.
    async fn of(api: Api, replies: Vec<Reply>, full: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let began = 1_790_000_000_000;
        let time = Arc::new(AtomicU64::new(began));
        let clock = Arc::clone(&time);
        let clock: softland_gateway::Clock = Arc::new(move || clock.load(Ordering::SeqCst));
        let upstream = Scripted::plays(replies).await;
        let mut settings = governed(&upstream.url(), &[("tool_calls_limit", Key::Int(3))]);
        settings.ledger = full.then(|| folder.path().join("ledger.db").into());
        settings.ledger_full = full;
        let gateway = Running::with_clock(settings, clock).await;
        let mut client = Client::on(api, true).told_usage().asking("What do the notes say?");
        let run = loop {
            time.fetch_add(60_000, Ordering::SeqCst);
            let (message, response) = client.turn(&gateway).await;
            if response.calls().is_empty() {
                break message.header("x-softland-run").expect("a run").to_owned();
            }
        };
        time.fetch_add(HOUR, Ordering::SeqCst);
        let path = format!("/api/runs/{run}/events");
        let lines = Events::of(&gateway, &path, None).await.rest().await;
        Self { lines: lines.into_iter().map(|(_, line)| line).collect() }
    }

    fn named(&self, event: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["event"] == event)
    }

    /// Turn and id of each call.
    fn calls(&self) -> Vec<(u64, &str)> {
        let call = |line: &'_ Value| line["turn"].as_u64().expect("a turn");
        self.named("tool_start").map(|at| (call(at), at["id"].as_str().expect("an id"))).collect()
    }

    fn question(&self) -> Option<&str> {
        self.named("question").find_map(|line| line["text"].as_str())
    }
}

#[tokio::test]
async fn c83_what_was_said_stands_in_its_turn_with_its_time() {
    let played = [
        ("plain", vec![calls(1), calls(2), says("All of it.")]),
        // The third call reaches the limit, and the fourth is refused behind the client's back.
        ("refused", vec![calls(1), calls(2), calls(3), calls(4), says("All of it.")]),
        ("nudged", vec![calls(1), nothing(), calls(2), says("All of it.")]),
        ("nudged first", vec![nothing(), calls(1), calls(2), says("All of it.")]),
        ("nudged last", vec![calls(1), calls(2), nothing(), says("All of it.")]),
    ];
    for (name, replies) in played {
        for api in APIS {
            let page = Page::of(api, replies.clone(), true).await;
            let what = format!("{name}, {api:?}: {:#?}", page.lines);
            assert_eq!(page.question(), Some("What do the notes say?"), "{what}");
            let calls = page.calls();
            assert_eq!(calls.first(), Some(&(1, "toolu_script0001")), "{what}");
            assert_eq!(calls.get(1), Some(&(2, "toolu_script0002")), "{what}");
            let results: Vec<_> = page.named("tool_result").map(|line| &line["turn"]).collect();
            assert_eq!(results.len(), calls.len(), "{what}");
            let late = page.lines.iter().filter(|line| {
                let minutes = line["ts"].as_str().expect("a time").get(11..16).expect("hh:mm");
                !("14:13".."14:20").contains(&minutes)
            });
            assert_eq!(late.count(), 0, "{what}");
        }
    }
}

#[tokio::test]
async fn c83_an_end_keeps_its_time_where_nothing_is_kept() {
    let page = Page::of(Api::Anthropic, vec![calls(1), says("All of it.")], false).await;
    let done = page.named("done").next().expect("an end");
    assert!(done["ts"].as_str().is_some_and(|time| time.contains("T14:1")), "{done}");
}
