//! `softland runs` and `softland show` through the real binary, on ledgers that the ledger crate
//! has written.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::*;
use serde_json::{Value, json};
use softland_agent::core::{Because, NanoUsd, Outcome, Reason, RunEnding, Rung};
use softland_ledger::{
    Event, Fields, Ledger, Options, Payer, Record, Request, RunEnd, RunOwner, RunStart,
};

const MINUTE: u64 = 60_000;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The records of a run of two turns that began `ago` earlier. It has landed, or has not ended.
fn records(run: &str, session: &str, ago: u64, over: bool) -> Vec<Record> {
    let at = now() - ago;
    let run: Arc<str> = run.into();
    let start = RunStart {
        at,
        run: run.clone(),
        session: session.into(),
        payer: Payer::default(),
        name: None,
        observed: false,
        agent: Some("reviewer".into()),
        continues: None,
        model: "claude-opus-5-5".into(),
        policy: "specialist".to_owned(),
        client: Some("claude-cli/2.1".to_owned()),
    };
    let request = Request {
        at: at + 10,
        id: "req-1".to_owned(),
        run: Some(run.clone()),
        session: Some(session.into()),
        payer: Payer::default(),
        turn: 2,
        upstream: "anthropic".into(),
        path: "/v1/messages".to_owned(),
        model: None,
        rung: Some("none".to_owned()),
        status: Some(200),
        input: 10,
        output: 20,
        cache_read: 3000,
        cache_write: 40,
        cost: Some(NanoUsd(1_500_000)),
        millis: 812,
        remark: None,
        content: None,
    };
    let because = Because::from_counts(Reason::ToolCalls, 30, 30);
    let fields = json!({"intervention": "ask", "because": because, "text": "Answer now."});
    let event = Event {
        at: at + 5,
        run: run.clone(),
        turn: 2,
        event: "intervention",
        fields: Fields::from_value(&fields),
    };
    let end = RunEnd {
        at: at + 4200,
        run,
        owner: RunOwner::default(),
        ended: RunEnding::from_because(Outcome::Landed, &because, Some(Rung::None)),
        local: false,
        answer: None,
        turns: 2,
        tool_calls: Some(30),
        input: 10,
        output: 20,
        cache_read: 3000,
        cache_write: 40,
        cost: Some(NanoUsd(1_500_000)),
    };
    let mut records = vec![Record::RunStart(start), Record::Event(event), Record::Request(request)];
    records.extend(over.then_some(Record::RunEnd(end)));
    records
}

/// Writes a ledger of three runs, and returns its file.
fn ledger(folder: &Path) -> PathBuf {
    let path = folder.join("softland.db");
    let ledger = Ledger::open(Options::with_path(&path), Arc::new(now)).unwrap();
    let runs = [
        records("run-a1", "s1", 3 * 24 * 60 * MINUTE, true),
        records("run-a2", "s2", 5 * MINUTE, true),
        records("run-b", "s1", MINUTE, false),
    ];
    runs.into_iter().flatten().for_each(|record| ledger.record(record));
    ledger.close(Duration::from_secs(30)).unwrap();
    assert_eq!(ledger.lost_records(), 0);
    path
}

fn in_folder(folder: &Path, args: &[&str]) -> Said {
    // Runs that `softland run` has kept are in the same folder.
    said_by(softland().args(args).env("XDG_STATE_HOME", folder.join("state")).current_dir(folder))
}

