//! Leases on what a tree of runs may use together: reserved, spent, given back.
//!
//! Every run has an account below the account of the run that called it; the topmost is the
//! session's. Each may have caps on money, tokens and calls, which count all that is spent below
//! it, and a time by which it ends. Nothing is handed out in slices: a request takes a lease on
//! every account from its own up to the session's, all or nothing, and what it does not spend is
//! everybody's again. Two things nobody else can take:
//!
//! - a **reserve**: what an account holds back for its own answer, or for handing back to its
//!   parent. It is taken off what all others may lease, and only [`Leases::answer`] spends it.
//! - a lease, until it is settled.
//!
//! So on every account spent + leased + reserved never passes a cap, in whatever order the runs
//! of the tree go on, as long as no request costs more than its lease; one that does is booked
//! all the same.
//!
//! **How fine a cap is.** A run may explore while its reserve and one more request fit; so what a
//! cap leaves unused is less than the reserve plus one request at its worst (all input at its
//! dearest, and the least useful output). Where that is a twentieth of the cap each, nine tenths
//! are used.
//!
//! It knows no prices, decides no landing and reads no clock: a caller says what a request may
//! cost and what time it is.

mod accounts;
mod room;

pub use accounts::{AccountId, LeaseId, Leases};
pub use room::{Short, Standing, What};

use crate::money::NanoUsd;
use crate::time::Millis;

/// What is reserved or spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Money.
    pub money: NanoUsd,
    /// Input (cached or not) and output tokens.
    pub tokens: u64,
    /// Tool calls.
    pub calls: u64,
}

impl Amount {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            money: self.money + other.money,
            tokens: self.tokens.saturating_add(other.tokens),
            calls: self.calls.saturating_add(other.calls),
        }
    }

    /// What is left of `self` after `other`; nothing below zero.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            money: self.money.less(other.money),
            tokens: self.tokens.saturating_sub(other.tokens),
            calls: self.calls.saturating_sub(other.calls),
        }
    }

    /// Of each the smaller.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            money: self.money.min(other.money),
            tokens: self.tokens.min(other.tokens),
            calls: self.calls.min(other.calls),
        }
    }
}

/// What an account may come to, with all that is below it; `None`: counted, not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// Money.
    pub money: Option<NanoUsd>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Tool calls.
    pub calls: Option<u64>,
    /// Time from the account's opening.
    pub time: Option<Millis>,
}

/// On what terms an account is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// What it may come to.
    pub caps: Caps,
    /// What it holds back for its answer.
    pub reserve: Amount,
    /// Time that it holds back for its answer; at most half of what it has.
    pub reserve_time: Millis,
    /// When it is taken for crashed, unless it is [renewed](Leases::renew) before; `None`: never.
    pub expires: Option<Millis>,
}

/// What a request wants: `base`, and output tokens on top of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// What it may come to without any output.
    pub base: Amount,
    /// What one output token costs at most, in pico-dollars.
    pub output_pico: u64,
    /// The most output that it can have.
    pub most: u64,
    /// What will do while others hold the rest.
    pub enough: u64,
    /// Less output is of no use.
    pub least: u64,
}

impl Ask {
    /// An amount that is fixed.
    #[must_use]
    pub fn exactly(base: Amount) -> Self {
        Self { base, ..Self::default() }
    }

    /// What it comes to with so much output.
    #[must_use]
    pub fn with(&self, output: u64) -> Amount {
        let nano = u128::from(output) * u128::from(self.output_pico);
        let money = NanoUsd(u64::try_from(nano.div_ceil(1000)).unwrap_or(u64::MAX));
        self.base.plus(Amount { money, tokens: output, calls: 0 })
    }
}
