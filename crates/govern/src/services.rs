//! The state that the requests of one host share: the way to the state that all hosts share, what
//! runs here, and those who are told.

use std::fmt;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::conversations::Conversations;
use crate::held::HeldLeases;
use crate::learned::KnownModels;
use crate::names::NameGenerator;
use crate::records::{Record, RunOwner, run_end_record};
use crate::running::RunningRequests;
use crate::runs::{EndedRun, RunCancellation, RunInfo, RunsToEnd};
use crate::shared::SharedState;
use crate::store::StoreError;
use crate::token_counts::TokenCounts;
use crate::unbooked::UnbookedSpend;
use crate::watcher::{Meter, UsageLabels, Watcher};

/// A clock: milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The state that the requests of one host share.
pub struct Services {
    /// The state that all hosts share: conversations, accounts of money, open runs.
    pub state: Arc<dyn SharedState>,
    /// The tables' entries for models.
    pub models: KnownModels,
    /// Token counts that providers have returned.
    pub counts: TokenCounts,
    /// Names for conversations and runs.
    pub names: NameGenerator,
    /// The order of requests in conversations that a provider stores.
    pub conversations: Conversations,
    /// The requests that run in this process.
    pub running: RunningRequests,
    /// The reservations that requests of this process hold.
    pub held: HeldLeases,
    /// What was spent while the accounts did not respond.
    pub unbooked: UnbookedSpend,
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
    pub async fn end_idle(&self) {
        self.end_runs(RunsToEnd::Idle { now: self.now() }).await;
    }

    /// Ends the runs whose state is lost with this process. A client that comes back later
    /// continues under another run name.
    pub async fn end_runs_without_state(&self) {
        self.end_runs(RunsToEnd::Lost { now: self.now() }).await;
    }

    async fn end_runs(&self, which: RunsToEnd) {
        match self.state.end_runs(which).await {
            Ok(ended) => ended.iter().for_each(|run| self.record_abandoned(run)),
            Err(error) => tracing::warn!(%error, "runs that nobody continues stay open"),
        }
    }

    /// Cancels an open run and its sub-agents: their running requests are given up, wherever they
    /// run, and further requests are refused. Returns the runs, the parent first; `None` if the run
    /// is not open.
    ///
    /// # Errors
    /// Returns an error if the shared state cannot be reached.
    pub async fn cancel_run(&self, run: &str) -> Result<Option<Vec<Arc<str>>>, StoreError> {
        let cancelled = self.state.cancel_run(run, self.now()).await?;
        let Some(RunCancellation { family, ended }) = cancelled else { return Ok(None) };
        // A run with a running request ends when that request is booked.
        family.iter().for_each(|member| self.running.stop_run(member));
        ended.iter().for_each(|run| self.record_abandoned(run));
        Ok(Some(family))
    }

    /// Gives up the requests of this process whose runs were cancelled, also by another process. A
    /// host calls this about once in a second.
    pub async fn stop_cancelled(&self) {
        let runs = self.running.list_runs();
        if runs.is_empty() {
            return;
        }
        match self.state.find_cancelled(&runs).await {
            Ok(cancelled) => cancelled.iter().for_each(|run| self.running.stop_run(run)),
            Err(error) => tracing::debug!(%error, "cancelled runs are not known"),
        }
    }

    /// Extends the leases of the reservations that this process holds. A host calls this every
    /// few seconds.
    pub async fn renew_leases(&self) {
        let held = self.held.list_ids();
        if held.is_empty() {
            return;
        }
        if let Err(error) = self.state.renew_leases(&held, self.now()).await {
            tracing::debug!(%error, "leases are not renewed");
        }
    }

    /// Records the end of a run that nobody continues.
    pub(crate) fn record_abandoned(&self, run: &EndedRun) {
        let (now, ended) = (self.now(), run.totals.abandoned_end());
        let RunInfo { model, policy, account, .. } = &*run.info;
        let labels = UsageLabels { model, policy, account: account.as_ref() };
        self.meter.count_ended_run(ended.outcome, labels);
        self.write_record(|| {
            let owner = RunOwner::from(&*run.info);
            run_end_record(now, (&run.run, owner), ended, false, None, &run.totals)
        });
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
        f.debug_struct("Services").field("running", &self.running).finish_non_exhaustive()
    }
}