#[test]
fn runs_that_are_kept_are_listed_among_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (agent, root) = (analyst(), notes());
    let (agent, root) = (agent.to_str().unwrap(), root.to_str().unwrap());
    let asked = ["run", agent, "What did we decide?", "--root", root, "--model", "sim/reader"];
    in_folder(folder, &asked).status(0);
    // Without a ledger only kept runs are listed.
    let listed = in_folder(folder, &["runs"]).status(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 2, "{listed}");
    assert!(lines[0].starts_with("RUN ") && lines[0].contains("  FROM "), "{listed}");
    assert!(lines[1].contains("  journal  ") && lines[1].contains("sim/reader"), "{listed}");
    let id = lines[1].split(' ').next().unwrap();
    in_folder(folder, &["show", id]).status(0);
    // A killed run names the command that resumes it; an empty journal is not a run.
    let runs = folder.join("state/softland/runs");
    let whole = std::fs::read_to_string(runs.join(format!("{id}.ndjson"))).unwrap();
    let open: String = whole.lines().take(9).map(|line| format!("{line}\n")).collect();
    let open = open.replace(id, "run-20260101T000000-00000000");
    std::fs::write(runs.join("run-20260101T000000-00000000.ndjson"), open).unwrap();
    std::fs::write(runs.join("run-20270101T000000-00000000.ndjson"), "").unwrap();
    std::fs::write(runs.join("run-20250101T000000-00000000.ndjson"), "{}\n").unwrap();
    let said = in_folder(folder, &["runs", "--json"]).status(0).says("not listed: ");
    let of = |line: &Value, key: &str| line.get(key).cloned();
    let kept: Vec<Value> = said.events();
    assert_eq!(kept.len(), 2, "{}", said.stdout);
    let (done, open) = match of(&kept[0], "outcome") {
        Some(_) => (&kept[0], &kept[1]),
        None => (&kept[1], &kept[0]),
    };
    assert_eq!((&done["run"], &done["outcome"]), (&id.into(), &"answered".into()));
    assert!(done["journal"].as_str().unwrap().ends_with(&format!("{id}.ndjson")));
    assert!(done["usage"]["output"].as_u64().unwrap() > 0 && done["turns"].as_u64().unwrap() > 3);
    assert_eq!((of(open, "usage"), of(open, "outcome"), of(open, "session")), (None, None, None));
    assert_eq!((&open["turns"], &open["requests"]), (&1.into(), &1.into()));
    let shown = in_folder(folder, &["runs"]).stdout;
    assert!(shown.contains("not ended (softland run --resume run-20260101T000000-"), "{shown}");
    // By their states, too, before the newest are taken.
    for (state, wanted) in [("answered", &done["run"]), ("open", &open["run"])] {
        let found =
            in_folder(folder, &["runs", "--json", "--state", state, "--limit", "1"]).events();
        assert_eq!(found.iter().map(|run| &run["run"]).collect::<Vec<_>>(), [wanted]);
    }
    // With a ledger all runs are listed, the newest first; a ledger that is named is listed alone.
    ledger(folder);
    let listed = in_folder(folder, &["runs"]).status(0).stdout;
    let from = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
    let froms: Vec<String> = listed.lines().skip(1).map(from).collect();
    assert_eq!(froms.iter().filter(|from| *from == "journal").count(), 2, "{listed}");
    assert_eq!(froms.iter().filter(|from| *from == "ledger").count(), 3, "{listed}");
    assert!(listed.lines().nth(1).unwrap().starts_with(id), "{listed}");
    let one = in_folder(folder, &["runs", "--limit", "1"]).status(0).stdout;
    assert_eq!(one.lines().count(), 2, "{one}");
    let named = in_folder(folder, &["runs", "--ledger", "softland.db"]).status(0).stdout;
    assert!(!named.contains("journal") && !named.contains("FROM"), "{named}");
}

#[test]
fn runs_are_listed_newest_first() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path());
    let listed = in_folder(folder.path(), &["runs"]).status(0);
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{}", listed.stdout);
    for (line, (run, end)) in lines.iter().skip(1).zip([
        ("run-b ", "open, last record at "),
        ("run-a2 ", "landed: tool_calls (tool_calls_limit 30), rung none"),
        ("run-a1 ", "landed: tool_calls (tool_calls_limit 30), rung none"),
    ]) {
        assert!(line.starts_with(run) && line.contains(end), "{line}");
        assert!(line.contains("3,070") && line.contains("$0.0015"), "{line}");
    }
    assert!(listed.stderr.is_empty());
}

