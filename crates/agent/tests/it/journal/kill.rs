//! Processes that are killed, really: at every record, before it, in it and after it.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use softland_agent::core::Outcome;
use softland_agent::journal::new_run_id;

use crate::journal::errand::{self, CALLS, Came, Model, all_keys, journal, lines, ran};

/// The child's folder, the record at which it dies, and the moment.
pub(crate) const FOLDER: &str = "SOFTLAND_TEST_FOLDER";
pub(crate) const AT: &str = "SOFTLAND_TEST_KILL_AT";
pub(crate) const WHEN: &str = "SOFTLAND_TEST_KILL_WHEN";

/// A file whose process is killed at a record.
pub(crate) struct Deadly {
    pub(crate) file: Box<dyn Write + Send>,
    pub(crate) left: u64,
    pub(crate) when: String,
}

impl Write for Deadly {
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        self.left -= 1;
        if self.left > 0 {
            return self.file.write(record);
        }
        let part = match self.when.as_str() {
            "before" => 0,
            "in" => record.len() / 2,
            _ => record.len(),
        };
        self.file.write_all(&record[..part])?;
        let me = std::process::id().to_string();
        Command::new("kill").args(["-9", &me]).status()?;
        loop {
            std::thread::park();
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Not a test by itself: the process that the other tests start and kill.
#[ignore = "started by the other tests, with an environment"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (folder, left) = (Path::new(&folder), std::env::var(AT).unwrap().parse().unwrap());
    let when = std::env::var(WHEN).unwrap();
    let journal = journal(folder).with_writer(|file| Box::new(Deadly { file, left, when }));
    errand::run(&errand::agent(folder, &Model::new()), &journal.root_run(&new_run_id())).await;
}

fn killed(folder: &Path, at: u64, when: &str) -> bool {
    killed_in("journal::kill::child", folder, at, when, &[])
}

/// Runs a process until it is killed at its record `at`; false where it came to its end.
pub(crate) fn killed_in(
    child: &str,
    folder: &Path,
    at: u64,
    when: &str,
    variables: &[(&str, &str)],
) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", child, "--ignored", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(AT, at.to_string())
        .env(WHEN, when)
        .envs(variables.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert!(status.code().is_none_or(|code| code == 0), "the child failed: {status}");
    status.code().is_none()
}

/// The record of one call.
#[derive(Clone, Debug, Default)]
struct Recorded {
    begun: bool,
    result: Option<String>,
}

fn recorded(folder: &Path) -> Vec<(String, Recorded)> {
    let text = std::fs::read_to_string(errand::path(folder)).unwrap_or_default();
    // The last line may be torn.
    let records: Vec<Value> =
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect();
    let mut calls: Vec<(String, Recorded)> =
        all_keys().into_iter().map(|key| (key, Recorded::default())).collect();
    let mut places = std::collections::BTreeMap::new();
    for record in &records {
        let place = (record["turn"].as_u64(), record["call"].as_u64());
        match record["kind"].as_str().unwrap() {
            "call" => {
                let input: Value = serde_json::from_str(record["input"].as_str().unwrap()).unwrap();
                let key = input["key"].as_str().unwrap().to_owned();
                let at = calls.iter().position(|(known, _)| *known == key).unwrap();
                calls[at].1.begun = true;
                places.insert(place, at);
            }
            "result" => {
                let content = record["content"].as_str().unwrap().to_owned();
                calls[places[&place]].1.result = Some(content);
            }
            _ => {}
        }
    }
    calls
}

/// Checks a run that was resumed. `before` holds the journal at each kill.
fn holds(folder: &Path, before: &[Vec<(String, Recorded)>], came: &Came, whole: &Came, what: &str) {
    assert_eq!(came.report.ended.outcome, Outcome::Answered, "{what}");
    let (ran, after) = (ran(folder), recorded(folder));
    let mut answer = whole.report.answer.clone().unwrap();
    let mut interrupted = 0;
    for (at, key) in all_keys().iter().enumerate() {
        let times = ran.get(key).copied().unwrap_or(0);
        let result = after[at].1.result.clone().unwrap();
        for known in before.iter().filter_map(|calls| calls[at].1.result.as_ref()) {
            assert_eq!(*known, result, "{what}: the result of {key} was lost");
        }
        let unknown =
            |calls: &&Vec<(String, Recorded)>| calls[at].1.begun && calls[at].1.result.is_none();
        let deaths = before.iter().filter(unknown).count();
        if key.starts_with('n') {
            // The process was killed between the record and the run, so the call never ran.
            assert!(times <= 1, "{what}: {key} was run {times} times");
            assert_eq!(result.contains("interrupted"), deaths > 0, "{what}: {key}: {result}");
            if deaths > 0 {
                interrupted += 1;
                answer = answer.replace(&format!("{key} is done"), &result);
            } else {
                assert_eq!(times, 1, "{what}: {key} was run {times} times");
            }
        } else {
            assert!((1..=1 + deaths).contains(&times), "{what}: {key} was run {times} times");
        }
    }
    assert_eq!(came.report.answer.as_ref(), Some(&answer), "{what}");
    let told = came.messages().concat().matches("interrupted. This call").count();
    // The results, and the answer that repeats them.
    assert_eq!(told, 2 * interrupted, "{what}");
    if interrupted == 0 {
        assert_eq!(came.messages(), whole.messages(), "{what}");
    }
    numbered(came, what);
    assert_eq!(ran.len() + missing(&after, &ran), CALLS, "{what}");
}

/// Returns the calls that never ran because their process was killed right before.
fn missing(after: &[(String, Recorded)], ran: &std::collections::BTreeMap<String, usize>) -> usize {
    let never = |(key, call): &&(String, Recorded)| {
        !ran.contains_key(key) && call.result.as_ref().unwrap().contains("interrupted")
    };
    after.iter().filter(never).count()
}

fn numbered(came: &Came, what: &str) {
    let numbers: Vec<u64> = came.events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>(), "{what}");
}

