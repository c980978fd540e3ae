//! `softland runs --delete`: deletes runs from everything that holds them. First from the shared store
//! and the event logs, and then from the ledger, which says what belongs to a run: what has failed can
//! be begun again.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

use softland_agent::journal::JournalSummary;
use softland_host::SharedUrl;
use softland_ledger::{
    DeleteTarget, LedgerPlace, blank_log_lines, delete_runs, find_runs_to_delete,
};

use super::Ledgers;
use crate::args::{Deletion, RunsArgs};
use crate::config::Config;
use crate::failure::Failure;
use crate::render::{Writer, format_count};
use crate::run::state;
use crate::shared_state;

/// Deletes the runs that the arguments name.
pub(super) fn delete(
    args: &RunsArgs,
    deletion: &Deletion,
    writer: &Writer,
) -> Result<ExitCode, Failure> {
    let journals = match args.of.ledger.is_some() || args.of.config.is_some() {
        true => None,
        false => state::journal_folder(&|name| std::env::var(name).ok()),
    };
    if let (Deletion::Run(run), Some(folder)) = (deletion, &journals)
        && delete_journal(folder, run)?
    {
        writer.write_note(&format!("deleted {run}"));
        return Ok(ExitCode::SUCCESS);
    }
    if let (Deletion::Before(time), Some(folder)) = (deletion, &journals) {
        let kept = format_count(delete_old_journals(folder, *time, writer)?, "run");
        writer.write_note(&format!("deleted {kept} that softland run kept"));
        // A user who has only used `softland run` has no ledger.
        if !Ledgers::exist(&args.of) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let beside = Beside::from_config(args.of.config.as_deref())?;
    let ledgers = Ledgers::open(&args.of, writer)?;
    match deletion {
        Deletion::Run(prefix) => delete_one(ledgers, prefix, &beside, writer)?,
        Deletion::Before(time) => {
            delete_everywhere(ledgers, DeleteTarget::Before(*time), &beside, writer)?;
        }
        Deletion::Of { session, key } => {
            let which = DeleteTarget::Of { session: session.as_deref(), key: key.as_deref() };
            delete_everywhere(ledgers, which, &beside, writer)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes the run with this name.
fn delete_one(
    ledgers: Ledgers,
    prefix: &str,
    beside: &Beside,
    writer: &Writer,
) -> Result<(), Failure> {
    if ledgers.open.is_empty() {
        return Err(Failure::usage(ledgers.describe_empty()));
    }
    let found = ledgers.find_runs(prefix)?;
    let [(ledger, run)] = found.as_slice() else {
        let ids: Vec<_> = found.into_iter().map(|(_, run)| run.run).collect();
        return Err(Failure::usage(format!(
            "`{prefix}` is the name of several runs; name one of {}",
            ids.join(", ")
        )));
    };
    let (place, run) = (ledger.place.clone(), run.run.clone());
    drop(ledgers);
    delete_from(&place, DeleteTarget::Run(&run), beside, writer)?;
    writer.write_note(&format!("deleted {run}"));
    Ok(())
}

/// Deletes runs from all ledgers, and says how many from which.
fn delete_everywhere(
    ledgers: Ledgers,
    which: DeleteTarget<'_>,
    beside: &Beside,
    writer: &Writer,
) -> Result<(), Failure> {
    let places = ledgers.into_places();
    for place in &places {
        let runs = delete_from(place, which, beside, writer)?;
        let from = match places.len() {
            1 => String::new(),
            _ => format!(" from {place}"),
        };
        writer.write_note(&format!("deleted {}{from}", format_count(runs, "run")));
    }
    Ok(())
}

/// Deletes the runs of a ledger, there and beside it. Returns their number.
fn delete_from(
    place: &LedgerPlace,
    which: DeleteTarget<'_>,
    beside: &Beside,
    writer: &Writer,
) -> Result<u64, Failure> {
    let failed = |error: Box<dyn std::error::Error>| Failure::usage(error.to_string());
    if !beside.is_nothing() {
        let runs = find_runs_to_delete(place, which).map_err(failed)?.into_iter().collect();
        beside.forget_runs(&runs, writer)?;
    }
    delete_runs(place, which).map_err(failed)
}

/// What holds runs beside a ledger: what the config of a gateway names.
struct Beside {
    /// The event log.
    events: Option<PathBuf>,
    /// The shared store.
    shared: SharedUrl,
}

impl Beside {
    fn from_config(file: Option<&Path>) -> Result<Self, Failure> {
        let Some(file) = file else { return Ok(Self { events: None, shared: SharedUrl::Memory }) };
        let config = Config::load(file).map_err(Failure::from_messages)?;
        let env = |name: &str| std::env::var(name).ok();
        let shared = config.resolve_shared(&env).map_err(Failure::from_messages)?;
        Ok(Self { events: config.event_log().map(Path::to_owned), shared })
    }

    fn is_nothing(&self) -> bool {
        self.events.is_none() && self.shared == SharedUrl::Memory
    }

    /// Deletes these runs, and says what of them was there.
    fn forget_runs(&self, runs: &HashSet<String>, writer: &Writer) -> Result<(), Failure> {
        if runs.is_empty() {
            return Ok(());
        }
        if let Some(conversations) = self.forget_in_store(runs)? {
            let what = format_count(conversations, "conversation");
            writer.write_note(&format!("deleted {what} from the shared store"));
        }
        if let Some(log) = &self.events {
            let lines = blank_log_lines(log, runs)
                .map_err(|error| Failure::usage(format!("{}: {error}", log.display())))?;
            let what = format_count(lines, "line");
            writer.write_note(&format!("overwrote {what} of {}", log.display()));
        }
        Ok(())
    }

    /// Deletes what a shared store has of these runs. Returns the number of conversations; `None` if
    /// there is no shared store.
    fn forget_in_store(&self, runs: &HashSet<String>) -> Result<Option<u64>, Failure> {
        if self.shared == SharedUrl::Memory {
            return Ok(None);
        }
        let unasked = |why: &dyn std::fmt::Display| {
            Failure::usage(format!("{why}; nothing was deleted from the ledger"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unasked(&error))?;
        runtime.block_on(async {
            let Some(stores) = shared_state::connect(&self.shared)? else { return Ok(None) };
            stores.content.forget_runs(runs).await.map(Some).map_err(|error| unasked(&error))
        })
    }
}

/// Deletes the journal of a run that `softland run` has kept. Returns false if there is none.
fn delete_journal(folder: &Path, run: &str) -> Result<bool, Failure> {
    let journal = state::journal_file(folder, run);
    if run.contains(std::path::is_separator) || !journal.is_file() {
        return Ok(false);
    }
    if JournalSummary::is_in_use(&journal) {
        return Err(Failure::usage(format!(
            "{run} is being written by another process; end it first"
        )));
    }
    remove_journal(&journal)?;
    Ok(true)
}

/// Deletes the journals with no record since this time, in milliseconds since 1970. Those that a
/// process is writing stay. Returns their number.
fn delete_old_journals(folder: &Path, before: u64, writer: &Writer) -> Result<u64, Failure> {
    let mut deleted = 0;
    for run in state::run_ids(folder) {
        let journal = state::journal_file(folder, &run);
        let written = std::fs::metadata(&journal).and_then(|file| file.modified()).ok();
        let written = written.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        if written.is_none_or(|at| at.as_millis() >= u128::from(before)) {
            continue;
        }
        if JournalSummary::is_in_use(&journal) {
            writer.write_warning(&format!("{run} stays: another process is writing it"));
            continue;
        }
        remove_journal(&journal)?;
        deleted += 1;
    }
    Ok(deleted)
}

fn remove_journal(journal: &Path) -> Result<(), Failure> {
    std::fs::remove_file(journal)
        .map_err(|error| Failure::usage(format!("{}: {error}", journal.display())))
}
