//! Accounts of money that concurrent requests share, and the leases they take on them.
//!
//! An account is a name (`session:…`, `run:…`) with what was spent and what is reserved. Before a
//! request is sent its worst cost is reserved on every account it counts in, all or nothing;
//! when it has ended, what it really cost is booked. So the sum of both never passes a limit, as
//! long as no request costs more than its worst case; one that does is booked all the same.
//!
//! It knows no prices, no protocol and no policy, and it decides no landing: it says why there is
//! no lease.

mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use softland_session::core::NanoUsd;

pub(crate) use memory::MemoryAccounts;

/// Where accounts are kept.
#[async_trait]
pub(crate) trait Accounts: Send + Sync + fmt::Debug {
    /// Reserves on all accounts of `claims`, or on none: the most that is asked for where it
    /// fits, else as `ask` and `patience` say. Accounts begin with nothing spent when they are
    /// first named.
    ///
    /// Those who wait are served in the order in which they came. What they leave may be taken
    /// by a smaller request behind them, until they have waited [`OVERTAKEN_FOR`]; from then on
    /// nobody gets past them on the accounts that they lack, except at the end of his own
    /// patience. Dropping the future gives up the place, and what was granted in between.
    ///
    /// # Errors
    /// [`Refusal`] says which account is short, and whether others could still free it.
    async fn reserve(
        &self,
        claims: Vec<Claim>,
        ask: Ask,
        patience: Patience,
    ) -> Result<Lease, Refusal>;

    /// What stands in each of these accounts, in their order; nothing for unknown ones.
    ///
    /// # Errors
    /// When the store is away.
    async fn balance(&self, accounts: &[&str]) -> Result<Vec<Balance>, Away>;
}

/// How long those who wait may be overtaken by smaller requests.
pub(crate) const OVERTAKEN_FOR: Duration = Duration::from_secs(2);

/// One account that a request counts in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The account.
    pub(crate) account: Arc<str>,
    /// What the account may come to with this request, reservations of others included; `None`:
    /// counted, not limited. What is held back for a final answer is taken off by the caller.
    pub(crate) limit: Option<NanoUsd>,
}

/// How much is wanted. Always `least` ≤ `enough` ≤ `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    most: NanoUsd,
    enough: NanoUsd,
    least: NanoUsd,
}

impl Ask {
    /// That amount and nothing else.
    pub(crate) fn exactly(amount: NanoUsd) -> Self {
        Self::new(amount, amount, amount)
    }

    /// `most`; while others hold it, what is `enough`; in the end anything from `least` on.
    /// Values out of order are brought down to the next larger one.
    pub(crate) fn new(most: NanoUsd, enough: NanoUsd, least: NanoUsd) -> Self {
        let enough = enough.min(most);
        Self { most, enough, least: least.min(enough) }
    }
}

/// How long to wait for others to settle. Nobody waits for what cannot come: when what others
/// hold would not suffice for the most, less is taken at once, and when it would not suffice for
/// the least, it is refused at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patience {
    /// For the most. After it, a share of what fits is taken, if that is enough.
    pub(crate) for_most: Duration,
    /// In all. At its end anything is taken that is not less than the least.
    pub(crate) in_all: Duration,
}

impl Patience {
    /// What fits now, past those who wait, or nothing.
    pub(crate) const NONE: Self = Self { for_most: Duration::ZERO, in_all: Duration::ZERO };
}

/// What stands in an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Spent for good.
    pub(crate) spent: NanoUsd,
    /// Held by requests under way.
    pub(crate) reserved: NanoUsd,
}

/// Why there is no lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The money is spent: nothing that others free would help.
    Spent(Short),
    /// Others hold it, and did not free it in time.
    Busy(Short),
    /// The store does not answer.
    Away(Away),
    /// There are too many accounts; more would need unbounded memory.
    Full {
        /// How many there may be.
        most: usize,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spent(short) | Self::Busy(short) => write!(f, "{short}"),
            Self::Away(away) => write!(f, "{away}"),
            Self::Full { most } => write!(f, "more than {most} accounts of money are in use"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The account with the least left, of those with a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Short {
    /// Its name.
    pub(crate) account: Arc<str>,
    /// Its limit, as claimed.
    pub(crate) limit: NanoUsd,
    /// What was spent of it.
    pub(crate) spent: NanoUsd,
    /// What other requests hold of it.
    pub(crate) reserved: NanoUsd,
    /// The least that was asked for.
    pub(crate) least: NanoUsd,
}

impl Short {
    /// What is left, reservations of others taken off.
    pub(crate) fn left(&self) -> NanoUsd {
        self.unspent().less(self.reserved)
    }

    /// What would be left if all others cost nothing.
    pub(crate) fn unspent(&self) -> NanoUsd {
        self.limit.less(self.spent)
    }
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, spent, reserved, least, .. } = self;
        write!(f, "{spent} of {limit} is spent, ")?;
        if *reserved > NanoUsd::ZERO {
            write!(f, "{reserved} is held for requests under way, ")?;
        }
        write!(f, "and the request may cost {least}")
    }
}

/// The store does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    /// What it said, without credentials.
    pub(crate) because: String,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the store of accounts does not answer: {}", self.because)
    }
}

impl std::error::Error for Away {}

/// Where leases are given back; it may neither block nor fail, since a drop can do neither.
pub(crate) trait Book: Send + Sync + fmt::Debug {
    /// Takes so much off the reservations of these accounts; the lease goes on.
    fn lower(&self, accounts: &[Arc<str>], by: NanoUsd);
    /// Ends a lease: its reservation goes, and what was spent is booked.
    fn settle(&self, accounts: &[Arc<str>], reserved: NanoUsd, actual: NanoUsd);
}

/// Money held for one request. Dropped without [`Lease::settle`] (a panic, a cancelled task) it
/// books what was last [`Lease::received`], or all of it if nothing was: never nothing, and never
/// is a reservation left behind.
#[derive(Debug)]
#[must_use = "a lease that is dropped books its whole amount"]
pub(crate) struct Lease {
    book: Arc<dyn Book>,
    accounts: Vec<Arc<str>>,
    reserved: NanoUsd,
    /// What a drop books.
    received: Option<NanoUsd>,
}

impl Lease {
    /// A lease whose reservation stands in `book` already.
    pub(crate) fn new(book: Arc<dyn Book>, accounts: Vec<Arc<str>>, reserved: NanoUsd) -> Self {
        Self { book, accounts, reserved, received: None }
    }

    /// What is held.
    pub(crate) fn reserved(&self) -> NanoUsd {
        self.reserved
    }

    /// What the response has cost so far, should it end here.
    pub(crate) fn received(&mut self, cost: NanoUsd) {
        self.received = Some(cost);
    }

    /// Holds no more than `to` from now on, so that others can have the rest: as soon as a
    /// response says what its input is billed, the worst case is only a matter of its output.
    pub(crate) fn lower(&mut self, to: NanoUsd) {
        let by = self.reserved.less(to);
        if by > NanoUsd::ZERO {
            self.reserved = to;
            self.book.lower(&self.accounts, by);
        }
    }

    /// Books what the request really cost, also where it is more than was held.
    pub(crate) fn settle(mut self, actual: NanoUsd) {
        self.received = Some(actual);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let actual = self.received.unwrap_or(self.reserved);
        self.book.settle(&self.accounts, self.reserved, actual);
    }
}
