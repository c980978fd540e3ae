//! Accounts of money that concurrent requests share, and the leases that requests take on them.
//!
//! An account is a name (`session:…`, `run:…`) with the amounts spent and reserved. Before a
//! request is sent, its worst cost is reserved on every account it counts in, all or nothing. When
//! the request has ended, its real cost is booked. So the sum of both never exceeds a limit, as
//! long as no request costs more than its worst case; a request that does is booked all the same.
//!
//! This module knows no prices, no protocol and no policy, and it decides no landing: it says why
//! there is no lease.

mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use softland_session::core::NanoUsd;

pub use memory::MemoryAccounts;

/// A store of accounts.
#[async_trait]
pub trait Accounts: Send + Sync + fmt::Debug {
    /// Reserves money on all accounts of `claims`, or on none: the most that is asked for if it
    /// fits, else as `ask` and `patience` say. An account begins with nothing spent when it is
    /// first named.
    ///
    /// Waiting requests are served in order of arrival. Money that the first ones cannot use may be
    /// taken by a smaller request behind them, until they have waited for [`OVERTAKEN_FOR`]. From
    /// then on no request gets past them on the accounts that they lack, except at the end of its
    /// own patience. Dropping the future gives up the place in the queue, and what was granted in
    /// the meantime.
    ///
    /// # Errors
    /// Returns a [`ReservationError`] that says which account is short, and whether others could still free
    /// it.
    async fn reserve_money(
        &self,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
    ) -> Result<Lease, ReservationError>;

    /// Returns the balance of each of these accounts, in their order; zero for unknown ones.
    ///
    /// # Errors
    /// Returns an error if the store does not answer.
    async fn read_balances(&self, accounts: &[&str]) -> Result<Vec<Balance>, AccountsUnavailable>;
}

/// The time for which waiting requests may be overtaken by smaller ones.
pub const OVERTAKEN_FOR: Duration = Duration::from_secs(2);

/// One account that a request counts in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The account.
    pub account: Arc<str>,
    /// The largest sum that the account may reach with this request, reservations of others
    /// included; `None`: counted, not limited. The caller has already subtracted what is held back
    /// for a final answer.
    pub limit: Option<NanoUsd>,
}

/// The amounts that a request asks for. Always `least` ≤ `enough` ≤ `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationAmounts {
    most: NanoUsd,
    enough: NanoUsd,
    least: NanoUsd,
}

impl ReservationAmounts {
    /// Asks for exactly this amount.
    pub fn from_exact(amount: NanoUsd) -> Self {
        Self::new(amount, amount, amount)
    }

    /// Asks for `most`; while others hold it, for `enough`; in the end for anything from `least`
    /// on. Values out of order are lowered to the next larger one.
    pub fn new(most: NanoUsd, enough: NanoUsd, least: NanoUsd) -> Self {
        let enough = enough.min(most);
        Self { most, enough, least: least.min(enough) }
    }
}

/// The time to wait for others to settle. No request waits for what cannot come: if the money that
/// others hold would not suffice for the most, less is taken at once, and if it would not suffice
/// for the least, the request is refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitLimits {
    /// The time to wait for the most. After it, a share of what fits is taken, if that is enough.
    pub for_most: Duration,
    /// The time to wait in all. At its end, any amount that is not below the least is taken.
    pub in_all: Duration,
}

impl WaitLimits {
    /// Takes what fits now, ahead of waiting requests, or nothing.
    pub const NONE: Self = Self { for_most: Duration::ZERO, in_all: Duration::ZERO };
}

/// The state of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// Spent for good.
    pub spent: NanoUsd,
    /// Held by running requests.
    pub reserved: NanoUsd,
}

/// The reason why there is no lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReservationError {
    /// The money is spent: nothing that others free would help.
    Spent(Shortfall),
    /// Other requests hold the money, and did not free it in time.
    Busy(Shortfall),
    /// The store does not answer.
    Away(AccountsUnavailable),
    /// There are too many accounts; more would need unbounded memory.
    Full {
        /// The largest number of accounts.
        most: usize,
    },
}

