//! The journal of a run: what happened and what was decided, written before it takes effect.
//!
//! A record is one line, written with one call and not synchronised: it outlives the process, but
//! not the machine. It holds facts (what came from a model, what a tool returned, what time it was)
//! and the decisions that followed from them. A resumed run makes every decision again, by the same
//! code, with the recorded facts in place of the world. If a decision differs from the recorded
//! one, the run ends with an error. `docs/runs.md` describes the format.
//!
//! One file holds a whole tree of runs, in the order in which their records were written. The runs
//! of a tree are resumed together: each replays its own records, and none does anything new before
//! all of them have caught up, because what one run may spend depends on what the others hold. A
//! [`Journal`] is the file; a [`RunJournal`] is the part of one run. Both are cheap to clone and
//! may be used concurrently.

mod bytes;
mod error;
mod file;
mod record;
mod recorded_run;
mod replay;
mod run;
mod stored_call;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use softland_session::core::NanoUsd;
use tokio::sync::Notify;

use crate::event::Report;
use file::RecordedRuns;
use record::Record;
use recorded_run::RecordedRun;

pub use error::{JournalError, JournalErrorKind};
pub(crate) use record::{
    CallRecord, CallResultRecord, RequestRecord, ResponseEnd, ResponseRecord, RoundRecord,
    TurnEndRecord, WorstCase,
};
pub use record::{ParentCall, RecordedToolDef, StartRecord};
pub(crate) use recorded_run::RequestOutcome;
pub use replay::ReplayedJournal;
pub(crate) use run::{CallDecision, RunClock, response_body};
pub use run::{RunJournal, new_run_id, now_rfc3339};
pub use stored_call::{CallPosition, StoredCall, StoredResult};

/// The file of a journal, locked while it is open.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<JournalState>,
}

struct JournalState {
    path: PathBuf,
    file: Mutex<file::RecordWriter>,
    /// The first failure; after it nothing is written any more.
    failure: Mutex<Option<JournalError>>,
    /// True if nothing is ever written to the journal.
    closed: bool,
    runs: Mutex<RecordedRuns>,
    /// The runs that have not yet replayed all their records.
    behind: Mutex<BTreeSet<String>>,
    /// Notified when a run has replayed all its records.
    caught_up: Notify,
}

/// The end of a finished run.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The run's id.
    pub run: String,
    /// The end of the run.
    pub report: Report,
    /// The number of the run's terminal event.
    pub seq: u64,
    /// The turn of that event.
    pub turn: u64,
}

