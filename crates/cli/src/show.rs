//! `softland show RUN`: shows one run of a ledger, or all runs with that client's name, step by
//! step, with the reason of each decision; or one complete call of a kept run. A run that `softland
//! run` has kept is shown from its journal.

use std::process::ExitCode;

use softland_ledger::{Run, timestamp};

use crate::args::ShowArgs;
use crate::failure::Failure;
use crate::render::{Writer, count, flow};
use crate::runs::{self, ending, money, tokens};

mod call;
mod kept;
mod steps;

/// The width of the heading if there is no terminal, in columns.
const WIDTH: usize = 100;

/// Shows the run, or each of the runs.
pub(crate) fn run(args: &ShowArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    if !args.call.is_empty() {
        return call::show(args, writer);
    }
    if let Some(journal) = kept::find(args) {
        return kept::show(&journal, args, writer);
    }
    let path = runs::ledger(&args.of)?;
    let Some(reader) = runs::open(&path)? else {
        return Err(Failure::usage(format!("{} holds no runs yet", path.display())));
    };
    for (at, run) in runs::find(&reader, &path, &args.run)?.iter().enumerate() {
        let steps = reader.steps(&run.run).map_err(runs::failure)?;
        if args.of.json {
            for step in steps.iter().filter(|step| !step.late) {
                writer.result(&(step.json(&run.run) + "\n"));
            }
            continue;
        }
        let width = runs::width(writer);
        let between = if at > 0 { "\n" } else { "" };
        writer.result(&(between.to_owned() + &head(run, width.unwrap_or(WIDTH))));
        writer.result(&steps::steps(run, &steps, width));
    }
    Ok(runs::written(writer))
}

/// Describes the run and its outcome.
fn head(run: &Run, width: usize) -> String {
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
    let calls = run.tool_calls.map(|calls| count(calls, "tool call"));
    let cost = match money(run).as_str() {
        "?" => "cost unknown (no price for this model)".to_owned(),
        cost => cost.to_owned(),
    };
    let took = [
        Some(format!("{} UTC", timestamp(run.started).replace('T', " ").replace('Z', ""))),
        Some(steps::span(run.ended.unwrap_or(run.last).saturating_sub(run.started))),
        Some(count(run.turns, "turn")),
        calls,
        Some(count(run.requests, "request")),
        Some(tokens(run)),
        Some(cost),
    ];
    let mut text = String::new();
    let first = vec![run.run.clone(), ending(run)];
    for items in [first, what.into_iter().flatten().collect(), took.into_iter().flatten().collect()]
    {
        for line in flow(&items, width.max(crate::render::MIN_WIDTH)) {
            text += &line;
            text.push('\n');
        }
    }
    text + "\n"
}
