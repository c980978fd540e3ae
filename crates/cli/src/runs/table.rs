//! A table of runs with aligned columns. If the columns do not fit, the least important are dropped
//! first.

use softland_agent::core::NanoUsd;
use softland_ledger::{Run, UnassignedTotals, Usage, format_timestamp};
use unicode_width::UnicodeWidthStr as _;

use super::kept::ListedRun;
use crate::render::{format_count, format_token_sums, group_digits, harmless_line};
use crate::sim::simulated_name;

/// The least width of the last column.
const END_WIDTH: usize = 24;
/// The gap between two columns.
const GAP: &str = "  ";

/// A column: its heading, true for numbers, its rank (the highest is dropped first), and the
/// function that formats a cell.
type Column = (&'static str, bool, u8, fn(&ListedRun) -> String);

const COLUMNS: [Column; 9] = [
    ("RUN", false, 0, |one| one.run.run.clone()),
    ("FROM", false, 4, ListedRun::source_name),
    ("STARTED", false, 3, |one| format_minute(one.run.started)),
    ("AGENT", false, 6, |one| one.run.agent.clone().unwrap_or_default()),
    ("MODEL", false, 5, |one| one.run.model.clone().unwrap_or_default()),
    ("TURNS", true, 2, |one| group_digits(one.run.turns)),
    ("CALLS", true, 2, |one| format_known(one.run.tool_calls)),
    ("TOKENS", true, 4, |one| format_known(one.usage().map(sum_tokens))),
    ("COST", true, 1, cost_cell),
];

fn format_known(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), group_digits)
}

/// Renders a heading, a line for each run, and a line for the requests that belong to no run. Lines
/// are cut to `width`, if there is one.
pub(super) fn render_table(
    runs: &[ListedRun],
    beside: Option<&UnassignedTotals>,
    width: Option<usize>,
) -> String {
    // The source is shown only if there are several.
    let several = runs.iter().any(|one| one.journal.is_some());
    let cells: Vec<Vec<String>> = COLUMNS
        .iter()
        .map(|(head, _, _, cell)| {
            let said = |run| if *head == "FROM" && !several { String::new() } else { cell(run) };
            let of_runs = runs.iter().map(|run| harmless_line(&said(run), None));
            of_runs.chain(beside.map(|beside| beside_cell(head, beside))).collect()
        })
        .collect();
    let ends = runs.iter().map(ListedRun::describe_end).chain(beside.map(beside_end));
    let widths: Vec<usize> = COLUMNS
        .iter()
        .zip(&cells)
        .map(|((head, ..), cells)| {
            cells.iter().map(|cell| cell.width()).max().unwrap_or(0).max(head.width())
        })
        .collect();
    let shown = fitting_columns(&widths, &cells, width);
    let line = |cell: &dyn Fn(usize) -> String, end: &str| {
        let mut text = String::new();
        for &at in &shown {
            let (cell, width) = (cell(at), widths.get(at).copied().unwrap_or(0));
            let pad = " ".repeat(width.saturating_sub(cell.width()));
            let numbers = COLUMNS.get(at).is_some_and(|(_, numbers, ..)| *numbers);
            text += &if numbers { pad + &cell } else { cell + &pad };
            text += GAP;
        }
        harmless_line(&(text + end), width) + "\n"
    };
    let head = |at: usize| COLUMNS.get(at).map_or("", |(head, ..)| *head).to_owned();
    let mut text = line(&head, "ENDED");
    for (row, end) in ends.enumerate() {
        let cell = |at: usize| cells.get(at).and_then(|cells| cells.get(row)).cloned();
        text += &line(&|at| cell(at).unwrap_or_default(), &end);
    }
    text
}

/// Returns the cell of a column for the requests that belong to no run.
fn beside_cell(head: &str, beside: &UnassignedTotals) -> String {
    match head {
        "RUN" => "(no run)".to_owned(),
        "TOKENS" => group_digits(sum_tokens(beside.usage)),
        "COST" if beside.unpriced == beside.requests => "?".to_owned(),
        "COST" if beside.unpriced > 0 => format!("{}+", format_dollars(beside.cost)),
        "COST" => format_dollars(beside.cost),
        _ => String::new(),
    }
}

