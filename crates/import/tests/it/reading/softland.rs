//! softland's own streams and journals: sub-agents, calls that broke off, turns that paused.

use std::fmt::Write as _;

use super::common::{one, turns};

fn stream(events: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (seq, (run, rest)) in events.iter().enumerate() {
        let _ = writeln!(
            text,
            r#"{{"v":1,"seq":{seq},"ts":"2026-01-01T00:00:00.000Z","run":"{run}","turn":1,"event":{rest}}}"#
        );
    }
    text
}

#[test]
fn sub_agents_of_a_stream_are_of_their_callers_session() {
    let usage = r#""usage","input":5,"output":1,"cache_read":0,"cache_write":0,"cost_usd":0.25"#;
    let log = stream(&[
        ("r", r#""run_start","agent":"lead","model":"m""#),
        ("r", r#""child","child_run":"r.1","agent":"w","id":"c""#),
        ("r.1", r#""run_start","agent":"w","model":"m""#),
        ("r.1", r#""child","child_run":"r.1.1","agent":"v","id":"d""#),
        ("r.1.1", r#""run_start","agent":"v","model":"m""#),
        ("r.1.1", usage),
        ("r.1.1", r#""done","outcome":"answered""#),
        ("r.1", usage),
        ("r.1", r#""done","outcome":"answered""#),
        ("r", usage),
        ("r", r#""done","outcome":"answered""#),
    ]);
    let (_, steps, unreadable) = one(log);
    let begun: Vec<_> = steps.iter().filter(|step| step.contains(" begin ")).collect();
    assert_eq!(
        begun,
        ["0 begin r run=r agent=lead", "1 begin r run=r.1 agent=w", "2 begin r run=r.1.1 agent=v"]
    );
    assert_eq!(unreadable, [""; 0]);
}

#[test]
fn a_call_that_broke_off_is_none_and_a_providers_own_is_nobodys() {
    let log = stream(&[
        ("r", r#""run_start","agent":"a","model":"m""#),
        ("r", r#""tool_start","id":"c0","name":"grep""#),
        ("r", r#""tool_input_delta","id":"c0","partial_json":"{\"pattern\"""#),
        ("r", r#""tool_start","id":"c1","name":"grep""#),
        ("r", r#""tool_input_delta","id":"c1","partial_json":"{}""#),
        ("r", r#""tool_execute","id":"c1","name":"grep","input":{}"#),
        ("r", r#""tool_result","id":"c1","name":"grep","ok":true,"content":"x""#),
        ("r", r#""done","outcome":"answered","tool_calls":1"#),
    ]);
    let (_, steps, _) = one(&log);
    assert_eq!(steps[2], "0 turn c1:grep{} chars=0");
    let report = |log: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, log).unwrap();
        let settings = softland_import::ReplaySettings::default();
        let sink = |path: &std::path::Path| softland_import::FileReplay::new(&settings, path);
        let read = softland_import::read_paths(
            &[path],
            &softland_import::ReadOptions::default(),
            sink,
            |_| {},
        );
        softland_import::build_report(read).totals.tool_calls
    };
    assert_eq!(report(&log), 1);
    let search = log.replace("c1", "srvtoolu_1").replace("tool_execute", "text_start");
    assert_eq!(report(&search.replace(r#""tool_calls":1"#, r#""tool_calls":0"#)), 0);
}

#[test]
fn a_turn_of_a_journal_that_paused_is_one() {
    let start = r#"{"v":1,"run":"r","ms":0,"kind":"start","messages":["{\"role\":\"user\",\"content\":\"go\"}"]}"#;
    let said = r#""{\"role\":\"assistant\",\"content\":\"part\"}""#;
    let took =
        format!(r#"{{"v":1,"run":"r","ms":1,"kind":"took","messages":[{said},{said}],"nano":5}}"#);
    let (_, steps, unreadable) = one(format!("{start}\n{took}\n{took}\n"));
    assert_eq!((turns(&steps), unreadable.len()), (2, 0), "{steps:?}");
}

#[test]
fn d13_a_journal_tells_how_its_runs_ended() {
    let record = |run: &str, rest: &str| format!(r#"{{"v":1,"run":"{run}","ms":1,{rest}}}"#) + "\n";
    let start = r#""kind":"start","messages":["{\"role\":\"user\",\"content\":\"go\"}"]"#;
    let said = r#""kind":"took","nano":5,"messages":["{\"role\":\"assistant\",\"content\":\"All of it is done.\"}"]"#;
    let end = r#""kind":"end","report":{"outcome":"landed","reason":"tool_calls","rung":"ask"}"#;
    let child = start.replace(r#""kind""#, r#""parent":{"run":"r"},"kind""#);
    let mut journal = [record("r", start), record("r", said), record("r.1", &child)].concat();
    journal += &[record("r.1", said), record("r.1", end), record("r", end)].concat();
    let (_, steps, unreadable) = one(&journal);
    assert_eq!(unreadable, [""; 0]);
    let ends: Vec<&String> = steps.iter().filter(|step| step.contains("ended")).collect();
    assert_eq!(ends, ["1 ended landed/tool_calls", "0 ended landed/tool_calls"], "{steps:?}");
    let report = |journal: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = super::common::put(folder.path(), "r.ndjson", journal);
        let settings = softland_import::ReplaySettings::default();
        let sink = |path: &std::path::Path| softland_import::FileReplay::new(&settings, path);
        let options = softland_import::ReadOptions::default();
        softland_import::build_report(softland_import::read_paths(&[path], &options, sink, |_| {}))
    };
    let good = |journal: &str| {
        report(journal).runs.iter().filter(|run| softland_import::is_good_run(run)).count()
    };
    assert_eq!(good(&journal), 0, "softland landed both");
    assert_eq!(good(&journal.replace("landed", "answered")), 2);
    // What goes on after its end has not ended.
    let went_on = report(&(journal + &record("r", said)));
    assert_eq!(went_on.runs.iter().filter(|run| run.ended.is_some()).count(), 1);
}