async fn go_on(folder: &Path) -> Came {
    let journal = journal(folder).root_run(&new_run_id());
    errand::run(&errand::agent(folder, &Model::new()), &journal).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_killed_at_any_record_goes_on() {
    let all = tempfile::tempdir().unwrap();
    let whole = errand::whole(all.path()).await;
    let records = lines(all.path()).len() as u64;
    assert!(records > 80, "{records}");
    let mut interrupted = 0;
    for at in 1..=records {
        for when in ["before", "in", "after"] {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let what = format!("killed {when} record {at}");
            assert!(killed(folder, at, when), "{what}");
            let before = [recorded(folder)];
            let came = go_on(folder).await;
            holds(folder, &before, &came, &whole, &what);
            interrupted += u32::from(came.report.answer.unwrap().contains("interrupted"));
        }
    }
    assert!(interrupted > 10, "hardly a call was interrupted: {interrupted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_killed_again_and_again_comes_to_its_end() {
    let all = tempfile::tempdir().unwrap();
    let whole = errand::whole(all.path()).await;
    for seed in 3..9_u64 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (mut before, mut deaths, mut at) = (Vec::new(), 0, seed);
        // A last process with fewer than three records (resume, request, response) adds nothing
        // new.
        while killed(folder, 3 + at % 5, ["before", "in", "after"][deaths % 3]) {
            before.push(recorded(folder));
            (deaths, at) = (deaths + 1, at.wrapping_mul(6_364_136_223_846_793_005) >> 7);
            assert!(deaths < 500, "the run comes to no end");
        }
        assert!(deaths > 10, "{deaths}");
        // The run is over. Its events are emitted again from the records alone.
        let came = go_on(folder).await;
        holds(folder, &before, &came, &whole, &format!("seed {seed}, {deaths} deaths"));
    }
}
