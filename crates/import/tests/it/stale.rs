//! A context that is asked again and again in vain, in one activity with much healthy traffic of
//! the same key, app and model: its money is found, and nobody else is blamed.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

use std::fmt::Write as _;

use softland_import::report::Report;
use softland_import::{FileReplay, ReadOptions, ReplaySettings, build_report, read_paths};
use softland_session::core::SignalKind;

const HEADER: &str = "generation_id,created_at,cost_total,tokens_prompt,tokens_completion,tokens_cached,model_permaslug,cancelled,finish_reason_normalized,api_key_name,app_name\n";
const PROMPT: u64 = 56_065;
const ROWS: u64 = 22;
const DOLLARS: f64 = 0.28;

/// Numbers that look like chance, the same for a seed each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// The activity: rows, oldest first.
struct Activity {
    rows: Vec<String>,
}

impl Activity {
    fn row(&mut self, prompt: u64, completion: u64, cost: f64, finish: &str) {
        let at = self.rows.len();
        let (hour, minute, second) = (at / 3600, at / 60 % 60, at % 60);
        let cancelled = finish == "cancelled";
        let mut row = String::new();
        let _ = write!(
            row,
            "gen-{at},2026-01-01 {hour:02}:{minute:02}:{second:02}.000,{cost:.6},{prompt},{completion},0,m,{cancelled},{finish},k,a"
        );
        self.rows.push(row);
    }
}

/// `crowd` conversations that grow past the stale context, some answering in a word or not at all.
fn activity(seed: u64, crowd: u64) -> Activity {
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(crowd));
    let mut made = Activity { rows: Vec::new() };
    let mut healthy: Vec<u64> = (0..crowd).map(|_| 1_000 + chance.below(70_000)).collect();
    let mut stale = 0;
    let mut grown = 40_000 + chance.below(10_000);
    // It grew itself before.
    while stale < ROWS || made.rows.len() < 30 * usize::try_from(crowd).unwrap() {
        let who = chance.below(crowd + 1);
        if let Some(prompt) = healthy.get_mut(usize::try_from(who).unwrap()) {
            *prompt += 20 + chance.below(2_500);
            if *prompt > 90_000 {
                *prompt = 1_000 + chance.below(60_000);
            }
            let cost = *prompt as f64 * 5e-6;
            let (completion, finish) = match chance.below(40) {
                0 => (0, "stop"),
                1 => (1 + chance.below(5), "stop"),
                2 => (3, "cancelled"),
                3 => (2, "tool_calls"),
                _ => (20 + chance.below(900), "tool_calls"),
            };
            // Some come by at the very same size.
            let at = if chance.below(60) == 0 { PROMPT } else { *prompt };
            made.row(if completion > 5 { at } else { *prompt }, completion, cost, finish);
        } else if grown < PROMPT {
            made.row(grown, 150, grown as f64 * 5e-6, "tool_calls");
            grown += 3_000;
        } else if stale < ROWS {
            made.row(PROMPT, 3, DOLLARS, "stop");
            stale += 1;
        }
    }
    made
}

fn audited(text: &str) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("activity.csv");
    std::fs::write(&path, text).unwrap();
    let settings = ReplaySettings::default();
    build_report(read_paths(
        &[path],
        &ReadOptions::default(),
        |path| FileReplay::new(&settings, path),
        |_| {},
    ))
}

#[test]
fn the_money_of_a_stale_context_is_found_in_any_crowd() {
    let whole = ROWS as f64 * DOLLARS;
    for crowd in 0..=20 {
        for seed in 0..12 {
            let made = activity(seed, crowd);
            let mut rows = made.rows.clone();
            if seed % 2 == 1 {
                rows.reverse();
            }
            let report = audited(&format!("{HEADER}{}\n", rows.join("\n")));
            let case = format!("crowd {crowd}, seed {seed}");
            assert_eq!(report.unreadable.len(), 0, "{case}");
            assert_eq!(report.totals.turns, made.rows.len() as u64, "{case}");
            let wasted = report.totals.wasted_usd.unwrap().0 as f64 / 1e9;
            assert!((wasted - whole).abs() <= 0.05 * whole, "{case}: {wasted} of {whole}");
            let flagged: Vec<_> =
                report.runs.iter().filter(|run| !run.signals.is_empty()).collect();
            assert_eq!(flagged.len(), 1, "{case}");
            let signals: Vec<_> = flagged[0].signals.iter().map(|listed| listed.signal).collect();
            assert_eq!(signals, [SignalKind::Stale], "{case}");
            assert_eq!(flagged[0].signals[0].turns, ROWS, "{case}");
        }
    }
}

#[test]
fn a_healthy_crowd_is_not_blamed() {
    for seed in 0..40 {
        let rows = activity(seed, 12).rows;
        let stale = format!(",{PROMPT},3,");
        let rows: Vec<_> = rows.into_iter().filter(|row| !row.contains(&stale)).collect();
        let report = audited(&format!("{HEADER}{}\n", rows.join("\n")));
        let flagged = report.runs.iter().filter(|run| !run.signals.is_empty()).count();
        assert_eq!((flagged, report.totals.wasted_turns), (0, 0), "seed {seed}");
    }
}
