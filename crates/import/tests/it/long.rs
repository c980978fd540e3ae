//! Recordings in which the same goes on for very long: time grows with their length, not its
//! square.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::time::{Duration, Instant};

use softland_import::report::Report;
use softland_import::{FileReplay, ReadOptions, ReplaySettings, build_report, read_paths};

const TURNS: u64 = 30_000;
/// Far more than it takes, far less than its square would.
const LONGEST: Duration = Duration::from_secs(60);

fn audited(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long");
    std::fs::write(&path, text).unwrap();
    let settings = ReplaySettings::default();
    let begun = Instant::now();
    let read = read_paths(
        &[path],
        &ReadOptions::default(),
        |path| FileReplay::new(&settings, path),
        |_| {},
    );
    let report = build_report(read);
    assert!(begun.elapsed() < LONGEST, "{:?}", begun.elapsed());
    report
}

fn members(report: &Report) -> Vec<u64> {
    assert_eq!((report.unreadable.len(), report.runs.len()), (0, 1));
    report.runs[0].signals.iter().map(|listed| listed.turns).collect()
}

#[test]
fn a_streak_of_trivial_answers() {
    let text = |n| format!(r#"{{"role":"assistant","content":"n{n}"}}"#) + "\n";
    let report = audited(&(0..TURNS).map(text).collect::<String>());
    // Nothing follows that tells whether the last turn was trivial.
    assert_eq!(members(&report), [TURNS - 1]);
}

#[test]
fn two_calls_by_turns() {
    let round = |n: u64| {
        let command = ["ls", "pwd"][usize::from(n.is_multiple_of(2))];
        format!(
            r#"{{"role":"assistant","content":[{{"type":"tool_use","id":"t{n}","name":"bash","input":{{"command":"{command}"}}}}]}}
{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"{command}"}}]}}
"#
        )
    };
    let report = audited(&(0..TURNS / 2).map(round).collect::<String>());
    assert!(members(&report).contains(&(TURNS / 2)), "{:?}", members(&report));
}

#[test]
fn runs_of_one_name() {
    let mut text = "generation_id,created_at,tokens_prompt,tokens_completion\n".to_owned();
    for n in 0..TURNS {
        text += &format!("g{n},2026-01-01T00:00:00Z,{},50\n", 2 * TURNS - n);
    }
    let report = audited(&text);
    assert_eq!(report.runs.len() as u64, TURNS, "no prompt fits behind another");
    let names: std::collections::BTreeSet<_> = report.runs.iter().map(|run| &run.run).collect();
    assert_eq!(names.len(), report.runs.len());
}
