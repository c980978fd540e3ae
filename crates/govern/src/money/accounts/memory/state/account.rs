//! One account: what is spent and reserved in it, and what it keeps back for answers.

use std::collections::HashMap;
use std::time::Duration;

use foldhash::fast::RandomState;
use softland_session::core::lease::Amount;
use softland_session::core::{Digest, NanoUsd};
use tokio::time::Instant;

use super::{AccountsState, Claimed, account_key};
use crate::money::accounts::{
    Balance, Claim, KEPT_SHARE, ReservationAmounts, RunReserve, Shortfall, TokenShortfall,
};
use crate::money::window::TimeSpan;
use crate::names;
use crate::store::IDLE_MS;

/// An account, or one window of a budget's.
#[derive(Debug)]
pub(super) struct MoneyAccount {
    pub(super) balance: Balance,
    /// The time of its last use; of a window, not before its end.
    pub(super) touched: Instant,
    /// The number of open leases.
    pub(super) leases: u32,
    /// True if nobody can name the account again once its conversation is forgotten.
    pub(super) unnamed: bool,
    kept: Option<Box<KeptBack>>,
}

/// What the open runs of a window hold back for their answers.
#[derive(Debug, Default)]
struct KeptBack {
    /// The amount of each run, and the time of its last request.
    runs: HashMap<Digest, (Amount, u64), RandomState>,
    sum: Amount,
    /// The time at which runs without requests were last looked for.
    pruned: u64,
}

/// The shortest interval between two looks for runs without requests, in milliseconds.
const BETWEEN_PRUNES: u64 = 60_000;

/// The money that is available on one account. Tokens are expressed as the money for which a
/// request uses so many.
pub(super) struct ClaimRoom {
    /// The amount that is left after reservations.
    pub(super) left: NanoUsd,
    /// The amount that would be left if all other requests cost nothing.
    pub(super) unspent: NanoUsd,
    /// The number of open leases.
    pub(super) leases: u32,
    /// True if tokens are shorter than money.
    of_tokens: bool,
}

impl MoneyAccount {
    pub(super) fn new(now: Instant, name: &str) -> Self {
        let of = name.split_once(':').map_or("", |(_, of)| of);
        let unnamed = of.starts_with(names::UNNAMED);
        Self { balance: Balance::default(), touched: now, leases: 0, unnamed, kept: None }
    }

    pub(super) fn add_lease(&mut self, amount: Amount) {
        self.balance.reserved += amount.money;
        let tokens = &mut self.balance.tokens_reserved;
        *tokens = tokens.saturating_add(amount.tokens);
        self.leases += 1;
    }

    pub(super) fn release(&mut self, by: Amount) {
        self.balance.reserved = self.balance.reserved.saturating_sub(by.money);
        self.balance.tokens_reserved = self.balance.tokens_reserved.saturating_sub(by.tokens);
    }

    pub(super) fn end_lease(&mut self, reserved: Amount, actual: Amount) {
        self.release(reserved);
        self.add_spent(actual);
        self.leases = self.leases.saturating_sub(1);
    }

    fn add_spent(&mut self, amount: Amount) {
        self.balance.spent += amount.money;
        self.balance.tokens_spent = self.balance.tokens_spent.saturating_add(amount.tokens);
    }

    /// Replaces a booked amount by another one.
    pub(super) fn correct_spent(&mut self, booked: Amount, actual: Amount) {
        self.balance.spent = self.balance.spent.saturating_sub(booked.money);
        self.balance.tokens_spent = self.balance.tokens_spent.saturating_sub(booked.tokens);
        self.add_spent(actual);
    }

    /// Notes that the account is used. A window is in use until its end.
    pub(super) fn touch(&mut self, now: Instant, span: Option<TimeSpan>, at: u64) {
        let rest = span.map_or(0, |span| span.end.saturating_sub(at));
        let used = now.checked_add(Duration::from_millis(rest)).unwrap_or(now);
        self.touched = self.touched.max(used);
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let Balance { reserved, tokens_reserved, .. } = self.balance;
        self.leases == 0 && reserved == NanoUsd::ZERO && tokens_reserved == 0
    }

    /// Keeps back what an open run holds back for its answer.
    pub(super) fn keep_for_run(&mut self, holds: &RunReserve, at: u64) {
        let kept = self.kept.get_or_insert_default();
        let before = kept.runs.insert(account_key(&holds.run), (holds.amount, at));
        kept.sum = kept.sum.saturating_add(holds.amount);
        if let Some((before, _)) = before {
            kept.sum = kept.sum.saturating_sub(before);
        }
        if at.saturating_sub(kept.pruned) >= BETWEEN_PRUNES {
            kept.pruned = at;
            kept.runs.retain(|_, (_, used)| at.saturating_sub(*used) < IDLE_MS);
            let amounts = kept.runs.values().map(|(amount, _)| *amount);
            kept.sum = amounts.fold(Amount::default(), Amount::saturating_add);
        }
    }

