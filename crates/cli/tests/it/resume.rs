//! `--journal`, `--resume` and `--continue`, through the real binary, which is killed for it.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;
use serde_json::Value;

const QUESTION: &str = "What did we decide about pricing?";

/// A run that takes its time, kept in this file.
fn slow(journal: &Path, flags: &[&str]) -> Command {
    let mut command = softland();
    command.arg("run").arg(analyst()).arg(QUESTION).arg("--root").arg(notes());
    command.args(["--model", "sim/slow:40"]).args(flags).arg("--journal").arg(journal);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn records(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn id(journal: &Path) -> String {
    records(journal)[0]["run"].as_str().unwrap().to_owned()
}

/// Waits until a file holds that many lines.
fn grown(journal: &Path, lines: usize) {
    let began = Instant::now();
    while records(journal).len() < lines {
        assert!(began.elapsed() < Duration::from_secs(20), "{}", journal.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn resumed(journal: &Path, flags: &[&str]) -> Said {
    let run = id(journal);
    said_by(softland().args(["run", "--resume", &run, "--journal"]).arg(journal).args(flags))
}

#[test]
fn a_run_that_is_killed_comes_to_the_same_answer() {
    let folder = tempfile::tempdir().unwrap();
    let whole = said_by(&mut slow(&folder.path().join("whole"), &[])).status(0);
    // The moments are effectively random: the run is killed wherever it is when the journal has
    // that many lines.
    for after in [1, 2, 3, 5, 8, 9, 13, 20, 21, 27, 33, 38] {
        let journal = folder.path().join(format!("killed-{after}"));
        let mut run = slow(&journal, &[]).spawn().unwrap();
        grown(&journal, after);
        std::thread::sleep(Duration::from_micros(1_700 * after as u64 % 23_000));
        kill(run.id(), "KILL");
        run.wait().unwrap();
        let said = resumed(&journal, &[]).status(0);
        assert_eq!(said.stdout, whole.stdout, "killed behind {after} records");
        // A call that is repeated begins twice; a call with a result is never repeated.
        let mut results = Vec::new();
        for record in records(&journal) {
            let call = (record["turn"].clone(), record["call"].clone());
            match record["kind"].as_str().unwrap() {
                "call" => assert!(!results.contains(&call), "a finished call ran again"),
                "result" => results.push(call),
                _ => {}
            }
        }
        assert_eq!(results.len(), 8);
    }
}

#[test]
fn events_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("run.ndjson");
    let run = slow(&journal, &["--format", "json"]).spawn().unwrap();
    grown(&journal, 14);
    kill(run.id(), "KILL");
    let before = run.wait_with_output().unwrap().stdout;
    let before = String::from_utf8(before).unwrap();
    // The last line may be cut.
    let before: Vec<Value> =
        before.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let after = resumed(&journal, &["--format", "json"]).status(0).events();
    let seq = |event: &Value| event["seq"].as_u64().unwrap();
    let numbers: Vec<u64> = after.iter().map(seq).collect();
    let first = numbers[0];
    assert_eq!(numbers, (first..first + numbers.len() as u64).collect::<Vec<_>>());
    assert!(first > 0 && first <= seq(before.last().unwrap()) + 1, "{first}");
    assert_eq!(before[0]["run"], after[0]["run"]);
    assert_eq!(after.last().unwrap()["event"], "done");
    // A run that has ended prints its last event again.
    let again = resumed(&journal, &["--format", "json"]).status(0).events();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["answer"], after.last().unwrap()["answer"]);
    assert_eq!(seq(&again[0]), seq(after.last().unwrap()));
}

#[test]
fn a_run_that_was_cancelled_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let whole = said_by(&mut slow(&folder.path().join("whole"), &[])).status(0);
    let journal = folder.path().join("run.ndjson");
    // The run is slow enough to be still under way after the wait.
    let mut run = softland();
    run.arg("run").arg(analyst()).arg(QUESTION).arg("--root").arg(notes());
    run.args(["--model", "sim/slow:400", "--journal"]).arg(&journal);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    grown(&journal, 11);
    // While a run is under way, no other process may resume it.
    resumed(&journal, &[]).status(2).says("is in use: another process works on that run");
    kill(run.id(), "INT");
    let cancelled = run.wait_with_output().unwrap();
    assert_eq!(cancelled.status.code(), Some(130));
    let notes = String::from_utf8(cancelled.stderr).unwrap();
    assert!(notes.contains(&format!("softland run --resume {}", id(&journal))), "{notes}");
    assert_eq!(resumed(&journal, &[]).status(0).stdout, whole.stdout);
}

/// The command, with a state folder of its own.
fn at(state: &Path) -> Command {
    let mut command = softland();
    command.env("XDG_STATE_HOME", state);
    command
}

fn kept(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(state.join("softland/runs")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_run_is_kept_in_the_state_folder_and_asked_more_by_its_id() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut first = at(&state);
    first.arg("run").arg(analyst()).arg(QUESTION).arg("--root").arg(notes());
    let first = said_by(&mut first).status(0);
    let journal = kept(&state)[0].clone();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&journal), mode(journal.parent().unwrap())), (0o600, 0o700));
    let run = id(&journal);
    assert_eq!(journal.file_stem().unwrap().to_str().unwrap(), run);
    assert!(first.stderr.contains(&format!("softland run --continue {run} PROMPT")));
    // The run has ended: its answer is printed again, and nothing is written.
    let before = std::fs::read(&journal).unwrap();
    let again = said_by(at(&state).args(["run", "--resume", &run])).status(0);
    assert_eq!(again.stdout, first.stdout);
    assert!(again.stderr.contains("has ended (landed)"), "{}", again.stderr);
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    // The arguments must match: an ended run is not repeated with another model or elsewhere.
    let root = notes();
    let root = root.to_str().unwrap();
    said_by(at(&state).args(["run", "--resume", &run, "--root", root])).status(0);
    let others = [
        ("--model", "sim/looper"),
        ("--api", "openai-chat"),
        ("--root", state.to_str().unwrap()),
        ("--agents", root),
        ("--base-url", "http://127.0.0.1:9"),
        ("--config", "/nowhere.toml"),
        ("--mcp", "/nowhere.json"),
    ];
    for (flag, value) in others {
        let said = said_by(at(&state).args(["run", "--resume", &run, flag, value])).status(2);
        assert_eq!(said.stdout, "", "{flag}");
        said.says(&format!(
            "{flag} has another value than at the beginning of {run}, which has ended"
        ));
    }
    assert_eq!(std::fs::read(&journal).unwrap(), before);
    // A further question is a run of its own, under the same policy, in the same conversation.
    let more = ["run", "--continue", &run, "And who said so?", "--tool-calls-limit", "3"];
    said_by(at(&state).args(more)).status(0);
    let second = kept(&state).into_iter().find(|path| *path != journal).unwrap();
    let start = &records(&second)[0];
    assert_eq!(start["continues"], run);
    assert_eq!(start["policy"]["tool_calls_limit"], 3);
    assert!(start["messages"].as_array().unwrap().len() > 5);
    assert_ne!(start["run"], run);
    // The run that was written last need not be named by its id.
    let third = ["run", "--continue", "last", "And to whom?"];
    said_by(at(&state).args(third)).status(0);
    let last = kept(&state).into_iter().find(|path| *path != journal && *path != second).unwrap();
    assert_eq!(records(&last)[0]["continues"], start["run"]);
    said_by(at(&state).args(["run", "--resume", "last"])).status(0);
    assert_eq!(kept(&state).len(), 3);
}