#[test]
fn runs_as_json_have_the_documented_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = ledger(folder.path());
    let path = path.to_str().unwrap();
    let runs = said(&["runs", "--ledger", path, "--json", "--session", "s1"]).status(0).events();
    let ids: Vec<_> = runs.iter().map(|run| run["run"].as_str().unwrap()).collect();
    assert_eq!(ids, ["run-b", "run-a1"]);
    assert!(runs[0].get("outcome").is_none() && runs[0]["tool_calls"].is_null());
    let usage = json!({"input": 10, "output": 20, "cache_read": 3000, "cache_write": 40});
    for (name, value) in [
        ("outcome", json!("landed")),
        ("reason", json!("tool_calls")),
        ("rung", json!("none")),
        ("limit", json!("tool_calls_limit")),
        ("value", json!(30)),
        ("answered_by", json!("model")),
        ("turns", json!(2)),
        ("tool_calls", json!(30)),
        ("usage", usage),
        ("cost_usd", json!(0.0015)),
        ("agent", json!("reviewer")),
        ("policy", json!("specialist")),
    ] {
        assert_eq!(runs[1][name], value, "{name}");
    }
    let within = said(&["runs", "--ledger", path, "--json", "--since", "1d"]).status(0).events();
    assert_eq!(within.len(), 2);
    let two = said(&["runs", "--ledger", path, "--json", "--limit", "2"]).status(0).events();
    assert_eq!((&two[0]["run"], two.len()), (&json!("run-b"), 2));
}

#[test]
fn k65_runs_are_listed_by_their_state() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path());
    for (state, wanted) in
        [("open", &["run-b"][..]), ("landed", &["run-a2", "run-a1"]), ("failed", &[])]
    {
        let listed = in_folder(folder.path(), &["runs", "--json", "--state", state]).status(0);
        let runs = listed.events();
        let runs: Vec<_> = runs.iter().map(|run| run["run"].as_str().unwrap()).collect();
        assert_eq!(runs, wanted, "{state}");
    }
    in_folder(folder.path(), &["runs", "--state", "failed"]).status(0).says("no such runs in");
    let both = ["runs", "--json", "--state", "landed", "--session", "s1"];
    assert_eq!(in_folder(folder.path(), &both).status(0).events().len(), 1);
    in_folder(folder.path(), &["runs", "--state", "lande"])
        .status(2)
        .says("--state must be one of open, answered, landed, stopped, failed, cancelled")
        .says("did you mean `landed`?");
    in_folder(folder.path(), &["runs", "--delete", "--state", "open"])
        .status(2)
        .says("--delete does not go by --state");
}

#[test]
fn a_run_is_shown_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path());
    let shown = in_folder(folder.path(), &["show", "run-a1"]).status(0);
    let text = &shown.stdout;
    for wanted in [
        "run-a1 · landed: tool_calls (tool_calls_limit 30), rung none\n",
        "session s1 · agent reviewer · model claude-opus-5-5 · policy specialist",
        "2 turns · 30 tool calls · 1 request",
        "3,050 tokens in (98% cached), 20 out",
        "+5 ms     2  ask        tool_calls: 30 of 30 · “Answer now.”\n",
        "request    rung none · 10 in, 3,000 from cache, 40 to cache, 20 out · $0.0015 · 812 ms\n",
        "done       landed: tool_calls · tool_calls_limit 30 · rung none\n",
    ] {
        assert!(text.contains(wanted), "no `{wanted}` in:\n{text}");
    }
    assert!(shown.stderr.is_empty());
}

#[test]
fn a_run_as_json_is_its_event_lines() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path());
    let lines = in_folder(folder.path(), &["show", "run-a1", "--json"]).status(0).events();
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["run_start", "intervention", "usage", "done"]);
    for (seq, line) in lines.iter().enumerate() {
        assert_eq!(
            (&line["v"], &line["seq"], &line["run"]),
            (&json!(1), &json!(seq), &json!("run-a1"))
        );
    }
    assert_eq!(lines[1]["because"], json!({"reason": "tool_calls", "used": 30, "limit": 30}));
    let open = in_folder(folder.path(), &["show", "run-b", "--json"]).status(0).events();
    assert_eq!(open.last().unwrap()["event"], "usage");
}

