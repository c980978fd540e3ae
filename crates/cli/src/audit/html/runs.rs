//! The runs of an HTML report, each with its signals and steps to unfold.

use std::collections::{BTreeMap, BTreeSet};

use softland_agent::core::NanoUsd;
use softland_import::report::{Report, RunReport, StepLine};

use super::super::worst::{
    describe_end, describe_ended_runs, describe_signal, describe_what_if, format_money,
    format_partial_money, source_position, worst_runs,
};
use super::figures::short_name;
use super::{SHOWN, escape_text, push_format};
use crate::render::{format_count, group_digits};

/// The source of a report's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::audit) enum RunSource {
    /// Files; the report is a page of its own and shows the worst runs only.
    Files,
    /// A recording that was uploaded to a gateway.
    Recording,
    /// The gateway's ledger; each run has a page of its own.
    Ledger,
}

/// The runs that are shown: the worst, and the dearest of the others.
pub(super) struct ShownRuns<'r> {
    worst: Vec<&'r RunReport>,
    others: Vec<&'r RunReport>,
    places: BTreeMap<&'r str, usize>,
}

/// Chooses the runs to show.
pub(super) fn choose_runs(report: &Report) -> ShownRuns<'_> {
    let worst = worst_runs(report);
    let bad: BTreeSet<&str> = worst.iter().map(|run| run.run.as_str()).collect();
    let mut others: Vec<&RunReport> =
        report.runs.iter().filter(|run| !bad.contains(run.run.as_str())).collect();
    others.sort_by_key(|run| {
        std::cmp::Reverse((run.cost_usd, run.usage.recorded_tokens(), run.turns))
    });
    let places = report.runs.iter().enumerate().map(|(at, run)| (run.run.as_str(), at)).collect();
    ShownRuns { worst, others, places }
}

/// Renders the worst runs, and the most expensive of the others.
pub(super) fn render_runs(report: &Report, shown: &ShownRuns<'_>, of: RunSource) -> String {
    let ShownRuns { worst, others, places } = shown;
    let head = match describe_ended_runs(report) {
        Some(_) => "Runs that were ended, or have signals",
        None => "Runs that went wrong",
    };
    let rest = if worst.is_empty() { "The dearest runs" } else { "The dearest of the other runs" };
    render_list(head, "worst", worst, places, of)
        + &render_list(rest, "dearest", others, places, of)
}

fn render_list(
    head: &str,
    most: &str,
    runs: &[&RunReport],
    places: &BTreeMap<&str, usize>,
    of: RunSource,
) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let mut text = format!("<section class=\"runs\">\n<h2>{head}</h2>\n");
    if runs.len() > SHOWN {
        let all = group_digits(runs.len() as u64);
        push_format(
            &mut text,
            format_args!(
                "<p>The {most} {SHOWN} of {all}; <code>softland audit --format json</code> has all of \
                 them.</p>\n"
            ),
        );
    }
    for run in runs.iter().take(SHOWN) {
        let at = places.get(run.run.as_str()).copied().unwrap_or_default();
        text += &render_run(run, at, of);
    }
    text + "</section>\n"
}

/// Returns the link to the page of a run.
pub(super) fn run_link(run: &RunReport, of: RunSource) -> Option<String> {
    let name = run.beside.name.as_ref().filter(|_| of == RunSource::Ledger)?;
    let mut way = String::from("/#run=");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => way.push(byte.into()),
            _ => push_format(&mut way, format_args!("%{byte:02X}")),
        }
    }
    Some(way)
}

