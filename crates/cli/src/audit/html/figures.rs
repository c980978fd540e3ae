//! The figures of an HTML report: sums, the places of its charts, and the data that its script draws
//! and chooses from.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_agent::core::{LossCause, NanoUsd};
use softland_import::report::spending::SpendLine;
use softland_import::report::{Report, RunReport};

use super::super::worst::{describe_lost_share, describe_simulated, format_partial_money};
use super::runs::run_link;
use super::{RunSource, clean_text, escape_text, push_format};
use crate::render::{format_count, group_digits};

/// The most characters of the name of a run.
const NAME: usize = 80;

/// Renders the sums, the choice of runs, and the places of the charts. The script fills and shows
/// what there is something to show for.
pub(super) fn render_figures(report: &Report) -> String {
    render_sums(report)
        + "<form id=\"choice\" hidden>\
           <label>From <input type=\"date\" name=\"from\"></label>\
           <label>Until <input type=\"date\" name=\"until\"></label>\
           <label>Project <select name=\"project\"><option value=\"\">all</option></select></label>\
           <label>Model <select name=\"model\"><option value=\"\">all</option></select></label>\
           <button type=\"reset\">All runs</button></form>\n\
           <p id=\"nothing\" role=\"status\" hidden>No run began in these days, in this project, with this model.</p>\n\
           <section hidden><h2>Where the money went</h2><div id=\"where\"></div><p id=\"lost\"></p></section>\n\
           <section hidden><h2>By day</h2><div id=\"spend\" class=\"chart\" role=\"img\"></div>\
           <details><summary>As a table</summary><div id=\"spend-table\" class=\"wide\" role=\"region\" \
           aria-label=\"By day\" tabindex=\"0\"></div></details></section>\n\
           <section id=\"groups\" hidden><h2>On what</h2>\
           <div class=\"part\"><h3>Projects</h3><div id=\"by-project\"></div></div>\
           <div class=\"part\"><h3>Results of tools</h3><div id=\"by-tool\"></div></div>\
           <div class=\"part\"><h3>Models</h3><div id=\"by-model\"></div></div>\
           <div class=\"part\"><h3>Runs</h3><div id=\"by-run\"></div></div></section>\n\
           <noscript><p>The charts and the choice of runs need JavaScript; all of it is in this page.</p></noscript>\n"
}

fn render_sums(report: &Report) -> String {
    let totals = &report.totals;
    let unpriced = report.runs.iter().map(|run| run.beside.wasted_unpriced).sum();
    let share = match (totals.wasted_usd, totals.cost_usd) {
        _ if totals.wasted_turns == 0 => "nothing in loops or silence".to_owned(),
        (Some(wasted), Some(cost)) if cost.0 > 0 && unpriced == 0 => {
            let share = wasted.to_dollars() * 100.0 / cost.to_dollars();
            format!("{share:.1}% of the money, in loops and silence")
        }
        _ => format!("{}, in loops and silence", format_count(totals.wasted_turns, "turn")),
    };
    let priced = match totals.unpriced_turns {
        0 => "every turn has a price".to_owned(),
        turns => format!("{} without a known price", format_count(turns, "turn")),
    };
    let priced = match describe_simulated(totals.simulated_usd) {
        Some(simulated) => format!("{simulated}; {priced}"),
        None => priced,
    };
    let lost = totals.cost_usd.map(|_| report.spent().classes.lost);
    let cards = [
        ("Spent", format_partial_money(totals.cost_usd, totals.unpriced_turns), priced),
        (
            "Lost",
            format_partial_money(lost, totals.unpriced_turns),
            describe_lost_share(report).unwrap_or_default(),
        ),
        ("Wasted", format_partial_money(totals.wasted_usd, unpriced), share),
        (
            "Runs",
            group_digits(totals.runs),
            format!("in {}", format_count(report.sources.len() as u64, "file")),
        ),
        ("Turns", group_digits(totals.turns), format_count(totals.tool_calls, "tool call")),
        (
            "Tokens",
            match totals.usage.recorded_tokens() {
                0 if totals.turns > 0 => "?".to_owned(),
                tokens => group_digits(tokens),
            },
            format!("{} out", group_digits(totals.usage.output)),
        ),
    ];
    let mut text = String::from("<dl class=\"cards\" id=\"cards\">\n");
    for (name, value, more) in cards {
        let card = name.to_lowercase();
        let name = if name == "Lost" { "Lost to the cache" } else { name };
        push_format(
            &mut text,
            format_args!(
                "<div data-card=\"{card}\"><dt>{name}</dt><dd>{}</dd><dd class=\"more\">{}</dd></div>\n",
                escape_text(&value),
                escape_text(&more)
            ),
        );
    }
    text + "</dl>\n"
}

/// Names in the order in which they are first seen.
#[derive(Default)]
struct Names<'r> {
    places: BTreeMap<&'r str, usize>,
    names: Vec<String>,
}

