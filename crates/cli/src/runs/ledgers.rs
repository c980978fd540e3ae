//! The ledgers that `runs`, `show` and `pages` read: the named one, or else the one in the current
//! folder and the default one, those that exist.

use std::path::{Path, PathBuf};

use softland_ledger::{OpenError, OpenProblem, Query, ReadError, Reader, Run, RunLookup};

use crate::args::LedgerArgs;
use crate::config::{Config, LEDGER, LedgerSetting};
use crate::failure::Failure;
use crate::ledger_file;
use crate::render::Writer;

/// The most runs that a message about an unknown run names.
const NAMED: usize = 5;

/// The ledgers that the arguments mean.
#[derive(Debug, Default)]
pub(crate) struct Ledgers {
    /// The ledgers with records.
    pub(crate) open: Vec<OpenLedger>,
    /// The files of ledgers to which nothing was written yet.
    empty: Vec<PathBuf>,
}

/// A ledger that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenLedger {
    pub(crate) path: PathBuf,
    pub(crate) reader: Reader,
}

impl Ledgers {
    /// Opens the ledgers. If nobody named one, those that cannot be read cause warnings, as long as
    /// another one can.
    ///
    /// # Errors
    /// Returns a failure if there is no ledger, or none can be read.
    pub(crate) fn open(args: &LedgerArgs, writer: &Writer) -> Result<Self, Failure> {
        let paths = match named_ledger(args)? {
            Some(path) => vec![path],
            None => ledger_file::list_readable(&read_variable),
        };
        if paths.is_empty() {
            return Err(no_ledger());
        }
        let (mut found, mut problems) = (Self::default(), Vec::new());
        for path in paths {
            match Reader::open(&path) {
                Ok(reader) => found.open.push(OpenLedger { path, reader }),
                Err(error) => match error.problem {
                    OpenProblem::Empty => found.empty.push(path),
                    OpenProblem::Missing => problems.push(describe_absent(&error)),
                    _ => problems.push(error.to_string()),
                },
            }
        }
        if found.open.is_empty() && !problems.is_empty() {
            return Err(Failure::from_messages(problems));
        }
        problems.iter().for_each(|problem| writer.write_warning(&format!("not read: {problem}")));
        Ok(found)
    }

    /// Returns true if there is a ledger to be read, readable or not.
    pub(crate) fn exist(args: &LedgerArgs) -> bool {
        args.ledger.is_some()
            || args.config.is_some()
            || !ledger_file::list_readable(&read_variable).is_empty()
    }

    /// Returns the files, for messages.
    pub(crate) fn names(&self) -> String {
        let open = self.open.iter().map(|ledger| &ledger.path);
        let paths = open.chain(&self.empty).map(|path| path.display().to_string());
        paths.collect::<Vec<_>>().join(" and ")
    }

    /// Returns the message for ledgers without runs.
    pub(crate) fn describe_empty(&self) -> String {
        format!(
            "{} holds no runs yet; `softland wrap -- CMD` and `softland serve` record them",
            self.names()
        )
    }

    /// Returns the files, and closes them.
    pub(crate) fn into_paths(self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.open.into_iter().map(|ledger| ledger.path).collect();
        paths.extend(self.empty);
        paths
    }

    /// Finds the runs by an id, the client's name for them, or the beginning of an id. Returns at
    /// least one run.
    ///
    /// # Errors
    /// Returns a failure that names the runs that there are.
    pub(crate) fn find_runs(&self, named: &str) -> Result<Vec<(&OpenLedger, Run)>, Failure> {
        let (mut begun, mut by_name) = (Vec::new(), Vec::new());
        let mut ids = Vec::new();
        for ledger in &self.open {
            match ledger.reader.find_run(named).map_err(read_failure)? {
                RunLookup::One(run) if run.run == named => return Ok(vec![(ledger, *run)]),
                RunLookup::One(run) => {
                    ids.push(run.run.clone());
                    begun.push((ledger, *run));
                }
                RunLookup::Several(several) => ids.extend(several),
                RunLookup::Nothing => {}
            }
            let runs = ledger.reader.find_named(named).map_err(read_failure)?;
            by_name.extend(runs.into_iter().map(|run| (ledger, run)));
        }
        if !by_name.is_empty() {
            return Ok(by_name);
        }
        match ids.len() {
            0 => Err(self.describe_missing(named)?),
            1 => Ok(begun),
            _ => Err(Failure::usage(format!(
                "`{named}` begins the ids of several runs: {}; write one of them out",
                ids.join(", ")
            ))),
        }
    }

