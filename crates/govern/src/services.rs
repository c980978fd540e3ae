//! The state that the requests of one host share: what is stored, what has been learned, which runs
//! are open, and those who are told.

use std::fmt;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::conversations::Conversations;
use crate::learned::KnownModels;
use crate::names::NameGenerator;
use crate::records::{Record, run_end_record};
use crate::runs::{OpenRun, Runs};
use crate::shared::{SharedState, StateNote};
use crate::token_counts::TokenCounts;
use crate::watcher::{Meter, Watcher};

/// A clock: milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The state that the requests of one host share.
pub struct Services {
    /// The state that transcripts cannot show, and the accounts of money.
    pub state: Arc<dyn SharedState>,
    /// The tables' entries for models.
    pub models: KnownModels,
    /// Token counts that providers have returned.
    pub counts: TokenCounts,
    /// Names for conversations and runs.
    pub names: NameGenerator,
    /// The order of requests in conversations that a provider stores.
    pub conversations: Conversations,
    /// The runs that are open now.
    pub runs: Runs,
    /// Running streams, whose spend is not booked yet.
    pub tasks: TaskTracker,
    /// Counts what happens.
    pub meter: Arc<dyn Meter>,
    /// Gets the records, and shows runs to whoever watches them.
    pub watcher: Arc<dyn Watcher>,
    /// The wall clock.
    pub clock: Clock,
}

impl Services {
    /// Returns the time in milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Ends the runs that have had no request for too long.
    pub fn end_idle(&self) {
        let now = self.now();
        for (run, open) in self.runs.take_idle(now) {
            self.record_abandoned(now, &run, &open);
        }
    }

    /// Ends all open runs. Their state is lost with this process, so a client that comes back later
    /// continues under another run name.
    pub fn end_all(&self) {
        let now = self.now();
        for (run, open) in self.runs.take_all() {
            self.record_abandoned(now, &run, &open);
        }
    }

    /// Ends a run that another run continues, unless it has ended already.
    pub fn end_superseded(&self, run: &str) {
        if let Some(open) = self.runs.remove_run(run) {
            self.record_abandoned(self.now(), run, &open);
        }
    }

    /// Marks a run as cancelled, so that it cannot continue.
    pub fn mark_cancelled(&self, run: &str) {
        let here = self.runs.newest_context(run);
        self.state.take_note(StateNote::Cancelled { run: run.into(), here });
    }

    /// Records the end of a run that nobody continues.
    fn record_abandoned(&self, now: u64, run: &str, open: &OpenRun) {
        let ended = open.abandoned_end();
        self.meter.count_ended_run(ended.outcome);
        self.runs.record_ended(run, open, &ended, false, now);
        self.write_record(|| run_end_record(now, run, ended, false, None, open));
    }

    /// Hands a record to the watcher, if it wants records.
    pub(crate) fn write_record<'a>(&self, record: impl FnOnce() -> Record<'a>) {
        if self.watcher.wants_records() {
            self.watcher.write_record(record());
        }
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("runs", &self.runs).finish_non_exhaustive()
    }
}
