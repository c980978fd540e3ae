//! A tree of runs whose process is killed, really: at every record, before it, in it and after it.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use softland_agent::core::Outcome;
use softland_agent::journal::new_run_id;
use softland_agent::{Conversation, Event};
use tokio_util::sync::CancellationToken;

use crate::journal::errand::{self, Came, journal, lines, ran};
use crate::journal::kill::{AT, Deadly, FOLDER, WHEN, killed_in};
use crate::journal::tree::{self, CALLS, ENOUGH, Model, all_keys, suffix, well_told};

/// Not a test by itself: the process that the other tests start and kill. Its output outlives it.
#[ignore = "started by the other tests, with an environment"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, left) = (Path::new(&folder), std::env::var(AT).unwrap().parse().unwrap());
    let when = std::env::var(WHEN).unwrap();
    let journal = journal(folder).with_writer(|file| Box::new(Deadly { file, left, when }));
    let path = folder.join("told");
    let mut told = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    let mut hear = |event: &Event| {
        if !event.replayed {
            let mut line = serde_json::to_vec(event).unwrap();
            line.push(b'\n');
            told.write_all(&line).unwrap();
        }
    };
    let lead = match std::env::var(LIMIT) {
        Ok(limit) => tree::limited(folder, &Model::new(), &limit),
        Err(_) => tree::lead(folder, &Model::new(), ENOUGH),
    };
    let (mut conversation, cancel) = (Conversation::new(), CancellationToken::new());
    let run = journal.root_run(&new_run_id());
    lead.run_in_journal(&run, &mut conversation, "Go.", &mut hear, &cancel).await.unwrap();
}

/// The additional limit of the tree.
const LIMIT: &str = "SOFTLAND_TEST_LIMIT";

fn killed(folder: &Path, at: u64, when: &str) -> bool {
    killed_in("journal::tree_kill::child", folder, at, when, &[])
}

/// The record of one call: whether it began, and its result.
type Recorded = (bool, Option<String>);

/// The calls of tools by key, and the calls of agents by run and position.
fn recorded(folder: &Path) -> BTreeMap<String, Recorded> {
    let text = std::fs::read_to_string(errand::path(folder)).unwrap_or_default();
    // The last line may be torn.
    let records = text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok());
    let (mut calls, mut places) = (BTreeMap::<String, Recorded>::new(), BTreeMap::new());
    for record in records {
        let run = suffix(record["run"].as_str().unwrap());
        let place = format!("{run} {} {}", record["turn"], record["call"]);
        match record["kind"].as_str().unwrap() {
            "call" => {
                let input: Value = serde_json::from_str(record["input"].as_str().unwrap()).unwrap();
                let key = input["key"].as_str().map_or_else(|| place.clone(), str::to_owned);
                calls.entry(key.clone()).or_default().0 = true;
                places.insert(place, key);
            }
            "result" => {
                let content = record["content"].as_str().unwrap().to_owned();
                let key = &places[&place];
                let known = calls.get_mut(key).unwrap();
                assert_eq!(known.1, None, "a second result of {key}");
                known.1 = Some(content);
            }
            _ => {}
        }
    }
    calls
}

/// The results of tools that this process emitted, by run and number.
fn results<'a>(events: impl Iterator<Item = &'a Value>) -> Vec<(String, u64)> {
    events
        .filter(|event| event["event"] == "tool_result")
        .map(|event| (suffix(event["run"].as_str().unwrap()), event["seq"].as_u64().unwrap()))
        .collect()
}

/// Every result was emitted by one of the processes, and at most once by the last one.
fn all_told(folder: &Path, came: &Came, what: &str) {
    let value = |event: &Event| serde_json::to_value(event).unwrap();
    let all: Vec<Value> = came.events.iter().map(value).collect();
    let now: Vec<Value> = came.events.iter().filter(|e| !e.replayed).map(value).collect();
    let before = std::fs::read_to_string(folder.join("told")).unwrap_or_default();
    let before: Vec<Value> =
        before.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let (before, now) = (results(before.iter()), results(now.iter()));
    for result in results(all.iter()) {
        let times = now.iter().filter(|told| **told == result).count();
        assert!(times <= 1, "{what}: {result:?} was told {times} times");
        assert!(times == 1 || before.contains(&result), "{what}: {result:?} was never told");
    }
}

/// Checks a tree that was resumed. `before` holds the journal at each kill. Returns the number of
/// interrupted calls.
fn holds(
    folder: &Path,
    before: &[BTreeMap<String, Recorded>],
    came: &Came,
    whole: &Came,
    what: &str,
) -> usize {
    assert_eq!(came.report.ended.outcome, Outcome::Answered, "{what}: {:?}", came.report);
    let after = recorded(folder);
    assert_eq!(after.len(), CALLS, "{what}");
    let interrupted = held(folder, before, came, whole, what);
    well_told(came, what);
    all_told(folder, came, what);
    interrupted
}

