//! `softland run --agents` through the real binary.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use crate::support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use crate::support::{Said, file, kill, notes, said, said_by, softland};
use serde_json::Value;

/// An agent file.
fn agent(name: &str, keys: &str) -> String {
    format!("---\nname: {name}\ndescription: does what {name} does\n{keys}\n---\nYou are {name}.\n")
}

/// Names and keys of agents.
type Agents<'a> = &'a [(&'a str, &'a str)];

/// A folder with agents of these keys, beside a lead that may call them.
struct Folder {
    dir: tempfile::TempDir,
    lead: String,
}

fn folder(lead: &str, agents: Agents<'_>) -> Folder {
    let dir = tempfile::tempdir().unwrap();
    let agents_dir = dir.path().join("agents");
    std::fs::create_dir(&agents_dir).unwrap();
    for (name, keys) in agents {
        file(&agents_dir, &format!("{name}.md"), &agent(name, keys));
    }
    let lead = file(dir.path(), "lead.md", &agent("lead", lead));
    Folder { dir, lead }
}

impl Folder {
    fn agents(&self) -> String {
        self.dir.path().join("agents").to_str().unwrap().to_owned()
    }

    fn run(&self, flags: &[&str]) -> Said {
        let mut command = softland();
        command.args(["run", &self.lead, "What did we decide about pricing?"]);
        command.args(["--agents", &self.agents()]).arg("--root").arg(notes()).args(flags);
        said_by(&mut command)
    }
}

const LEAD: &str = "tools: read_file, agent\nmodel: sim/delegate";

/// Each run's events, by its id: numbered without gaps, from `run_start` to one terminal event.
#[track_caller]
fn by_run(events: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut runs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for event in events {
        runs.entry(event["run"].as_str().unwrap().to_owned()).or_default().push(event.clone());
    }
    for (run, events) in &runs {
        assert!(events.iter().enumerate().all(|(n, event)| event["seq"] == n), "gaps in {run}");
        let ends = events.iter().filter(|e| e["event"] == "done" || e["event"] == "error");
        assert_eq!(ends.count(), 1, "{run}");
        assert_eq!(events[0]["event"], "run_start");
    }
    runs
}

#[test]
fn agents_are_called_side_by_side_and_nested() {
    let folder = folder(
        LEAD,
        &[
            ("reader", "model: sim/reader\ntool_calls_limit: 8"),
            ("deputy", "tools: agent, grep\nmodel: sim/delegate\ntool_calls_limit: 9"),
            ("looper", "model: sim/looper\ntool_calls_limit: 3"),
        ],
    );
    let said = folder.run(&["--format", "json"]).status(0);
    let runs = by_run(&said.events());
    // Four levels: the lead, and three levels of agents below it, each of which calls all three
    // agents.
    let level = |run: &String| run.matches('.').count();
    assert_eq!(runs.keys().map(level).max(), Some(3));
    assert_eq!(runs.len(), 1 + 3 + 3 + 3);
    let told: Vec<Value> =
        said.events().into_iter().filter(|event| event["event"] == "child").collect();
    assert_eq!(told.len(), runs.len() - 1);
    for child in &told {
        let events = &runs[child["child_run"].as_str().unwrap()];
        assert_eq!(events[0]["agent"], child["agent"]);
    }
    let cost = |event: &Value| event["cost_usd"].as_f64().unwrap();
    let events = said.events();
    let usage: f64 = events.iter().filter(|e| e["event"] == "usage").map(cost).sum();
    let done = events.last().unwrap();
    assert_eq!(done["event"], "done");
    assert!((cost(done) - usage).abs() < 1e-9, "{done} and {usage}");
}

#[test]
fn the_deepest_tree_that_is_allowed_is_whole() {
    let deep = format!("{LEAD}\ndepth_limit: 16");
    let folder = folder(&deep, &[("deputy", "tools: agent, grep\nmodel: sim/delegate")]);
    let said = folder.run(&["--format", "json"]).status(0);
    let runs = by_run(&said.events());
    assert_eq!(runs.len(), 17);
    assert!(runs.values().all(|events| events.last().unwrap()["event"] == "done"));
}

#[test]
fn the_terminal_shows_children_indented_and_folded() {
    let keys = "model: sim/looper\ntool_calls_limit: 3";
    let folder = folder(LEAD, &[("looper", keys), ("reader", "model: sim/reader")]);
    let whole = folder.run(&[]).status(0);
    let lines: Vec<&str> = whole.stderr.lines().collect();
    assert!(lines.contains(&"    [looper #1]"), "{}", whole.stderr);
    assert!(lines.iter().any(|line| line.starts_with("    turn 2 · ")), "{}", whole.stderr);
    let ended = "    looper #1: landed: a limit was reached (tool_calls_limit 3); the model";
    assert!(lines.iter().any(|line| line.starts_with(ended)), "{}", whole.stderr);
    assert!(whole.stderr.contains("[landed: tool_calls 3 of 3]"), "{}", whole.stderr);
    let folded = folder.run(&["--fold-agents"]).status(0);
    let indented = folded.stderr.lines().filter(|line| line.starts_with("    ")).count();
    assert_eq!(indented, 2, "a line each: {}", folded.stderr);
    assert_eq!(folded.stdout, whole.stdout, "the answer alone");
    assert!(whole.stdout.starts_with("I asked 2 times.\n- looper: "), "{}", whole.stdout);
}

