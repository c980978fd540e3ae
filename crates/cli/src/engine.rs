//! Runs that an engine keeps: the worker, the list, and `softland cancel`.

use std::process::ExitCode;

use softland_restate::{
    CANCEL_GRACE, EngineClient, EngineFailure, EngineState, RunDeletion, RunRow, show_address,
};
use tokio::runtime::Runtime;

use crate::args::{CancelArgs, EngineRunsArgs};
use crate::failure::{Failure, status};
use crate::render::Writer;
use crate::runs::output_status;

pub(crate) mod worker;

/// Returns a failure of the engine as the command's.
pub(crate) fn engine_failure(failure: &EngineFailure) -> Failure {
    Failure::usage(failure.to_string()).with_status(failure_status(failure))
}

/// Returns the exit status for a failure of the engine.
pub(crate) fn failure_status(failure: &EngineFailure) -> u8 {
    if failure.is_passing() { status::PROVIDER } else { status::USAGE }
}

/// Returns a runtime for requests to the engine.
pub(crate) fn client_runtime() -> Result<Runtime, Failure> {
    let system = |error| Failure::usage(format!("the engine cannot be asked: {error}"));
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(system)
}

/// Returns the failure for a run that the engine does not know.
pub(crate) fn unknown_run(run: &str, engine: &str) -> Failure {
    let engine = show_address(engine);
    Failure::usage(format!(
        "no run {run} is kept at {engine}: ended runs are kept for 7 days (softland runs --engine \
         {engine} lists them)"
    ))
}

/// Cancels a run.
pub(crate) fn cancel_run(args: &CancelArgs) -> Result<ExitCode, Failure> {
    let CancelArgs { engine, run } = args;
    let cancelling = async {
        let client = EngineClient::new(engine)?;
        let state = client.find_state(run).await?;
        if matches!(state, EngineState::Active { .. } | EngineState::Paused { .. }) {
            client.cancel_run(run).await?;
        }
        Ok(state)
    };
    let state = client_runtime()?.block_on(cancelling).map_err(|error| engine_failure(&error))?;
    match state {
        EngineState::Unknown => return Err(unknown_run(run, engine)),
        EngineState::Ended { .. } | EngineState::Cancelled => {
            Writer::for_process().write_note(&format!("{run} has ended"))
        }
        EngineState::Active { .. } | EngineState::Paused { .. } => {
            let grace = CANCEL_GRACE.as_secs();
            Writer::for_process().write_note(&format!(
                "cancelling {run}; if it has not ended in {grace} s, the engine ends it"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the runs that the engine keeps, or deletes one.
pub(crate) fn runs_command(
    args: &EngineRunsArgs,
    writer: &mut Writer,
) -> Result<ExitCode, Failure> {
    match &args.delete {
        Some(run) => delete_run(&args.engine, run, writer),
        None => list_runs(args, writer),
    }
}

/// Deletes what the engine keeps of a run that has ended.
fn delete_run(engine: &str, run: &str, writer: &Writer) -> Result<ExitCode, Failure> {
    let deleting = async { EngineClient::new(engine)?.delete_run(run).await };
    let engine = show_address(engine);
    match client_runtime()?.block_on(deleting).map_err(|error| engine_failure(&error))? {
        RunDeletion::Deleted => {
            writer.write_note(&format!("deleted {run} at {engine}"));
            Ok(ExitCode::SUCCESS)
        }
        RunDeletion::Open => Err(Failure::usage(format!(
            "{run} has not ended: softland cancel {run} --engine {engine} ends it"
        ))),
        RunDeletion::Unknown => Err(unknown_run(run, &engine)),
    }
}

/// Lists the runs that the engine keeps, the newest first.
fn list_runs(args: &EngineRunsArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let listing = async { EngineClient::new(&args.engine)?.list_runs().await };
    let rows = client_runtime()?.block_on(listing).map_err(|error| engine_failure(&error))?;
    let text: String = rows.iter().map(|row| format_row(row, args.json)).collect();
    writer.write_result(&text);
    Ok(output_status(writer))
}

fn format_row(row: &RunRow, json: bool) -> String {
    if json {
        // A row of texts always has a form.
        return serde_json::to_string(row).unwrap_or_default() + "\n";
    }
    let RunRow { run, state, outcome, began, failure } = row;
    let end = outcome.as_ref().map(|end| format!("{}: {}", end.outcome.word(), end.reason));
    let end = end.as_ref().unwrap_or(state);
    let failure = failure.as_ref().map(|why| format!("  {why}")).unwrap_or_default();
    format!("{run}  {end:<20}  {began}{failure}\n")
}