impl fmt::Display for ReservationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent(short) | Self::Busy(short) => write!(f, "{short}"),
            Self::Away(away) => write!(f, "{away}"),
            Self::Full { most } => write!(f, "more than {most} accounts of money are in use"),
        }
    }
}

impl std::error::Error for ReservationError {}

/// The account with the least left, of those with a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Its name.
    pub account: Arc<str>,
    /// Its limit, as claimed.
    pub limit: NanoUsd,
    /// The amount spent of it.
    pub spent: NanoUsd,
    /// The amount that other requests hold of it.
    pub reserved: NanoUsd,
    /// The least that was asked for.
    pub least: NanoUsd,
}

impl Shortfall {
    /// Returns what is left after the reservations of others.
    pub fn remaining_amount(&self) -> NanoUsd {
        self.unspent_amount().saturating_sub(self.reserved)
    }

    /// Returns what would be left if all other requests cost nothing.
    pub fn unspent_amount(&self) -> NanoUsd {
        self.limit.saturating_sub(self.spent)
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, spent, reserved, least, .. } = self;
        write!(f, "{spent} of {limit} is spent, ")?;
        if *reserved > NanoUsd::ZERO {
            write!(f, "{reserved} is held for requests under way, ")?;
        }
        write!(f, "and the request may cost {least}")
    }
}

/// An error of a store that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountsUnavailable {
    /// The store's message, without credentials.
    pub because: String,
}

impl fmt::Display for AccountsUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store of accounts does not answer: {}", self.because)
    }
}

impl std::error::Error for AccountsUnavailable {}

/// The store to which leases are given back. It may neither block nor fail, since a drop can do
/// neither.
pub trait LeaseStore: Send + Sync + fmt::Debug {
    /// Reduces the reservations on these accounts by this amount; the lease continues.
    fn lower_reservation(&self, accounts: &[Arc<str>], by: NanoUsd);
    /// Ends a lease: releases its reservation and books what was spent.
    fn settle_lease(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd);
}

/// Money held for one request. If it is dropped without [`Lease::settle_cost`] (a panic, a
/// cancelled task), it books the last amount given to [`Lease::set_received_cost`], or the whole
/// reservation if there was none. So a dropped lease never books nothing by accident, and never
/// leaves a reservation behind.
#[derive(Debug)]
#[must_use = "a lease that is dropped books its whole amount"]
pub struct Lease {
    book: Arc<dyn LeaseStore>,
    accounts: Vec<Arc<str>>,
    reserved: NanoUsd,
    /// The amount that a drop books.
    received: Option<NanoUsd>,
    /// True if somebody else settles it.
    detached: bool,
}

impl Lease {
    /// Creates a lease whose reservation is in `book` already.
    pub fn new(book: Arc<dyn LeaseStore>, accounts: Vec<Arc<str>>, reserved: NanoUsd) -> Self {
        Self { book, accounts, reserved, received: None, detached: false }
    }

    /// Returns the amount that is held.
    pub fn reserved_amount(&self) -> NanoUsd {
        self.reserved
    }

    /// Notes what the response has cost so far, in case it ends here.
    pub fn set_received_cost(&mut self, cost: NanoUsd) {
        self.received = Some(cost);
    }

    /// Lowers the reservation to `to`, so that others can have the rest. As soon as a response
    /// states its billed input, only its output is uncertain.
    pub fn lower_to(&mut self, to: NanoUsd) {
        let by = self.reserved.saturating_sub(to);
        if by > NanoUsd::ZERO {
            self.reserved = to;
            self.book.lower_reservation(&self.accounts, by);
        }
    }

    /// Gives up the lease without settling it. Returns its accounts, and the amount that somebody
    /// else now has to settle.
    pub fn detach(mut self) -> (Vec<Arc<str>>, NanoUsd) {
        self.detached = true;
        (std::mem::take(&mut self.accounts), self.reserved)
    }

    /// Ends the lease and books the real cost, even if it is more than was held.
    pub fn settle_cost(mut self, actual: NanoUsd) {
        self.received = Some(actual);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        let actual = self.received.unwrap_or(self.reserved);
        self.book.settle_lease(&self.accounts, self.reserved, actual);
    }
}
