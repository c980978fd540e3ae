//! Builds the report over all files: its sums, and a unique name for each run.

use std::collections::{BTreeMap, BTreeSet};

use crate::fold::FileReplay;
use crate::repeated::{FileRuns, remove_repeated};
use crate::report::{Report, RunReport, SourceLine, Totals, UnreadableLine, sum_costs, sum_tokens};
use crate::{Recordings, suggest};

/// Builds the report on everything that was read.
#[must_use]
pub fn build_report(read: Recordings<FileReplay<'_>>) -> Report {
    let (mut files, mut sources) = (Vec::new(), Vec::new());
    for source in read.sources {
        let (kind, runs) = (source.kind, source.sink.map(FileReplay::into_runs));
        files.push(FileRuns { kind, runs: runs.unwrap_or_default() });
        let (path, bytes) = (source.path.display().to_string(), source.bytes);
        sources.push(SourceLine { path, kind: kind.map(crate::Kind::name), runs: 0, bytes });
    }
    remove_repeated(&mut files);
    for (source, file) in sources.iter_mut().zip(&files) {
        source.runs = file.runs.len() as u64;
    }
    let mut runs: Vec<RunReport> = files.into_iter().flat_map(|file| file.runs).collect();
    make_names_unique(&mut runs);
    let unreadable = read
        .unreadable
        .into_iter()
        .map(|one| UnreadableLine {
            path: one.path.display().to_string(),
            line: one.line,
            reason: one.reason,
        })
        .collect();
    add_called_costs(&mut runs);
    let mut report = Report { v: 1, sources, unreadable, runs, ..Report::default() };
    sum_report(&mut report);
    report
}

/// Sums the runs up, and suggests limits for them.
pub(crate) fn sum_report(report: &mut Report) {
    report.totals = sum_totals(&report.runs);
    report.suggested_policy = suggest::suggest_policy(&report.runs);
}

fn sum_totals(runs: &[RunReport]) -> Totals {
    let mut totals = Totals { runs: runs.len() as u64, ..Totals::default() };
    for run in runs {
        totals.turns += run.turns;
        totals.tool_calls += run.tool_calls;
        totals.usage.add(&run.usage);
        totals.unpriced_turns += run.beside.unpriced_turns;
        totals.wasted_turns += run.beside.wasted_turns;
    }
    totals.cost_usd = sum_costs(runs.iter().map(|run| run.cost_usd));
    let simulated = runs.iter().filter(|run| run.simulated_usd.is_some());
    totals.simulated_usd =
        simulated.map(|run| run.simulated_usd).reduce(|a, b| sum_costs([a, b])).flatten();
    // A run without waste has no wasted cost: it says nothing about the waste of other runs.
    let wasted = || runs.iter().filter(|run| run.beside.wasted_turns > 0);
    totals.wasted_usd = sum_costs(wasted().map(|run| run.wasted_usd));
    totals.wasted_tokens = sum_tokens(wasted().map(|run| run.wasted_tokens));
    totals
}

/// Adds the cost of sub-agents to the cost limit that their callers need.
fn add_called_costs(runs: &mut [RunReport]) {
    let named = |(at, run): (usize, &RunReport)| Some((run.beside.name.clone()?, at));
    let names: BTreeMap<String, usize> = runs.iter().enumerate().filter_map(named).collect();
    let of = |runs: &[RunReport], at: usize| -> Option<usize> {
        names.get(runs.get(at)?.beside.caller.as_ref()?).copied()
    };
    for at in 0..runs.len() {
        let own = runs.get(at).filter(|run| run.beside.unpriced_turns == 0);
        let cost = own.and_then(|run| run.cost_usd);
        let (mut above, mut seen) = (of(runs, at), BTreeSet::from([at]));
        while let Some(caller) = above.filter(|caller| seen.insert(*caller)) {
            if let Some(run) = runs.get_mut(caller) {
                run.beside.cost_needed = run.beside.cost_needed.zip(cost).map(|(a, b)| a + b);
            }
            above = of(runs, caller);
        }
    }
}

/// Makes run names unique: files may share a session, and sub-agents a name.
fn make_names_unique(runs: &mut [RunReport]) {
    let mut known = BTreeSet::new();
    // The next number to try for each name: many runs may share it.
    let mut next: BTreeMap<String, u64> = BTreeMap::new();
    for run in runs {
        if known.insert(run.run.clone()) {
            continue;
        }
        let copy = next.entry(run.run.clone()).or_insert(2);
        loop {
            let name = format!("{}~{copy}", run.run);
            *copy += 1;
            if known.insert(name.clone()) {
                run.run = name;
                break;
            }
        }
    }
}
