//! The ledgers that `runs`, `show` and `pages` read: the named one, or else the one in the current
//! folder and the default one, those that exist.

use std::path::PathBuf;

use softland_ledger::{
    LedgerPlace, OpenError, OpenProblem, Query, ReadError, Reader, Run, RunLookup,
};

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
    /// The ledgers to which nothing was written yet.
    empty: Vec<LedgerPlace>,
}

/// A ledger that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenLedger {
    pub(crate) place: LedgerPlace,
    pub(crate) reader: Reader,
}

impl Ledgers {
    /// Opens the ledgers. If nobody named one, those that cannot be read cause warnings, as long as
    /// another one can.
    ///
    /// # Errors
    /// Returns a failure if there is no ledger, or none can be read.
    pub(crate) fn open(args: &LedgerArgs, writer: &Writer) -> Result<Self, Failure> {
        let places = match named_ledger(args)? {
            Some(place) => vec![place],
            None => ledger_file::list_readable(&read_variable)?,
        };
        if places.is_empty() {
            return Err(no_ledger());
        }
        let (mut found, mut problems) = (Self::default(), Vec::new());
        for place in places {
            match Reader::open(&place) {
                Ok(reader) => found.open.push(OpenLedger { place, reader }),
                Err(error) => match error.problem {
                    OpenProblem::Empty => found.empty.push(place),
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
            || ledger_file::list_readable(&read_variable).is_ok_and(|places| !places.is_empty())
    }

    /// Returns the places, for messages.
    pub(crate) fn names(&self) -> String {
        let open = self.open.iter().map(|ledger| &ledger.place);
        let places = open.chain(&self.empty).map(LedgerPlace::to_string);
        places.collect::<Vec<_>>().join(" and ")
    }

    /// Returns the message for ledgers without runs.
    pub(crate) fn describe_empty(&self) -> String {
        format!(
            "{} holds no runs yet; `softland wrap -- CMD` and `softland serve` record them",
            self.names()
        )
    }

    /// Returns the places, and closes the ledgers.
    pub(crate) fn into_places(self) -> Vec<LedgerPlace> {
        let mut places: Vec<_> = self.open.into_iter().map(|ledger| ledger.place).collect();
        places.extend(self.empty);
        places
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
        for OpenLedger { place, reader } in &self.open {
            let session = Some(named.to_owned());
            let of_session = Query { session, limit: Some(1), ..Query::default() };
            if reader.sum_unassigned(&of_session).map_err(read_failure)?.requests > 0
                || !reader.list_runs(&of_session).map_err(read_failure)?.is_empty()
            {
                return Ok(Failure::usage(format!(
                    "{place} has no run `{named}`, but a session of that name: see \
                     `softland runs --session {named}`"
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
fn named_ledger(args: &LedgerArgs) -> Result<Option<LedgerPlace>, Failure> {
    if let Some(named) = &args.ledger {
        return ledger_file::named_place(named).map(Some);
    }
    let Some(file) = &args.config else { return Ok(None) };
    let config = Config::load(file).map_err(Failure::from_messages)?;
    match config.resolve_ledger(&read_variable).map_err(Failure::from_messages)? {
        Some(LedgerSetting::At(place)) => Ok(Some(place)),
        None => Ok(Some(PathBuf::from(LEDGER).into())),
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
pub(crate) fn choose_shown(args: &LedgerArgs) -> Result<LedgerPlace, Failure> {
    if let Some(place) = named_ledger(args)? {
        return Ok(place);
    }
    if let Some(place) = ledger_file::read_address(&read_variable)? {
        return Ok(place);
    }
    let default = ledger_file::default_ledger(&read_variable).filter(|path| path.exists());
    let here = || Some(PathBuf::from(LEDGER)).filter(|path| path.exists());
    default.or_else(here).map(LedgerPlace::from).ok_or_else(no_ledger)
}

/// Checks that there is a ledger, and returns true if it holds contents of requests.
///
/// # Errors
/// Returns a failure if the ledger cannot be read.
pub(crate) fn inspect_ledger(place: &LedgerPlace) -> Result<bool, Failure> {
    match Reader::open(place) {
        Ok(reader) => reader.has_contents().map_err(read_failure),
        Err(error) => match error.problem {
            OpenProblem::Empty => Ok(false),
            OpenProblem::Missing => Err(Failure::usage(describe_absent(&error))),
            _ => Err(Failure::usage(error.to_string())),
        },
    }
}