#[test]
fn a_session_limit_holds_for_all_of_them() {
    let keys = "model: sim/sweeper\ncountdown: off";
    let folder = folder(
        "tools: agent\nmodel: sim/delegate:always\non_loop: observe",
        &[("one", keys), ("two", keys), ("three", keys)],
    );
    for limit in [0.2, 0.5, 1.0] {
        let flag = limit.to_string();
        let said = folder.run(&["--format", "json", "--session-cost-limit-usd", &flag]);
        let events = said.status(0).events();
        by_run(&events);
        let cost = |event: &Value| event["cost_usd"].as_f64().unwrap();
        let spent: f64 = events.iter().filter(|e| e["event"] == "usage").map(cost).sum();
        assert!(spent <= limit, "{spent} of {limit}");
        let done = events.last().unwrap();
        assert_eq!((&done["outcome"], &done["reason"]), (&"landed".into(), &"session_cost".into()));
    }
}

#[test]
fn a_signal_ends_all_runs() {
    let folder = folder(LEAD, &[("slow", "model: sim/slow:3000"), ("other", "model: sim/slow")]);
    let mut command = softland();
    command.args(["run", &folder.lead, "Go.", "--format", "json"]);
    command.args(["--agents", &folder.agents()]).arg("--root").arg(notes());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let (mut events, mut begun) = (Vec::new(), 0);
    while begun < 3 {
        let event = lines.next().expect("three runs");
        begun += usize::from(event["event"] == "run_start");
        events.push(event);
    }
    kill(child.id(), "INT");
    events.extend(lines);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let runs = by_run(&events);
    assert_eq!(runs.len(), 3);
    for events in runs.values() {
        let end = events.last().unwrap();
        assert_eq!((&end["outcome"], &end["reason"]), (&"cancelled".into(), &"user".into()));
    }
}

#[test]
fn what_is_wrong_with_the_folder_is_said_before_anything_runs() {
    let plain = "model: sim/reader";
    let cases: [(&str, Agents<'_>, &str); 6] = [
        (LEAD, &[("bad", "tool_calls_limit: -1")], "bad.md:4: tool_calls_limit: must be a whole"),
        (LEAD, &[("bad", "depth_limit: deep")], "bad.md:4: depth_limit: must be a whole number"),
        (LEAD, &[("bad", "tools: shell")], "bad.md:4: tools: `shell`"),
        (LEAD, &[("bad", "model: sim/nothing")], "bad.md:4: model: the model `sim/nothing`"),
        (LEAD, &[("bad", "model: nobody/x")], "bad.md:4: model: "),
        (LEAD, &[], "holds no agent file"),
    ];
    for (lead, agents, wanted) in cases {
        let said = folder(lead, agents).run(&["--format", "json"]).status(2).says(wanted);
        assert_eq!(said.stdout, "", "{wanted}");
    }
    let twice = folder(LEAD, &[("one", plain)]);
    file(Path::new(&twice.agents()), "two.md", &agent("one", plain));
    twice.run(&[]).status(2).says("two.md: name: `one` is the name in ");
    said(&["check", &twice.agents()]).status(2).says("two.md: name: `one` is the name in ");

    let without = folder(LEAD, &[("one", plain)]);
    said(&["run", &without.lead, "Go."]).status(2).says("lead.md:4: tools: `agent` needs");
    said(&["run", &without.lead, "Go.", "--agents", "/nowhere/at/all"])
        .status(2)
        .says("--agents: /nowhere/at/all: the folder does not exist");
    said(&["check", &without.agents(), &without.lead]).status(0);

    let idle = folder(plain, &[("one", plain)]);
    idle.run(&[]).status(0).says("does not name the tool `agent`");
}

/// A base URL that was given for one provider is not used with another provider's key.
#[test]
fn a_base_url_is_its_providers_alone() {
    let provider = support::Provider::raw("HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n");
    let folder = folder(LEAD, &[("other", "model: anthropic/claude-sonnet-5-5")]);
    let mut command = softland();
    command.args(["run", &folder.lead, "Go.", "--agents", &folder.agents()]);
    command.args(["--model", "openai/gpt-5.6-sol", "--base-url", &provider.url]);
    // Without a key of its own the child's provider is a mistake in the settings, not the flag's.
    command.env("OPENAI_API_KEY", "sk-test");
    said_by(&mut command).status(2).says("other.md:4: model: ").says("ANTHROPIC_API_KEY");
}