fn beside_end(beside: &UnassignedTotals) -> String {
    format!("{} without tools, or not metered", format_count(beside.requests, "request"))
}

/// Selects the columns that fit, in order. Empty columns are left out.
fn fitting_columns(widths: &[usize], cells: &[Vec<String>], width: Option<usize>) -> Vec<usize> {
    let holds =
        |at: &usize| cells.get(*at).is_some_and(|cells| cells.iter().any(|cell| !cell.is_empty()));
    let mut shown: Vec<usize> = (0..COLUMNS.len()).filter(holds).collect();
    let rank = |at: &usize| COLUMNS.get(*at).map_or(0, |(_, _, rank, _)| *rank);
    let Some(width) = width else { return shown };
    let taken = |shown: &[usize]| -> usize {
        shown.iter().filter_map(|at| widths.get(*at)).map(|width| width + GAP.len()).sum()
    };
    while taken(&shown) + END_WIDTH > width {
        let least = shown.iter().copied().filter(|at| rank(at) > 0).max_by_key(|at| rank(at));
        let Some(least) = least else { break };
        shown.retain(|at| *at != least);
    }
    shown
}

/// Describes the outcome of a run and its reason, or that the run has not ended.
pub(crate) fn describe_end(run: &Run) -> String {
    let Some(end) = &run.end else {
        return format!("open, last record at {}", format_minute(run.last));
    };
    let mut text = format!("{}: {}", end.outcome.word(), end.reason);
    if let (Some(limit), Some(value)) = (&end.limit, &end.value) {
        text += &format!(" ({limit} {value})");
    }
    if let Some(rung) = end.rung {
        text += &format!(", rung {}", rung.word());
    }
    if run.local {
        let what = if run.observed { "would have been answered" } else { "answered" };
        text += &format!(", {what} by softland");
    }
    if run.observed {
        text += ", only observed";
    }
    text
}

/// Formats the cost of a run for the table. Before it stands that it is simulated, if it is.
fn cost_cell(one: &ListedRun) -> String {
    let cost = format_cost(&one.run);
    if cost != "?" && is_simulated(&one.run) { format!("simulated {cost}") } else { cost }
}

/// Returns true if the model of a run is simulated, so that nobody paid its cost.
pub(crate) fn is_simulated(run: &Run) -> bool {
    run.model.as_deref().is_some_and(|model| simulated_name(model).is_some())
}

/// Formats the cost of a run: `?` if it is unknown, and with a `+` if a part of it is unknown.
pub(crate) fn format_cost(run: &Run) -> String {
    match run.cost {
        None => "?".to_owned(),
        Some(_) if run.unpriced > 0 && run.unpriced == run.requests => "?".to_owned(),
        Some(cost) if run.unpriced > 0 && run.end.is_none() => format!("{}+", format_dollars(cost)),
        Some(cost) => format_dollars(cost),
    }
}

/// Formats an amount to the hundredth of a cent, or to the cent from one dollar on.
pub(crate) fn format_dollars(amount: NanoUsd) -> String {
    match amount.to_dollars() {
        cost if cost > 0.0 && cost < 0.0001 => "<$0.0001".to_owned(),
        cost if cost < 1.0 => format!("${cost:.4}"),
        cost => format!("${cost:.2}"),
    }
}

/// Formats the tokens of a run.
pub(crate) fn format_tokens(run: &Run) -> String {
    let usage = run.usage;
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    format_token_sums(input, usage.cache_read, usage.output)
}

fn sum_tokens(usage: Usage) -> u64 {
    [usage.input, usage.output, usage.cache_read, usage.cache_write]
        .into_iter()
        .fold(0, u64::saturating_add)
}

