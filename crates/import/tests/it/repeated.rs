//! Runs of which several recordings tell count once.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

use std::fmt::Write as _;
use std::path::Path;

use softland_import::report::Report;
use softland_import::{
    FileReplay, ReadOptions, ReplaySettings, build_report, is_good_run, read_paths,
};
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

/// A session of Claude Code with an answer in each of these minutes.
fn answers(session: &str, minutes: &[u32]) -> String {
    let mut text = String::new();
    for minute in minutes {
        for (second, who, said) in [(0, "user", "Why"), (5, "assistant", "That is how it is in")] {
            let usage = match who {
                "user" => String::new(),
                _ => format!(
                    r#","id":"msg_{minute}","model":"claude-sonnet-4-5","stop_reason":"end_turn","usage":{{"input_tokens":10,"output_tokens":9}}"#
                ),
            };
            writeln!(
                text,
                r#"{{"type":"{who}","sessionId":"{session}","uuid":"{who}-{minute}","timestamp":"2026-03-05T12:{minute:02}:{second:02}.000Z","message":{{"role":"{who}","content":[{{"type":"text","text":"{said} minute {minute}."}}]{usage}}}}}"#
            )
            .unwrap();
        }
    }
    text
}

/// The end of each run of the session, in order of time.
fn ends(report: &Report, session: &str) -> Vec<Option<String>> {
    let of = report.runs.iter().filter(|run| run.session == session);
    of.map(|run| run.ended.as_ref().map(|end| format!("{}/{}", end.outcome, end.reason))).collect()
}

#[test]
fn d14_softlands_own_answer_in_a_recording_is_not_the_models() {
    let local = "[This answer is softland's, not the model's.]\\n\\nThe run reached its limit \
                 (tool_calls_limit: 3 of 3), and the model gave no answer. Done so far: 3 tool calls.";
    let said = |session: &str, text: &str| {
        let file = claude_session(session).replace("Hello, what can I do?", text);
        // No message is in two files.
        let file = file.replace("msg_1", &format!("msg_{session}"));
        file.replace("\"u1\"", &format!("\"u{session}\"")).replace("u2", &format!("v{session}"))
    };
    let stopped = said("s1", local);
    let quoted = said("s2", &format!("It says {local}"));
    let unsent = said("s3", local).replace("claude-sonnet-4-5", "nobodys-model");
    let unsent =
        unsent.replace("_tokens\":10", "_tokens\":0").replace("_tokens\":9", "_tokens\":0");
    let report = audited(&[("1.jsonl", stopped), ("2.jsonl", quoted), ("3.jsonl", unsent)]);
    let good: Vec<bool> = report.runs.iter().map(is_good_run).collect();
    assert_eq!(good, [false, true, false], "{:?}", report.runs);
    let stopped = [Some("stopped/tool_calls".to_owned())];
    assert_eq!((ends(&report, "s1"), ends(&report, "s3")), (stopped.to_vec(), stopped.to_vec()));
    assert_eq!(ends(&report, "s2"), [None]);
    assert_eq!(report.totals.unpriced_turns, 0, "nothing was sent for the last one");
}

#[test]
fn d15_a_wrapped_session_has_the_ends_that_softland_recorded() {
    let at = |minute: u32, run: &str, outcome: &str| {
        let text = gateway_run(run, "s1", 1).replace("T12:00:", &format!("T12:{minute:02}:"));
        text.replace("landed", outcome)
    };
    let three = [at(1, "r1", "answered"), at(3, "r2", "landed"), at(5, "r3", "stopped")].concat();
    let all = [("s1.jsonl", answers("s1", &[1, 3, 5])), ("z.jsonl", three.clone())];
    let report = audited(&all);
    let ended = |outcome: &str| Some(format!("{outcome}/tool_calls"));
    assert_eq!(ends(&report, "s1"), [ended("answered"), ended("landed"), ended("stopped")]);
    let good: Vec<bool> = report.runs.iter().map(is_good_run).collect();
    assert_eq!(good, [true, false, false]);
    // A copy of the ledger changes nothing.
    let [recording, ledger] = &all;
    let report = audited(&[recording.clone(), ledger.clone(), ("zz.jsonl", three)]);
    assert_eq!(ends(&report, "s1"), [ended("answered"), ended("landed"), ended("stopped")]);
    // The first two questions are one run of the ledger, which does not know the last one.
    let two = [at(1, "r1", "landed"), at(5, "r2", "stopped")].concat();
    let report = audited(&[("s1.jsonl", answers("s1", &[1, 3, 5, 7])), ("z.jsonl", two)]);
    assert_eq!(ends(&report, "s1"), [None, ended("landed"), None, ended("stopped")]);
    // It began after the session.
    let late = at(9, "r1", "landed");
    let report = audited(&[("s1.jsonl", answers("s1", &[1, 3])), ("z.jsonl", late)]);
    assert_eq!(ends(&report, "s1"), [None, None]);
}
