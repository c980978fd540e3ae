//! Runs of which several recordings tell count once.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::fmt::Write as _;
use std::path::Path;

use softland_import::report::Report;
use softland_import::{FileReplay, ReadOptions, ReplaySettings, build_report, read_paths};
use softland_session::core::NanoUsd;

/// Events of a gateway's run, which has cost a dollar a turn.
fn gateway_run(run: &str, session: &str, turns: u32) -> String {
    let mut text = String::new();
    let mut tell = |turn: u32, rest: &str| {
        writeln!(
            text,
            r#"{{"v":1,"seq":0,"ts":"2026-03-05T12:00:{turn:02}.000Z","run":"{run}","turn":{turn},"event":{rest}}}"#
        )
        .unwrap();
    };
    tell(0, &format!(r#""run_start","model":"m","session":"{session}""#));
    for turn in 1..=turns {
        tell(
            turn,
            r#""usage","input":100,"output":10,"cache_read":0,"cache_write":0,"cost_usd":1"#,
        );
    }
    tell(turns, r#""done","outcome":"landed","reason":"tool_calls","tool_calls":1"#);
    text
}

/// A session of Claude Code with one answer.
fn claude_session(session: &str) -> String {
    format!(
        "{}\n{}\n",
        format_args!(
            r#"{{"type":"user","sessionId":"{session}","uuid":"u1","timestamp":"2026-03-05T12:00:00.000Z","message":{{"role":"user","content":"Hello there."}}}}"#
        ),
        format_args!(
            r#"{{"type":"assistant","sessionId":"{session}","uuid":"u2","parentUuid":"u1","timestamp":"2026-03-05T12:00:05.000Z","message":{{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{{"type":"text","text":"Hello, what can I do?"}}],"stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":9}}}}}}"#
        )
    )
}

fn audited(files: &[(&str, String)]) -> Report {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let settings = ReplaySettings::default();
    let sink = |path: &Path| FileReplay::new(&settings, path);
    build_report(read_paths(&[folder.path().to_owned()], &ReadOptions { threads: 1 }, sink, |_| ()))
}

#[test]
fn a_wrapped_session_counts_by_its_own_recording() {
    let ledger = gateway_run("r1", "s1", 3) + &gateway_run("r2", "s2", 2);
    let report = audited(&[("events.jsonl", ledger), ("s1.jsonl", claude_session("s1"))]);
    let runs: Vec<_> = report.runs.iter().map(|run| (&*run.session, run.turns)).collect();
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert!(runs.contains(&("s1", 1)) && runs.contains(&("s2", 2)), "{runs:?}");
    let of_events = report.sources.iter().find(|source| source.path.ends_with("events.jsonl"));
    assert_eq!(of_events.unwrap().runs, 1);
    assert!(report.totals.cost_usd.unwrap() < NanoUsd(2_100_000_000), "{:?}", report.totals);
}

#[test]
fn a_run_in_a_ledger_and_its_copy_counts_once_and_whole() {
    let (old, new) = (gateway_run("r1", "s1", 2), gateway_run("r1", "s1", 3));
    for files in [
        [("a.jsonl", old.clone()), ("b.jsonl", new.clone())],
        [("a.jsonl", new.clone()), ("b.jsonl", old)],
        [("a.jsonl", new.clone()), ("b.jsonl", new)],
    ] {
        let report = audited(&files);
        let turns: Vec<u64> = report.runs.iter().map(|run| run.turns).collect();
        assert_eq!(turns, [3], "{:?}", files.map(|(name, _)| name));
        assert_eq!(report.totals.cost_usd, Some(NanoUsd(3_000_000_000)));
    }
}

/// Runs of one session that only a gateway recorded are all counted.
#[test]
fn runs_of_a_session_that_nobody_else_recorded_stay() {
    let ledger = gateway_run("r1", "s1", 1) + &gateway_run("r2", "s1", 2);
    let report = audited(&[("events.jsonl", ledger), ("s9.jsonl", claude_session("s9"))]);
    assert_eq!(report.totals.runs, 3);
}
