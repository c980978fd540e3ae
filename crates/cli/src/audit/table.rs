//! The report for a terminal: sums, the worst runs, unreadable parts and a suggested policy. No
//! figure is ever cut: one that does not fit gets a line of its own.

mod columns;
mod groups;
mod overview;

use std::collections::BTreeMap;

use softland_import::report::{Report, RunReport};
use unicode_width::UnicodeWidthStr as _;

use columns::Columns;

use super::worst::{
    describe_end, describe_ended_runs, describe_lost, describe_signal, describe_simulated,
    describe_what_if, format_partial_money, format_tokens, source_position, worst_runs,
};
use crate::args::GroupedBy;
use crate::render::{MIN_WIDTH, flow_items, format_count, group_digits, harmless_line};

/// The most runs that are shown.
pub(super) const SHOWN: usize = 20;
/// The most unreadable parts that are shown.
const UNREADABLE: usize = 10;
/// The default width, in columns.
const WIDTH: usize = 100;

/// Renders the report: the money by one part, or the overview. `width` is the terminal's width in
/// columns, if the report goes to one.
pub(super) fn render_table(report: &Report, width: Option<usize>, by: Option<GroupedBy>) -> String {
    let wide = width.unwrap_or(WIDTH).max(MIN_WIDTH);
    let mut text = render_sums(report, wide);
    if report.runs.is_empty() {
        text += &flow_lines(&["There is no run to report.".to_owned()], wide, "");
        return text + &render_unreadable(report, width);
    }
    text.push('\n');
    if let Some(by) = by {
        return text + &groups::render_groups(report, by, wide) + &render_unreadable(report, width);
    }
    text += &overview::render_classes(report, wide);
    text += &overview::render_findings(report, wide);
    text += &render_runs(report, wide);
    text += &groups::render_short(report, wide);
    text += &render_unreadable(report, width);
    // Before the policy, so that a config can be cut off the end.
    text += &render_trial(report, wide);
    let head = "A policy that fits these runs:".to_owned();
    text += &format!("\n{}", flow_lines(&[head], wide, ""));
    text += &render_policy(report, wide);
    text
}

pub(super) fn flow_lines(items: &[String], width: usize, indent: &str) -> String {
    let room = width.saturating_sub(indent.len()).max(MIN_WIDTH / 2);
    flow_items(items, room).into_iter().map(|line| format!("{indent}{line}\n")).collect()
}

fn render_sums(report: &Report, width: usize) -> String {
    let totals = &report.totals;
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for source in &report.sources {
        *kinds.entry(source.kind.unwrap_or("not known")).or_insert(0) += 1;
    }
    let files = kinds.iter().map(|(kind, files)| format!("{} {kind}", group_digits(*files)));
    let mut text = flow_lines(
        &[
            format_count(totals.runs, "run"),
            format!("in {}", format_count(report.sources.len() as u64, "file")),
            format!("({})", files.collect::<Vec<_>>().join(", ")),
        ],
        width,
        "",
    );
    let usage = totals.usage;
    // No turn is without tokens: a sum of none is not known.
    let recorded = |tokens: u64| match tokens {
        0 if totals.turns > 0 => "?".to_owned(),
        tokens => group_digits(tokens),
    };
    text += &flow_lines(
        &[
            format_count(totals.turns, "turn"),
            format_count(totals.tool_calls, "tool call"),
            format!("{} tokens in", recorded(usage.recorded_tokens() - usage.output)),
            format!("{} out", recorded(usage.output)),
        ],
        width,
        "",
    );
    let mut spent =
        vec![format!("spent {}", format_partial_money(totals.cost_usd, totals.unpriced_turns))];
    spent.extend(describe_simulated(totals.simulated_usd));
    spent.extend(describe_lost(report));
    let unpriced = report.runs.iter().map(|run| run.beside.wasted_unpriced).sum();
    let wasted = format_partial_money(totals.wasted_usd, unpriced);
    spent.push(match (totals.wasted_usd, totals.cost_usd) {
        (Some(of_it), Some(cost)) if cost.0 > 0 && unpriced == 0 => {
            let share = of_it.to_dollars() * 100.0 / cost.to_dollars();
            format!("wasted in loops and silence {wasted} ({share:.1}%)")
        }
        _ => format!("wasted in loops and silence {wasted}"),
    });
    if totals.wasted_turns > 0 {
        spent.push(format!(
            "{} and {}",
            format_count(totals.wasted_turns, "wasted turn"),
            format_tokens(totals.wasted_tokens)
        ));
    }
    if totals.turns > 0 && usage.recorded_tokens() == 0 {
        spent.push("no tokens are recorded, so what it cost is not known".to_owned());
    } else if usage.output > 0 && usage.recorded_tokens() == usage.output {
        spent.push("only output is recorded, so it cost more".to_owned());
    } else if totals.unpriced_turns > 0 {
        spent
            .push(format!("{} without a known price", format_count(totals.unpriced_turns, "turn")));
    }
    text += &flow_lines(&spent, width, "");
    text + &describe_ended_runs(report)
        .map(|ended| flow_lines(&[ended], width, ""))
        .unwrap_or_default()
}