fn render_run(run: &RunReport, at: usize, of: RunSource) -> String {
    let mut text = render_heading(run, at);
    push_format(&mut text, format_args!("<p><bdi>{}</bdi>", escape_text(&run.run)));
    if !run.run.contains(&run.source) {
        push_format(
            &mut text,
            format_args!(" · <bdi>{}</bdi>", escape_text(&source_position(run))),
        );
    }
    if let Some(agent) = &run.agent {
        push_format(&mut text, format_args!(" · sub-agent <bdi>{}</bdi>", escape_text(agent)));
    }
    if let Some(way) = run_link(run, of) {
        push_format(&mut text, format_args!(" · <a href=\"{way}\">what was said and done</a>"));
    }
    if run.inferred {
        text += " · made out, not recorded as one run";
    }
    if run.simulated_usd.is_some() {
        text += " · simulated money";
    }
    text += "</p>\n";
    if let Some(ended) = describe_end(run) {
        push_format(&mut text, format_args!("<p>{}</p>\n", escape_text(&ended)));
    }
    if let Some(judged) = &run.what_if {
        push_format(
            &mut text,
            format_args!("<p>{}</p>\n", escape_text(&describe_what_if(judged).join(" · "))),
        );
    }
    if run.signals.is_empty() {
        return text + &render_steps(&run.beside.steps, run.beside.steps_left_out) + "</details>\n";
    }
    text += "<ul>\n";
    for listed in &run.signals {
        push_format(
            &mut text,
            format_args!(
                "<li><b>{}</b>, {} wasted",
                escape_text(&describe_signal(listed)),
                format_money(listed.wasted_usd)
            ),
        );
        let evidence = &listed.evidence;
        for said in [&evidence.call, &evidence.text].into_iter().flatten() {
            push_format(&mut text, format_args!("<br><code>{}</code>", escape_text(said)));
        }
        if let Some(result) = &evidence.result {
            push_format(&mut text, format_args!("<br>result <code>{result}</code>"));
        }
        let turns: Vec<String> = evidence.turns.iter().map(ToString::to_string).collect();
        push_format(&mut text, format_args!("<br>turns {}</li>\n", escape_text(&turns.join(", "))));
    }
    text += "</ul>\n";
    text += &render_steps(&run.beside.steps, run.beside.steps_left_out);
    text + "</details>\n"
}

/// Renders the line of a run that its details unfold from.
fn render_heading(run: &RunReport, at: usize) -> String {
    let mut items = Vec::new();
    if run.beside.wasted_turns > 0 {
        let wasted = format_partial_money(run.wasted_usd, run.beside.wasted_unpriced);
        items.push(format!("{wasted} wasted"));
    }
    let lost = run.spending.r#where.classes.lost;
    if lost > NanoUsd::ZERO {
        items.push(format!("{} lost to the cache", format_money(Some(lost))));
    }
    items.push(format_count(run.turns, "turn"));
    if !run.beside.rows {
        items.push(format_count(run.tool_calls, "call"));
    }
    items.extend(run.signals.iter().map(|listed| listed.signal.word().to_owned()));
    items.dedup();
    let name = run.spending.title.as_deref().unwrap_or_else(|| short_name(run));
    format!(
        "<details class=\"run\" id=\"run-{at}\" data-run=\"{at}\">\n<summary><b>{}</b> · {} · \
         <bdi>{}</bdi></summary>\n",
        format_partial_money(run.cost_usd, run.beside.unpriced_turns),
        items.join(" · "),
        escape_text(name)
    )
}

fn render_steps(steps: &[StepLine], left_out: u64) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"wide steps\" role=\"region\" aria-label=\"Steps\" tabindex=\"0\"><table><thead><tr><th>Turn</th><th>What</th><th>Tokens</th>\
         <th>Cost</th><th>Calls and results</th></tr></thead><tbody>\n",
    );
    for step in steps {
        let class = if step.wasted { " class=\"wasted\"" } else { "" };
        let mark = if step.wasted { ", waste" } else { "" };
        let calls: Vec<String> =
            step.calls.iter().map(|call| format!("<code>{}</code>", escape_text(call))).collect();
        push_format(
            &mut text,
            format_args!(
                "<tr{class}><td>{}</td><td>{}{mark}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                step.turn,
                step.what,
                step.tokens.map_or_else(|| "?".to_owned(), group_digits),
                format_money(step.cost_usd),
                calls.join("<br>")
            ),
        );
    }
    text += "</tbody></table></div>\n";
    if left_out > 0 {
        push_format(
            &mut text,
            format_args!("<p>{} left out.</p>\n", format_count(left_out, "more turn")),
        );
    }
    text
}
