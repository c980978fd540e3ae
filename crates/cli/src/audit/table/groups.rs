//! The money by day, project, model, agent, tool or run.

use std::sync::Arc;

use softland_agent::core::NanoUsd;
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

/// The unit in which a report is shown: money, if any is known; else tokens, if any are recorded; else
/// turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Money,
    Tokens,
    Turns,
}

impl Measure {
    pub(super) fn of_report(report: &Report) -> Self {
        let totals = &report.totals;
        if totals.cost_usd.is_some_and(|cost| cost > NanoUsd::ZERO) {
            Self::Money
        } else if totals.usage.recorded_tokens() > 0 {
            Self::Tokens
        } else {
            Self::Turns
        }
    }

    /// Returns the headings of figures about several runs.
    const fn heads(self) -> &'static [&'static str] {
        match self {
            Self::Money => &["COST", "LOST", "RUNS", "TURNS", "OUT"],
            Self::Tokens => &["TOKENS", "OUT", "RUNS", "TURNS"],
            Self::Turns => &["RUNS", "TURNS"],
        }
    }

    fn cells(self, line: &SpendLine) -> Vec<String> {
        let (runs, turns) = (group_digits(line.runs), group_digits(line.turns));
        let out = group_digits(line.usage.output);
        let cost = format_partial_money(line.cost_usd, line.unpriced_turns);
        match self {
            Self::Money => vec![cost, format_line_lost(line), runs, turns, out],
            Self::Tokens => vec![group_digits(line.usage.recorded_tokens()), out, runs, turns],
            Self::Turns => vec![runs, turns],
        }
    }
}

/// Formats the amount lost to the cache: `?` where no price is known.
fn format_line_lost(line: &SpendLine) -> String {
    let lost = line.cost_usd.map(|_| line.r#where.classes.lost);
    format_partial_money(lost, line.unpriced_turns)
}

/// Renders one table with all parts.
pub(super) fn render_groups(report: &Report, by: GroupedBy, width: usize) -> String {
    match by {
        GroupedBy::Tool => render_tools(report, width),
        GroupedBy::Run => render_dear_runs(report, ROWS, width),
        GroupedBy::Parts(by) => {
            let groups = group_runs(&report.runs, by);
            render_lines(&groups, Measure::of_report(report), ROWS, name_of(by), width)
        }
    }
}

/// Renders the dearest days, projects and models, where there are several; without a price, the
/// largest ones, and the tools.
pub(super) fn render_short(report: &Report, width: usize) -> String {
    let measure = Measure::of_report(report);
    let mut text = String::new();
    for by in [Grouping::Day, Grouping::Project, Grouping::Model] {
        let mut groups = group_runs(&report.runs, by);
        groups.retain(|(_, line)| {
            let counts = line.unpriced_turns > 0 && line.usage.recorded_tokens() > 0;
            measure == Measure::Turns || counts || line.cost_usd.is_some_and(|cost| cost.0 > 0)
        });
        if groups.len() < 2 {
            continue;
        }
        groups.sort_by_key(|(_, line)| {
            std::cmp::Reverse((line.cost_usd, line.usage.recorded_tokens(), line.turns))
        });
        text += &format!("\n{}", render_lines(&groups, measure, SHORT, name_of(by), width));
    }
    let tools = sum_tools(&report.runs);
    if measure != Measure::Money && !tools.is_empty() {
        text += &format!("\n{}", render_tool_lines(&tools, measure, SHORT, width));
    }
    text
}

/// Renders the dearest runs, for a report in which no run stands out as bad.
pub(super) fn render_dearest(report: &Report, width: usize) -> String {
    let which = match Measure::of_report(report) {
        Measure::Money => "dearest",
        Measure::Tokens => "largest",
        Measure::Turns => "longest",
    };
    let head = format!(
        "No signal of a loop reached its limit, and the policy would have ended no run. The \
         {which} runs:"
    );
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
    measure: Measure,
    most: usize,
    name: &str,
    width: usize,
) -> String {
    let rows: Vec<Vec<String>> =
        groups.iter().take(most).map(|(_, line)| measure.cells(line)).collect();
    let columns = Columns::fit(measure.heads(), &rows, width);
    let mut text = format!("{}  {name}\n", columns.align(measure.heads()));
    for ((key, _), cells) in groups.iter().zip(&rows) {
        let key = key.as_deref().unwrap_or("not recorded");
        text += &format_row(&columns.align(cells), key, width);
    }
    text + &format_rest(groups.len(), most)
}

/// Renders the tools, by the cost of their results.
fn render_tools(report: &Report, width: usize) -> String {
    render_tool_lines(&sum_tools(&report.runs), Measure::of_report(report), ROWS, width)
}

/// Renders tools. What their results cost is left out where no money is known.
fn render_tool_lines(
    tools: &[(Arc<str>, ToolLine)],
    measure: Measure,
    most: usize,
    width: usize,
) -> String {
    const HEADS: [&str; 5] = ["COST", "AT FIRST", "CALLS", "RESULTS", "TOKENS"];
    let left_out = if measure == Measure::Money { 0 } else { 2 };
    let cells = |(_, line): &(Arc<str>, ToolLine)| {
        let cells = [
            format_money(Some(line.carried_usd)),
            format_money(Some(line.first_usd)),
            group_digits(line.calls),
            group_digits(line.results),
            group_digits(line.tokens),
        ];
        cells.into_iter().skip(left_out).collect::<Vec<_>>()
    };
    let heads: Vec<&str> = HEADS.into_iter().skip(left_out).collect();
    let rows: Vec<Vec<String>> = tools.iter().take(most).map(cells).collect();
    let columns = Columns::fit(&heads, &rows, width);
    let mut text = format!("{}  TOOL\n", columns.align(&heads));
    for ((tool, _), cells) in tools.iter().zip(&rows) {
        text += &format_row(&columns.align(cells), tool, width);
    }
    text + &format_rest(tools.len(), most)
}

fn render_dear_runs(report: &Report, most: usize, width: usize) -> String {
    let measure = Measure::of_report(report);
    let heads: &[&str] = match measure {
        Measure::Money => &["COST", "LOST", "TURNS", "CALLS"],
        Measure::Tokens => &["TOKENS", "OUT", "TURNS", "CALLS"],
        Measure::Turns => &["TURNS", "CALLS"],
    };
    let mut runs: Vec<&RunReport> = report.runs.iter().collect();
    runs.sort_by_key(|run| {
        std::cmp::Reverse((run.cost_usd, run.usage.recorded_tokens(), run.turns))
    });
    let cells = |run: &&RunReport| {
        let line = run.to_line();
        let mut cells = match measure {
            Measure::Money => {
                vec![
                    format_partial_money(line.cost_usd, line.unpriced_turns),
                    format_line_lost(&line),
                ]
            }
            Measure::Tokens => {
                vec![group_digits(line.usage.recorded_tokens()), group_digits(line.usage.output)]
            }
            Measure::Turns => Vec::new(),
        };
        cells.extend([group_digits(run.turns), group_digits(run.tool_calls)]);
        cells
    };
    let rows: Vec<Vec<String>> = runs.iter().take(most).map(cells).collect();
    let columns = Columns::fit(heads, &rows, width);
    let mut text = format!("{}  RUN\n", columns.align(heads));
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
