//! The runs of an HTML report, each with its signals and steps to unfold.

use std::collections::BTreeSet;

use softland_import::report::{Report, RunReport, StepLine};

use super::super::worst::{
    describe_end, describe_signal, describe_what_if, format_money, format_partial_money,
    source_position, worst_runs,
};
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

/// Renders the worst runs, and the most expensive of the others.
pub(super) fn render_runs(report: &Report, of: RunSource) -> String {
    let worst = worst_runs(report);
    let bad: BTreeSet<&str> = worst.iter().map(|run| run.run.as_str()).collect();
    let mut text = String::from("<section>\n<h2>The worst runs</h2>\n");
    if worst.is_empty() {
        text += "<p>No signal reached its limit, and the policy would have ended no run.</p>\n";
    }
    if worst.len() > SHOWN {
        push_format(
            &mut text,
            format_args!(
                "<p>The worst {SHOWN} of {}; <code>--format json</code> has all of them.</p>\n",
                group_digits(worst.len() as u64)
            ),
        );
    }
    for run in worst.into_iter().take(SHOWN) {
        text += &render_run(run, of);
    }
    text += "</section>\n";
    let mut others: Vec<&RunReport> =
        report.runs.iter().filter(|run| !bad.contains(run.run.as_str())).collect();
    if of == RunSource::Files || others.is_empty() {
        return text;
    }
    others.sort_by_key(|run| std::cmp::Reverse((run.cost_usd, run.turns)));
    text += "<section>\n<h2>Runs without a signal</h2>\n";
    if others.len() > SHOWN {
        let all = group_digits(others.len() as u64);
        push_format(&mut text, format_args!("<p>The dearest {SHOWN} of {all}.</p>\n"));
    }
    for run in others.into_iter().take(SHOWN) {
        text += &render_run(run, of);
    }
    text + "</section>\n"
}

/// Returns the link to the page of a run.
fn run_link(run: &RunReport, of: RunSource) -> Option<String> {
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

fn render_run(run: &RunReport, of: RunSource) -> String {
    let kinds: Vec<&str> = run.signals.iter().map(|listed| listed.signal.word()).collect();
    let kinds = if kinds.is_empty() { "no signal".to_owned() } else { kinds.join(", ") };
    let mut text = String::from("<details class=\"run\">\n<summary>");
    push_format(
        &mut text,
        format_args!(
            "<b>{}</b> wasted of {} · {} · {} · {kinds} · <bdi>{}</bdi></summary>\n",
            format_partial_money(run.wasted_usd, run.beside.wasted_unpriced),
            format_partial_money(run.cost_usd, run.beside.unpriced_turns),
            format_count(run.turns, "turn"),
            format_count(run.tool_calls, "call"),
            escape_text(&run.run)
        ),
    );
    push_format(&mut text, format_args!("<p><bdi>{}</bdi>", escape_text(&source_position(run))));
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

fn render_steps(steps: &[StepLine], left_out: u64) -> String {
    if steps.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"wide\" role=\"region\" aria-label=\"Steps\" tabindex=\"0\"><table><thead><tr><th>Turn</th><th>What</th><th>Tokens</th>\
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
