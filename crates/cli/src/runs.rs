//! `softland runs`: lists the runs of a ledger and those that `softland run` has kept, or deletes
//! runs of the ledger. It also finds the ledger for `softland show`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use softland_agent::core::Millis;
use softland_ledger::{DeleteTarget, OpenProblem, Query, Reader, Run, RunLookup, delete_runs};

use crate::args::{Deletion, LedgerArgs, RunsArgs};
use crate::config::{Config, LEDGER};
use crate::failure::{Failure, status};
use crate::render::{OutputLoss, Writer};
use crate::run::state;

mod kept;
mod table;

use kept::ListedRun;
pub(crate) use table::{describe_end, format_cost, format_dollars, format_tokens};

/// The most runs that a message about an unknown run names.
const NAMED: usize = 5;

/// Lists or deletes runs.
pub(crate) fn run_command(args: &RunsArgs, writer: &mut Writer) -> Result<ExitCode, Failure> {
    let path = ledger_path(&args.of)?;
    if let Some(deletion) = &args.delete {
        return run_deletion(&path, deletion, writer);
    }
    let since = args.since.map(time_ago);
    // Kept runs belong to no ledger and to no session.
    let named = args.of.ledger.is_some() || args.of.config.is_some() || args.session.is_some();
    let kept = if named { Vec::new() } else { kept::newest_runs(since, args.limit, writer) };
    let reader = match open_ledger(&path) {
        // A user who has only used `softland run` has no ledger.
        Err(_) if !kept.is_empty() && !path.exists() => None,
        reader => reader?,
    };
    let (runs, beside) = match reader {
        None => Default::default(),
        Some(reader) => {
            let (session, limit) = (args.session.clone(), args.limit);
            let query = Query { session, since, limit, ..Query::default() };
            let beside = reader.sum_unassigned(&query).map_err(read_failure)?;
            (reader.list_runs(&query).map_err(read_failure)?, beside)
        }
    };
    let mut listed: Vec<ListedRun> = runs.into_iter().map(ListedRun::from).collect();
    if !kept.is_empty() {
        listed.extend(kept);
        listed.sort_by_key(|one| std::cmp::Reverse(one.run.started));
        listed.truncate(args.limit.unwrap_or(usize::MAX));
    }
    // Requests that belong to no run cost money, too.
    let beside = Some(beside).filter(|beside| beside.requests > 0);
    if args.of.json {
        listed.iter().for_each(|one| writer.write_result(&(one.to_json() + "\n")));
        let session = args.session.as_deref();
        beside.iter().for_each(|beside| writer.write_result(&(beside.to_json(session) + "\n")));
    } else if listed.is_empty() && beside.is_none() {
        writer.write_note(&format!("no such runs in {}", path.display()));
    } else {
        writer.write_result(&table::render_table(&listed, beside.as_ref(), stdout_width(writer)));
    }
    Ok(output_status(writer))
}

/// Returns the path of the ledger that the arguments name.
pub(crate) fn ledger_path(args: &LedgerArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &args.ledger {
        return Ok(path.clone());
    }
    let Some(config) = &args.config else { return Ok(PathBuf::from(LEDGER)) };
    Config::load(config).map_err(Failure::from_messages)?.ledger_path(false).ok_or_else(|| {
        let file = config.display();
        Failure::usage(format!("{file}: [ledger] is off; --ledger FILE names a ledger"))
    })
}

/// Opens the ledger. Returns `None` if nothing was written to it yet.
pub(crate) fn open_ledger(path: &Path) -> Result<Option<Reader>, Failure> {
    match Reader::open(path) {
        Ok(reader) => Ok(Some(reader)),
        Err(error) => match error.problem {
            OpenProblem::Empty => Ok(None),
            OpenProblem::Missing => Err(Failure::usage(format!(
                "{error}; `softland serve` writes {LEDGER} where it runs, and --ledger FILE or \
                 --config FILE names another one"
            ))),
            _ => Err(Failure::usage(error.to_string())),
        },
    }
}

/// Finds the runs by an id, the beginning of an id, or the client's name for them. Returns at least
/// one run.
pub(crate) fn find_runs(reader: &Reader, path: &Path, prefix: &str) -> Result<Vec<Run>, Failure> {
    let file = path.display();
    let found = reader.find_run(prefix).map_err(read_failure)?;
    if !matches!(&found, RunLookup::One(run) if run.run == prefix) {
        let named = reader.find_named(prefix).map_err(read_failure)?;
        if !named.is_empty() {
            return Ok(named);
        }
    }
    match found {
        RunLookup::One(run) => Ok(vec![*run]),
        RunLookup::Several(ids) => Err(Failure::usage(format!(
            "`{prefix}` begins the ids of several runs: {}",
            ids.join(", ")
        ))),
        RunLookup::Nothing => {
            let session = Some(prefix.to_owned());
            let of_session = Query { session, limit: Some(1), ..Query::default() };
            if reader.sum_unassigned(&of_session).map_err(read_failure)?.requests > 0
                || !reader.list_runs(&of_session).map_err(read_failure)?.is_empty()
            {
                return Err(Failure::usage(format!(
                    "{file} has no run `{prefix}`, but a session of that name: see \
                     `softland runs --session {prefix}`"
                )));
            }
            let query = Query { limit: Some(NAMED), ..Query::default() };
            let newest = reader.list_runs(&query).map_err(read_failure)?;
            let newest: Vec<_> = newest.into_iter().map(|run| run.run).collect();
            Err(Failure::usage(match newest.as_slice() {
                [] => format!("{file} has no run `{prefix}`; it has none at all"),
                ids => format!("{file} has no run `{prefix}`; the newest are {}", ids.join(", ")),
            }))
        }
    }
}

fn run_deletion(path: &Path, deletion: &Deletion, writer: &Writer) -> Result<ExitCode, Failure> {
    if let Deletion::Run(run) = deletion
        && let Some(folder) = state::journal_folder(&|name| std::env::var(name).ok())
        && let journal = state::journal_file(&folder, run)
        && !run.contains('/')
        && journal.is_file()
    {
        return Err(Failure::usage(format!(
            "{run} is no run of a ledger: softland run keeps it in {}, which may be removed",
            journal.display()
        )));
    }
    let Some(reader) = open_ledger(path)? else {
        return Err(Failure::usage(format!("{} holds no runs yet", path.display())));
    };
    let gone = |which| delete_runs(path, which).map_err(|error| Failure::usage(error.to_string()));
    match deletion {
        Deletion::Run(prefix) => {
            let runs = find_runs(&reader, path, prefix)?;
            drop(reader);
            let [Run { run, .. }] = runs.as_slice() else {
                let ids: Vec<_> = runs.into_iter().map(|run| run.run).collect();
                return Err(Failure::usage(format!(
                    "`{prefix}` is the name of several runs; name one of {}",
                    ids.join(", ")
                )));
            };
            gone(DeleteTarget::Run(run))?;
            writer.write_note(&format!("deleted {run}"));
        }
        Deletion::Before(time) => {
            drop(reader);
            match gone(DeleteTarget::Before(time_ago(*time)))? {
                1 => writer.write_note("deleted 1 run"),
                runs => writer.write_note(&format!("deleted {runs} runs")),
            }
        }
    }
    Ok(ExitCode::SUCCESS)
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

pub(crate) fn read_failure(error: softland_ledger::ReadError) -> Failure {
    Failure::usage(error.to_string())
}

/// Returns the time that long ago, in milliseconds since 1970.
pub(crate) fn time_ago(time: Millis) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX).saturating_sub(time.0)
}