/// The headings of the numeric columns.
const HEADS: [&str; 4] = ["WASTED", "COST", "TURNS", "CALLS"];

/// Renders the worst runs; without one, the dearest.
fn render_runs(report: &Report, width: usize) -> String {
    let worst = worst_runs(report);
    if worst.is_empty() {
        return groups::render_dearest(report, width);
    }
    let cells = |run: &&RunReport| {
        vec![
            format_partial_money(run.wasted_usd, run.beside.wasted_unpriced),
            format_partial_money(run.cost_usd, run.beside.unpriced_turns),
            group_digits(run.turns),
            group_digits(run.tool_calls),
        ]
    };
    let rows: Vec<Vec<String>> = worst.iter().take(SHOWN).map(cells).collect();
    let columns = Columns::fit(&HEADS, &rows, width);
    let mut text = format!("{}  WHAT\n", columns.align(&HEADS));
    for (run, cells) in worst.iter().zip(&rows) {
        text += &render_run(run, &columns.align(cells), width);
    }
    let more = worst.len().saturating_sub(SHOWN) as u64;
    if more > 0 {
        let what = format_count(more, "more run");
        text += &flow_lines(&[format!("and {what}; --format json has all of them")], width, "");
    }
    text
}

/// Renders one run: its figures, its signals, the policy that would have stopped it, and its
/// source.
fn render_run(run: &RunReport, figures: &str, width: usize) -> String {
    let signals: Vec<String> = run.signals.iter().map(describe_signal).collect();
    let signals = if signals.is_empty() { vec!["no signal".to_owned()] } else { signals };
    let room = width.saturating_sub(figures.width() + 2);
    let mut flowed = flow_items(&signals, room.max(1)).into_iter();
    let mut text = format!("{figures}  {}\n", flowed.next().unwrap_or_default());
    for line in flowed {
        text += &format!("{}  {line}\n", " ".repeat(figures.width()));
    }
    if let Some(ended) = describe_end(run) {
        text += &flow_lines(&[ended], width, "    ");
    }
    if let Some(judged) = &run.what_if {
        text += &flow_lines(&describe_what_if(judged), width, "    ");
    }
    let mut named = vec![run.run.clone()];
    if !run.run.contains(&run.source) {
        named.push(source_position(run));
    }
    if run.inferred {
        named.push("inferred, not recorded as one run".to_owned());
    }
    if run.simulated_usd.is_some() {
        named.push("simulated money".to_owned());
    }
    text + &flow_lines(&named, width, "    ")
}

fn render_unreadable(report: &Report, width: Option<usize>) -> String {
    if report.unreadable.is_empty() {
        return String::new();
    }
    let number = format_count(report.unreadable.len() as u64, "part");
    let head = format!("{number} could not be read:");
    let mut text = "\n".to_owned() + &flow_lines(&[head], width.unwrap_or(WIDTH), "");
    for one in report.unreadable.iter().take(UNREADABLE) {
        let line = one.line.map(|line| format!(":{line}")).unwrap_or_default();
        text += &harmless_line(&format!("  {}{line}: {}", one.path, one.reason), width);
        text.push('\n');
    }
    let more = report.unreadable.len().saturating_sub(UNREADABLE) as u64;
    if more > 0 {
        text += &format!("  and {} more\n", group_digits(more));
    }
    text
}

