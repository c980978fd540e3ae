//! `softland show RUN`: shows one run of a ledger, or all runs with that client's name, step by
//! step, with the reason of each decision; or one complete call of a kept run. A run that `softland
//! run` has kept is shown from its journal.

use std::process::ExitCode;

use softland_ledger::{Run, format_timestamp};

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::render::{Writer, flow_items, format_count};
use crate::runs::{self, describe_end, format_cost, format_tokens};

mod call;
mod kept;
mod steps;

/// The width of the heading if there is no terminal, in columns.
const WIDTH: usize = 100;

/// Shows the run, or each of the runs.
pub(crate) fn run_command(args: &ShowArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    if !args.call.is_empty() {
        return call::show_call(args, writer);
    }
    if let Some(journal) = kept::find_journal(args) {
        return kept::show_run(&journal, args, writer);
    }
    let path = runs::ledger_path(&args.of)?;
    let Some(reader) = runs::open_ledger(&path)? else {
        return Err(Failure::usage(format!("{} holds no runs yet", path.display())));
    };
    for (at, run) in runs::find_runs(&reader, &path, &args.run)?.iter().enumerate() {
        let steps = reader.read_steps(&run.run).map_err(runs::read_failure)?;
        if args.of.json {
            for step in steps.iter().filter(|step| !step.late) {
                writer.write_result(&(step.to_json(&run.run) + "\n"));
            }
            continue;
        }
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
        named("goes on from", &run.continues),
    ];
    let calls = run.tool_calls.map(|calls| format_count(calls, "tool call"));
    let cost = match format_cost(run).as_str() {
        "?" => "cost unknown (no price for this model)".to_owned(),
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
