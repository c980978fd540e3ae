//! Accounts of money that concurrent requests share, and the leases that requests take on them.
//!
//! An account is a name (`session:…`, `run:…`) with the amounts spent and reserved. Before a
//! request is sent, its worst cost is reserved on every account it counts in, all or nothing. When
//! the request has ended, its real cost is booked. So the sum of both never exceeds a limit, as
//! long as no request costs more than its worst case; a request that does is booked all the same.
//!
//! The account of a budget has windows. Each window is an account of its own, which begins with
//! nothing spent. A request counts in the window in which its reservation was made, whenever it
//! ends.
//!
//! This module knows no prices, no protocol and no policy, and it decides no landing: it says why
//! there is no lease.

mod lease;
mod memory;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use super::tokens_for;
use super::window::{TimeSpan, WindowBounds};

pub use lease::{Grant, Lease, LeaseStore, ReservationId};
pub use memory::MemoryAccounts;
pub(crate) use memory::ReservationTerms;

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
    /// The same in tokens, input (cached or not) and output.
    #[serde(default)]
    pub tokens_limit: Option<u64>,
    /// The window, if this is the account of a budget.
    #[serde(default)]
    pub window: Option<WindowClaim>,
}

impl Claim {
    /// Claims money of an account without windows.
    pub fn new(account: Arc<str>, limit: Option<NanoUsd>) -> Self {
        Self { account, limit, tokens_limit: None, window: None }
    }

    /// Returns the claim without its limits: it is counted.
    #[must_use]
    pub fn without_limits(self) -> Self {
        Self { limit: None, tokens_limit: None, ..self }
    }
}

/// A claim on the window of a budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowClaim {
    /// The window's bounds.
    pub bounds: WindowBounds,
    /// What the request's run holds back for its answer, if the request explores. A window keeps
    /// back what its open runs hold back, at most a [`KEPT_SHARE`]th of each limit: a request that
    /// explores cannot have it, one that asks for an answer (`None`) can.
    pub holds: Option<RunReserve>,
}

/// The largest part of a window that is kept back for answers: one of so many.
pub const KEPT_SHARE: u64 = 20;

/// What a run holds back for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReserve {
    /// The run.
    pub run: Arc<str>,
    /// The amount.
    pub amount: Amount,
}

/// The amounts that a request asks for. Always `least` ≤ `enough` ≤ `most`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationAmounts {
    most: NanoUsd,
    enough: NanoUsd,
    least: NanoUsd,
    /// The tokens that go with each amount.
    #[serde(default)]
    tokens: TokenScale,
}

/// The tokens that a request can use for an amount of money: its input, and the output that the
/// rest of the money pays for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenScale {
    /// The most input tokens.
    pub input: u64,
    /// Their cost.
    pub input_cost: NanoUsd,
    /// The most output tokens.
    pub output: u64,
    /// The price of an output token, in pico-dollars. If it is zero, money says nothing of the
    /// output, and the most is meant.
    pub output_pico: u64,
}

impl TokenScale {
    /// Returns the most tokens that are used for this amount.
    #[must_use]
    pub fn tokens_at(&self, amount: NanoUsd) -> u64 {
        let output = tokens_for(amount.saturating_sub(self.input_cost), self.output_pico);
        self.input.saturating_add(output.min(self.output))
    }

    /// Returns the largest amount for which at most so many tokens are used; zero if there is none.
    #[must_use]
    pub fn money_at(&self, tokens: u64) -> NanoUsd {
        let Some(output) = tokens.checked_sub(self.input) else { return NanoUsd::ZERO };
        if output >= self.output {
            return NanoUsd(u64::MAX);
        }
        if self.output_pico == 0 {
            return NanoUsd::ZERO;
        }
        // Rounded down, so that no more tokens are paid for.
        let nano = u128::from(output) * u128::from(self.output_pico) / 1000;
        self.input_cost + NanoUsd(u64::try_from(nano).unwrap_or(u64::MAX))
    }
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
        Self { most, enough, least: least.min(enough), tokens: TokenScale::default() }
    }

    /// Adds the tokens that go with the amounts. An amount of nothing becomes the smallest amount
    /// that there is, so that a request without a price can be short of tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: TokenScale) -> Self {
        let [most, enough, least] =
            [self.most, self.enough, self.least].map(|amount| amount.max(NanoUsd(1)));
        Self { most, enough, least, tokens }
    }

    /// Returns the amounts, from the most to the least.
    #[must_use]
    pub fn levels(&self) -> [NanoUsd; 3] {
        [self.most, self.enough, self.least]
    }

    /// Returns the tokens that go with the amounts.
    #[must_use]
    pub fn token_scale(&self) -> TokenScale {
        self.tokens
    }

    /// Returns this amount of money with the tokens that go with it.
    #[must_use]
    pub fn amount_with_tokens(&self, money: NanoUsd) -> Amount {
        Amount { money, tokens: self.tokens.tokens_at(money) }
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
    /// The tokens that are spent for good.
    #[serde(default)]
    pub tokens_spent: u64,
    /// The tokens that are held by running requests.
    #[serde(default)]
    pub tokens_reserved: u64,
}

impl Balance {
    /// Returns what is spent.
    #[must_use]
    pub fn spent_amount(&self) -> Amount {
        Amount { money: self.spent, tokens: self.tokens_spent }
    }
}

/// A window of a budget, as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowState {
    /// The window; for one that has not begun, the one that would begin now.
    pub span: TimeSpan,
    /// True if nothing was reserved in it yet.
    pub is_unused: bool,
    /// Its balance.
    pub balance: Balance,
    /// What it keeps back for answers.
    pub kept: Amount,
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
    /// Its name; that of the window for a budget.
    pub account: Arc<str>,
    /// Its limit, as claimed.
    pub limit: NanoUsd,
    /// The amount spent of it.
    pub spent: NanoUsd,
    /// The amount that other requests hold of it.
    pub reserved: NanoUsd,
    /// The least that was asked for.
    pub least: NanoUsd,
    /// The same four figures in tokens, if those are short, and not money.
    #[serde(default)]
    pub tokens: Option<TokenShortfall>,
    /// The window, if it is the account of a budget.
    #[serde(default)]
    pub window: Option<TimeSpan>,
}

/// The account with the fewest tokens left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenShortfall {
    /// Its limit, as claimed.
    pub limit: u64,
    /// The tokens spent of it.
    pub spent: u64,
    /// The tokens that other requests hold of it.
    pub reserved: u64,
    /// The fewest that were asked for.
    pub least: u64,
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
        if let Some(TokenShortfall { limit, spent, reserved, least }) = self.tokens {
            write!(f, "{spent} of {limit} tokens are spent, ")?;
            if reserved > 0 {
                write!(f, "{reserved} are held for requests under way, ")?;
            }
            return write!(f, "and the request may use {least}");
        }
        let Self { limit, spent, reserved, least, .. } = self;
        write!(f, "{spent} of {limit} (the limit without what answers need) is spent, ")?;
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
