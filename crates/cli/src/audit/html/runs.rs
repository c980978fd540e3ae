//! The runs of an HTML report, each with its signals and steps to unfold.

use std::collections::BTreeSet;

use softland_import::report::{Report, RunReport, StepLine};

use super::super::worst::{money, money_of, place, signal, then, what_if, worst};
use super::{SHOWN, push, safe};
use crate::render::{count, grouped};

/// The source of a report's runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::audit) enum Runs {
    /// Files; the report is a page of its own and shows the worst runs only.
    Files,
    /// A recording that was uploaded to a gateway.
    Recording,
    /// The gateway's ledger; each run has a page of its own.
    Ledger,
}

/// Renders the worst runs, and the most expensive of the others.
pub(super) fn all(report: &Report, of: Runs) -> String {
    let worst = worst(report);
    let bad: BTreeSet<&str> = worst.iter().map(|run| run.run.as_str()).collect();
    let mut text = String::from("<section>\n<h2>The worst runs</h2>\n");
    if worst.is_empty() {
        text += "<p>No signal reached its limit, and the policy would have ended no run.</p>\n";
    }
    if worst.len() > SHOWN {
        push(
            &mut text,
            format_args!(
                "<p>The worst {SHOWN} of {}; <code>--format json</code> has all of them.</p>\n",
                grouped(worst.len() as u64)
            ),
        );
    }
    for run in worst.into_iter().take(SHOWN) {
        text += &one(run, of);
    }
    text += "</section>\n";
    let mut others: Vec<&RunReport> =
        report.runs.iter().filter(|run| !bad.contains(run.run.as_str())).collect();
    if of == Runs::Files || others.is_empty() {
        return text;
    }
    others.sort_by_key(|run| std::cmp::Reverse((run.cost_usd, run.turns)));
    text += "<section>\n<h2>Runs without a signal</h2>\n";
    if others.len() > SHOWN {
        let all = grouped(others.len() as u64);
        push(&mut text, format_args!("<p>The dearest {SHOWN} of {all}.</p>\n"));
    }
    for run in others.into_iter().take(SHOWN) {
        text += &one(run, of);
    }
    text + "</section>\n"
}

/// Returns the link to the page of a run.
fn way(run: &RunReport, of: Runs) -> Option<String> {
    let name = run.beside.name.as_ref().filter(|_| of == Runs::Ledger)?;
    let mut way = String::from("/#run=");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => way.push(byte.into()),
            _ => push(&mut way, format_args!("%{byte:02X}")),
        }
    }
    Some(way)
}

fn one(run: &RunReport, of: Runs) -> String {
    let kinds: Vec<&str> = run.signals.iter().map(|listed| listed.signal.word()).collect();
    let kinds = if kinds.is_empty() { "no signal".to_owned() } else { kinds.join(", ") };
    let mut text = String::from("<details class=\"run\">\n<summary>");
    push(
        &mut text,
        format_args!(
            "<b>{}</b> wasted of {} · {} · {} · {kinds} · <bdi>{}</bdi></summary>\n",
            money_of(run.wasted_usd, run.beside.wasted_unpriced),
            money_of(run.cost_usd, run.beside.unpriced_turns),
            count(run.turns, "turn"),
            count(run.tool_calls, "call"),
            safe(&run.run)
        ),
    );
    push(&mut text, format_args!("<p><bdi>{}</bdi>", safe(&place(run))));
    if let Some(agent) = &run.agent {
        push(&mut text, format_args!(" · sub-agent <bdi>{}</bdi>", safe(agent)));
    }
    if let Some(way) = way(run, of) {
        push(&mut text, format_args!(" · <a href=\"{way}\">what was said and done</a>"));
    }
    if run.inferred {
        text += " · made out, not recorded as one run";
    }
    if run.simulated_usd.is_some() {
        text += " · simulated money";
    }
    text += "</p>\n";
    if let Some(ended) = then(run) {
        push(&mut text, format_args!("<p>{}</p>\n", safe(&ended)));
    }
    if let Some(judged) = &run.what_if {
        push(&mut text, format_args!("<p>{}</p>\n", safe(&what_if(judged).join(" · "))));
    }
    text += "<ul>\n";
    for listed in &run.signals {
        push(
            &mut text,
            format_args!(
                "<li><b>{}</b>, {} wasted",
                safe(&signal(listed)),
                money(listed.wasted_usd)
            ),
        );
        let evidence = &listed.evidence;
        for said in [&evidence.call, &evidence.text].into_iter().flatten() {
            push(&mut text, format_args!("<br><code>{}</code>", safe(said)));
        }
        if let Some(result) = &evidence.result {
            push(&mut text, format_args!("<br>result <code>{result}</code>"));
        }
        let turns: Vec<String> = evidence.turns.iter().map(ToString::to_string).collect();
        push(&mut text, format_args!("<br>turns {}</li>\n", safe(&turns.join(", "))));
    }
    text += "</ul>\n";
    text += &steps(&run.beside.steps, run.beside.steps_left_out);
    text + "</details>\n"
}

fn steps(steps: &[StepLine], left_out: u64) -> String {
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
            step.calls.iter().map(|call| format!("<code>{}</code>", safe(call))).collect();
        push(
            &mut text,
            format_args!(
                "<tr{class}><td>{}</td><td>{}{mark}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                step.turn,
                step.what,
                step.tokens.map_or_else(|| "?".to_owned(), grouped),
                money(step.cost_usd),
                calls.join("<br>")
            ),
        );
    }
    text += "</tbody></table></div>\n";
    if left_out > 0 {
        push(&mut text, format_args!("<p>{} left out.</p>\n", count(left_out, "more turn")));
    }
    text
}
