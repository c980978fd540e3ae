//! Signals and ends in softland's own recordings, as they were seen at the time.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::path::Path;

use softland_import::report::{Report, RunEnded, RunReport};
use softland_import::{
    FileReplay, ReadOptions, ReplaySettings, SharedSpending, build_report, is_good_run, read_paths,
};
use softland_session::core::policy::{Policy, PolicyValue};
use softland_session::core::{NanoUsd, SignalKind};

/// Lines of a log: run, turn, event and further fields.
fn log(events: &[(&str, u64, &str, &str)]) -> String {
    let line = |(run, turn, event, fields): &(&str, u64, &str, &str)| {
        let comma = if fields.is_empty() { "" } else { "," };
        format!(
            "{{\"v\":1,\"seq\":0,\"ts\":\"2026-01-01T00:00:{turn:02}.000Z\",\"run\":\"{run}\",\
             \"turn\":{turn},\"event\":\"{event}\"{comma}{fields}}}\n"
        )
    };
    events.iter().map(line).collect()
}

fn audited(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    std::fs::write(&path, text).unwrap();
    let settings = ReplaySettings::default();
    let sink = |path: &Path| FileReplay::new(&settings, path);
    build_report(read_paths(&[path], &ReadOptions { threads: 1 }, sink, |_| ()))
}

fn find<'r>(report: &'r Report, name: &str) -> &'r RunReport {
    report.runs.iter().find(|run| run.run.contains(name)).unwrap()
}

const USAGE: &str = r#""input":100,"output":10,"cache_read":0,"cache_write":0,"cost_usd":0.5"#;
const REPEAT: &str = r#""signal":"repeat","evidence":{"turns":[4,5,6],"call":"grep {\"p\":1}","result":"02429a2d44143900bf0f4528b2bae510"}"#;

