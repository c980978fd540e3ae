//! Shows a run that `softland run` has kept: its journal is replayed, without sending or running
//! anything.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;
use softland_agent::core::NanoUsd;
use softland_agent::journal::{ReplayedJournal, StartRecord};
use softland_agent::{AnsweredBy, Event, EventKind, Report};

use super::blocks::ShownStep;
use super::steps;
use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::render::{SIMULATED, Writer, flow_items, format_count, group_digits};
use crate::run::state;
use crate::runs::{self, format_dollars};
use crate::sim::{posed_model, simulated_name};

/// Finds the journal of the named run, if there is one. The name is an id of the state folder,
/// including a sub-agent's (`RUN.2`), or the file of a journal.
pub(super) fn find_journal(args: &ShowArgs) -> Option<PathBuf> {
    if args.of.ledger.is_some() || args.of.config.is_some() {
        return None;
    }
    let path = Path::new(&args.run);
    if path.is_file() {
        return Some(path.to_owned());
    }
    let env = |name: &str| std::env::var(name).ok();
    let path = state::journal_file(&state::journal_folder(&env)?, root_run(&args.run));
    (path.components().count() > 1 && path.is_file()).then_some(path)
}

/// Returns the failure for a run that is not kept, if any run is.
pub(super) fn describe_missing(run: &str) -> Option<Failure> {
    let folder = state::journal_folder(&|name| std::env::var(name).ok())?;
    let any = !state::run_ids(&folder).is_empty();
    any.then(|| state::find_journal(run, Some(&folder)).err()).flatten()
}

/// Returns the id of the run at the top of the tree.
fn root_run(run: &str) -> &str {
    run.split_once('.').map_or(run, |(root, _)| root)
}

/// Shows the run.
pub(super) fn show_run(
    path: &Path,
    args: &ShowArgs,
    writer: &mut Writer,
) -> Result<ExitCode, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let told = runtime
        .block_on(Box::pin(ReplayedJournal::from_path_as(path, &posed_model)))
        .map_err(|unfit| failed(&unfit))?;
    let run = if Path::new(&args.run).is_file() { &told.root } else { &args.run };
    let Some(start) = told.starts.get(run) else {
        let all: Vec<&str> = told.starts.keys().map(String::as_str).collect();
        let message = format!("{} has no run {run}; it has {}", path.display(), all.join(", "));
        return Err(Failure::usage(message));
    };
    let events: Vec<&Event> = told.events.iter().filter(|event| event.run == *run).collect();
    if args.of.json {
        events.iter().for_each(|event| writer.write_event(event));
    } else {
        let width = runs::stdout_width(writer);
        writer.write_result(&render_head(&told, run, start, width.unwrap_or(super::WIDTH)));
        let told: Vec<_> = events.iter().filter_map(|event| event_step(event)).collect();
        writer.write_result(&steps::render_replayed(told, width));
    }
    if let Some(error) = &told.differs {
        writer.write_warning(&format!("the rest of the run is not shown: {error}"));
    }
    Ok(runs::output_status(writer))
}

/// Describes the run, its outcome, and the runs below it.
fn render_head(told: &ReplayedJournal, run: &str, start: &StartRecord, width: usize) -> String {
    let report = find_report(told, run);
    let what = [
        Some(format!("agent {}", start.agent)),
        Some(format!("model {}", start.model)),
        start.continues.as_ref().map(|run| format!("continues {run}")),
        start
            .parent
            .as_ref()
            .map(|parent| format!("called by {} in turn {}", parent.run, parent.turn)),
    ];
    let began = start.ts.get(..19).unwrap_or(&start.ts).replace('T', " ");
    let mut took = vec![format!("{began} UTC")];
    took.extend(count_steps(told, run));
    if let Some(report) = report {
        let usage = report.usage;
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        took.push(format!("{} tokens in, {} out", group_digits(input), group_digits(usage.output)));
        took.push(format_cost(told, run, report));
    }
    let first = vec![run.to_owned(), describe_end(told, run)];
    let mut text = String::new();
    for items in [first, what.into_iter().flatten().collect(), took] {
        for line in flow_items(&items, width.max(crate::render::MIN_WIDTH)) {
            text += &line;
            text.push('\n');
        }
    }
    for (child, start) in runs_below(told, run) {
        let depth = child.matches('.').count() - run.matches('.').count();
        let mut items = vec![child.clone(), start.agent.clone(), describe_end(told, child)];
        items.extend(count_steps(told, child));
        items.extend(find_report(told, child).map(|report| format_cost(told, child, report)));
        text += &format!("{}{}\n", "  ".repeat(depth), items.join(" · "));
    }
    text + "\n"
}

