//! The journal of a run: what happened and what was decided, written before it takes effect.
//!
//! A record is one line, written with one call and not synchronised: it outlives the process, not
//! the machine. It holds facts (what came from a model, what a tool gave, what time it was) and,
//! beside them, what was decided on them. A run that is gone on with comes to every decision
//! again, by the same code, with the recorded facts in the place of the world; where it comes to
//! another one than was recorded, it ends with an error. `docs/runs.md` has the format.
//!
//! One file holds a whole tree of runs, in the order in which its records were written. Its runs are
//! gone on with together: each comes to its own records again, and none does anything new before
//! all have, since what one may spend depends on what the others hold. A [`Journal`] is the file, a [`RunJournal`] the part of
//! one run; both are cheap to clone and may be used at the same time.

mod bytes;
mod call;
mod error;
mod file;
mod past;
mod recall;
mod record;
mod run;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use softland_session::core::NanoUsd;
use tokio::sync::Notify;

use crate::event::Report;
use file::Runs;
use past::Past;
use record::Record;

pub use call::{KeptCall, KeptResult, Place};
pub use error::{JournalError, JournalErrorKind};
pub(crate) use past::Known;
pub use recall::Recalled;
pub(crate) use record::{Call, CallResult, Came, CameTo, Request, Reserve, Round, Took};
pub use record::{Parent, Start, Told};
pub(crate) use run::{Clock, Fate, body};
pub use run::{RunJournal, new_id, now};

/// A journal's file, locked while it is open.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    file: Mutex<file::Writer>,
    /// What went wrong first: after that nothing is written any more.
    failure: Mutex<Option<JournalError>>,
    /// Nothing is written to it at all.
    closed: bool,
    runs: Mutex<Runs>,
    /// Runs that have not come to the end of what is recorded of them.
    behind: Mutex<BTreeSet<String>>,
    /// One of them has.
    caught_up: Notify,
}

/// What a finished run came to.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The run.
    pub run: String,
    /// How it ended.
    pub report: Report,
    /// The number and the turn of the event that said so.
    pub seq: u64,
    /// The turn of that event.
    pub turn: u64,
}

impl Journal {
    /// Begins a journal in a new file, with mode 0600 where there are modes.
    ///
    /// # Errors
    /// A file that is not empty, is in use, or cannot be made.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        Ok(Self::over(path, Some(Box::new(file::create(path)?)), Runs::default()))
    }

    /// Opens the journal of a run that is to be gone on with. A last line that was not written
    /// whole is dropped.
    ///
    /// # Errors
    /// A file that is in use, damaged or cannot be read, or in which no run was begun.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let (file, mut runs) = file::open(path)?;
        runs.reopen();
        if runs.root.is_none() {
            return Err(JournalError::new(path, JournalErrorKind::Empty));
        }
        Ok(Self::over(path, Some(Box::new(file)), runs))
    }

    /// A journal of these runs; without a file nothing is written to it.
    fn over(path: &Path, file: Option<file::Writer>, runs: Runs) -> Self {
        let closed = file.is_none();
        let file = file.unwrap_or_else(|| Box::new(std::io::sink()));
        let (file, failure, runs) = (Mutex::new(file), Mutex::default(), Mutex::new(runs));
        let (behind, caught_up) = (Mutex::default(), Notify::new());
        let path = path.to_owned();
        Self { inner: Arc::new(Inner { path, file, failure, closed, runs, behind, caught_up }) }
    }

    /// The same, its records written through something else: to count, copy or refuse them.
    #[must_use]
    pub fn through(
        self,
        wrap: impl FnOnce(Box<dyn Write + Send>) -> Box<dyn Write + Send>,
    ) -> Self {
        let mut file = lock(&self.inner.file);
        let inner = std::mem::replace(&mut *file, Box::new(std::io::sink()));
        *file = wrap(inner);
        drop(file);
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The run that is no other's child: the recorded one, or a new one of this name.
    #[must_use]
    pub fn root(&self, new: &str) -> RunJournal {
        let mut runs = lock(&self.inner.runs);
        let run = runs.root.clone().unwrap_or_else(|| new.to_owned());
        let ms = runs.ms();
        let past = Past { ms, ..runs.runs.remove(&run).unwrap_or_default() };
        RunJournal::of(Some(self.clone()), run, None, past)
    }

    /// The run that answers a call: the recorded one, or a new one.
    fn child(&self, parent: Parent, new: impl FnOnce() -> String) -> RunJournal {
        let mut runs = lock(&self.inner.runs);
        let known = runs.children.get(&parent).cloned();
        let past = known.as_ref().and_then(|run| runs.runs.remove(run)).unwrap_or_default();
        let run = known.unwrap_or_else(new);
        RunJournal::of(Some(self.clone()), run, Some(parent), past)
    }

    /// What went wrong, if something did: then nothing is written any more.
    #[must_use]
    pub fn failure(&self) -> Option<JournalError> {
        lock(&self.inner.failure).clone()
    }

    /// What the children that are recorded were begun with.
    fn children(&self) -> Vec<Start> {
        let runs = lock(&self.inner.runs);
        let child = |past: &Past| past.start.clone().filter(|start| start.parent.is_some());
        runs.runs.values().filter_map(child).collect()
    }

    /// A run is driven: it and those below it come to what is recorded of them, before any of them
    /// goes on.
    fn gather(&self, run: &str, past: &Past) {
        *lock(&self.inner.behind) = lock(&self.inner.runs).left_below(run, past);
    }

    /// A run has come to the end of what is recorded of it.
    fn is_through(&self, run: &str) {
        lock(&self.inner.behind).remove(run);
        self.inner.caught_up.notify_waiters();
    }

    /// Waits until every run of the tree has come to the end of what is recorded of it: what they
    /// hold and have spent is not known before. Where the journal has failed, nothing goes on.
    async fn caught_up(&self) {
        loop {
            let changed = self.inner.caught_up.notified();
            tokio::pin!(changed);
            // What changes between the look and the wait is not missed.
            changed.as_mut().enable();
            if lock(&self.inner.behind).is_empty() || self.failure().is_some() {
                return;
            }
            changed.await;
        }
    }

    /// Writes one record, whole.
    fn append<R: Record>(&self, run: &str, ms: u64, record: &R) -> Result<(), JournalError> {
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if self.inner.closed {
            let closed = std::io::ErrorKind::ReadOnlyFilesystem.into();
            return Err(self.fail(JournalError::io(self.path(), "written", &closed)));
        }
        let mut file = lock(&self.inner.file);
        let written = file::line(run, ms, record).and_then(|line| file.write_all(&line));
        drop(file);
        written.map_err(|error| self.fail(JournalError::io(self.path(), "written", &error)))
    }

    /// Keeps what went wrong first.
    fn fail(&self, error: JournalError) -> JournalError {
        let error = lock(&self.inner.failure).get_or_insert(error).clone();
        self.inner.caught_up.notify_waiters();
        error
    }

    fn differs(&self, record: &'static str, turn: u64, by: &str) -> JournalError {
        let kind = JournalErrorKind::Differs { record, turn, by: by.to_owned() };
        self.fail(JournalError::new(self.path(), kind))
    }
}