#[test]
fn a_unique_prefix_is_enough_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = ledger(folder.path());
    let show = |run: &str| in_folder(folder.path(), &["show", run]);
    assert!(show("run-b").status(0).stdout.starts_with("run-b · open, last record at "));
    assert!(show("run-a2").status(0).stdout.starts_with("run-a2 · landed"));
    show("run-a").status(2).says("`run-a` begins the ids of several runs: run-a1, run-a2");
    show("run-x")
        .status(2)
        .says("softland.db has no run `run-x`; the newest are run-b, run-a2, run-a1");
    let elsewhere = tempfile::tempdir().unwrap();
    in_folder(elsewhere.path(), &["runs"]).status(2).says("there is no ledger yet");
    std::fs::write(elsewhere.path().join("softland.db"), "").unwrap();
    let empty = in_folder(elsewhere.path(), &["runs"])
        .status(0)
        .says("no runs are recorded yet in softland.db");
    assert!(empty.stdout.is_empty());
    in_folder(elsewhere.path(), &["show", "r"]).status(2).says("softland.db holds no runs yet");
    std::fs::write(elsewhere.path().join("softland.db"), "this is no ledger".repeat(99)).unwrap();
    in_folder(elsewhere.path(), &["runs"]).status(2).says("softland.db: is not a softland ledger");
    drop(path);
}

/// Records of two observed runs with one name, and of requests of no run.
fn named_and_loose(folder: &Path) {
    let path = folder.join("softland.db");
    let ledger = Ledger::open(Options::with_path(&path), Arc::new(now)).unwrap();
    for (run, ago) in [("run-1", 2 * MINUTE), ("run-2", MINUTE)] {
        for mut record in records(run, "build-42", ago, true) {
            match &mut record {
                Record::RunStart(begun) => {
                    (begun.name, begun.observed) = (Some("build-42".into()), true);
                }
                Record::Event(event) => {
                    let fields = event.fields.as_str().replacen('{', "{\"observed\":true,", 1);
                    event.fields = fields.as_str().into();
                }
                Record::Request(request) => {
                    let loose = Request { run: None, ..request.clone() };
                    ledger.record(Record::Request(loose));
                }
                Record::Sent(_) | Record::RunEnd(_) => {}
            }
            ledger.record(record);
        }
    }
    ledger.close(Duration::from_secs(30)).unwrap();
}

#[test]
fn runs_are_shown_by_the_name_that_the_client_gave() {
    let folder = tempfile::tempdir().unwrap();
    named_and_loose(folder.path());
    let shown = in_folder(folder.path(), &["show", "build-42"]).status(0).stdout;
    let (first, second) = (shown.find("run-1 · landed").unwrap(), shown.find("\n\nrun-2 · landed"));
    assert!(first == 0 && second.is_some(), "{shown}");
    for wanted in ["name build-42 · session build-42", "only observed", "  would ask  "] {
        assert_eq!(shown.matches(wanted).count(), 2, "{wanted}\n{shown}");
    }
    let lines = in_folder(folder.path(), &["show", "build-42", "--json"]).status(0).events();
    let of = |run: &str| lines.iter().filter(|line| line["run"] == run).count();
    assert_eq!((of("run-1"), of("run-2"), lines.len()), (4, 4, 8));
    assert_eq!((&lines[0]["mode"], &lines[1]["observed"]), (&json!("observe"), &json!(true)));
    in_folder(folder.path(), &["runs", "--delete", "build-42"])
        .status(2)
        .says("`build-42` is the name of several runs; name one of run-1, run-2");
    let runs = in_folder(folder.path(), &["runs", "--json"]).status(0).events();
    assert_eq!((&runs[0]["name"], &runs[0]["mode"]), (&json!("build-42"), &json!("observe")));
}

