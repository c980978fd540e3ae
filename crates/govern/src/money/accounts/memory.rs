//! Accounts in this process's memory: lost when it ends, not shared with other gateways.
//!
//! An account that has not been used for 48 hours, that holds no reservation and for which no
//! request waits may be forgotten once there are more than 100,000. A client that comes back to it
//! later begins again with nothing spent. Beyond a million accounts in use, new ones are refused,
//! since forgetting accounts would lift limits that hold.
//!
//! The account of a window is kept for 48 hours beyond the window's end.
//!
//! Accounts of unnamed conversations are kept for as long as the store in memory keeps a
//! conversation: the newest 8,192, two for each of its 4,096. Once the store has forgotten such a
//! conversation, no request can name its accounts again, since only the store's knowledge
//! identifies it.

mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use softland_session::core::lease::Amount;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{
    Accounts, AccountsUnavailable, Balance, Claim, Grant, Lease, LeaseStore, ReservationAmounts,
    ReservationError, ReservationId, WaitLimits, WindowState,
};
use state::{AccountsState, MOST, QueueState, Wanted};

/// Accounts in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryAccounts {
    shared: Arc<SharedAccounts>,
}

/// The terms of a reservation, beside its claims and its amounts.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReservationTerms {
    /// Its name; without one, it gets one.
    pub(crate) id: Option<ReservationId>,
    /// The time, in milliseconds since 1970.
    pub(crate) at: u64,
    /// The length of its lease in milliseconds.
    pub(crate) lease: u64,
}

impl MemoryAccounts {
    /// Creates an empty set of accounts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set of accounts that outlives those who use it: reservations that nobody
    /// settles end with their leases.
    pub(crate) fn with_expiring_leases() -> Self {
        let state = Mutex::new(AccountsState::new(MOST, true));
        Self { shared: Arc::new(SharedAccounts { state, ..SharedAccounts::default() }) }
    }

    /// Reserves money as [`Accounts::reserve_money`] does, on these terms.
    pub(crate) async fn reserve_on_terms(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
        terms: ReservationTerms,
    ) -> Result<Lease, ReservationError> {
        let ReservationTerms { id, at, lease } = terms;
        let id = id.unwrap_or_else(|| self.shared.next_id());
        let (claims, since) = (merge_claims(claims), now());
        let wanted = Wanted { id, claims, ask, patience, at, since, lease };
        let lease = |grant| Lease::new(Arc::clone(&self.shared) as _, grant);
        let wake = Arc::new(Notify::new());
        let entered = {
            let mut state = self.shared.lock_state();
            if let Some(grant) = state.find_grant(&wanted.id) {
                return Ok(lease(grant));
            }
            if !state.knows_windows(&wanted.claims, at) {
                let because = "the bounds of a window are those of another time".to_owned();
                return Err(ReservationError::Away(AccountsUnavailable { because }));
            }
            if let Some(grant) = state.reserve_at_once(since, &wanted) {
                return Ok(lease(grant));
            }
            state.join_queue(since, wanted, Arc::clone(&wake))?
        };
        let place = QueueTicket { shared: &self.shared, ticket: entered };
        loop {
            match place.check_state() {
                QueueState::Granted(grant) => return Ok(lease(grant)),
                QueueState::Refused(refusal) => return Err(refusal),
                // Timed out or woken: either way the queue is looked at again.
                QueueState::Wait(until) => drop(timeout_at(until, wake.notified()).await),
            }
        }
    }

    /// Returns the balances of claims at this time, in milliseconds since 1970.
    pub(crate) fn read_claims(&self, claims: &[Claim], at: u64) -> Vec<Balance> {
        self.shared.lock_state().read_claims(claims, at)
    }

    /// Returns the windows of claims at this time; none for a claim without a window.
    pub(crate) fn read_windows(&self, claims: &[Claim], at: u64) -> Vec<Option<WindowState>> {
        let mut state = self.shared.lock_state();
        state.expire_leases(now(), at);
        state.read_windows(claims, at)
    }

    /// Extends the leases of these reservations.
    pub(crate) fn renew_leases(&self, ids: &[ReservationId], at: u64) {
        let mut state = self.shared.lock_state();
        state.expire_leases(now(), at);
        state.renew_leases(ids, at);
    }

    /// Forgets what these windows keep back for the answer of a run that has ended.
    pub(crate) fn forget_run(&self, accounts: &[Arc<str>], run: &str) {
        self.shared.lock_state().forget_run(now(), accounts, run);
    }

    /// Returns true if no request waits and nothing is reserved.
    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.shared.lock_state().is_idle()
    }
}

#[async_trait]
impl Accounts for MemoryAccounts {
    async fn reserve_money(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
    ) -> Result<Lease, ReservationError> {
        self.reserve_on_terms(claims, ask, patience, ReservationTerms::default()).await
    }

    async fn read_balances(&self, accounts: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable> {
        let state = self.shared.lock_state();
        Ok(accounts.iter().map(|account| state.read_balance(account)).collect())
    }
}

/// Merges the claims on each account, under the lowest of its limits: two claims on it would count
/// twice.
fn merge_claims(mut claims: Vec<Claim>) -> Vec<Claim> {
    let mut at = 1;
    while let Some((known, [claim, ..])) = claims.split_at_mut_checked(at) {
        match known.iter_mut().find(|known| known.account == claim.account) {
            Some(known) => {
                known.limit = lower_limit(known.limit, claim.limit);
                known.tokens_limit = lower_limit(known.tokens_limit, claim.tokens_limit);
                claims.remove(at);
            }
            None => at += 1,
        }
    }
    claims
}

fn lower_limit<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

fn now() -> Instant {
    Instant::now()
}

#[derive(Debug)]
struct SharedAccounts {
    state: Mutex<AccountsState>,
    named: AtomicU64,
}

impl Default for SharedAccounts {
    fn default() -> Self {
        Self { state: Mutex::new(AccountsState::new(MOST, false)), named: AtomicU64::new(0) }
    }
}

impl SharedAccounts {
    /// Locks the state. It runs no foreign code, so a panic cannot leave it half changed.
    fn lock_state(&self) -> MutexGuard<'_, AccountsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a name for a reservation that has none.
    fn next_id(&self) -> ReservationId {
        ReservationId(format!("#{}", self.named.fetch_add(1, Ordering::Relaxed)).into())
    }
}

impl LeaseStore for SharedAccounts {
    fn mark_sent(&self, grant: &Grant) {
        self.lock_state().mark_sent(&grant.id);
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.lock_state().lower_reservation(now(), &grant.id, to);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.lock_state().settle_lease(now(), &grant.id, actual);
    }
}

impl LeaseStore for MemoryAccounts {
    fn mark_sent(&self, grant: &Grant) {
        self.shared.mark_sent(grant);
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.shared.lower_reservation(grant, to);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.shared.settle_lease(grant, actual);
    }
}

/// A ticket in the queue; given up when dropped.
struct QueueTicket<'a> {
    shared: &'a SharedAccounts,
    ticket: u64,
}

impl QueueTicket<'_> {
    fn check_state(&self) -> QueueState {
        self.shared.lock_state().check_ticket(now(), self.ticket)
    }
}

impl Drop for QueueTicket<'_> {
    fn drop(&mut self) {
        // No effect if the ticket has left the queue already.
        self.shared.lock_state().leave_queue(now(), self.ticket);
    }
}