#[test]
fn what_cannot_be_gone_on_with_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let journal = folder.path().join("run.ndjson");
    let run = slow(&journal, &[]).spawn().unwrap();
    grown(&journal, 6);
    kill(run.id(), "KILL");
    run.wait_with_output().unwrap();
    let (run, file) = (id(&journal), journal.to_str().unwrap());
    said_by(at(&state).args(["run", "--resume", "run-1"]))
        .status(2)
        .says("no run run-1 is recorded in ");
    said_by(at(&state).args(["run", "--resume", "last"]))
        .status(2)
        .says("no run last is recorded in ");
    said_by(at(&state).args(["run", "--resume", "run-1", "--journal", file]))
        .status(2)
        .says(&format!("{file} is the journal of {run}"));
    let prompt = ["run", "--resume", &run, "agent.md", "And?", "--journal", file];
    said_by(at(&state).args(prompt)).status(2).says("--resume takes no prompt");
    let limit = ["run", "--resume", &run, "--tool-calls-limit", "3", "--journal", file];
    said_by(at(&state).args(limit)).status(2).says("--tool-calls-limit cannot be given with");
    said_by(at(&state).args(["run", "--continue", file, "And?"]))
        .status(2)
        .says("has not ended; softland run --resume");
    let other = ["run", "--resume", &run, "--model", "sim/looper", "--journal", file];
    said_by(at(&state).args(other)).status(2).says("it asks sim/slow:40, not sim/looper");
    said_by(&mut slow(&journal, &[])).status(2).says("already exists");
    // The agent file without a tool that the run has.
    let text = std::fs::read_to_string(analyst()).unwrap();
    let text: Vec<&str> = text.lines().collect();
    let changed = text.join("\n").replacen("grep", "glob", 1);
    let agent = support::file(folder.path(), "other.md", &changed);
    said_by(at(&state).args(["run", &agent, "--resume", &run, "--journal", file])).status(2);
}

#[test]
fn a_journal_holds_no_key_and_is_said_to_lie_among_the_tools_files() {
    let folder = tempfile::tempdir().unwrap();
    let provider = Provider::refusing(401, "authentication_error");
    let journal = folder.path().join("run.ndjson");
    let mut run = softland();
    run.env("ANTHROPIC_API_KEY", SECRET).arg("run").arg(analyst());
    run.args(["hello", "--model", "anthropic/claude-sonnet-5-5", "--base-url", &provider.url]);
    run.arg("--root").arg(folder.path()).arg("--journal").arg(&journal);
    said_by(&mut run).status(4);
    let text = std::fs::read_to_string(&journal).unwrap();
    assert!(!text.contains(SECRET) && text.contains(r#""ended":"refused""#), "{text}");
    let state = folder.path().join("state");
    let mut run = at(&state);
    run.arg("run").arg(analyst()).arg(QUESTION).arg("--root").arg(folder.path());
    said_by(&mut run).status(0).says("is inside --root, where the agent's tools can see it");
    // Without a home folder there is no place for the journal, which causes a warning.
    let mut run = softland();
    run.env_remove("XDG_STATE_HOME").arg("run").arg(analyst()).arg(QUESTION).arg("--root");
    said_by(run.arg(notes())).status(0).says("the run is not recorded and cannot be resumed");
}