#[test]
fn what_was_spent_beside_runs_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    named_and_loose(folder.path());
    let listed = in_folder(folder.path(), &["runs"]).status(0).stdout;
    let last = listed.lines().last().unwrap();
    assert!(last.starts_with("(no run)") && last.contains("$0.0030"), "{listed}");
    assert!(last.ends_with("2 requests without tools, or not metered"), "{listed}");
    let lines = in_folder(folder.path(), &["runs", "--json"]).status(0).events();
    let (runs, beside) = lines.split_at(2);
    assert!(runs.iter().all(|run| run["run"].is_string()), "{lines:?}");
    assert_eq!((beside.len(), &beside[0]["run"]), (1, &json!(null)));
    assert_eq!((&beside[0]["requests"], &beside[0]["cost_usd"]), (&json!(2), &json!(0.003)));
    let other = in_folder(folder.path(), &["runs", "--session", "other"]).status(0);
    assert!(other.stdout.is_empty(), "{}", other.stdout);
    // A session without runs is not reported as a run.
    for run in ["run-1", "run-2"] {
        in_folder(folder.path(), &["runs", "--delete", run]).status(0);
    }
    in_folder(folder.path(), &["show", "build-42"]).status(2).says(
        "softland.db has no run `build-42`, but a session of that name: see `softland runs \
         --session build-42`",
    );
    let session = in_folder(folder.path(), &["runs", "--session", "build-42"]).status(0).stdout;
    assert!(session.contains("(no run)"), "{session}");
}

#[test]
fn the_configs_ledger_is_meant() {
    let folder = tempfile::tempdir().unwrap();
    let path = ledger(folder.path());
    std::fs::rename(&path, folder.path().join("other.db")).unwrap();
    let config = |url: &str| {
        let text = format!("[ledger]\nurl = \"{url}\"\n");
        file(folder.path(), "c.toml", &text)
    };
    let by_config = config("sqlite:other.db");
    let runs = in_folder(folder.path(), &["runs", "--config", &by_config, "--json"]).status(0);
    assert_eq!(runs.events().len(), 3);
    let off = config("off");
    in_folder(folder.path(), &["runs", "--config", &off]).status(2).says("[ledger] is off");
}

#[test]
fn runs_are_deleted_by_id_or_by_age() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path());
    let runs = |args: &[&str]| in_folder(folder.path(), &[&["runs"], args].concat());
    let left = || -> Vec<Value> {
        runs(&["--json"]).status(0).events().into_iter().map(|run| run["run"].clone()).collect()
    };
    runs(&["--delete", "run-a"]).status(2).says("several runs");
    runs(&["--delete", "--before", "30d"]).status(0).says("deleted 0 runs");
    assert_eq!(left().len(), 3);
    runs(&["--delete", "--before", "1d"]).status(0).says("deleted 1 run\n");
    assert_eq!(left(), ["run-b", "run-a2"]);
    runs(&["--delete", "run-a2"]).status(0).says("deleted run-a2");
    assert_eq!(left(), ["run-b"]);
    runs(&["--delete"]).status(2).says("--delete needs a RUN, --before TIME, or");
    // Deleted content does not remain in the file.
    let bytes = std::fs::read(folder.path().join("softland.db")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"run-a2"));
}