/// No result was lost, no call ran again that may not, and the answer is the same except for
/// interrupted calls. Returns the number of those.
fn held(
    folder: &Path,
    before: &[BTreeMap<String, Recorded>],
    came: &Came,
    whole: &Came,
    what: &str,
) -> usize {
    let (ran, after) = (ran(folder), recorded(folder));
    for (key, (_, result)) in before.iter().flatten() {
        if result.is_some() {
            assert_eq!(*result, after[key].1, "{what}: the result of {key} was lost");
        }
    }
    let mut answer = whole.report.answer.clone().unwrap();
    let mut interrupted = 0;
    // Under a limit not all of them are made.
    for key in all_keys().into_iter().filter(|key| after.contains_key(key)) {
        let times = ran.get(&key).copied().unwrap_or(0);
        let result = after[&key].1.clone().unwrap();
        let open = |calls: &&BTreeMap<String, Recorded>| {
            calls.get(&key).is_some_and(|(begun, result)| *begun && result.is_none())
        };
        let deaths = before.iter().filter(open).count();
        if !key.starts_with('n') {
            assert!((1..=1 + deaths).contains(&times), "{what}: {key} was run {times} times");
        } else if deaths == 0 {
            assert_eq!((times, result), (1, format!("{key} is done")), "{what}");
        } else {
            // The process was killed between the record and the run, so the call never ran.
            assert!(times <= 1, "{what}: {key} was run {times} times");
            assert!(result.contains("interrupted"), "{what}: {key}: {result}");
            answer = answer.replace(&format!("{key} is done"), &result);
            interrupted += 1;
        }
    }
    assert_eq!(came.report.answer.as_ref(), Some(&answer), "{what}");
    if interrupted == 0 {
        assert_eq!(came.messages(), whole.messages(), "{what}");
    }
    interrupted
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_killed_at_any_record_goes_on() {
    let all = tempfile::tempdir().unwrap();
    let whole = tree::run(all.path(), &Model::new(), ENOUGH).await;
    assert_eq!(whole.report.ended.outcome, Outcome::Answered);
    let records = lines(all.path()).len() as u64;
    assert!(records > 150, "{records}");
    let mut interrupted = 0;
    for at in 1..=records {
        for when in ["before", "in", "after"] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let what = format!("killed {when} record {at}");
            assert!(killed(folder, at, when), "{what}");
            let before = [recorded(folder)];
            let came = tree::run(folder, &Model::new(), ENOUGH).await;
            interrupted += holds(folder, &before, &came, &whole, &what);
        }
    }
    assert!(interrupted > 10, "hardly a call was interrupted: {interrupted}");
}

/// Under a limit of time, of characters, and of so few that they land the lead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limited_tree_killed_at_any_record_goes_on() {
    for limit in tree::LIMITS {
        let run = async |folder: &Path| {
            let journal = journal(folder).root_run(&new_run_id());
            errand::run(&tree::limited(folder, &Model::new(), limit), &journal).await
        };
        let all = tempfile::tempdir().unwrap();
        let whole = run(all.path()).await;
        let landed = whole.report.ended.outcome == Outcome::Landed;
        assert_eq!(landed, limit == "few chars", "{:?}", whole.report);
        let records = lines(all.path()).len() as u64;
        assert!(records > 30, "{records}");
        let mut interrupted = 0;
        for at in 1..=records {
            let when = ["before", "in", "after"][at as usize % 3];
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let what = format!("{limit}: killed {when} record {at}");
            let limit = [(LIMIT, limit)];
            assert!(killed_in("journal::tree_kill::child", folder, at, when, &limit), "{what}");
            let before = [recorded(folder)];
            let came = run(folder).await;
            assert_eq!(came.report.ended.outcome, whole.report.ended.outcome, "{what}");
            assert_eq!(came.report.ended.reason, whole.report.ended.reason, "{what}");
            // The text about an interrupted call is longer and crosses a limit of characters.
            let cut =
                |key: &str| before[0].get(key).is_some_and(|(begun, end)| *begun && end.is_none());
            if limit[0].1 == "few chars"
                && all_keys().iter().any(|key| cut(key) && key.starts_with('n'))
            {
                interrupted += 1;
            } else {
                interrupted += held(folder, &before, &came, &whole, &what);
            }
            well_told(&came, &what);
            all_told(folder, &came, &what);
        }
        assert!(interrupted > 0, "{limit}: nothing was interrupted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_killed_again_and_again_comes_to_its_end() {
    let all = tempfile::tempdir().unwrap();
    let whole = tree::run(all.path(), &Model::new(), ENOUGH).await;
    for seed in 3..6_u64 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (mut before, mut deaths, mut at) = (Vec::new(), 0, seed);
        // A last process with fewer records (resume, and for each run request and response) may add
        // nothing new.
        while killed(folder, 12 + at % 9, ["before", "in", "after"][deaths % 3]) {
            before.push(recorded(folder));
            (deaths, at) = (deaths + 1, at.wrapping_mul(6_364_136_223_846_793_005) >> 7);
            assert!(deaths < 200, "the tree comes to no end");
        }
        assert!(deaths > 6, "{deaths}");
        // The run is over. Its events are emitted again from the records alone.
        let came = tree::run(folder, &Model::new(), ENOUGH).await;
        holds(folder, &before, &came, &whole, &format!("seed {seed}, {deaths} deaths"));
    }
}
