//! Where the money went, and what stands out.

use softland_agent::core::NanoUsd;
use softland_import::report::Report;
use softland_import::report::carried::sum_tools;
use softland_import::report::findings::{Finding, FindingPlace};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::super::worst::{describe_savings, format_money};
use super::columns::Columns;
use super::flow_lines;
use crate::render::{flow_items, format_count, group_digits, harmless_line};

/// The most findings that are shown.
const FINDINGS: usize = 10;
/// The places of a finding that are shown, and the findings that show them.
const PLACES: usize = 2;
const WITH_PLACES: usize = 5;
/// The widest words on a place that a recording has.
const PLACE: usize = 60;
/// The widest bar.
const BAR: usize = 32;

/// Renders the classes of the money, with a bar for each.
pub(super) fn render_classes(report: &Report, width: usize) -> String {
    let spent = report.spent();
    let classes = &spent.classes;
    let total = classes.total();
    if total == NanoUsd::ZERO {
        return render_token_classes(report, width);
    }
    let rows = vec![
        (classes.cache_read.0, "read from the cache"),
        (classes.cache_write.0, "written to the cache"),
        (classes.cache_rewrite.0, "written or sent again"),
        (classes.input.0, "other input"),
        (classes.output.0, "output"),
    ];
    let mut text = flow_lines(&["Where the money went:".to_owned()], width, "");
    text += &render_bars(rows, |nano| format_money(Some(NanoUsd(nano))), width);
    let tools: NanoUsd = sum_tools(&report.runs).iter().map(|(_, line)| line.carried_usd).sum();
    let system: NanoUsd = report.runs.iter().map(|run| run.spending.system_usd).sum();
    let agents = report.runs.iter().filter(|run| run.agent.is_some());
    let agents: NanoUsd = agents.filter_map(|run| run.cost_usd).sum();
    let parts = [
        (classes.lost, "lost to the cache"),
        (tools, "for results of tools"),
        (system, "for what stands before the first message"),
        (agents, "by sub-agents"),
    ];
    let parts = parts.into_iter().filter(|(money, _)| *money > NanoUsd::ZERO);
    let parts: Vec<String> = parts
        .map(|(money, name)| {
            format!("{} ({}) {name}", format_money(Some(money)), format_share(money, total))
        })
        .collect();
    if !parts.is_empty() {
        text += &flow_lines(&["of it".to_owned() + " " + &parts.join(" · ")], width, "  ");
    }
    text.push('\n');
    text
}

/// Renders the classes of the tokens, where no price is known.
fn render_token_classes(report: &Report, width: usize) -> String {
    let usage = &report.totals.usage;
    if usage.recorded_tokens() == 0 {
        return String::new();
    }
    let rows = vec![
        (usage.cache_read, "read from the cache"),
        (usage.cache_write, "written to the cache"),
        (usage.input, "other input"),
        (usage.output, "output"),
    ];
    let head = "Where the tokens went (no price is known):".to_owned();
    flow_lines(&[head], width, "") + &render_bars(rows, group_digits, width) + "\n"
}

/// Renders amounts with their shares and bars, the largest first.
fn render_bars(mut rows: Vec<(u64, &str)>, format: impl Fn(u64) -> String, width: usize) -> String {
    let total: u64 = rows.iter().map(|(amount, _)| *amount).sum();
    let share_of = |amount: u64| amount as f64 / total.max(1) as f64;
    rows.retain(|(amount, _)| *amount > 0);
    rows.sort_by_key(|(amount, _)| std::cmp::Reverse(*amount));
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|(amount, _)| vec![format(*amount), format!("{:.1}%", share_of(*amount) * 100.0)])
        .collect();
    let columns = Columns::fit(&["", ""], &cells, width.saturating_sub(2));
    let mut text = String::new();
    let named = rows.iter().map(|(_, name)| name.width()).max().unwrap_or(0);
    for ((amount, name), cells) in rows.iter().zip(&cells) {
        let line = format!("  {}  {name}", columns.align(cells));
        if line.width() > width {
            text += &flow_lines(&[format!("{} {name}", cells.join(" "))], width, "  ");
            continue;
        }
        let room = width.saturating_sub(line.width() + named - name.width() + 2).min(BAR);
        let bar = "█".repeat((share_of(*amount) * room as f64).round() as usize);
        let gap = " ".repeat(named - name.width() + 2);
        text += format!("{line}{gap}{bar}").trim_end();
        text.push('\n');
    }
    text
}

/// Renders the dearest findings, each with what to do.
pub(super) fn render_findings(report: &Report, width: usize) -> String {
    let found = report.find();
    if found.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    if let Some(saved) = describe_savings(&found) {
        text += &format!("{}\n", flow_lines(&[saved], width, ""));
    }
    text += "What stands out:\n";
    let cells: Vec<Vec<String>> =
        found.iter().take(FINDINGS).map(|one| vec![format_price(one)]).collect();
    let columns = Columns::fit(&["COST"], &cells, width);
    for (at, (one, cells)) in found.iter().zip(&cells).enumerate() {
        let price = columns.align(cells);
        let room = width.saturating_sub(price.width() + 6);
        let margin = " ".repeat(price.width() + 4);
        for (line, words) in flow_items(&[one.what.clone() + "."], room).iter().enumerate() {
            let start = if line == 0 { format!("  {price}  ") } else { margin.clone() };
            text += &format!("{start}{words}\n");
        }
        for line in one.advice.lines().filter(|line| !line.is_empty()) {
            for words in flow_items(&[line.to_owned()], room) {
                text += &format!("{margin}{words}\n");
            }
        }
        let places = if at < WITH_PLACES { PLACES } else { 0 };
        for place in one.evidence.iter().take(places) {
            for (line, words) in flow_items(&list_place(place, room), room).iter().enumerate() {
                let indent = if line == 0 { "" } else { "  " };
                text += &format!("{margin}{indent}{words}\n");
            }
        }
    }
    let more = found.len().saturating_sub(FINDINGS) as u64;
    if more > 0 {
        let what = format_count(more, "more finding");
        text += &flow_lines(&[format!("and {what}; --format json has all of them")], width, "  ");
    }
    text.push('\n');
    text
}

/// Lists the words on the place of a finding.
fn list_place(place: &FindingPlace, room: usize) -> Vec<String> {
    let mut parts = vec![format_money(place.usd), format_count(place.tokens, "token")];
    parts.extend(place.time.as_ref().map(|time| time.replace('T', " ").replace('Z', "")));
    let turn = place.turn.map(|turn| format!(" turn {turn}")).unwrap_or_default();
    parts.push(shorten_name(&place.run, room.min(PLACE)) + &turn);
    if !place.what.is_empty() {
        parts.push(harmless_line(&place.what, Some(room)));
    }
    parts
}

/// Shortens the name of a run, whose end tells more than its beginning.
fn shorten_name(name: &str, width: usize) -> String {
    let name = harmless_line(name, None);
    let mut kept: Vec<char> = Vec::new();
    let mut used = 1;
    for c in name.chars().rev() {
        used += c.width().unwrap_or(0);
        if used > width {
            return ["…".to_owned(), kept.into_iter().rev().collect()].concat();
        }
        kept.push(c);
    }
    name
}

fn format_price(one: &Finding) -> String {
    match one.usd {
        Some(usd) => format_money(Some(usd)),
        None => "?".to_owned(),
    }
}

fn format_share(part: NanoUsd, whole: NanoUsd) -> String {
    format!("{:.1}%", part.to_dollars() * 100.0 / whole.to_dollars())
}
