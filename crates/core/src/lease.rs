//! Leases on the budgets that a tree of runs shares: reserved, spent, given back.
//!
//! Every run has an account below the account of the run that called it. The topmost account is the
//! session's. An account may have caps on money and tokens, which count everything that is spent in
//! it and below it, and a time by which it ends. Budgets are not divided into slices. A request
//! takes a lease on every account from its own up to the session's, or on none of them. The part
//! that it does not spend is available to all runs again. Two amounts are not available to others:
//!
//! - a **reserve**: the amount that an account holds back for its own answer, or to hand back to
//!   its parent. It is taken off the amount that all others may lease, and only [`Leases::lease_for_answer`]
//!   spends it.
//! - a lease, until it is settled.
//!
//! So spent + leased + reserved never passes a cap on any account, in whatever order the runs of
//! the tree go on, as long as no request costs more than its lease. A request that does is booked
//! all the same.
//!
//! **The precision of a cap.** A run may explore while its reserve and one more request fit. So the
//! amount that a cap leaves unused is less than the reserve plus one request in the worst case (all
//! input at its highest price, and the least useful output). If each of the two is a twentieth of
//! the cap, nine tenths are used.
//!
//! This module knows no prices, decides no landing and reads no clock: the caller passes the
//! possible cost of a request and the current time.

mod accounts;
mod headroom;

pub use accounts::{AccountId, LeaseId, Leases};
pub use headroom::{CapUnit, CapUsage, Shortage};

use serde::{Deserialize, Serialize};

use crate::money::NanoUsd;
use crate::time::Millis;

/// An amount that is reserved or spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Money.
    pub money: NanoUsd,
    /// Input (cached or not) and output tokens.
    pub tokens: u64,
}

impl Amount {
    /// Returns the sum of both amounts.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self { money: self.money + other.money, tokens: self.tokens.saturating_add(other.tokens) }
    }

    /// Returns the rest of `self` after `other`; nothing falls below zero.
    #[must_use]
    pub fn saturating_sub(self, other: Self) -> Self {
        Self {
            money: self.money.saturating_sub(other.money),
            tokens: self.tokens.saturating_sub(other.tokens),
        }
    }

    /// Returns the smaller value of each kind.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { money: self.money.min(other.money), tokens: self.tokens.min(other.tokens) }
    }
}

impl From<NanoUsd> for Amount {
    fn from(money: NanoUsd) -> Self {
        Self { money, tokens: 0 }
    }
}

/// The caps of an account, which include all accounts below it. `None` is counted, but not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Money.
    pub money: Option<NanoUsd>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// The time from the account's opening.
    pub time: Option<Millis>,
}

/// The terms on which an account is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountTerms {
    /// Its caps.
    pub caps: Caps,
    /// The amount that it holds back for its answer.
    pub reserve: Amount,
    /// The time that it holds back for its answer; at most half of the time that it has.
    pub reserve_time: Millis,
}

/// The amount that a request asks for: `base`, and output tokens on top of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRequest {
    /// The most that the request can cost without any output.
    pub base: Amount,
    /// The most that one output token costs, in pico-dollars.
    pub output_pico: u64,
    /// The most output that the request can have, in tokens.
    pub most: u64,
    /// The output that suffices while others hold the rest, in tokens.
    pub enough: u64,
    /// The least output that is of use, in tokens.
    pub least: u64,
}

impl LeaseRequest {
    /// Asks for a fixed amount.
    #[must_use]
    pub fn from_amount(base: Amount) -> Self {
        Self { base, ..Self::default() }
    }

    /// Returns the cost with `output` tokens of output.
    #[must_use]
    pub fn amount_with_output(&self, output: u64) -> Amount {
        let nano = u128::from(output) * u128::from(self.output_pico);
        let money = NanoUsd(u64::try_from(nano.div_ceil(1000)).unwrap_or(u64::MAX));
        self.base.saturating_add(Amount { money, tokens: output })
    }
}