/// Renders the suggested policy as a config, with its comments wrapped.
fn render_policy(report: &Report, width: usize) -> String {
    let toml = report.suggested_policy.to_toml();
    let broken = toml.lines().flat_map(|line| match line.strip_prefix("# ") {
        Some(comment) => flow_items(&[comment.to_owned()], width.saturating_sub(2).max(MIN_WIDTH))
            .into_iter()
            .map(|line| format!("# {line}\n"))
            .collect::<Vec<_>>(),
        None => vec![format!("{line}\n")],
    });
    broken.collect()
}

/// The programs whose recordings are most often their own, by the kind of the recording.
const PROGRAMS: [(&str, &str); 4] = [
    ("claude-code", "claude"),
    ("codex", "codex"),
    ("gemini-cli", "gemini"),
    ("opencode", "opencode"),
];

/// Renders a command line that puts the suggested limits on the program with the most runs, if
/// there are limits. It can be pasted as it is.
fn render_trial(report: &Report, width: usize) -> String {
    let flags = report.suggested_policy.to_flags();
    if flags.is_empty() {
        return String::new();
    }
    let runs = |kind: &str| -> u64 {
        report.sources.iter().filter(|one| one.kind == Some(kind)).map(|one| one.runs).sum()
    };
    let most = PROGRAMS.iter().rev().max_by_key(|(kind, _)| runs(kind));
    let program = most.filter(|(kind, _)| runs(kind) > 0).map_or("claude", |(_, program)| program);
    let head = flow_lines(&["To try these limits:".to_owned()], width, "");
    let line = format!("softland wrap {} -- {program}", flags.join(" "));
    let line = match line.len() <= width {
        true => line,
        false => format!("softland wrap \\\n  {} \\\n  -- {program}", flags.join(" \\\n  ")),
    };
    format!("\n{head}{line}\n")
}

#[cfg(test)]
mod tests {
    use softland_agent::core::{Evidence, LossCause, NanoUsd, SignalKind};
    use softland_import::report::spending::{LossEvent, RunSpending};
    use softland_import::report::{
        ListedSignal, RunDetails, SourceLine, Totals, UnreadableLine, WhatIf,
    };

    use super::*;

    fn run(name: &str, wasted: u64) -> RunReport {
        RunReport {
            run: format!("{name}#1"),
            source: "folder/with a \u{1b}[2J name.csv".to_owned(),
            line: Some(17),
            turns: 12_345,
            tool_calls: 98_765,
            cost_usd: Some(NanoUsd(123_456_789_000_000)),
            wasted_usd: Some(NanoUsd(wasted)),
            signals: vec![ListedSignal {
                signal: SignalKind::Stale,
                from_turn: 2,
                to_turn: 12_000,
                turns: 11_999,
                wasted_usd: Some(NanoUsd(wasted)),
                wasted_tokens: Some(1),
                evidence: Evidence::default(),
                recorded: false,
            }],
            what_if: Some(WhatIf {
                warned_at_turn: Some(3),
                ended_at_turn: Some(5),
                saved_usd: Some(NanoUsd(98_765_000_000_000)),
                saved_turns: 12_340,
                saved_tokens: Some(987_654_321),
                reason: "stale".to_owned(),
            }),
            beside: RunDetails::default(),
            spending: lost(NanoUsd(wasted)),
            ..RunReport::default()
        }
    }

    /// Money that was lost in a pause.
    fn lost(usd: NanoUsd) -> RunSpending {
        let mut spending = RunSpending::default();
        spending.r#where.classes.cache_rewrite = usd;
        spending.r#where.classes.lost = usd;
        spending.r#where.add_lost(LossCause::Idle, usd);
        spending.dearest_losses.push(LossEvent {
            turn: 17,
            cause: LossCause::Idle,
            tokens: 123_456,
            still_read: 16_496,
            usd,
            time: Some(1_764_000_000_000),
            pause_ms: Some(2_820_000),
            new_message: Some(true),
            kept_ms: Some(300_000),
        });
        spending
    }

    fn report() -> Report {
        let runs = vec![run("less", 10_000_000_000), run("more", 20_000_000_000)];
        let totals = Totals { runs: 2, cost_usd: Some(NanoUsd(1)), ..Totals::default() };
        let unreadable = UnreadableLine {
            path: "x".repeat(200),
            line: Some(3),
            reason: "is no JSON".to_owned(),
        };
        Report { totals, runs, unreadable: vec![unreadable], ..Report::default() }
    }