/// Formats milliseconds since 1970 as `2026-11-22 01:44`, in UTC.
pub(crate) fn format_minute(at: u64) -> String {
    format_timestamp(at).chars().take(16).map(|c| if c == 'T' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use softland_agent::core::{Because, Outcome, Reason, RunEnding, Rung};

    fn run(id: &str, end: Option<RunEnding>) -> Run {
        Run {
            run: id.to_owned(),
            session: None,
            agent: None,
            name: None,
            observed: false,
            continues: None,
            model: Some("claude-opus-5-5".to_owned()),
            policy: None,
            client: None,
            key: None,
            account: None,
            started: 1_790_000_000_000,
            last: 1_790_000_300_000,
            ended: end.as_ref().map(|_| 1_790_000_300_000),
            tool_calls: end.as_ref().map(|_| 30),
            end,
            local: false,
            turns: 12,
            requests: 13,
            usage: Usage { input: 1000, output: 345, cache_read: 9000, cache_write: 2000 },
            cost: Some(NanoUsd(12_300_000)),
            unpriced: 0,
        }
    }

    fn table_of(runs: &[Run], beside: Option<&UnassignedTotals>, width: Option<usize>) -> String {
        let listed: Vec<ListedRun> = runs.iter().cloned().map(ListedRun::from).collect();
        render_table(&listed, beside, width)
    }

    fn landed() -> RunEnding {
        RunEnding::from_because(
            Outcome::Landed,
            &Because::from_counts(Reason::ToolCalls, 30, 30),
            Some(Rung::Ask),
        )
    }

    #[test]
    fn columns_are_aligned() {
        let runs = [run("run-1", Some(landed())), run("run-2-longer", None)];
        assert_eq!(
            table_of(&runs, None, None),
            "RUN           STARTED           MODEL            TURNS  CALLS  TOKENS     COST  ENDED\n\
             run-1         2026-09-21 14:13  claude-opus-5-5     12     30  12,345  $0.0123  \
             landed: tool_calls (tool_calls_limit 30), rung ask\n\
             run-2-longer  2026-09-21 14:13  claude-opus-5-5     12      -  12,345  $0.0123  \
             open, last record at 2026-09-21 14:18\n"
        );
    }

    #[test]
    fn what_belongs_to_no_run_has_a_line() {
        let usage = Usage { input: 1000, output: 5, ..Usage::default() };
        let mut beside =
            UnassignedTotals { requests: 3, usage, cost: NanoUsd(156_000_000), unpriced: 0 };
        let mut seen = run("run-1", Some(landed()));
        seen.observed = true;
        let text = table_of(&[seen], Some(&beside), None);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("rung ask, only observed"), "{text}");
        assert!(lines[2].starts_with("(no run)  "), "{text}");
        assert!(
            lines[2].ends_with("1,005  $0.1560  3 requests without tools, or not metered"),
            "{text}"
        );
        beside.unpriced = 1;
        assert!(table_of(&[], Some(&beside), None).contains(" $0.1560+ "));
        beside.unpriced = 3;
        assert!(table_of(&[], Some(&beside), None).contains(" ?  3 requests"));
    }

    #[test]
    fn what_does_not_fit_is_left_out_or_cut() {
        let mut runs = [run("run-1", Some(landed())), run("run-\u{1b}[2J\n", None)];
        runs[0].agent = Some("日本語の名前".to_owned());
        for width in 20..140 {
            let text = table_of(&runs, None, Some(width));
            assert!(text.contains("run-1") && !text.contains('\u{1b}'), "{text}");
            assert_eq!(text.lines().count(), 3);
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
        let narrow = table_of(&runs, None, Some(60));
        assert!(narrow.contains("COST") && !narrow.contains("MODEL"), "{narrow}");
    }

    #[test]
    fn unknown_money_is_not_none() {
        let mut run = run("r", None);
        assert_eq!(format_cost(&run), "$0.0123");
        run.unpriced = 1;
        assert_eq!(format_cost(&run), "$0.0123+");
        (run.unpriced, run.requests) = (2, 2);
        assert_eq!(format_cost(&run), "?");
        (run.end, run.cost) = (Some(landed()), None);
        assert_eq!(format_cost(&run), "?");
    }
}
