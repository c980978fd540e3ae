//! Many who watch: readers who are too slow, and five hundred runs at once.
//!
//! A binary of its own: it measures the memory and the processor time of its process.

#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

#[path = "it/support/mod.rs"]
mod support;

use futures_util::future::join_all;
use serde_json::{Value, json};
use softland_session::core::policy::PolicyValue as Key;
use support::client::Client;
use support::events::Events;
use support::script::{Form, INPUT, OUTPUT, Reply, Scripted, calls, whole_with};
use support::sim::governed;
use support::{Provider, Running};

/// A number of this process by Linux's account of it: kilobytes, or clock ticks.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn processor() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

fn is(events: &[(String, Value)], name: &str) -> usize {
    events.iter().filter(|(_, event)| event["event"] == name).count()
}

fn numbers(events: &[(String, Value)]) -> Vec<u64> {
    events.iter().filter_map(|(_, event)| event["seq"].as_u64()).collect()
}

const SLOW: usize = 60;
const BLOCKS: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_for_slow_readers_and_they_begin_anew_with_what_is_kept() {
    // 40 MB, of which 16 MiB are kept.
    let block = |n| json!({"type": "text", "text": format!("{n:06} {}", "x".repeat(40_000))});
    let long = Reply::Says((0..BLOCKS).map(block).collect(), "end_turn");
    let upstream = Scripted::plays(vec![calls(1), long]).await;
    let gateway = Running::with(governed(&upstream.url(), &[])).await;
    let mut client = Client::new(true);
    let run = client.turn(&gateway).await.0.header("x-softland-run").unwrap().to_owned();
    let path = format!("/api/runs/{run}/events");
    let before = memory();
    let slow = join_all((0..SLOW).map(|_| Events::of(&gateway, &path, None))).await;
    let (_, response) = client.turn(&gateway).await;
    assert!(response.calls().is_empty(), "the run is over, whoever reads");
    drop(response);
    if let (Some(before), Some(after)) = (before, memory()) {
        let grown = after.saturating_sub(before) / 1024;
        println!("{grown} MiB more with {SLOW} slow readers of 40 MB each");
        assert!(grown < 1_000, "{grown} MiB: each has a copy");
    }
    let mut kept = Vec::new();
    for mut events in slow {
        let had = events.rest().await;
        let (last, had) = had.split_last().unwrap();
        assert_eq!(last.1["kind"], "resync", "the oldest lines are gone");
        assert!(is(had, "done") == 0 && is(had, "text_start") < BLOCKS);
        let seqs = numbers(had);
        assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "up to there all of it");
        if kept.is_empty() {
            kept = Events::of(&gateway, &path, None).await.rest().await;
        }
    }
    let seqs = numbers(&kept);
    let (first, last) = (seqs[0], *seqs.last().unwrap());
    assert!(first > 0, "16 MiB of it are kept");
    assert_eq!(seqs, (first..=last).collect::<Vec<_>>(), "no gap and none twice");
    assert!(is(&kept, "done") == 1 && is(&kept, "text_delta") > 300);
    let bytes: usize = kept.iter().map(|(_, event)| event.to_string().len()).sum();
    assert!(bytes <= 17 << 20, "{bytes}");
    // Who comes back from anywhere in it reads on behind that, and no more than that.
    for at in [0, kept.len() / 2, kept.len() - 2] {
        let rest = Events::of(&gateway, &path, Some(&kept[at].0)).await.rest().await;
        assert_eq!(rest, kept[at + 1..], "from {at}");
    }
    // Who comes back from before it is told so.
    let name = kept[0].0.split_once('.').unwrap().1;
    let gone = Events::of(&gateway, &path, Some(&format!("1.{name}"))).await.rest().await;
    assert!(gone.len() == 1 && gone[0].1["kind"] == "resync", "{gone:?}");
}

/// Two calls, one after the other, and an answer, told by how much was said before.
async fn three_turns() -> Provider {
    Provider::does(|asked, wire| async move {
        let body: Value = serde_json::from_slice(&asked.body).unwrap();
        let before = body["messages"].as_array().unwrap().len() / 2;
        let call = json!({"type": "tool_use", "id": format!("toolu_watched{before:04}"),
            "name": "read_file", "input": {"path": before.to_string()}});
        let says = json!({"type": "text", "text": format!("turn {before}")});
        let (blocks, stop) = match before {
            0 | 1 => (vec![says, call], "tool_use"),
            _ => (vec![says], "end_turn"),
        };
        let said = whole_with(Form::of(&asked), &blocks, stop, [INPUT, OUTPUT]);
        wire.lock().await.send(said).await;
        true
    })
    .await
}

/// As many runs as this machine has files for, with two ends of each connection.
fn runs() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = files.and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    soft.map_or(500, |soft| (soft.saturating_sub(100) / 6).clamp(20, 500))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_live_runs_are_watched_at_once_each_whole_and_in_order() {
    let upstream = three_turns().await;
    let keys = [("tool_calls_limit", Key::Int(10))];
    let gateway = Running::with(governed(&upstream.url(), &keys)).await;
    let many = runs();
    let mut clients: Vec<Client> =
        (0..many).map(|n| Client::new(true).with(&format!("x-softland-run: run-{n}"))).collect();
    let mut names = Vec::new();
    for client in &mut clients {
        let (message, _) = client.turn(&gateway).await;
        names.push(message.header("x-softland-run").unwrap().to_owned());
    }
    let (memory_before, processor_before) = (memory(), processor());
    let mut list = Events::of(&gateway, "/api/events", None).await;
    let views = names.iter().map(|name| {
        let (gateway, path) = (&gateway, format!("/api/runs/{name}/events"));
        async move { Events::of(gateway, &path, None).await }
    });
    let mut views = join_all(views).await;
    let works = async {
        for _ in 0..2 {
            for part in clients.chunks_mut(25) {
                join_all(part.iter_mut().map(|client| client.turn(&gateway))).await;
            }
        }
    };
    let (_, seen) = tokio::join!(works, join_all(views.iter_mut().map(Events::rest)));
    let (memory_after, processor_after) = (memory(), processor());
    for (run, seen) in names.iter().zip(&seen) {
        let seqs = numbers(seen);
        assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "{run}: {seen:#?}");
        assert!(seen.iter().all(|(_, event)| event["run"] == **run), "{run}: {seen:#?}");
        let told = [is(seen, "question"), is(seen, "tool_result"), is(seen, "done")];
        assert_eq!(told, [1, 2, 1], "{run}: {seen:#?}");
        let said = seen.iter().filter(|(_, event)| event["event"] == "text_delta");
        let said: Vec<&str> = said.filter_map(|(_, event)| event["text"].as_str()).collect();
        assert_eq!(said, ["turn 0", "turn 1", "turn 2"], "{run}");
    }
    let mut over = std::collections::BTreeSet::new();
    while over.len() < many {
        let (_, row) = list.next().await.unwrap();
        if row["outcome"] == "answered" {
            over.insert(row["run"].to_string());
        }
    }
    let grown = memory_after.zip(memory_before).map(|(after, before)| after.saturating_sub(before));
    let ticks = processor_after.zip(processor_before).map(|(after, before)| after - before);
    println!(
        "{many} runs watched: {grown:?} KiB more, {ticks:?} clock ticks for two turns of each"
    );
}
