//! A run with sub-agents through the real binary, which is killed and resumed by the first run's
//! id: one journal holds all of the runs.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::*;
use serde_json::Value;

/// A lead that calls three agents side by side, one of which calls the others in turn.
struct Folder {
    dir: tempfile::TempDir,
    lead: String,
}

fn folder() -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let agents = dir.path().join("agents");
    std::fs::create_dir(&agents).unwrap();
    let agent = |name: &str, keys: &str| {
        format!("---\nname: {name}\ndescription: is {name}\n{keys}\n---\nYou are {name}.\n")
    };
    file(&agents, "slow.md", &agent("slow", "model: sim/slow:9\ncost_limit_usd: 3"));
    file(&agents, "looper.md", &agent("looper", "model: sim/looper\ntool_calls_limit: 3"));
    let deputy = "tools: agent, grep\nmodel: sim/delegate\ndepth_limit: 1";
    file(&agents, "deputy.md", &agent("deputy", deputy));
    let lead = "tools: agent, read_file\nmodel: sim/delegate\ndepth_limit: 2";
    let lead = file(dir.path(), "lead.md", &agent("lead", lead));
    Folder { dir, lead }
}

impl Folder {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The lead's run, kept in this file.
    fn run(&self, journal: &Path, flags: &[&str]) -> Command {
        let mut command = softland();
        command.args(["run", &self.lead, "What did we decide?", "--agents"]);
        command.arg(self.path("agents")).arg("--root").arg(notes());
        command.args(["--cost-limit-usd", "20"]).args(flags).arg("--journal").arg(journal);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
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
    while std::fs::read(journal).unwrap_or_default().iter().filter(|b| **b == b'\n').count() < lines
    {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", journal.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Begins a run and ends it by a signal once its journal has that many lines. If the signal comes
/// too late, as it may on a loaded machine, the run is begun again.
fn stopped(
    mut run: impl FnMut() -> Child,
    journal: impl Fn() -> PathBuf,
    (lines, signal): (usize, &str),
) -> Output {
    let began = Instant::now();
    loop {
        let child = run();
        let journal = journal();
        grown(&journal, lines);
        kill(child.id(), signal);
        let output = child.wait_with_output().unwrap();
        if output.status.code() != Some(0) {
            return output;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{}", journal.display());
        std::fs::remove_file(&journal).unwrap();
    }
}

fn resumed(journal: &Path, flags: &[&str]) -> Said {
    let run = id(journal);
    said_by(softland().args(["run", "--resume", &run, "--journal"]).arg(journal).args(flags))
}

#[test]
fn a_tree_that_is_killed_comes_to_the_same_answer() {
    let folder = folder();
    let whole_journal = folder.path("whole");
    let whole = said_by(&mut folder.run(&whole_journal, &[])).status(0);
    let all = records(&whole_journal);
    let runs: BTreeMap<&str, ()> =
        all.iter().map(|record| (record["run"].as_str().unwrap(), ())).collect();
    assert_eq!(runs.len(), 7, "{:?}", runs.keys());
    let (starts, ends) = (of_kind(&all, "start"), of_kind(&all, "end"));
    assert_eq!((starts, ends), (7, 7));
    for step in 1..16 {
        let after = step * all.len() / 17;
        let journal = folder.path(&format!("killed-{after}"));
        let mut run = folder.run(&journal, &[]).spawn().unwrap();
        grown(&journal, after);
        kill(run.id(), "KILL");
        // The journal is free at once: the process that held it is dead.
        let said = resumed(&journal, &[]).status(0);
        run.wait().unwrap();
        assert_eq!(said.stdout, whole.stdout, "killed behind {after} records");
        // A call that is repeated begins twice; a call with a result is never repeated.
        let mut results = Vec::new();
        for record in records(&journal) {
            let call = (record["run"].clone(), record["turn"].clone(), record["call"].clone());
            match record["kind"].as_str().unwrap() {
                "call" => assert!(!results.contains(&call), "a finished call ran again"),
                "result" => results.push(call),
                _ => {}
            }
        }
        assert_eq!(results.len(), of_kind(&all, "result"), "killed behind {after} records");
        assert_eq!(of_kind(&records(&journal), "start"), 7, "an agent was begun twice");
        // A run that was killed at its very end has ended, and is printed again.
        let again = resumed(&journal, &[]).status(0);
        assert_eq!(again.stdout, whole.stdout);
    }
}

fn of_kind(records: &[Value], kind: &str) -> usize {
    records.iter().filter(|record| record["kind"] == kind).count()
}

#[test]
fn events_of_all_runs_go_on_where_they_were() {
    let folder = folder();
    let journal = folder.path("run.ndjson");
    let whole = said_by(&mut folder.run(&folder.path("whole"), &["--format", "json"])).status(0);
    let run = folder.run(&journal, &["--format", "json"]).spawn().unwrap();
    grown(&journal, 40);
    kill(run.id(), "KILL");
    let before = String::from_utf8(run.wait_with_output().unwrap().stdout).unwrap();
    let before: Vec<Value> =
        before.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let after = resumed(&journal, &["--format", "json"]).status(0).events();
    // Both outputs together hold each run completely; sequence numbers may repeat, and the later
    // events count.
    let mut runs: BTreeMap<String, BTreeMap<u64, Value>> = BTreeMap::new();
    for event in before.iter().chain(&after) {
        let run = event["run"].as_str().unwrap().split_once('.').map_or("", |(_, child)| child);
        let events = runs.entry(run.to_owned()).or_default();
        events.insert(event["seq"].as_u64().unwrap(), event.clone());
    }
    assert_eq!(runs.len(), 7);
    for (run, events) in &runs {
        let last = *events.keys().last().unwrap();
        assert_eq!(last as usize + 1, events.len(), "gaps in {run}");
        let of = |kind: &str| events.values().filter(|event| event["event"] == kind).count();
        assert_eq!(of("tool_execute"), of("tool_result"), "{run}");
        assert_eq!(of("done") + of("error"), 1, "{run}");
    }
    // Repeated events are equal except for their time.
    for late in after.iter().filter(|event| event["event"] == "tool_result") {
        let same = |event: &&Value| event["run"] == late["run"] && event["seq"] == late["seq"];
        for early in before.iter().filter(same) {
            let (mut early, mut late) = (early.clone(), late.clone());
            (early["ts"], late["ts"]) = (Value::Null, Value::Null);
            assert_eq!(early, late);
        }
    }
    let results =
        |events: &[Value]| events.iter().filter(|event| event["event"] == "tool_result").count();
    let told: usize = runs
        .values()
        .flat_map(BTreeMap::values)
        .filter(|event| event["event"] == "tool_result")
        .count();
    assert_eq!(told, results(&whole.events()));
    let (done, other) = (after.last().unwrap().clone(), whole.events().last().unwrap().clone());
    assert_eq!(done["answer"], other["answer"]);
}

#[test]
fn a_tree_is_found_by_its_id_and_goes_on_without_being_told_of_its_agents() {
    let folder = folder();
    let state = folder.path("state");
    let at = |args: &[&str]| {
        let mut command = softland();
        command.env("XDG_STATE_HOME", &state).args(args);
        command
    };
    let agents = folder.path("agents");
    let mut first =
        at(&["run", &folder.lead, "What?", "--agents", agents.to_str().unwrap(), "--root"]);
    let runs = state.join("softland/runs");
    let journal = || {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < Duration::from_secs(60));
            let found = std::fs::read_dir(&runs).ok().and_then(|mut all| all.next());
            if let Some(Ok(entry)) = found {
                break entry.path();
            }
        }
    };
    first.arg(notes()).stderr(Stdio::null()).stdout(Stdio::null());
    let output = stopped(|| first.spawn().unwrap(), journal, (30, "INT"));
    assert_eq!(output.status.code(), Some(130));
    let journal = journal();
    let id = id(&journal);
    // A cancelled run can be resumed, and the results of its agents are not lost.
    let said = said_by(&mut at(&["run", "--resume", &id])).status(0);
    assert!(!said.stdout.contains("was cancelled"), "{}", said.stdout);
    assert!(said.stderr.contains(&format!("softland run --continue {id} PROMPT")));
    shown(&at, &id, &journal);
    let limited = ["run", "--resume", &id, "--tool-calls-limit", "3"];
    said_by(&mut at(&limited)).status(2).says("--tool-calls-limit cannot be given with --resume");
    said_by(&mut at(&["run", "--resume", &id, "--policy", "coding"])).status(2);
    said_by(&mut at(&["run", "--continue", &id, "And who said so?"])).status(0);
}

/// The tree is shown from its journal: its calls, its agents' runs, and each of those.
fn shown(at: &dyn Fn(&[&str]) -> Command, id: &str, journal: &Path) {
    let show = |run: &str| said_by(&mut at(&["show", run])).status(0).stdout;
    let text = show(id);
    assert!(text.contains(&format!("{id} · answered: final\n")), "{text}");
    assert!(text.contains(" · 3 tool calls · "), "{text}");
    assert!(text.contains(&format!("\n  {id}.1 · deputy · ")), "{text}");
    assert!(text.contains(&format!("\n    {id}.1.2 · looper · landed: tool_calls")), "{text}");
    assert!(text.contains("→ agent") && text.contains("child deputy"), "{text}");
    assert_eq!(show(journal.to_str().unwrap()), text);
    let child = show(&format!("{id}.1.2"));
    assert!(child.contains(&format!("called by {id}.1 in turn 1")), "{child}");
    assert!(child.contains("tool_calls: 3 of 3 · “Tool call limit reached"), "{child}");
    let json = said_by(&mut at(&["show", &format!("{id}.2"), "--json"])).status(0).events();
    assert_eq!(json.last().unwrap()["event"], "done");
    said_by(&mut at(&["show", &format!("{id}.9")])).status(2).says(&format!("has no run {id}.9"));
}

#[test]
fn what_is_suggested_names_the_journal() {
    let folder = folder();
    let journal = folder.path("my run.ndjson");
    let said = said_by(&mut folder.run(&journal, &[])).status(0);
    let wanted = format!("ask it more: softland run --continue '{}' PROMPT", journal.display());
    assert!(said.stderr.contains(&wanted), "{}", said.stderr);
    let again = resumed(&journal, &[]).status(0);
    assert!(again.stderr.contains(&wanted[12..]), "{}", again.stderr);
    let journal = folder.path("run");
    let run = || folder.run(&journal, &[]).spawn().unwrap();
    let output = stopped(run, || journal.clone(), (20, "INT"));
    assert_eq!(output.status.code(), Some(130));
    let (notes, id) = (String::from_utf8(output.stderr).unwrap(), id(&journal));
    let wanted = format!("softland run --resume {id} --journal {}", journal.display());
    assert!(notes.contains(&wanted), "{notes}");
}

#[test]
fn a_full_disk_is_nobody_elses_fault() {
    let folder = folder();
    let journal = folder.path("run.ndjson");
    let run = folder.run(&journal, &["--format", "json"]);
    let mut limited = Command::new("/bin/sh");
    // The shell limits the size of a file to this number of blocks of 512 or 1,024 bytes.
    limited.args(["-c", "ulimit -f 48; exec \"$@\"", "sh"]).arg(run.get_program());
    limited.args(run.get_args()).env("XDG_STATE_HOME", state()).stdin(Stdio::null());
    let said = said_by(&mut limited).status(2);
    let events = said.events();
    let end = events.last().unwrap();
    assert_eq!((&end["event"], &end["reason"]), (&"error".into(), &"journal".into()), "{end}");
    let message = end["message"].as_str().unwrap();
    assert!(message.contains("cannot be written"), "{end}");
    assert!(!message.contains("simulator") && !message.contains("try again"), "{end}");
    let root = end["run"].clone();
    let turns = events.iter().filter(|e| e["event"] == "turn_start" && e["run"] == root).count();
    let counted = end["turns"].as_u64().unwrap() as usize;
    assert!(counted == turns || counted + 1 == turns, "{counted} of {turns}: {end}");
    assert!(counted > 0, "{end}");
    // With room on the disk again, the run is resumed.
    resumed(&journal, &[]).status(0);
}

#[test]
fn agents_that_are_gone_are_said_before_anything_is_sent() {
    let folder = folder();
    let journal = folder.path("run.ndjson");
    let run = || folder.run(&journal, &[]).spawn().unwrap();
    stopped(run, || journal.clone(), (40, "KILL"));
    let before = std::fs::read(&journal).unwrap();
    std::fs::rename(folder.path("agents/slow.md"), folder.path("slow.md")).unwrap();
    resumed(&journal, &[]).status(2).says("its agent `slow` is missing");
    let text = String::from_utf8(before.clone()).unwrap();
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let after = std::fs::read(&journal).unwrap();
    assert_eq!(after[..], before[..whole], "nothing is written");
    std::fs::rename(folder.path("slow.md"), folder.path("agents/slow.md")).unwrap();
    // A journal from which a turn was taken is refused.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let turn = lines.iter().position(|line| line.contains(r#""kind":"turn""#)).unwrap();
    let mut left = lines.clone();
    left.remove(turn);
    std::fs::write(&journal, left.concat()).unwrap();
    resumed(&journal, &[]).status(2).says("without what stands before it");
}
