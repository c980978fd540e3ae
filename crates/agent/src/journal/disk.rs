//! The journal of a tree of runs, and what is recorded in it.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::file::{self, RecordedRuns};
use super::log::{FileLog, NewRecord, RecordLog};
use super::record::{ParentCall, Record, StartRecord};
use super::recorded_run::RecordedRun;
use super::{EffectPermit, JournalError, JournalErrorKind, RunJournal, lock_unpoisoned};

/// The file of a journal, locked while it is open.
///
/// A run is recorded as it goes. Opened again, the journal resumes the run where it was; a run that
/// has ended gives its answer again, and nothing is sent.
///
/// ```
/// use std::sync::Arc;
///
/// use softland_agent::testing::{ScriptedModel, ScriptedReply};
/// use softland_agent::{Agent, Conversation, Journal};
/// use tokio_util::sync::CancellationToken;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("run.ndjson");
/// // The model answers once: the second time the answer comes from the journal.
/// let model = ScriptedModel::new([ScriptedReply::from_text("Four euros.")]);
/// let agent = Agent::new("analyst", "test/script", Arc::new(model));
/// let cancel = CancellationToken::new();
/// for journal in [Journal::create, Journal::open] {
///     let run = journal(&path)?.root_run("run-1");
///     let mut conversation = Conversation::new();
///     let report =
///         agent.run_in_journal(&run, &mut conversation, "The price?", &mut |_| {}, &cancel).await?;
///     assert_eq!(report.answer.as_deref(), Some("Four euros."));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Journal {
    inner: Arc<JournalState>,
}

struct JournalState {
    path: PathBuf,
    log: Arc<dyn RecordLog>,
    /// The log, if it is a file.
    file: Option<Arc<FileLog>>,
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
    pub(super) fn with_runs(
        path: &Path,
        file: Option<file::RecordWriter>,
        runs: RecordedRuns,
    ) -> Self {
        let closed = file.is_none();
        let file = Arc::new(FileLog::new(file.unwrap_or_else(|| Box::new(std::io::sink()))));
        let log: Arc<dyn RecordLog> = Arc::<FileLog>::clone(&file);
        Self::from_parts(path, log, (Some(file), closed), runs)
    }

    /// Creates the journal of a run whose records are in `log`. `name` stands for the journal in
    /// errors; `recorded` are the records that were stored, one a line. A recorded end is final.
    ///
    /// # Errors
    /// Returns an error if a line is not a record.
    pub(crate) fn from_log(
        name: &str,
        log: Arc<dyn RecordLog>,
        recorded: &[u8],
    ) -> Result<Self, JournalError> {
        let name = Path::new(name);
        let runs = file::read_lines(name, recorded, RecordedRuns::with_final_ends())?.0;
        Ok(Self::from_parts(name, log, (None, false), runs))
    }

    fn from_parts(
        path: &Path,
        log: Arc<dyn RecordLog>,
        (file, closed): (Option<Arc<FileLog>>, bool),
        runs: RecordedRuns,
    ) -> Self {
        let (path, failure, runs) = (path.to_owned(), Mutex::default(), Mutex::new(runs));
        let (behind, caught_up) = (Mutex::default(), Notify::new());
        let state = JournalState { path, log, file, failure, closed, runs, behind, caught_up };
        Self { inner: Arc::new(state) }
    }

    /// Returns the journal with another writer around its file, to count, copy or refuse records.
    #[must_use]
    pub fn with_writer(
        self,
        wrap: impl FnOnce(Box<dyn Write + Send>) -> Box<dyn Write + Send>,
    ) -> Self {
        if let Some(file) = &self.inner.file {
            file.wrap_writer(wrap);
        }
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
    pub(super) fn child_run(&self, parent: ParentCall, new: impl FnOnce() -> String) -> RunJournal {
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
    pub(super) fn recorded_children(&self) -> Vec<StartRecord> {
        let runs = lock_unpoisoned(&self.inner.runs);
        let child = |past: &RecordedRun| past.start.clone().filter(|start| start.parent.is_some());
        runs.runs.values().filter_map(child).collect()
    }

    /// Collects the runs at and below `run` that have records to replay. None of them does anything
    /// new before all have caught up.
    pub(super) fn collect_runs(&self, run: &str, past: &RecordedRun) {
        *lock_unpoisoned(&self.inner.behind) =
            lock_unpoisoned(&self.inner.runs).left_below(run, past);
    }

    /// Notes that a run has replayed all its records.
    pub(super) fn mark_caught_up(&self, run: &str) {
        lock_unpoisoned(&self.inner.behind).remove(run);
        self.inner.caught_up.notify_waiters();
    }

    /// Waits until every run of the tree has replayed all its records; what they hold and have
    /// spent is not known before. Also returns if the journal has failed, since then nothing new is
    /// written.
    pub(super) async fn wait_until_caught_up(&self) {
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

    /// Returns true if nothing is ever written to the journal.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.closed
    }

    /// Writes one record as a whole.
    pub(super) fn append_record<R: Record>(
        &self,
        run: &str,
        ms: u64,
        record: &R,
    ) -> Result<(), JournalError> {
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
        let written = file::record_line(run, ms, record).and_then(|line| {
            let record = NewRecord { run, kind: R::KIND, line: &line };
            self.inner.log.append_record(record)
        });
        written.map_err(|error| {
            self.record_failure(JournalError::from_io(self.path(), "written", &error))
        })
    }

    /// Waits until a request or a call may begin.
    pub(super) async fn begin_effect(&self) -> Option<EffectPermit> {
        self.inner.log.begin_effect().await
    }

    /// Waits until what was written outlives this process.
    pub(super) async fn wait_until_stored(&self) {
        self.inner.log.wait_until_stored().await;
    }

    /// Returns the largest result of a call that is kept, in bytes; `None` without a limit.
    pub(super) fn result_limit(&self) -> Option<usize> {
        self.inner.log.result_limit()
    }

    /// Returns true if a person can resume a run from the journal.
    pub(super) fn is_resumable(&self) -> bool {
        self.inner.log.is_resumable()
    }

    /// Stores an error unless there is an earlier one. Returns the first error.
    fn record_failure(&self, error: JournalError) -> JournalError {
        let error = lock_unpoisoned(&self.inner.failure).get_or_insert(error).clone();
        self.inner.caught_up.notify_waiters();
        error
    }

    pub(super) fn mismatch_error(&self, record: &'static str, turn: u64, by: &str) -> JournalError {
        let kind = JournalErrorKind::Differs { record, turn, by: by.to_owned() };
        self.record_failure(JournalError::new(self.path(), kind))
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("path", &self.inner.path).finish_non_exhaustive()
    }
}
