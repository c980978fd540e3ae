//! The shared state of one process, in its memory.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;
use softland_session::{ChainLink, ShownResponse};

use super::run_book::RunBook;
use super::{Closed, Closing, Grant, ReserveQuery, Reserved, SharedState, ShownLink, StateNote};
use crate::learned::LessonBook;
use crate::money::accounts::{
    Accounts, AccountsUnavailable, Claim, Lease, LeaseStore, MemoryAccounts, ReservationAmounts,
    ReservationId, ReservationTerms, WaitLimits, WindowState,
};
use crate::recall::{RecallQuery, Recalled, recall_from};
use crate::runs::{EndedRun, RunCancellation, RunList, RunSnapshot, RunsToEnd};
use crate::store::{MemoryStore, Store, StoreError};

/// The state of one process, in its memory.
#[derive(Debug, Default)]
pub struct LocalState {
    store: MemoryStore,
    accounts: MemoryAccounts,
    lessons: LessonBook,
    runs: Mutex<RunBook>,
}

impl LocalState {
    /// Creates a state that outlives those who use it: reservations that nobody settles end with
    /// their leases.
    #[must_use]
    pub fn with_expiring_leases() -> Self {
        Self { accounts: MemoryAccounts::with_expiring_leases(), ..Self::default() }
    }

    fn lock_runs(&self) -> MutexGuard<'_, RunBook> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SharedState for LocalState {
    async fn recall(&self, query: RecallQuery) -> Result<Recalled, StoreError> {
        let lessons = self.lessons.find_lessons(&query.model);
        let mut recalled = recall_from(&self.store, query).await?;
        let cancelled = self.lock_runs().find_cancelled(|run| recalled.names_run(run));
        (recalled.lessons, recalled.cancelled) = (lessons, cancelled);
        Ok(recalled)
    }

    async fn recall_links(
        &self,
        id: &str,
        most: usize,
    ) -> Result<Option<Vec<ChainLink>>, StoreError> {
        let mut links = Vec::new();
        let (mut next, mut bytes) = (Some(id.to_owned()), 0);
        while let Some(id) = next {
            let known = if bytes > most { None } else { self.store.find_link(&id).await? };
            let Some(link) = known else { return Ok(None) };
            // The id counts, too, so that many empty links do not add up to nothing.
            bytes += link.items.len() + id.len();
            next = link.before.clone();
            links.push(Arc::unwrap_or_clone(link));
        }
        links.reverse();
        Ok(Some(links))
    }

    async fn reserve(&self, wanted: ReserveQuery) -> Result<Reserved, AccountsUnavailable> {
        let ReserveQuery { id, at, lease, claims, ask, patience, spent_before, opens } = wanted;
        if spent_before > NanoUsd::ZERO {
            let without_window = claims.iter().filter(|claim| claim.window.is_none());
            let free = without_window.map(|claim| claim.clone().without_limits()).collect();
            let nothing = ReservationAmounts::from_exact(NanoUsd::ZERO);
            if let Ok(lease) = self.accounts.reserve_money(free, nothing, WaitLimits::NONE).await {
                lease.settle_cost(spent_before);
            }
        }
        let balances = self.accounts.read_claims(&claims, at);
        let terms = ReservationTerms { id: Some(id), at, lease };
        let leased = self.accounts.reserve_on_terms(claims, ask, patience, terms).await;
        let grant = leased.map(Lease::detach);
        let opened = opens.map(|opens| self.lock_runs().open_request(*opens));
        Ok(Reserved { balances, grant, opened })
    }

    async fn renew_leases(
        &self,
        held: &[ReservationId],
        now: u64,
    ) -> Result<(), AccountsUnavailable> {
        self.accounts.renew_leases(held, now);
        Ok(())
    }

    async fn read_windows(
        &self,
        claims: Vec<Claim>,
        now: u64,
    ) -> Result<Vec<Option<WindowState>>, AccountsUnavailable> {
        Ok(self.accounts.read_windows(&claims, now))
    }

    fn take_note(&self, note: StateNote) {
        match note {
            StateNote::Progress(progress) => self.lock_runs().note_progress(&progress),
            StateNote::Withdrawn(run) => self.lock_runs().withdraw_request(&run),
            StateNote::Ended(request) => {
                self.lock_runs().end_request(request);
            }
            StateNote::EndKnown { run, end } => self.lock_runs().replace_end(&run, end),
            StateNote::Learned { model, lessons } => self.lessons.add_lessons(&model, lessons),
        }
    }

    async fn close(&self, closing: Closing) -> Result<Closed, StoreError> {
        let Closing { scope, changes, parent, shown, accounts, request } = closing;
        if let Some(ShownLink { ids, conversation, link }) = shown {
            self.store.store_shown(ShownResponse { ids, conversation, link }).await?;
        }
        self.store.apply_changes(&scope, changes).await?;
        if let Some((scope, changes)) = parent {
            self.store.apply_changes(&scope, *changes).await?;
        }
        let names: Vec<&str> = accounts.iter().map(|name| &**name).collect();
        let balances = self.accounts.read_balances(&names).await.unwrap_or_default();
        let ended = request.as_ref().filter(|request| request.end.is_some());
        if let Some(request) = ended {
            self.accounts.forget_run(&accounts, &request.run);
        }
        let run = request.map(|request| self.lock_runs().end_request(request)).unwrap_or_default();
        Ok(Closed { balances, run })
    }

    async fn list_runs(&self, after: u64) -> Result<RunList, StoreError> {
        Ok(self.lock_runs().list_runs(after))
    }

    async fn find_run(&self, run: &str) -> Result<Option<RunSnapshot>, StoreError> {
        Ok(self.lock_runs().find_run(run))
    }

    async fn cancel_run(&self, run: &str, now: u64) -> Result<Option<RunCancellation>, StoreError> {
        Ok(self.lock_runs().cancel_run(run, now))
    }

    async fn find_cancelled(&self, runs: &[Arc<str>]) -> Result<Vec<Arc<str>>, StoreError> {
        let asked: HashSet<&str> = runs.iter().map(|run| &**run).collect();
        let cancelled = self.lock_runs().find_cancelled(|run| asked.contains(run));
        Ok(cancelled.into_iter().map(|(run, _)| run).collect())
    }

    async fn end_runs(&self, which: RunsToEnd) -> Result<Vec<EndedRun>, StoreError> {
        Ok(self.lock_runs().end_runs(which))
    }
}

impl LeaseStore for LocalState {
    fn mark_sent(&self, grant: &Grant) {
        self.accounts.mark_sent(grant);
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.accounts.lower_reservation(grant, to);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.accounts.settle_lease(grant, actual);
    }
}
