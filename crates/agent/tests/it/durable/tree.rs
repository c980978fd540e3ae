//! The tree of agents that the journal's tests kill, kept by an engine.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use softland_agent::durable::RunEnd;
use softland_agent::{Conversation, Event, EventKind};

use crate::durable::mock::{MockEngine, When, durable};
use crate::journal::errand::{Came, ran};
use crate::journal::tree::{self, ENOUGH, Model, all_keys, well_told};

async fn run_tree(folder: &Path, engine: &MockEngine) -> (Came, u64) {
    let lead = tree::lead(folder, &Model::new(), ENOUGH);
    let (end, attempts) = engine.run(&durable(lead, "Go.")).await;
    assert!(matches!(end, RunEnd::Ended { .. }), "{end:?}");
    let events = engine.events();
    let report = match &events.last().unwrap().kind {
        EventKind::Done { report } => report.as_ref().clone(),
        other => panic!("no answer: {other:?}"),
    };
    (Came { report, events, conversation: Conversation::new() }, attempts)
}

/// The result of each call of a tool, by the call's key.
fn results(events: &[Event]) -> BTreeMap<String, String> {
    let (mut keys, mut results) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        match &event.kind {
            EventKind::ToolExecute { id, input, .. } => {
                let key = input.get("key").and_then(Value::as_str).map(str::to_owned);
                keys.insert((event.run.clone(), id.clone()), key);
            }
            EventKind::ToolResult { id, content, .. } => {
                let key = keys.get(&(event.run.clone(), id.clone())).cloned().flatten();
                if let Some(key) = key {
                    let known = results.insert(key.clone(), content.clone());
                    assert_eq!(known, None, "a second result of {key}");
                }
            }
            _ => {}
        }
    }
    results
}

/// Checks a tree whose process has crashed. Returns the number of interrupted calls.
fn holds(folder: &Path, came: &Came, whole: &Came, what: &str) -> usize {
    well_told(came, what);
    let (ran, results) = (ran(folder), results(&came.events));
    let mut answer = whole.report.answer.clone().unwrap();
    let mut interrupted = 0;
    for key in all_keys() {
        let (times, result) = (ran.get(&key).copied().unwrap_or(0), &results[&key]);
        if result.contains("interrupted") {
            assert!(key.starts_with('n'), "{what}: {key} may run again");
            answer = answer.replace(&format!("{key} is done"), result);
            interrupted += 1;
        } else {
            assert_eq!(*result, format!("{key} is done"), "{what}");
            assert!(times >= 1, "{what}: {key} never ran");
        }
        assert!(times <= 1 || key.starts_with('p'), "{what}: {key} was run {times} times");
    }
    assert_eq!(came.report.answer.as_ref(), Some(&answer), "{what}");
    interrupted
}

/// The events of each run without their deltas, numbers, times and durations.
fn without_deltas(came: &Came) -> BTreeMap<String, Vec<Value>> {
    let mut told = tree::told(came);
    for events in told.values_mut() {
        events.retain(|event| !event["event"].as_str().unwrap().ends_with("_delta"));
        for event in events {
            let event = event.as_object_mut().unwrap();
            event.remove("seq");
            // What the session has left depends on which run comes first.
            event.remove("remaining");
        }
    }
    told
}

#[tokio::test]
async fn e01_a_run_that_an_engine_keeps_is_the_run_of_one_machine() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let local = tree::run(here.path(), &Model::new(), ENOUGH).await;
    let (came, attempts) = run_tree(there.path(), &MockEngine::default()).await;
    assert_eq!(attempts, 1);
    assert_eq!(holds(there.path(), &came, &local, "whole"), 0);
    let (came_told, local_told) = (without_deltas(&came), without_deltas(&local));
    for (run, events) in &local_told {
        for (n, event) in events.iter().enumerate() {
            assert_eq!(came_told[run].get(n), Some(event), "event {n} of run {run}");
        }
        assert_eq!(came_told[run].len(), events.len());
    }
    assert_eq!(came.report.cost_usd, local.report.cost_usd);
}

#[tokio::test]
async fn e02_a_tree_whose_process_crashes_at_any_step_comes_to_the_same_answer() {
    let all = tempfile::tempdir().unwrap();
    let engine = MockEngine::default();
    let (whole, _) = run_tree(all.path(), &engine).await;
    let steps = engine.sizes().len() as u64;
    assert!(steps > 20, "{steps} steps");
    let mut interrupted = 0;
    for at in 0..steps {
        for when in [When::Before, When::During(1), When::During(3), When::After, When::Recorded] {
            let folder = tempfile::tempdir().unwrap();
            let what = format!("crashed {when:?} step {at}");
            let engine = MockEngine::with_crashes([(at, when)]);
            let (came, attempts) = run_tree(folder.path(), &engine).await;
            assert!(attempts <= 2, "{what}");
            interrupted += holds(folder.path(), &came, &whole, &what);
            assert!(came.report.cost_usd >= whole.report.cost_usd, "{what}: the bill is complete");
        }
    }
    assert!(interrupted > 10, "hardly a call was interrupted: {interrupted}");
}

#[tokio::test]
async fn e03_a_tree_whose_processes_crash_again_and_again_comes_to_the_same_answer() {
    let all = tempfile::tempdir().unwrap();
    let (whole, _) = run_tree(all.path(), &MockEngine::default()).await;
    for every in [1, 2, 3, 5, 9] {
        let kinds = [When::Before, When::Recorded, When::After, When::During(3)];
        // A step that is recorded in each second attempt at least, so that the run gets on.
        let crashes = (0..12).map(|n| (n * every, kinds[usize::try_from(n % 4).unwrap()]));
        let folder = tempfile::tempdir().unwrap();
        let engine = MockEngine::with_crashes(crashes);
        let (came, attempts) = run_tree(folder.path(), &engine).await;
        assert!((4..=13).contains(&attempts), "{attempts} attempts");
        holds(folder.path(), &came, &whole, &format!("crashed every {every} steps"));
    }
}
