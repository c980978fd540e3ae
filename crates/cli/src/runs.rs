//! `softland runs`: lists or deletes the runs of ledgers and those that `softland run` has kept.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use softland_agent::core::Millis;
use softland_ledger::{Query, UnassignedTotals};

use crate::args::{RunNames, RunsArgs};
use crate::failure::{Failure, status};
use crate::render::{OutputLoss, Writer};

mod deletion;
mod kept;
mod ledgers;
mod table;

use kept::ListedRun;
pub(crate) use ledgers::{Ledgers, OpenLedger, choose_shown, inspect_ledger, read_failure};
pub(crate) use table::{
    describe_end, format_cost, format_dollars, format_minute, format_tokens, is_simulated,
};

/// Lists or deletes runs.
pub(crate) fn run_command(args: &RunsArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    if let Some(deletion) = &args.delete {
        return deletion::delete(args, deletion, writer);
    }
    let query = query_of(args);
    // Kept runs belong to no ledger and to no session.
    let named = args.of.ledger.is_some()
        || args.of.config.is_some()
        || args.session.is_some()
        || args.named != RunNames::default();
    let kept = match named {
        true => Vec::new(),
        false => kept::newest_runs(&query, writer),
    };
    let ledgers = match Ledgers::open(&args.of, writer) {
        // A user who has only used `softland run` has no ledger.
        Err(_) if !kept.is_empty() && !Ledgers::exist(&args.of) => Ledgers::default(),
        ledgers => ledgers?,
    };
    let (mut listed, mut beside) = (Vec::new(), UnassignedTotals::default());
    for ledger in ledgers.open.iter() {
        // A request that belongs to no run has none of these.
        if [&query.policy, &query.agent, &query.text, &query.state].into_iter().all(Option::is_none)
        {
            let loose = ledger.reader.sum_unassigned(&query).map_err(read_failure)?;
            beside = add_totals(beside, loose);
        }
        let runs = ledger.reader.list_runs(&query).map_err(read_failure)?;
        listed.extend(runs.into_iter().map(ListedRun::from));
    }
    listed.extend(kept);
    listed.sort_by_key(|one| std::cmp::Reverse(one.run.started));
    listed.truncate(args.limit.unwrap_or(usize::MAX));
    // Requests that belong to no run cost money, too.
    let beside = Some(beside).filter(|beside| beside.requests > 0);
    if args.of.json {
        listed.iter().for_each(|one| writer.write_result(&(one.to_json() + "\n")));
        let session = args.session.as_deref();
        beside.iter().for_each(|beside| writer.write_result(&(beside.to_json(session) + "\n")));
    } else if listed.is_empty() && beside.is_none() {
        let all = args.session.is_none()
            && args.since.is_none()
            && args.state.is_none()
            && args.named == RunNames::default();
        let what = if all { "no runs are recorded yet" } else { "no such runs" };
        writer.write_note(&format!("{what} in {}", ledgers.names()));
    } else {
        writer.write_result(&table::render_table(&listed, beside.as_ref(), stdout_width(writer)));
    }
    Ok(output_status(writer))
}

/// Returns the filter for the runs that are asked for.
fn query_of(args: &RunsArgs) -> Query {
    let (session, state, since, limit) =
        (args.session.clone(), args.state.clone(), args.since, args.limit);
    let RunNames { key, account, policy, agent, model, text } = args.named.clone();
    Query { session, key, account, policy, agent, model, since, state, text, limit }
}

fn add_totals(a: UnassignedTotals, b: UnassignedTotals) -> UnassignedTotals {
    let mut usage = a.usage;
    usage.input += b.usage.input;
    usage.output += b.usage.output;
    usage.cache_read += b.usage.cache_read;
    usage.cache_write += b.usage.cache_write;
    UnassignedTotals {
        requests: a.requests + b.requests,
        usage,
        cost: a.cost + b.cost,
        unpriced: a.unpriced + b.unpriced,
    }
}

/// Returns the columns of standard output; `None` if it is not a terminal and lines are not cut.
pub(crate) fn stdout_width(writer: &Writer) -> Option<usize> {
    writer.stdout_is_terminal().then(|| writer.width())
}

/// Returns the exit status after output was written.
pub(crate) fn output_status(writer: &Writer) -> ExitCode {
    match writer.output_loss() {
        OutputLoss::Failed => ExitCode::from(status::USAGE),
        OutputLoss::Nothing | OutputLoss::Closed => ExitCode::SUCCESS,
    }
}

/// Returns the time that long ago, in milliseconds since 1970.
pub(crate) fn time_ago(time: Millis) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(time.0)
}