    #[test]
    fn d10_suggested_limits_come_as_a_command_line() {
        let mut report = report();
        let source = |kind, runs| SourceLine { path: "p".into(), kind: Some(kind), runs, bytes: 1 };
        report.sources = vec![source("claude-code", 2), source("codex", 3), source("messages", 9)];
        assert!(!render_table(&report, Some(100), None).contains("softland wrap"));
        report.suggested_policy.tool_calls_limit = Some(60);
        report.suggested_policy.cost_limit_usd = Some(NanoUsd(2_500_000_000));
        let wide = render_table(&report, Some(100), None);
        let line = "softland wrap --tool-calls-limit 60 --cost-limit-usd 2.50 -- codex\n";
        assert!(wide.contains(&format!("\n{line}\n")), "{wide}");
        let narrow = render_table(&report, Some(40), None);
        let (_, pasted) = narrow.split_once("softland wrap").unwrap();
        let (pasted, _) = pasted.split_once("\n\n").unwrap();
        assert_eq!(format!("softland wrap{pasted}").replace("\\\n  ", ""), line.trim_end());
        report.sources.truncate(1);
        assert!(render_table(&report, Some(100), None).contains(" -- claude\n"));
    }

    #[test]
    fn no_figure_is_cut_in_any_width() {
        for width in 20..160 {
            let text = render_table(&report(), Some(width), None);
            for figure in ["$20.00", "$10.00", "12,340 turns", "987,654,321", "$98765.00"] {
                assert!(text.contains(figure), "{width}: no {figure} in\n{text}");
            }
            assert!(!text.contains('\u{1b}'), "{text}");
            for line in text.lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
        let text = render_table(&report(), Some(100), None);
        for words in ["123,456 tokens", "47 minutes after the turn before", "more#1 turn 17"] {
            assert!(text.contains(words), "no {words} in\n{text}");
        }
        let text = render_table(&report(), Some(80), None);
        assert!(text.contains("12,345") && text.contains("98,765"), "{text}");
        assert!(text.rfind("more#1") < text.rfind("less#1"), "the worst first: {text}");
    }

    #[test]
    fn a_report_without_runs_says_so_and_suggests_nothing() {
        let text = render_table(&Report::default(), None, None);
        assert!(text.contains("0 tokens in · 0 out"), "{text}");
        assert!(text.ends_with("There is no run to report.\n"), "{text}");
    }

    #[test]
    fn money_that_is_not_known_is_no_zero() {
        let mut unpriced = run("unpriced", 0);
        (unpriced.cost_usd, unpriced.wasted_usd) = (None, None);
        unpriced.spending = RunSpending::default();
        unpriced.signals.clear();
        unpriced.what_if = None;
        let mut report = Report {
            totals: Totals { runs: 1, turns: 7, ..Totals::default() },
            runs: vec![unpriced],
            ..Report::default()
        };
        let text = render_table(&report, None, None);
        for words in ["? tokens in", "? out", "spent ?", "The longest runs:", "TURNS   CALLS  RUN"]
        {
            assert!(text.contains(words), "no {words} in\n{text}");
        }
        assert!(!text.contains("LOST") && !text.contains("Where the"), "{text}");
        report.totals.usage.input = 900;
        report.totals.usage.output = 100;
        report.runs[0].usage = report.totals.usage;
        let text = render_table(&report, None, None);
        for words in ["900 tokens in", "Where the tokens went", "90.0%", "The largest runs:"] {
            assert!(text.contains(words), "no {words} in\n{text}");
        }
        report.totals.cost_usd = Some(NanoUsd(1_000_000_000));
        report.runs.push(run("priced", 0));
        report.runs[1].signals.clear();
        report.runs[1].what_if = None;
        let text = render_table(&report, None, None);
        let row = text.lines().rfind(|line| line.contains("unpriced#1")).unwrap_or_default();
        let cells: Vec<&str> = row.split_whitespace().take(2).collect();
        assert_eq!(cells, ["?", "?"], "cost and loss: {row}");
    }

    #[test]
    fn what_would_have_saved_most_stands_before_the_findings() {
        let mut report = report();
        report.runs.iter_mut().for_each(|run| run.signals.clear());
        let text = render_table(&report, Some(100), None);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words} in\n{text}"));
        let saved =
            at("What would have saved most: a compaction before long pauses (at most $30.00)");
        assert!(saved < at("What stands out:"));
    }
}