/// What a journal says without being opened for more: also while its run is under way.
#[derive(Debug)]
pub struct Glance {
    /// The root run's id.
    pub run: String,
    /// What it was begun with.
    pub start: Start,
    /// How it ended, if it has.
    pub finished: Option<Finished>,
    past: Past,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoFar {
    /// Turns that have begun.
    pub turns: u64,
    /// Requests that were sent.
    pub requests: u64,
    /// Calls that have begun.
    pub calls: u64,
    /// What its finished turns cost; `None` where its model has no price.
    pub cost: Option<NanoUsd>,
}

impl Glance {
    /// Whether a process is at work on the journal's runs.
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        file::is_in_use(path)
    }

    /// Reads a journal.
    ///
    /// # Errors
    /// As [`Journal::open`], but that it may be in use.
    pub fn at(path: &Path) -> Result<Self, JournalError> {
        let mut runs = file::peek(path)?;
        let empty = || JournalError::new(path, JournalErrorKind::Empty);
        let run = runs.root.take().ok_or_else(empty)?;
        let mut past = runs.runs.remove(&run).ok_or_else(empty)?;
        let finished = past.end.as_ref().map(|end| Finished {
            run: run.clone(),
            report: Report { failure: end.failure.clone(), ..*end.report.clone() },
            seq: end.seq,
            turn: end.turn,
        });
        Ok(Self { run, start: past.start.take().ok_or_else(empty)?, finished, past })
    }

    /// What the run added to its conversation, turn by turn.
    pub(crate) fn turns(&self) -> impl Iterator<Item = (&Took, Option<&Round>)> {
        self.past.took.values().map(|took| (took, self.past.rounds.get(&took.turn)))
    }

    /// When the run began, in milliseconds since 1970.
    #[must_use]
    pub fn began(&self) -> Option<u64> {
        let at = self.start.ts.parse::<jiff::Timestamp>().ok()?;
        u64::try_from(at.as_millisecond()).ok()
    }

    /// How far the run itself has come, its sub-agents aside.
    #[must_use]
    pub fn so_far(&self) -> SoFar {
        let Past { turns, requests, calls, took, .. } = &self.past;
        SoFar {
            turns: turns.len() as u64,
            requests: requests.values().filter(|asked| asked.request.is_some()).count() as u64,
            calls: calls.len() as u64,
            cost: self
                .start
                .price
                .map(|_| NanoUsd(took.values().last().map_or(0, |took| took.nano))),
        }
    }

    /// What whoever began the run has left there.
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

/// No lock is held over anything that panics; were one poisoned, what it holds is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
