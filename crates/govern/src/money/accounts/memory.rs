//! Accounts in this process's memory: lost when it ends, not shared with other gateways.
//!
//! An account that has not been used for 48 hours, that holds no reservation and for which no
//! request waits may be forgotten once there are more than 100,000. A client that comes back to it
//! later begins again with nothing spent. Beyond a million accounts in use, new ones are refused,
//! since forgetting accounts would lift limits that hold.
//!
//! Accounts of unnamed conversations are kept for as long as the store in memory keeps a
//! conversation: the newest 8,192, two for each of its 4,096. Once the store has forgotten such a
//! conversation, no request can name its accounts again, since only the store's knowledge
//! identifies it.

mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use softland_session::core::NanoUsd;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::{
    Accounts, AccountsUnavailable, Balance, Claim, Lease, LeaseStore, ReservationAmounts,
    ReservationError, WaitLimits,
};
use state::{AccountsState, MOST, QueueState};

/// Accounts in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryAccounts {
    shared: Arc<SharedAccounts>,
}

impl MemoryAccounts {
    /// Creates an empty set of accounts.
    pub fn new() -> Self {
        Self::default()
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
        let claims = merge_claims(claims);
        let lease = |accounts, amount| Lease::new(Arc::clone(&self.shared) as _, accounts, amount);
        if self.shared.lock_state().reserve_at_once(now(), &claims, ask.most) {
            let accounts = claims.into_iter().map(|claim| claim.account).collect();
            return Ok(lease(accounts, ask.most));
        }
        let accounts: Vec<Arc<str>> = claims.iter().map(|claim| claim.account.clone()).collect();
        let wake = Arc::new(Notify::new());
        let entered =
            self.shared.lock_state().join_queue(now(), claims, ask, patience, Arc::clone(&wake));
        let place = QueueTicket { shared: &self.shared, ticket: entered? };
        loop {
            match place.check_state() {
                QueueState::Granted(amount) => {
                    return Ok(lease(accounts, amount));
                }
                QueueState::Refused(refusal) => return Err(refusal),
                // Timed out or woken: either way the queue is looked at again.
                QueueState::Wait(until) => drop(timeout_at(until, wake.notified()).await),
            }
        }
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
                known.limit = match (known.limit, claim.limit) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
                claims.remove(at);
            }
            None => at += 1,
        }
    }
    claims
}

fn now() -> Instant {
    Instant::now()
}

#[derive(Debug)]
struct SharedAccounts {
    state: Mutex<AccountsState>,
}

impl Default for SharedAccounts {
    fn default() -> Self {
        Self { state: Mutex::new(AccountsState::new(MOST)) }
    }
}

impl SharedAccounts {
    /// Locks the state. It runs no foreign code, so a panic cannot leave it half changed.
    fn lock_state(&self) -> MutexGuard<'_, AccountsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseStore for SharedAccounts {
    fn lower_reservation(&self, accounts: &[Arc<str>], by: NanoUsd) {
        self.lock_state().lower_reservation(now(), accounts, by);
    }

    fn settle_lease(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd) {
        self.lock_state().settle_lease(now(), accounts, reserved, actual);
    }
}

impl LeaseStore for MemoryAccounts {
    fn lower_reservation(&self, accounts: &[Arc<str>], by: NanoUsd) {
        self.shared.lower_reservation(accounts, by);
    }

    fn settle_lease(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd) {
        self.shared.settle_lease(accounts, reserved, actual);
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
