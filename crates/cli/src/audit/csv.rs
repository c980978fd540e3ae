//! The report as CSV: one row for each run, day, project, model, agent or tool.

use std::collections::BTreeSet;

use softland_agent::core::{LossCause, NanoUsd};
use softland_import::report::Report;
use softland_import::report::carried::sum_tools;
use softland_import::report::spending::{Grouping, SpendLine, format_time, group_runs};

use crate::args::GroupedBy;

/// The columns of money and tokens, in every form.
const COLUMNS: &str = "turns,cost_usd,unpriced_turns,output_usd,input_usd,cache_read_usd,\
    cache_write_usd,cache_rewrite_usd,lost_usd,lost_model_usd,lost_compaction_usd,lost_idle_usd,\
    lost_edited_usd,lost_unknown_usd,input,output,cache_read,cache_write";

/// Renders the report; each run by itself if nothing else is asked for.
pub(super) fn render_csv(report: &Report, by: Option<GroupedBy>) -> String {
    match by {
        Some(GroupedBy::Parts(by)) => render_groups(report, by),
        Some(GroupedBy::Tool) => render_tools(report),
        Some(GroupedBy::Run) | None => render_runs(report),
    }
}

fn render_groups(report: &Report, by: Grouping) -> String {
    let name = match by {
        Grouping::Day => "day",
        Grouping::Project => "project",
        Grouping::Model => "model",
        Grouping::Agent => "agent",
    };
    let mut text = format!("{name},runs,{COLUMNS}\n");
    for (key, line) in group_runs(&report.runs, by) {
        let key = quote_field(key.as_deref().unwrap_or_default());
        text += &format!("{key},{},{}\n", line.runs, format_line(&line));
    }
    text
}

fn render_tools(report: &Report) -> String {
    let mut text = "tool,calls,results,tokens,first_usd,carried_usd\n".to_owned();
    // The results of runs without a price cost nothing that is known.
    let priced = report.runs.iter().filter(|run| run.cost_usd.is_some());
    let priced: BTreeSet<_> =
        priced.flat_map(|run| run.spending.tools.iter().map(|(name, _)| name)).collect();
    for (tool, line) in sum_tools(&report.runs) {
        let money = |usd| format_money(priced.contains(&tool).then_some(usd));
        text += &format!(
            "{},{},{},{},{},{}\n",
            quote_field(&tool),
            line.calls,
            line.results,
            line.tokens,
            money(line.first_usd),
            money(line.carried_usd),
        );
    }
    text
}

fn render_runs(report: &Report) -> String {
    let mut text = format!(
        "run,session,agent,source,project,models,title,began,ended,tool_calls,compactions,{COLUMNS},\
         wasted_usd,signals\n"
    );
    for run in &report.runs {
        let spending = &run.spending;
        let models: Vec<&str> =
            spending.models.iter().filter_map(|(model, _)| model.as_deref()).collect();
        let signals: Vec<&str> = run.signals.iter().map(|listed| listed.signal.word()).collect();
        let time = |time: Option<u64>| time.map(format_time).unwrap_or_default();
        let names = [
            run.run.as_str(),
            &run.session,
            run.agent.as_deref().unwrap_or_default(),
            &run.source,
            spending.project.as_deref().unwrap_or_default(),
            &models.join(" "),
            spending.title.as_deref().unwrap_or_default(),
            &time(run.beside.started),
            &time(spending.ended),
        ]
        .map(quote_field);
        text += &format!(
            "{},{},{},{},{},{}\n",
            names.join(","),
            run.tool_calls,
            spending.compactions,
            format_line(&run.to_line()),
            format_money(run.wasted_usd),
            quote_field(&signals.join(" ")),
        );
    }
    text
}

fn format_line(line: &SpendLine) -> String {
    let (spent, usage) = (&line.r#where, &line.usage);
    let classes = &spent.classes;
    let mut money = vec![classes.output, classes.input, classes.cache_read, classes.cache_write];
    money.extend([classes.cache_rewrite, classes.lost]);
    money.extend(LossCause::ALL.map(|cause| spent.lost_to_cause(cause)));
    let known = line.cost_usd.is_some() || line.unpriced_turns == 0;
    let money: Vec<String> =
        money.into_iter().map(|money| format_money(known.then_some(money))).collect();
    format!(
        "{},{},{},{},{},{},{},{}",
        line.turns,
        format_money(line.cost_usd),
        line.unpriced_turns,
        money.join(","),
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
    )
}

fn format_money(amount: Option<NanoUsd>) -> String {
    amount.map(|amount| amount.to_string().trim_start_matches('$').to_owned()).unwrap_or_default()
}

/// Quotes a field. A text that a spreadsheet would take for a formula gets a mark before it.
fn quote_field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Money without a price is empty in each row, and no 0.
    #[test]
    fn c154_unknown_money_is_empty() {
        let line = |cost_usd, unpriced_turns| {
            let mut line = SpendLine { turns: 2, cost_usd, unpriced_turns, ..SpendLine::default() };
            line.r#where.classes.output = cost_usd.unwrap_or_default();
            format_line(&line)
        };
        assert_eq!(line(None, 2), format!("2,,2,{},0,0,0,0", ",".repeat(10)));
        let zeros = ",0.00".repeat(11);
        assert_eq!(line(Some(NanoUsd::ZERO), 0), format!("2,0.00,0{zeros},0,0,0,0"));
        assert!(
            line(Some(NanoUsd(500_000_000)), 1).starts_with("2,0.50,1,0.50,0.00,"),
            "a part is known"
        );
    }

    #[test]
    fn fields_are_quoted_and_no_formula() {
        for (text, wanted) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("say \"so\"", "\"say \"\"so\"\"\""),
            ("=SUM(A1)", "'=SUM(A1)"),
            ("two\nlines", "\"two\nlines\""),
        ] {
            assert_eq!(quote_field(text), wanted);
        }
    }
}
