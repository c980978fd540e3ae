//! The money by day, project, model, agent, tool or run.

use std::sync::Arc;

use softland_import::report::carried::{ToolLine, sum_tools};
use softland_import::report::spending::{Grouping, SpendLine, group_runs};
use softland_import::report::{Report, RunReport};
use unicode_width::UnicodeWidthStr as _;

use super::super::worst::{format_money, format_partial_money};
use super::columns::Columns;
use super::{SHOWN, flow_lines};
use crate::args::GroupedBy;
use crate::render::{group_digits, harmless_line};

/// The most rows of a table that somebody asked for, and of a short one.
const ROWS: usize = 200;
const SHORT: usize = 5;

const HEADS: [&str; 5] = ["COST", "LOST", "RUNS", "TURNS", "OUT"];

/// Renders one table with all parts.
pub(super) fn render_groups(report: &Report, by: GroupedBy, width: usize) -> String {
    match by {
        GroupedBy::Tool => render_tools(report, width),
        GroupedBy::Run => render_dear_runs(report, ROWS, width),
        GroupedBy::Parts(by) => {
            let groups = group_runs(&report.runs, by);
            render_lines(&groups, ROWS, name_of(by), width)
        }
    }
}

/// Renders the newest days, the dearest projects and models, where there are several.
pub(super) fn render_short(report: &Report, width: usize) -> String {
    let mut text = String::new();
    for by in [Grouping::Day, Grouping::Project, Grouping::Model] {
        let mut groups = group_runs(&report.runs, by);
        groups.retain(|(_, line)| line.cost_usd.is_some_and(|cost| cost.0 > 0));
        if groups.len() < 2 {
            continue;
        }
        if by == Grouping::Day {
            groups.sort_by_key(|(_, line)| std::cmp::Reverse(line.cost_usd));
        }
        text += &format!("\n{}", render_lines(&groups, SHORT, name_of(by), width));
    }
    text
}

/// Renders the dearest runs, for a report in which no run stands out as bad.
pub(super) fn render_dearest(report: &Report, width: usize) -> String {
    let head =
        "No signal of a loop reached its limit, and the policy would have ended no run. The \
                dearest runs:"
            .to_owned();
    flow_lines(&[head], width, "") + &render_dear_runs(report, SHOWN / 2, width)
}

const fn name_of(by: Grouping) -> &'static str {
    match by {
        Grouping::Day => "DAY",
        Grouping::Project => "PROJECT",
        Grouping::Model => "MODEL",
        Grouping::Agent => "AGENT",
    }
}

fn render_lines(
    groups: &[(Option<String>, SpendLine)],
    most: usize,
    name: &str,
    width: usize,
) -> String {
    let cells = |(_, line): &(Option<String>, SpendLine)| {
        vec![
            format_partial_money(line.cost_usd, line.unpriced_turns),
            format_money(Some(line.r#where.classes.lost)),
            group_digits(line.runs),
            group_digits(line.turns),
            group_digits(line.usage.output),
        ]
    };
    let rows: Vec<Vec<String>> = groups.iter().take(most).map(cells).collect();
    let columns = Columns::fit(&HEADS, &rows, width);
    let mut text = format!("{}  {name}\n", columns.align(&HEADS));
    for ((key, _), cells) in groups.iter().zip(&rows) {
        let key = key.as_deref().unwrap_or("not recorded");
        text += &format_row(&columns.align(cells), key, width);
    }
    text + &format_rest(groups.len(), most)
}

/// Renders the tools, by the cost of their results.
fn render_tools(report: &Report, width: usize) -> String {
    const HEADS: [&str; 5] = ["COST", "AT FIRST", "CALLS", "RESULTS", "TOKENS"];
    let tools = sum_tools(&report.runs);
    let cells = |(_, line): &(Arc<str>, ToolLine)| {
        vec![
            format_money(Some(line.carried_usd)),
            format_money(Some(line.first_usd)),
            group_digits(line.calls),
            group_digits(line.results),
            group_digits(line.tokens),
        ]
    };
    let rows: Vec<Vec<String>> = tools.iter().take(ROWS).map(cells).collect();
    let columns = Columns::fit(&HEADS, &rows, width);
    let mut text = format!("{}  TOOL\n", columns.align(&HEADS));
    for ((tool, _), cells) in tools.iter().zip(&rows) {
        text += &format_row(&columns.align(cells), tool, width);
    }
    text + &format_rest(tools.len(), ROWS)
}

fn render_dear_runs(report: &Report, most: usize, width: usize) -> String {
    const HEADS: [&str; 4] = ["COST", "LOST", "TURNS", "CALLS"];
    let mut runs: Vec<&RunReport> = report.runs.iter().collect();
    runs.sort_by_key(|run| {
        std::cmp::Reverse((run.cost_usd, run.usage.recorded_tokens(), run.turns))
    });
    let cells = |run: &&RunReport| {
        vec![
            format_partial_money(run.cost_usd, run.beside.unpriced_turns),
            format_money(Some(run.spending.r#where.classes.lost)),
            group_digits(run.turns),
            group_digits(run.tool_calls),
        ]
    };
    let rows: Vec<Vec<String>> = runs.iter().take(most).map(cells).collect();
    let columns = Columns::fit(&HEADS, &rows, width);
    let mut text = format!("{}  RUN\n", columns.align(&HEADS));
    for (run, cells) in runs.iter().zip(&rows) {
        let figures = columns.align(cells);
        let title = run.spending.title.as_deref().unwrap_or(&run.source);
        // The name of a run may begin with its file.
        let title = if run.run.starts_with(title) { String::new() } else { format!("  {title}") };
        text += &format_row(&figures, &format!("{}{title}", run.run), width);
    }
    text + &format_rest(runs.len(), most)
}

/// Formats the figures and a name, which is cut where the line ends.
fn format_row(figures: &str, name: &str, width: usize) -> String {
    let room = width.saturating_sub(figures.width() + 2);
    format!("{figures}  {}\n", harmless_line(name, Some(room)))
}

fn format_rest(all: usize, most: usize) -> String {
    match all.saturating_sub(most) as u64 {
        0 => String::new(),
        more => format!("and {} more\n", group_digits(more)),
    }
}