#[test]
fn a_gateways_run_lists_what_was_seen_of_it_and_how_it_ended() {
    let mut events = vec![("r1", 0, "run_start", r#""model":"m","session":"s""#)];
    // It goes on from an older run: its own turns begin with the fourth.
    for turn in 4..=8 {
        events.push(("r1", turn, "turn_start", ""));
        events.push(("r1", turn, "usage", USAGE));
        match turn {
            6 => events.push(("r1", turn, "signal", REPEAT)),
            7 => {
                let again = REPEAT.replace("[4,5,6]", "[4,5,6,7]").leak();
                events.push(("r1", turn, "signal", again));
            }
            _ => {}
        }
    }
    let done = r#""outcome":"landed","reason":"repeat","tool_calls":4"#;
    events.push(("r1", 8, "done", done));
    let report = audited(&log(&events));
    let run = find(&report, "r1");
    let [listed] = run.signals.as_slice() else { panic!("{:?}", run.signals) };
    assert_eq!((listed.signal, listed.recorded), (SignalKind::Repeat, true));
    assert_eq!((listed.from_turn, listed.to_turn, listed.turns), (1, 4, 4));
    assert_eq!(listed.evidence.call.as_deref(), Some("grep {\"p\":1}"));
    assert!(listed.evidence.result.is_some(), "{listed:?}");
    assert_eq!(listed.wasted_usd, Some(NanoUsd(1_500_000_000)), "all but the first");
    let ended = RunEnded { outcome: "landed".to_owned(), reason: "repeat".to_owned() };
    assert_eq!(run.ended, Some(ended));
    assert!(!is_good_run(run));
}

#[test]
fn b73_a_request_whose_answer_never_came_is_no_turn_without_a_price() {
    let start = |run| (run, 0, "run_start", r#""model":"m","session":"s""#);
    let (turn, done) = ("turn_start", r#""outcome":"stopped","reason":"empty""#);
    let report = audited(&log(&[
        // The gateway was ended before anything came.
        start("r1"),
        ("r1", 1, turn, ""),
        // Before the second answer.
        start("r2"),
        ("r2", 1, turn, ""),
        ("r2", 1, "usage", USAGE),
        ("r2", 2, turn, ""),
        // An answer with nothing in it, of a provider that tells no usage.
        start("r3"),
        ("r3", 1, turn, ""),
        ("r3", 1, "done", done),
        // An answer of which only its content is known.
        start("r4"),
        ("r4", 1, turn, ""),
        ("r4", 1, "text_delta", r#""text":"No.""#),
    ]));
    let mut turns: Vec<(&str, u64)> =
        report.runs.iter().map(|run| (run.run.split('#').next().unwrap(), run.turns)).collect();
    turns.sort_unstable();
    assert_eq!(turns, [("s/r2", 1), ("s/r3", 1), ("s/r4", 1)]);
    assert_eq!(report.totals.unpriced_turns, 2);
    let text =
        serde_json::to_string(&report.find().iter().map(|one| &one.what).collect::<Vec<_>>());
    assert!(!text.unwrap().contains("1 turns"));
}

#[test]
fn recorded_silences_are_listed_from_their_limit_on() {
    let empty = r#""signal":"empty","evidence":{"turns":[2]}"#;
    let start = r#""model":"m""#;
    let few = |run, done| {
        let mut events = vec![(run, 0, "run_start", start), (run, 2, "usage", USAGE)];
        events.extend([(run, 2, "signal", empty), (run, 2, "signal", empty)]);
        events.extend([(run, 3, "usage", USAGE), (run, 3, "done", done)]);
        events
    };
    let mut events = few("nudged", r#""outcome":"answered","reason":"final""#);
    events.extend(few("stopped", r#""outcome":"stopped","reason":"empty""#));
    let report = audited(&log(&events));
    assert!(find(&report, "nudged").signals.is_empty(), "it was asked again and answered");
    let stopped = find(&report, "stopped");
    let kinds: Vec<_> = stopped.signals.iter().map(|one| (one.signal, one.turns)).collect();
    assert_eq!(kinds, [(SignalKind::Empty, 1)]);
}

#[test]
fn what_the_recording_shows_itself_is_listed_once_and_as_seen() {
    let mut events = vec![("r", 0, "run_start", r#""model":"sim/looper""#)];
    for turn in 1..=4 {
        let (id, input) = (format!("\"id\":\"c{turn}\",\"name\":\"grep\""), "\"input\":{\"p\":1}");
        let call = format!("{id},{input}").leak();
        let result = format!("{id},\"ok\":true,\"content\":\"none\"").leak();
        events.push(("r", turn, "usage", USAGE));
        events.push(("r", turn, "tool_execute", call));
        events.push(("r", turn, "tool_result", result));
    }
    let seen = REPEAT.replace("[4,5,6]", "[1,2,3]").leak();
    events.push(("r", 4, "signal", seen));
    events.push(("r", 5, "text_delta", r#""text":"There is none of it.""#));
    events.push(("r", 5, "usage", USAGE));
    events.push(("r", 5, "done", r#""outcome":"answered","reason":"final""#));
    let report = audited(&log(&events));
    let run = find(&report, "r");
    let [listed] = run.signals.as_slice() else { panic!("{:?}", run.signals) };
    assert_eq!((listed.recorded, listed.turns), (false, 4));
    assert_eq!(run.simulated_usd, Some(NanoUsd(2_500_000_000)), "nobody paid it");
    assert_eq!(report.totals.simulated_usd, run.simulated_usd);
}

/// Three calls that come to nothing, with this usage, and an answer.
fn looping(run: &'static str, usage: Option<&'static str>) -> String {
    let mut events = vec![(run, 0, "run_start", r#""model":"nobody-knows-it""#)];
    for turn in 1..=4 {
        let id = format!("\"id\":\"c{turn}\",\"name\":\"grep\"");
        events.extend(usage.map(|usage| (run, turn, "usage", usage)));
        if turn < 4 {
            let call = format!("{id},\"input\":{{\"p\":1}}").leak();
            events.push((run, turn, "tool_execute", call));
            let result = format!("{id},\"ok\":true,\"content\":\"none\"").leak();
            events.push((run, turn, "tool_result", result));
        }
    }
    events.push((run, 4, "text_delta", r#""text":"There is none of it.""#));
    log(&events)
}

#[test]
fn waste_of_which_nothing_is_known_is_not_nothing() {
    let unpriced = r#""input":100,"output":10,"cache_read":0,"cache_write":0,"cost_usd":null"#;
    let healthy =
        log(&[("fine", 1, "usage", USAGE), ("fine", 1, "text_delta", r#""text":"It is""#)]);
    let report = audited(&(healthy.clone() + &looping("r", Some(unpriced))));
    assert_eq!(find(&report, "r").wasted_usd, None);
    assert_eq!(report.totals.wasted_usd, None, "a run without waste does not make it nothing");
    assert_eq!(report.totals.wasted_tokens, Some(220));
    let report = audited(&(healthy + &looping("r", None)));
    let run = find(&report, "r");
    assert_eq!((run.wasted_usd, run.wasted_tokens), (None, None));
    assert_eq!(report.totals.wasted_tokens, None);
    let dear = audited(&looping("r", Some(USAGE)));
    assert_eq!(dear.totals.wasted_usd, Some(NanoUsd(1_000_000_000)));
    assert_eq!(dear.totals.simulated_usd, None);
}

/// A run that calls another, which calls a third, and goes on; each turn costs half a dollar.
fn tree() -> String {
    let start = r#""model":"m""#;
    let mut events = vec![("r", 0, "run_start", start), ("r", 1, "usage", USAGE)];
    events.push(("r", 1, "child", r#""child_run":"r.1","agent":"a","id":"c1""#));
    events.extend([("r.1", 0, "run_start", start), ("r.1", 2, "usage", USAGE)]);
    events.push(("r.1", 2, "child", r#""child_run":"r.1.1","agent":"b","id":"c2""#));
    events.push(("r.1.1", 0, "run_start", start));
    events.extend((3..=6).map(|turn| ("r.1.1", turn, "usage", USAGE)));
    events.push(("r.1.1", 6, "done", r#""outcome":"answered","reason":"final""#));
    events.push(("r.1", 7, "usage", USAGE));
    events.push(("r.1", 7, "done", r#""outcome":"answered","reason":"final""#));
    events.extend([("r", 8, "usage", USAGE), ("r", 9, "usage", USAGE)]);
    events.push(("r", 9, "done", r#""outcome":"answered","reason":"final""#));
    log(&events)
}

#[test]
fn what_sub_agents_spend_counts_in_the_runs_that_called_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    std::fs::write(&path, tree()).unwrap();
    // Half a dollar twice, for the next request and the answer, is to be left.
    let cases = [
        ("cost_limit_usd", "3.9", "cost"),
        ("session_cost_limit_usd", "3.9", "session_cost"),
        ("tokens_limit", "900", "tokens"),
    ];
    for (key, limit, reason) in cases {
        let mut policy = Policy::default();
        for (key, value) in [(key, limit), ("reserve_tokens", "0")] {
            policy.set_key(key, &PolicyValue::Text(value.to_owned())).unwrap();
        }
        let mut settings = ReplaySettings { policy, ..ReplaySettings::default() };
        let audited = |settings: &ReplaySettings| {
            let sink = |path: &Path| FileReplay::new(settings, path);
            build_report(read_paths(
                std::slice::from_ref(&path),
                &ReadOptions { threads: 1 },
                sink,
                |_| (),
            ))
        };
        let first = audited(&settings);
        assert!(first.runs.iter().all(|run| run.what_if.is_none()), "each run alone is cheap");
        settings.trees = SharedSpending::from_report(&first);
        settings.trees = SharedSpending::from_report(&audited(&settings));
        let report = audited(&settings);
        let ended = |name: &str| {
            let run = report.runs.iter().find(|run| run.run == name).unwrap();
            run.what_if.as_ref().map(|w| (w.ended_at_turn, w.reason.clone()))
        };
        // 0.5 of its own and 3 below it are spent at its second request: 0.4 are left.
        assert_eq!(ended("r"), Some((Some(2), reason.to_owned())), "{key}");
        // 3 are spent when the one between them would go on: the limit above it holds for it, too.
        assert_eq!(ended("r.1"), Some((Some(2), reason.to_owned())), "{key}");
        // The answer of the first is held back, so that 0.85 are left for the last turn below.
        let last = (reason != "tokens").then(|| (Some(4), reason.to_owned()));
        assert_eq!(ended("r.1.1"), last, "{key}");
    }
}

#[test]
fn the_money_that_a_run_needed_holds_its_sub_agents() {
    let report = audited(&tree().replace("\"m\"", "\"claude-sonnet-4-5\""));
    let needed = |name: &str| {
        let run = report.runs.iter().find(|run| run.run == name).unwrap();
        run.beside.cost_needed.unwrap()
    };
    // Half a dollar a turn, and an answer of some cents behind it.
    assert!(needed("r.1.1") >= NanoUsd(1_500_000_000) && needed("r.1.1") < NanoUsd(2_500_000_000));
    assert!(needed("r.1") >= NanoUsd(2_500_000_000), "its own turn and four below");
    assert!(needed("r") >= NanoUsd(4_000_000_000), "two own turns and six below");
}

#[test]
fn a_short_text_that_took_many_tokens_is_not_trivial() {
    let said = |output: u64| {
        let usage = format!(
            "\"input\":9,\"output\":{output},\"cache_read\":0,\"cache_write\":0,\"cost_usd\":0.5"
        );
        let mut events = vec![("r", 0, "run_start", r#""model":"m""#)];
        for turn in 1..=4 {
            events.push(("r", turn, "text_delta", r#""text":"OK""#));
            events.push(("r", turn, "usage", usage.as_str()));
        }
        let report = audited(&log(&events));
        find(&report, "r").signals.iter().map(|one| one.signal).collect::<Vec<_>>()
    };
    assert_eq!(said(3), [SignalKind::Trivial]);
    assert!(!said(300).contains(&SignalKind::Trivial));
}

#[test]
fn d12_a_turn_for_which_nothing_was_sent_costs_nothing() {
    let local =
        r#""intervention":"local_answer","because":{"reason":"cost","used":0.0,"limit":0.05}"#;
    let done = r#""outcome":"stopped","reason":"cost","answered_by":"local","tool_calls":0"#;
    let start = |run| (run, 0, "run_start", r#""model":"m","session":"s""#);
    let unpriced = USAGE.replace("0.5", "null");
    let report = audited(&log(&[
        start("unsent"),
        ("unsent", 1, "turn_start", ""),
        ("unsent", 1, "intervention", local),
        ("unsent", 0, "done", done),
        // What was sent before has no price.
        start("billed"),
        ("billed", 1, "turn_start", ""),
        ("billed", 1, "usage", &unpriced),
        ("billed", 1, "intervention", local),
        ("billed", 0, "done", done),
    ]));
    let unsent = find(&report, "unsent");
    assert_eq!((unsent.turns, unsent.cost_usd), (1, Some(NanoUsd::ZERO)));
    assert_eq!((find(&report, "billed").cost_usd, report.totals.unpriced_turns), (None, 1));
    let found = report.find();
    let named = found.iter().find(|one| one.kind == "unpriced").unwrap();
    assert!(named.what.starts_with("1 turn of models without a known price: m"), "{}", named.what);
}

#[test]
fn d16_a_run_that_softland_ended_is_not_one_without_an_answer() {
    let mut events = Vec::new();
    for (run, done) in [
        ("landed", r#""outcome":"landed","reason":"tool_calls","tool_calls":1"#),
        ("stopped", r#""outcome":"stopped","reason":"empty","tool_calls":1"#),
        ("answered", r#""outcome":"answered","reason":"final","tool_calls":1"#),
        ("failed", r#""outcome":"failed","reason":"provider","tool_calls":1"#),
    ] {
        events.push((run, 0, "run_start", r#""model":"m""#));
        events.push((run, 1, "turn_start", ""));
        events.push((run, 1, "usage", USAGE));
        events.push((run, 1, "tool_execute", r#""id":"c","name":"grep","input":{}"#));
        events.push((run, 1, "done", done));
    }
    let report = audited(&log(&events));
    let found = report.find();
    let open = found.iter().find(|one| one.kind == "abandoned").unwrap();
    let places: Vec<&str> = open.evidence.iter().map(|place| &*place.run).collect();
    assert_eq!((open.runs, places), (1, vec!["failed"]));
}