    /// Returns the run with the newest record.
    pub(crate) fn find_latest(&self) -> Result<Option<(&OpenLedger, Run)>, Failure> {
        let mut latest: Option<(&OpenLedger, Run)> = None;
        for ledger in &self.open {
            let Some(run) = ledger.reader.find_latest().map_err(read_failure)? else { continue };
            if latest.as_ref().is_none_or(|(_, other)| run.last > other.last) {
                latest = Some((ledger, run));
            }
        }
        Ok(latest)
    }

    /// Returns the failure for a run that no ledger has.
    fn describe_missing(&self, named: &str) -> Result<Failure, Failure> {
        let mut newest = Vec::new();
        for OpenLedger { path, reader } in &self.open {
            let session = Some(named.to_owned());
            let of_session = Query { session, limit: Some(1), ..Query::default() };
            if reader.sum_unassigned(&of_session).map_err(read_failure)?.requests > 0
                || !reader.list_runs(&of_session).map_err(read_failure)?.is_empty()
            {
                return Ok(Failure::usage(format!(
                    "{} has no run `{named}`, but a session of that name: see \
                     `softland runs --session {named}`",
                    path.display()
                )));
            }
            let query = Query { limit: Some(NAMED), ..Query::default() };
            newest.extend(reader.list_runs(&query).map_err(read_failure)?);
        }
        newest.sort_by_key(|run| std::cmp::Reverse(run.started));
        newest.truncate(NAMED);
        let newest: Vec<_> = newest.into_iter().map(|run| run.run).collect();
        let files = self.names();
        let has = if self.open.len() + self.empty.len() > 1 { "have" } else { "has" };
        Ok(Failure::usage(match newest.as_slice() {
            [] => format!("{files} {has} no run `{named}`, and no other run"),
            ids => format!(
                "{files} {has} no run `{named}`; the newest are {} (`softland runs` lists more)",
                ids.join(", ")
            ),
        }))
    }
}

/// Returns the ledger that the arguments name, if they name one.
fn named_ledger(args: &LedgerArgs) -> Result<Option<PathBuf>, Failure> {
    if let Some(path) = &args.ledger {
        return Ok(Some(path.clone()));
    }
    let Some(file) = &args.config else { return Ok(None) };
    let config = Config::load(file).map_err(Failure::from_messages)?;
    match config.ledger_setting() {
        Some(LedgerSetting::Sqlite(path)) => Ok(Some(path.clone())),
        None => Ok(Some(PathBuf::from(LEDGER))),
        Some(LedgerSetting::Off) => Err(Failure::usage(format!(
            "{}: [ledger] is off; --ledger FILE names a ledger",
            file.display()
        ))),
    }
}

fn no_ledger() -> Failure {
    let default = ledger_file::default_ledger(&read_variable);
    let places = match &default {
        Some(path) => format!("neither {LEDGER} here nor {} exists", path.display()),
        None => format!("there is no {LEDGER} here"),
    };
    Failure::usage(format!(
        "there is no ledger yet: {places}. `softland wrap -- CMD` and `softland serve` write one; \
         --ledger FILE and --config FILE name another. `softland run` keeps its runs as journals: \
         `softland runs` lists them, `softland show last` shows one"
    ))
}

fn describe_absent(error: &OpenError) -> String {
    format!("{error}; without --ledger and --config, the default ledger is read")
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn read_failure(error: ReadError) -> Failure {
    Failure::usage(error.to_string())
}

/// Returns the ledger that `pages` shows: the named one, or else the default one, or else the one
/// in the current folder.
pub(crate) fn choose_shown(args: &LedgerArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = named_ledger(args)? {
        return Ok(path);
    }
    let default = ledger_file::default_ledger(&read_variable).filter(|path| path.exists());
    let here = || Some(PathBuf::from(LEDGER)).filter(|path| path.exists());
    default.or_else(here).ok_or_else(no_ledger)
}

/// Checks that a file is a ledger, and returns true if it holds contents of requests.
///
/// # Errors
/// Returns a failure if the file cannot be read.
pub(crate) fn inspect_ledger(path: &Path) -> Result<bool, Failure> {
    match Reader::open(path) {
        Ok(reader) => reader.has_contents().map_err(read_failure),
        Err(error) => match error.problem {
            OpenProblem::Empty => Ok(false),
            OpenProblem::Missing => Err(Failure::usage(describe_absent(&error))),
            _ => Err(Failure::usage(error.to_string())),
        },
    }
}
