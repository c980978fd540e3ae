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

use super::{Accounts, Ask, Away, Balance, Book, Claim, Lease, Patience, Refusal};
use state::{Look, MOST, State};

/// Accounts in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryAccounts {
    shared: Arc<Shared>,
}

impl MemoryAccounts {
    /// Creates an empty set of accounts.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns true if no request waits and nothing is reserved.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.state().is_idle()
    }
}

#[async_trait]
impl Accounts for MemoryAccounts {
    async fn reserve(
        &self,
        claims: Vec<Claim>,
        ask: Ask,
        patience: Patience,
    ) -> Result<Lease, Refusal> {
        let claims = once_each(claims);
        let lease = |accounts, amount| Lease::new(Arc::clone(&self.shared) as _, accounts, amount);
        if self.shared.state().at_once(now(), &claims, ask.most) {
            let accounts = claims.into_iter().map(|claim| claim.account).collect();
            return Ok(lease(accounts, ask.most));
        }
        let accounts: Vec<Arc<str>> = claims.iter().map(|claim| claim.account.clone()).collect();
        let wake = Arc::new(Notify::new());
        let entered = self.shared.state().enter(now(), claims, ask, patience, Arc::clone(&wake));
        let place = Place { shared: &self.shared, ticket: entered? };
        loop {
            match place.look() {
                Look::Granted(amount) => {
                    return Ok(lease(accounts, amount));
                }
                Look::Refused(refusal) => return Err(refusal),
                // Timed out or woken: either way the queue is looked at again.
                Look::Wait(until) => drop(timeout_at(until, wake.notified()).await),
            }
        }
    }

    async fn balance(&self, accounts: &[&str]) -> Result<Vec<Balance>, Away> {
        let state = self.shared.state();
        Ok(accounts.iter().map(|account| state.balance(account)).collect())
    }
}

/// Merges the claims on each account, under the lowest of its limits: two claims on it would count
/// twice.
fn once_each(mut claims: Vec<Claim>) -> Vec<Claim> {
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
struct Shared {
    state: Mutex<State>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { state: Mutex::new(State::new(MOST)) }
    }
}

impl Shared {
    /// Locks the state. It runs no foreign code, so a panic cannot leave it half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book for Shared {
    fn lower(&self, accounts: &[Arc<str>], by: NanoUsd) {
        self.state().lower(now(), accounts, by);
    }

    fn settle(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd) {
        self.state().settle(now(), accounts, reserved, actual);
    }
}

/// A ticket in the queue; given up when dropped.
struct Place<'a> {
    shared: &'a Shared,
    ticket: u64,
}

impl Place<'_> {
    fn look(&self) -> Look {
        self.shared.state().look(now(), self.ticket)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // No effect if the ticket has left the queue already.
        self.shared.state().leave(now(), self.ticket);
    }
}
