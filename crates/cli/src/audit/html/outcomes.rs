//! The outcomes of the runs of an HTML report, and their signals.

use std::collections::{BTreeMap, BTreeSet};

use softland_import::is_good_run;
use softland_import::report::{Report, RunReport};

use super::super::worst::{describe_ended_runs, was_ended};
use super::{OF_ALL, RunSource, escape_text, push_format};
use crate::render::{format_count, group_digits};

/// Renders how many runs ended how, how many have a signal, and how many a policy would have ended.
pub(super) fn render_outcomes(report: &Report, of: RunSource) -> String {
    let mut rows: Vec<(String, u64)> = Vec::new();
    let number = |of: &dyn Fn(&&RunReport) -> bool| report.runs.iter().filter(of).count() as u64;
    rows.push(("a final answer, no signal".to_owned(), number(&|run| is_good_run(run))));
    let answered = |run: &&RunReport| run.beside.answered && !is_good_run(run);
    rows.push(("a final answer, with signals".to_owned(), number(&answered)));
    rows.push(("landed or stopped by softland".to_owned(), number(&|run| was_ended(run))));
    let other = |run: &&RunReport| !run.beside.answered && !run.beside.rows && !was_ended(run);
    rows.push(("no final answer".to_owned(), number(&other)));
    rows.push(("not recorded (rows of numbers)".to_owned(), number(&|run| run.beside.rows)));
    let mut signals: BTreeMap<&str, u64> = BTreeMap::new();
    for run in &report.runs {
        let kinds: BTreeSet<&str> = run.signals.iter().map(|listed| listed.signal.word()).collect();
        for kind in kinds {
            *signals.entry(kind).or_insert(0) += 1;
        }
    }
    let ended = number(&|run| run.what_if.as_ref().is_some_and(|w| w.ended_at_turn.is_some()));
    let mut text = String::from("<section>\n<h2>Runs by outcome</h2>\n");
    text += OF_ALL;
    rows.retain(|(_, runs)| *runs > 0);
    text += &render_bars(&rows, report.totals.runs);
    if let Some(ended) = describe_ended_runs(report) {
        push_format(&mut text, format_args!("<p>{}.</p>\n", escape_text(&ended)));
    }
    if !signals.is_empty() {
        text += "<h3>Runs with a signal</h3>\n";
        let rows: Vec<_> =
            signals.into_iter().map(|(kind, runs)| (kind.to_owned(), runs)).collect();
        text += &render_bars(&rows, report.totals.runs);
    }
    // A ledger records the real outcomes of its runs, but no single calls to which a policy could
    // be applied.
    let asked = match of {
        RunSource::Ledger => {
            "Asked of counts and costs alone, since a ledger keeps no single calls, the policy"
        }
        RunSource::Files | RunSource::Recording => "The policy",
    };
    push_format(
        &mut text,
        format_args!(
            "<p>{asked} would have ended {} of {}.</p>\n</section>\n",
            format_count(ended, "run"),
            group_digits(report.totals.runs)
        ),
    );
    text
}

fn render_bars(rows: &[(String, u64)], of: u64) -> String {
    let mut text = String::from("<ul class=\"bars\">\n");
    for (name, runs) in rows {
        let share = (runs * 1000 / of.max(1)).max(4);
        push_format(
            &mut text,
            format_args!(
                "<li><span class=\"name\">{}</span><b>{}</b><svg viewBox=\"0 0 1000 6\" \
                 preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"k-bar\" \
                 width=\"{share}\" height=\"6\"></rect></svg></li>\n",
                escape_text(name),
                group_digits(*runs)
            ),
        );
    }
    text + "</ul>\n"
}
