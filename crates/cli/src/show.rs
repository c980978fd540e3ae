//! `softland show RUN`: shows one run of a ledger, or all runs with that client's name, step by
//! step, with the reason of each decision; or one complete call of a kept run. `last` is the run
//! that was written last. A run that `softland run` has kept is shown from its journal.

use std::process::ExitCode;

use softland_ledger::{Run, format_timestamp};

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::render::{SIMULATED, Writer, flow_items, format_count};
use crate::run::state;
use crate::runs::{
    self, Ledgers, OpenLedger, describe_end, format_cost, format_tokens, is_simulated,
};

mod blocks;
mod call;
mod kept;
mod steps;

/// The width of the heading if there is no terminal, in columns.
const WIDTH: usize = 100;

/// Shows the run, or each of the runs.
pub(crate) fn run_command(args: &ShowArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    if args.run == state::LAST {
        return show_last(args, writer);
    }
    if !args.call.is_empty() {
        return call::show_call(args, writer);
    }
    if let Some(journal) = kept::find_journal(args) {
        return kept::show_run(&journal, args, writer);
    }
    let ledgers = match Ledgers::open(&args.of, writer) {
        Err(failure) if !Ledgers::exist(&args.of) => {
            return Err(kept::describe_missing(&args.run).unwrap_or(failure));
        }
        ledgers => ledgers?,
    };
    if ledgers.open.is_empty() {
        return Err(Failure::usage(ledgers.describe_empty()));
    }
    let found = ledgers.find_runs(&args.run)?;
    show_runs(&found, args, writer)
}

/// Shows the run that was written last, of a ledger or of a journal.
fn show_last(args: &ShowArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let named = args.of.ledger.is_some() || args.of.config.is_some();
    let latest = || {
        let folder = state::journal_folder(&|name| std::env::var(name).ok())?;
        state::find_latest_journal(&folder)
    };
    let journal = if named { None } else { latest() };
    if !args.call.is_empty() {
        let (path, _) = journal.ok_or_else(|| {
            Failure::usage(
                "no run is kept yet; --call shows calls of runs that `softland run` kept",
            )
        })?;
        let args = ShowArgs { run: path.display().to_string(), ..args.clone() };
        return call::show_call(&args, writer);
    }
    let ledgers = match Ledgers::open(&args.of, writer) {
        Err(_) if journal.is_some() && !Ledgers::exist(&args.of) => Ledgers::default(),
        ledgers => ledgers?,
    };
    let latest = ledgers.find_latest()?;
    match (journal, latest) {
        (Some((path, at)), latest) if latest.as_ref().is_none_or(|(_, run)| run.last < at) => {
            let args = ShowArgs { run: path.display().to_string(), ..args.clone() };
            kept::show_run(&path, &args, writer)
        }
        (_, Some(found)) => show_runs(&[found], args, writer),
        (_, None) => Err(Failure::usage(ledgers.describe_empty())),
    }
}

fn show_runs(
    found: &[(&OpenLedger, Run)],
    args: &ShowArgs,
    writer: &mut Writer,
) -> Result<ExitCode, Failure> {
    for (at, (ledger, run)) in found.iter().enumerate() {
        let steps = ledger.reader.read_steps(&run.run).map_err(runs::read_failure)?;
        if args.of.json {
            for step in steps.iter().filter(|step| !step.late) {
                writer.write_result(&(step.to_json(&run.run) + "\n"));
            }
            continue;
        }
        let steps = softland_gateway::add_history(&ledger.reader, &run.run, steps);
        let width = runs::stdout_width(writer);
        let between = if at > 0 { "\n" } else { "" };
        writer.write_result(&(between.to_owned() + &render_head(run, width.unwrap_or(WIDTH))));
        writer.write_result(&steps::render_steps(run, &steps, width));
    }
    Ok(runs::output_status(writer))
}

/// Describes the run and its outcome.
fn render_head(run: &Run, width: usize) -> String {
    let named = |what: &str, name: &Option<String>| {
        name.as_ref().filter(|name| !name.is_empty()).map(|name| format!("{what} {name}"))
    };
    let what = [
        named("name", &run.name),
        named("session", &run.session),
        named("agent", &run.agent),
        named("model", &run.model),
        named("policy", &run.policy),
        named("client", &run.client),
        named("key", &run.key),
        named("account", &run.account),
        named("continues", &run.continues),
    ];
    let calls = run.tool_calls.map(|calls| format_count(calls, "tool call"));
    let cost = match format_cost(run).as_str() {
        "?" => "cost unknown (no price for this model)".to_owned(),
        cost if is_simulated(run) => cost.to_owned() + SIMULATED,
        cost => cost.to_owned(),
    };
    let took = [
        Some(format!("{} UTC", format_timestamp(run.started).replace('T', " ").replace('Z', ""))),
        Some(steps::format_span(run.ended.unwrap_or(run.last).saturating_sub(run.started))),
        Some(format_count(run.turns, "turn")),
        calls,
        Some(format_count(run.requests, "request")),
        Some(format_tokens(run)),
        Some(cost),
    ];
    let mut text = String::new();
    let first = vec![run.run.clone(), describe_end(run)];
    for items in [first, what.into_iter().flatten().collect(), took.into_iter().flatten().collect()]
    {
        for line in flow_items(&items, width.max(crate::render::MIN_WIDTH)) {
            text += &line;
            text.push('\n');
        }
    }
    text + "\n"
}