#[test]
fn runs_are_deleted_from_event_logs_too() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("events.ndjson");
    let config = folder.path().join("softland.toml");
    std::fs::write(&config, "[log]\nevents = \"events.ndjson\"\n").unwrap();
    let config = config.to_str().unwrap();
    let place = Some(folder.path().join("softland.db").into());
    let options = Options { place, events_path: Some(log.clone()), ..Options::default() };
    let ledger = Ledger::open(options, Arc::new(now)).unwrap();
    for run in ["run-a1", "run-b"] {
        records(run, "s1", 10, false).into_iter().for_each(|record| ledger.record(record));
    }
    ledger.drain(Duration::from_secs(30)).unwrap();
    // A log that has been renamed.
    let old = folder.path().join("events.ndjson.1");
    std::fs::copy(&log, &old).unwrap();
    let before = std::fs::read_to_string(&log).unwrap();
    let of_run = before.lines().filter(|line| line.contains("run-a1")).count();
    let told = in_folder(folder.path(), &["runs", "--delete", "run-a1", "--config", config]);
    told.status(0).says(&format!("overwrote {} lines of ", 2 * of_run)).says("deleted run-a1");
    for file in [&log, &old] {
        let after = std::fs::read_to_string(file).unwrap();
        assert_eq!(after.len(), before.len(), "nothing moves below a gateway");
        assert!(!after.contains("run-a1"), "{after}");
        for (was, is) in before.lines().zip(after.lines()) {
            let event: Value = serde_json::from_str(is).expect("each line is JSON");
            assert!(is == was || event["event"] == "deleted", "{is}");
        }
    }
    // The gateway goes on in the same file, and a new one knows the runs that are left.
    records("run-b", "s1", 10, true).into_iter().for_each(|record| ledger.record(record));
    ledger.close(Duration::from_secs(30)).unwrap();
    let after = std::fs::read_to_string(&log).unwrap();
    assert!(after.lines().last().unwrap().contains("\"done\""), "{after}");
    std::fs::write(&log, "no log\n").unwrap();
    in_folder(folder.path(), &["runs", "--delete", "run-b", "--config", config])
        .status(2)
        .says("is not an event log of softland");
    let left = in_folder(folder.path(), &["runs", "--json"]).status(0).events();
    assert_eq!(left[0]["run"], "run-b", "what has failed can be begun again");
}

#[test]
fn runs_that_are_kept_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (agent, root) = (analyst(), notes());
    let (agent, root) = (agent.to_str().unwrap(), root.to_str().unwrap());
    let asked = ["run", agent, "What did we decide?", "--root", root, "--model", "sim/reader"];
    let runs = folder.join("state/softland/runs");
    let kept = || -> Vec<String> {
        let entries = std::fs::read_dir(&runs).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    for _ in 0..3 {
        in_folder(folder, &asked).status(0);
    }
    let first = kept()[0].replace(".ndjson", "");
    in_folder(folder, &["runs", "--delete", &first]).status(0).says(&format!("deleted {first}"));
    assert_eq!(kept().len(), 2);
    in_folder(folder, &["runs", "--delete", &first]).status(2).says("there is no ledger yet");
    let told = in_folder(folder, &["runs", "--delete", "--before", "1d"]).status(0);
    told.says("deleted 0 runs that softland run kept");
    // One that a process is writing stays.
    let open = std::fs::File::open(runs.join(&kept()[0])).unwrap();
    open.lock().unwrap();
    let in_use = kept()[0].replace(".ndjson", "");
    in_folder(folder, &["runs", "--delete", &in_use]).status(2).says("another process");
    let told = in_folder(folder, &["runs", "--delete", "--before", "0s"]).status(0);
    told.says("deleted 1 run that softland run kept").says(&format!("{in_use} stays"));
    assert_eq!(kept(), [format!("{in_use}.ndjson")]);
    ledger(folder);
    in_folder(folder, &["runs", "--delete", "--before", "0s", "--ledger", "softland.db"]);
    assert_eq!(kept().len(), 1, "a named ledger is all that is meant");
}

#[test]
fn a_gateway_may_write_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = ledger(folder.path());
    let ledger = Ledger::open(Options::with_path(&path), Arc::new(now)).unwrap();
    records("run-new", "s3", 10, false).into_iter().for_each(|record| ledger.record(record));
    ledger.drain(Duration::from_secs(30)).unwrap();
    let listed = in_folder(folder.path(), &["runs", "--json"]).status(0).events();
    assert_eq!(listed[0]["run"], "run-new");
    in_folder(folder.path(), &["runs", "--delete", "run-a1"]).status(0);
    records("run-new", "s3", 10, true).into_iter().for_each(|record| ledger.record(record));
    ledger.close(Duration::from_secs(30)).unwrap();
    assert_eq!(ledger.lost_records(), 0);
    let shown = in_folder(folder.path(), &["show", "run-new", "--json"]).status(0).events();
    assert_eq!(shown.last().unwrap()["event"], "done");
}