impl<'r> Names<'r> {
    fn place(&mut self, name: &'r str) -> usize {
        *self.places.entry(name).or_insert_with(|| {
            self.names.push(clean_text(name));
            self.names.len() - 1
        })
    }
}

/// Returns the data that the script draws. Money is in millionths of a dollar; where none is known,
/// the charts are of tokens.
pub(super) fn collect_data(report: &Report, of: RunSource) -> Value {
    let priced = report.totals.cost_usd.is_some_and(|cost| cost > NanoUsd::ZERO);
    let (mut projects, mut models, mut tools) =
        (Names::default(), Names::default(), Names::default());
    let runs: Vec<Value> = report
        .runs
        .iter()
        .map(|run| {
            let spending = &run.spending;
            let line_value = |line: &SpendLine| match priced {
                true => micro(line.cost_usd.unwrap_or_default()),
                false => line.usage.recorded_tokens(),
            };
            let models: Vec<(Option<usize>, u64)> = spending
                .models
                .iter()
                .map(|(model, line)| (model.as_deref().map(|m| models.place(m)), line_value(line)))
                .collect();
            let tools: Vec<(usize, u64)> = spending
                .tools
                .iter()
                .map(|(tool, line)| {
                    let value = if priced { micro(line.carried_usd) } else { line.tokens };
                    (tools.place(tool), value)
                })
                .filter(|(_, value)| *value > 0)
                .collect();
            let project = spending.project.as_deref().map(|project| projects.place(project));
            let mut value = describe_run(run, priced);
            value["p"] = json!(project);
            value["m"] = json!(models.iter().filter_map(|(model, _)| *model).collect::<Vec<_>>());
            value["y"] = json!(models);
            value["x"] = json!(tools);
            if let Some(link) = run_link(run, of) {
                value["link"] = json!(link);
            }
            value
        })
        .collect();
    json!({
        "unit": if priced { "usd" } else { "tokens" },
        "causes": LossCause::ALL.map(name_cause),
        "limit": report.suggested_policy.tool_calls_limit,
        "findings": collect_findings(report),
        "projects": projects.names,
        "models": models.names,
        "tools": tools.names,
        "runs": runs,
    })
}

/// Returns a run's own figures.
fn describe_run(run: &RunReport, priced: bool) -> Value {
    let spending = &run.spending;
    let days: Vec<(Option<u64>, u64, u64, u64, u64, u64)> = spending
        .days
        .iter()
        .map(|(day, line)| {
            let (classes, usage) = (&line.r#where.classes, &line.usage);
            match priced {
                true => (
                    *day,
                    micro(classes.cache_read),
                    micro(classes.cache_write),
                    micro(classes.cache_rewrite),
                    micro(classes.input),
                    micro(classes.output),
                ),
                false => (*day, usage.cache_read, usage.cache_write, 0, usage.input, usage.output),
            }
        })
        .collect();
    let name = spending.title.as_deref().unwrap_or_else(|| short_name(run));
    let mut value = json!({
        "b": clean_text(&name.chars().take(NAME).collect::<String>()),
        "d": run.beside.started.map(|started| started / 86_400_000),
        "c": run.cost_usd.map(micro),
        "w": micro(run.wasted_usd.unwrap_or_default()),
        "u": run.beside.unpriced_turns,
        "t": run.turns,
        "n": run.tool_calls,
        "i": run.usage.recorded_tokens(),
        "o": run.usage.output,
        "s": days,
    });
    if spending.r#where.classes.lost > NanoUsd::ZERO {
        value["l"] = json!(spending.r#where.lost.map(micro));
    }
    if run.beside.rows {
        value["rows"] = json!(true);
    }
    value
}

/// Returns a run's name; of one that begins with its file's path, without the folders.
pub(super) fn short_name(run: &RunReport) -> &str {
    let folders = run.source.rfind(['/', '\\']).filter(|_| run.run.starts_with(&run.source));
    folders.and_then(|at| run.run.get(at + 1..)).unwrap_or(&run.run)
}

/// Returns, for each finding, its cost by run.
fn collect_findings(report: &Report) -> Vec<Vec<(usize, u64)>> {
    let places = report.runs.iter().enumerate().map(|(at, run)| (run.run.as_str(), at));
    let places: BTreeMap<&str, usize> = places.collect();
    let found = report.find();
    let part = |(run, usd): &(String, NanoUsd)| Some((*places.get(run.as_str())?, micro(*usd)));
    found.iter().map(|one| one.parts.iter().filter_map(part).collect()).collect()
}

/// Names a cause of loss in the words of the page.
const fn name_cause(cause: LossCause) -> &'static str {
    match cause {
        LossCause::Model => "as the model was switched",
        LossCause::Compaction => "by compactions, which rebuild the context",
        LossCause::Idle => "after pauses longer than the cache lives",
        LossCause::Edited => "as something earlier had changed",
        LossCause::Unknown => "for an unknown cause",
    }
}

/// Returns millionths of a dollar.
const fn micro(amount: NanoUsd) -> u64 {
    amount.0.saturating_add(500) / 1000
}
