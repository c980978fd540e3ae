//! Runs whose workers are killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use softland_agent::core::{Outcome, Reason};
use softland_agent::journal::new_run_id;
use softland_agent::{Event, EventKind, Report};
use softland_restate::{EngineClient, EngineState, FollowError, RunRequest, follow_run};

use crate::agents::{MOMENTS, all_effects, all_keys, kill_worker_at};
use crate::workers::{free_address, is_long, server, start};

fn ran(folder: &Path) -> BTreeMap<String, usize> {
    let mut ran = BTreeMap::new();
    for key in std::fs::read_to_string(folder.join("ran")).unwrap_or_default().lines() {
        *ran.entry(key.to_owned()).or_default() += 1;
    }
    ran
}

pub(crate) fn order(agent: &str) -> RunRequest {
    RunRequest { agent: agent.to_owned(), prompt: "Go.".to_owned() }
}

pub(crate) async fn follow(client: &EngineClient, run: &str) -> Result<Vec<Event>, FollowError> {
    let mut events = Vec::new();
    let mut hear = |event: &Event| events.push(event.clone());
    follow_run(client, run, &mut hear, &mut |_| {}).await?;
    Ok(events)
}

pub(crate) fn ended(events: &[Event]) -> Report {
    match &events.last().unwrap().kind {
        EventKind::Done { report } | EventKind::Error { report, .. } => report.as_ref().clone(),
        other => panic!("no end: {other:?}"),
    }
}

/// Each run of the tree tells its events once, in order, with one end.
pub(crate) fn well_told(events: &[Event], what: &str) {
    let mut runs: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
    for event in events {
        runs.entry(&event.run).or_default().push(event);
    }
    for (run, events) in runs {
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{what}: {run}");
        let ends = events.iter().filter(|event| event.kind.is_terminal()).count();
        assert_eq!(ends, 1, "{what}: {run}");
    }
}

/// Runs the lead; its worker is killed at this moment of its `number`th request or call, and started
/// again.
async fn run_lead_killed_at(
    client: &EngineClient,
    number: usize,
    moment: &str,
) -> (Vec<Event>, BTreeMap<String, usize>) {
    let folder = tempfile::tempdir().unwrap();
    kill_worker_at(folder.path(), number, moment);
    let listen = free_address();
    let worker = start(folder.path(), &listen);
    let run = new_run_id();
    client.start_run(&run, &order("lead")).await.unwrap();
    tokio::task::spawn_blocking(|| worker.wait_for_end()).await.unwrap();
    let worker = start(folder.path(), &listen);
    let events = follow(client, &run).await.unwrap();
    drop(worker);
    (events, ran(folder.path()))
}

/// Runs the lead; the worker is killed when so many calls have begun, and started again.
async fn run_lead(
    client: &EngineClient,
    kill_at: Option<usize>,
) -> (Vec<Event>, BTreeMap<String, usize>) {
    let folder = tempfile::tempdir().unwrap();
    let listen = free_address();
    let mut worker = start(folder.path(), &listen);
    let run = new_run_id();
    client.start_run(&run, &order("lead")).await.unwrap();
    if let Some(at) = kill_at {
        let began = Instant::now();
        while ran(folder.path()).values().sum::<usize>() < at {
            assert!(began.elapsed() < Duration::from_secs(60), "call {at} does not begin");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        drop(worker);
        worker = start(folder.path(), &listen);
    }
    let events = follow(client, &run).await.unwrap();
    let again = follow(client, &run).await.unwrap();
    let json = |events: &[Event]| serde_json::to_string(events).unwrap();
    assert_eq!(json(&events), json(&again), "following again shows the same");
    drop(worker);
    (events, ran(folder.path()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e02_a_run_whose_worker_is_killed_at_any_call_comes_to_the_same_answer() {
    let Some((ingress, _)) = server() else { return };
    let client = EngineClient::new(&ingress).unwrap();
    let (whole, _) = run_lead(&client, None).await;
    well_told(&whole, "whole");
    let calls = all_keys().len();
    let every = if is_long() { 1 } else { 4 };
    for at in (1..=calls).step_by(every) {
        let (events, ran) = run_lead(&client, Some(at)).await;
        holds(&events, &ran, &whole, &format!("killed at call {at}"));
    }
    // Each step stores that one of these begins, or what it has returned: the moments are those before,
    // in and after every step.
    let effects = if is_long() { all_effects() } else { 0 };
    for number in 0..effects {
        for moment in MOMENTS {
            let (events, ran) = run_lead_killed_at(&client, number, moment).await;
            holds(&events, &ran, &whole, &format!("killed where {number} {moment}"));
        }
    }
}

/// Checks a run whose worker was killed against one that was left alone.
fn holds(events: &[Event], ran: &BTreeMap<String, usize>, whole: &[Event], what: &str) {
    well_told(events, what);
    assert_eq!(ended(events).ended.outcome, Outcome::Answered, "{what}");
    for key in all_keys() {
        let times = ran.get(key).copied().unwrap_or(0);
        assert!(times <= 1 || key.starts_with('p'), "{what}: {key} was run {times} times");
    }
    let interrupted = events.iter().any(|event| {
        let EventKind::ToolResult { content, .. } = &event.kind else { return false };
        content.contains("interrupted")
    });
    if !interrupted {
        assert_eq!(ended(events).answer, ended(whole).answer, "{what}");
    }
    assert!(ended(events).cost_usd >= ended(whole).cost_usd, "{what}: the bill is whole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e06_cancelling_reaches_a_call_that_runs_and_the_whole_tree() {
    let Some((ingress, _)) = server() else { return };
    let client = EngineClient::new(&ingress).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("slow"), "").unwrap();
    let _worker = start(folder.path(), &free_address());
    let run = new_run_id();
    client.start_run(&run, &order("lead")).await.unwrap();
    while ran(folder.path()).is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    client.cancel_run(&run).await.unwrap();
    let events = follow(&client, &run).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    well_told(&events, "cancelled");
    assert_eq!(ended(&events).ended.outcome, Outcome::Cancelled);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_unknown_runs_and_agents_are_told() {
    let Some((ingress, _)) = server() else { return };
    let client = EngineClient::new(&ingress).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _worker = start(folder.path(), &free_address());
    let run = new_run_id();
    assert!(matches!(follow(&client, &run).await, Err(FollowError::Unknown)));
    client.start_run(&run, &order("ghost")).await.unwrap();
    let refused = follow(&client, &run).await.unwrap();
    let [Event { kind: EventKind::Error { message, report }, .. }] = &refused[..] else {
        panic!("{refused:?}")
    };
    assert_eq!(message, "the worker has no agent `ghost`");
    assert_eq!((report.ended.outcome, &report.ended.reason), (Outcome::Failed, &Reason::Setup));
    let state = client.find_state(&run).await.unwrap();
    assert!(matches!(state, EngineState::Ended { .. }), "{state:?}");
    let runs = client.list_runs().await.unwrap();
    assert!(runs.iter().any(|row| row.run == run && row.state == "completed"), "{runs:?}");
}