/// Returns the runs below a run, each after its caller.
fn runs_below<'a>(told: &'a ReplayedJournal, run: &str) -> Vec<(&'a String, &'a StartRecord)> {
    let prefix = format!("{run}.");
    let mut runs: Vec<_> =
        told.starts.iter().filter(|(child, _)| child.starts_with(&prefix)).collect();
    let place = |run: &str| -> Vec<u64> {
        run.split('.').skip(1).map(|part| part.parse().unwrap_or(0)).collect()
    };
    runs.sort_by_key(|(child, _)| place(child));
    runs
}

/// Counts the turns and calls of a run so far.
fn count_steps(told: &ReplayedJournal, run: &str) -> [String; 2] {
    let of = |counts: fn(&EventKind) -> bool| {
        told.events.iter().filter(|event| event.run == run && counts(&event.kind)).count() as u64
    };
    let (turns, calls) = match find_report(told, run) {
        Some(report) => (report.turns, report.tool_calls),
        None => (
            of(|kind| matches!(kind, EventKind::TurnStart { .. })),
            of(|kind| matches!(kind, EventKind::ToolExecute { .. })),
        ),
    };
    [format_count(turns, "turn"), format_count(calls, "tool call")]
}

fn find_report<'a>(told: &'a ReplayedJournal, run: &str) -> Option<&'a Report> {
    told.events.iter().filter(|event| event.run == run).find_map(|event| match &event.kind {
        EventKind::Done { report } | EventKind::Error { report, .. } => Some(&**report),
        _ => None,
    })
}

fn describe_end(told: &ReplayedJournal, run: &str) -> String {
    let Some(report) = find_report(told, run) else {
        return format!("not ended (softland run --resume {})", told.root);
    };
    let ended = &report.ended;
    let mut text = format!("{}: {}", ended.outcome.word(), ended.reason);
    if let (Some(limit), Some(value)) = (&ended.limit, &ended.value) {
        text += &format!(" ({limit} {value})");
    }
    text += &ended.rung.map(|rung| format!(", rung {}", rung.word())).unwrap_or_default();
    if report.answered_by == Some(AnsweredBy::Local) {
        text += ", answered by softland";
    }
    text
}

/// Formats the cost of a run with those below it, and says if nobody paid it.
fn format_cost(told: &ReplayedJournal, run: &str, report: &Report) -> String {
    let Some(cost) = report.cost_usd.and_then(NanoUsd::from_dollars) else {
        return "cost unknown (no price for this model)".to_owned();
    };
    let below = runs_below(told, run).into_iter().map(|(_, start)| start);
    let mut starts = told.starts.get(run).into_iter().chain(below);
    let simulated = starts.all(|start| simulated_name(&start.model).is_some());
    format_dollars(cost) + if simulated { SIMULATED } else { "" }
}

/// Converts an event to a step, with the fields that a ledger records.
fn event_step(event: &Event) -> Option<ShownStep> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(event) else { return None };
    for envelope in ["v", "seq", "ts", "run", "turn"] {
        fields.remove(envelope);
    }
    let name = fields.remove("event")?.as_str()?.to_owned();
    match name.as_str() {
        // A ledger records the status of a request. A request that is replayed was successful.
        "usage" => drop(fields.insert("status".to_owned(), 200.into())),
        "run_start" => drop(fields.remove("policy")),
        _ => {}
    }
    Some(ShownStep { at: None, turn: event.turn, event: name, fields, late: false })
}