    pub(super) fn forget_run(&mut self, run: &str) {
        let Some(kept) = &mut self.kept else { return };
        if let Some((amount, _)) = kept.runs.remove(&account_key(run)) {
            kept.sum = kept.sum.saturating_sub(amount);
        }
    }

    /// Returns what is kept back of a claim's limits, with what one more run holds back.
    pub(super) fn held_back_for(&self, claim: &Claim, run: Option<&RunReserve>) -> Amount {
        held_back_for(self.kept.as_deref(), claim, run)
    }
}

fn held_back_for(kept: Option<&KeptBack>, claim: &Claim, run: Option<&RunReserve>) -> Amount {
    let mut sum = kept.map(|kept| kept.sum).unwrap_or_default();
    if let Some(run) = run {
        let own = kept.and_then(|kept| kept.runs.get(&account_key(&run.run)));
        sum = sum.saturating_sub(own.map(|(amount, _)| *amount).unwrap_or_default());
        sum = sum.saturating_add(run.amount);
    }
    let share = Amount {
        money: NanoUsd(claim.limit.map_or(0, |limit| limit.0 / KEPT_SHARE)),
        tokens: claim.tokens_limit.map_or(0, |limit| limit / KEPT_SHARE),
    };
    sum.min(share)
}

impl AccountsState {
    /// Returns the room of a claim at this time; `None` if it has no limit.
    pub(super) fn claim_room(
        &self,
        claim: &Claim,
        ask: &ReservationAmounts,
        at: u64,
    ) -> Option<ClaimRoom> {
        if claim.limit.is_none() && claim.tokens_limit.is_none() {
            return None;
        }
        let (account, kept) = self.find_account(claim, at);
        let balance = account.map(|account| account.balance).unwrap_or_default();
        let leases = account.map_or(0, |account| account.leases);
        let money = claim.limit.map(|limit| {
            let unspent = limit.saturating_sub(kept.money).saturating_sub(balance.spent);
            let left = unspent.saturating_sub(balance.reserved);
            ClaimRoom { left, unspent, leases, of_tokens: false }
        });
        let tokens = claim.tokens_limit.map(|limit| {
            let unspent = limit.saturating_sub(kept.tokens).saturating_sub(balance.tokens_spent);
            let left = unspent.saturating_sub(balance.tokens_reserved);
            let [left, unspent] = [left, unspent].map(|tokens| ask.tokens.money_at(tokens));
            ClaimRoom { left, unspent, leases, of_tokens: true }
        });
        [money, tokens].into_iter().flatten().reduce(|one, other| ClaimRoom {
            unspent: one.unspent.min(other.unspent),
            ..if other.left < one.left { other } else { one }
        })
    }

    /// Returns the account of a claim, and what is kept back of it from the claiming request.
    fn find_account(&self, claim: &Claim, at: u64) -> (Option<&MoneyAccount>, Amount) {
        let Claimed { name, .. } = self.find_claimed(claim, at);
        let account = self.accounts.get(&account_key(&name));
        let run = claim.window.as_ref().and_then(|window| window.holds.as_ref());
        let kept = run.map(|run| {
            held_back_for(account.and_then(|account| account.kept.as_deref()), claim, Some(run))
        });
        (account, kept.unwrap_or_default())
    }

    /// Describes a claim that has not room enough.
    pub(super) fn shortfall_of(
        &self,
        claim: &Claim,
        ask: &ReservationAmounts,
        at: u64,
    ) -> Shortfall {
        let Claimed { name, span } = self.find_claimed(claim, at);
        let (account, kept) = self.find_account(claim, at);
        let balance = account.map(|account| account.balance).unwrap_or_default();
        let of_tokens = self.claim_room(claim, ask, at).is_some_and(|room| room.of_tokens);
        let tokens = claim.tokens_limit.filter(|_| of_tokens).map(|limit| TokenShortfall {
            limit: limit.saturating_sub(kept.tokens),
            spent: balance.tokens_spent,
            reserved: balance.tokens_reserved,
            least: ask.tokens.tokens_at(ask.least),
        });
        Shortfall {
            account: name,
            limit: claim.limit.unwrap_or_default().saturating_sub(kept.money),
            spent: balance.spent,
            reserved: balance.reserved,
            least: ask.least,
            tokens,
            window: span,
        }
    }
}