impl Journal {
    /// Begins a journal in a new file, with mode 0600 on systems with file modes.
    ///
    /// # Errors
    /// Returns an error if the file is not empty, is in use or cannot be created.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        Ok(Self::with_runs(path, Some(Box::new(file::create_file(path)?)), RecordedRuns::default()))
    }

    /// Opens the journal of a run that is to be resumed. An incomplete last line is dropped.
    ///
    /// # Errors
    /// Returns an error if the file is in use, damaged or unreadable, or if no run was begun in it.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let (file, mut runs) = file::open_file(path)?;
        runs.reopen_tree();
        if runs.root.is_none() {
            return Err(JournalError::new(path, JournalErrorKind::Empty));
        }
        Ok(Self::with_runs(path, Some(Box::new(file)), runs))
    }

    /// Creates a journal with these runs. Without a file nothing is written.
    fn with_runs(path: &Path, file: Option<file::RecordWriter>, runs: RecordedRuns) -> Self {
        let closed = file.is_none();
        let file = file.unwrap_or_else(|| Box::new(std::io::sink()));
        let (file, failure, runs) = (Mutex::new(file), Mutex::default(), Mutex::new(runs));
        let (behind, caught_up) = (Mutex::default(), Notify::new());
        let path = path.to_owned();
        Self {
            inner: Arc::new(JournalState { path, file, failure, closed, runs, behind, caught_up }),
        }
    }

    /// Returns the journal with another writer around its file, to count, copy or refuse records.
    #[must_use]
    pub fn with_writer(
        self,
        wrap: impl FnOnce(Box<dyn Write + Send>) -> Box<dyn Write + Send>,
    ) -> Self {
        let mut file = lock_unpoisoned(&self.inner.file);
        let inner = std::mem::replace(&mut *file, Box::new(std::io::sink()));
        *file = wrap(inner);
        drop(file);
        self
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the run without a parent: the recorded one, or a new one with the id `new`.
    #[must_use]
    pub fn root_run(&self, new: &str) -> RunJournal {
        let mut runs = lock_unpoisoned(&self.inner.runs);
        let run = runs.root.clone().unwrap_or_else(|| new.to_owned());
        let ms = runs.tree_millis();
        let past = RecordedRun { ms, ..runs.runs.remove(&run).unwrap_or_default() };
        RunJournal::from_parts(Some(self.clone()), run, None, past)
    }

    /// Returns the run that answers a call: the recorded one, or a new one.
    fn child_run(&self, parent: ParentCall, new: impl FnOnce() -> String) -> RunJournal {
        let mut runs = lock_unpoisoned(&self.inner.runs);
        let known = runs.children.get(&parent).cloned();
        let past = known.as_ref().and_then(|run| runs.runs.remove(run)).unwrap_or_default();
        let run = known.unwrap_or_else(new);
        RunJournal::from_parts(Some(self.clone()), run, Some(parent), past)
    }

    /// Returns the first failure, if any. After a failure nothing is written any more.
    #[must_use]
    pub fn failure(&self) -> Option<JournalError> {
        lock_unpoisoned(&self.inner.failure).clone()
    }

    /// Returns the start records of all recorded sub-agent runs.
    fn recorded_children(&self) -> Vec<StartRecord> {
        let runs = lock_unpoisoned(&self.inner.runs);
        let child = |past: &RecordedRun| past.start.clone().filter(|start| start.parent.is_some());
        runs.runs.values().filter_map(child).collect()
    }

    /// Collects the runs at and below `run` that have records to replay. None of them does anything
    /// new before all have caught up.
    fn collect_runs(&self, run: &str, past: &RecordedRun) {
        *lock_unpoisoned(&self.inner.behind) =
            lock_unpoisoned(&self.inner.runs).left_below(run, past);
    }

    /// Notes that a run has replayed all its records.
    fn mark_caught_up(&self, run: &str) {
        lock_unpoisoned(&self.inner.behind).remove(run);
        self.inner.caught_up.notify_waiters();
    }

    /// Waits until every run of the tree has replayed all its records; what they hold and have
    /// spent is not known before. Also returns if the journal has failed, since then nothing new is
    /// written.
    async fn wait_until_caught_up(&self) {
        loop {
            let changed = self.inner.caught_up.notified();
            tokio::pin!(changed);
            // A change between the look and the wait is not missed.
            changed.as_mut().enable();
            if lock_unpoisoned(&self.inner.behind).is_empty() || self.failure().is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Writes one record as a whole.
    fn append_record<R: Record>(&self, run: &str, ms: u64, record: &R) -> Result<(), JournalError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.inner.closed {
            let closed = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(self.record_failure(JournalError::from_io(
                self.path(),
                "written",
                &closed,
            )));
        }
        let mut file = lock_unpoisoned(&self.inner.file);
        let written = file::record_line(run, ms, record).and_then(|line| file.write_all(&line));
        drop(file);
        written.map_err(|error| {
            self.record_failure(JournalError::from_io(self.path(), "written", &error))
        })
    }

    /// Stores an error unless there is an earlier one. Returns the first error.
    fn record_failure(&self, error: JournalError) -> JournalError {
        let error = lock_unpoisoned(&self.inner.failure).get_or_insert(error).clone();
        self.inner.caught_up.notify_waiters();
        error
    }

    fn mismatch_error(&self, record: &'static str, turn: u64, by: &str) -> JournalError {
        let kind = JournalErrorKind::Differs { record, turn, by: by.to_owned() };
        self.record_failure(JournalError::new(self.path(), kind))
    }
}

/// The content of a journal that is read but not opened, also while its run is active.
#[derive(Debug)]
pub struct JournalSummary {
    /// The id of the root run.
    pub run: String,
    /// The start record of the root run.
    pub start: StartRecord,
    /// The end of the root run; `None` while it is active.
    pub finished: Option<FinishedRun>,
    past: RecordedRun,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// The turns that have begun.
    pub turns: u64,
    /// The requests that were sent.
    pub requests: u64,
    /// The calls that have begun.
    pub calls: u64,
    /// The cost of the finished turns; `None` if the model has no price.
    pub cost: Option<NanoUsd>,
}

impl JournalSummary {
    /// Returns true if a process is working on the journal's runs.
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        file::is_in_use(path)
    }

    /// Reads a journal without locking it.
    ///
    /// # Errors
    /// Returns the errors of [`Journal::open`], except that the journal may be in use.
    pub fn from_path(path: &Path) -> Result<Self, JournalError> {
        let mut runs = file::read_only(path)?;
        let empty = || JournalError::new(path, JournalErrorKind::Empty);
        let run = runs.root.take().ok_or_else(empty)?;
        let mut past = runs.runs.remove(&run).ok_or_else(empty)?;
        let finished = past.end.as_ref().map(|end| FinishedRun {
            run: run.clone(),
            report: Report { failure: end.failure.clone(), ..*end.report.clone() },
            seq: end.seq,
            turn: end.turn,
        });
        Ok(Self { run, start: past.start.take().ok_or_else(empty)?, finished, past })
    }

    /// Returns what each turn added to the conversation.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (&TurnEndRecord, Option<&RoundRecord>)> {
        self.past.took.values().map(|took| (took, self.past.rounds.get(&took.turn)))
    }

    /// Returns the time at which the run began, in milliseconds since 1970.
    #[must_use]
    pub fn began_millis(&self) -> Option<u64> {
        let at = self.start.ts.parse::<jiff::Timestamp>().ok()?;
        u64::try_from(at.as_millisecond()).ok()
    }

    /// Returns the progress of the root run, without its sub-agents.
    #[must_use]
    pub fn run_progress(&self) -> RunProgress {
        let RecordedRun { turns, requests, calls, took, .. } = &self.past;
        RunProgress {
            turns: turns.len() as u64,
            requests: requests.values().filter(|asked| asked.request.is_some()).count() as u64,
            calls: calls.len() as u64,
            cost: self
                .start
                .price
                .map(|_| NanoUsd(took.values().last().map_or(0, |took| took.nano))),
        }
    }

    /// Returns the settings that the program stored when it began the run.
    #[must_use]
    pub fn setup(&self) -> &Value {
        &self.start.setup
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.inner.path).finish_non_exhaustive()
    }
}

/// No lock is held over code that panics. The data behind a poisoned lock would be intact.
fn lock_unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
