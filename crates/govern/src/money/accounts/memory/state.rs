//! The accounts and the queue of waiting requests, without a clock and without a task: every step
//! gets the time as an argument. What is granted is noted in the waiter's queue entry, where the
//! waiter finds it.

mod account;
mod held;
mod queue;
mod sweep;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use softland_session::core::lease::Amount;
use softland_session::core::{Digest, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::money::accounts::{
    AccountsUnavailable, Balance, Claim, Grant, ReservationAmounts, ReservationError,
    ReservationId, WaitLimits, WindowState,
};
use crate::money::window::{TimeSpan, WindowBounds, account_of_window, window_account};
use account::MoneyAccount;
use held::HeldReservations;
pub(super) use queue::QueueState;
use queue::Waiter;
pub(super) use sweep::MOST;

/// All accounts, and the queue of waiting requests.
#[derive(Debug)]
pub(super) struct AccountsState {
    /// The accounts by the digests of their names: there may be many, and each is kept for days.
    accounts: HashMap<Digest, MoneyAccount, RandomState>,
    /// The newest windows that began with their first reservation, by the digests of their
    /// accounts.
    begun: HashMap<Digest, TimeSpan, RandomState>,
    /// For each account with waiters, the tickets that have not been granted anything yet. All
    /// windows of an account are one account here.
    waiting: HashMap<Digest, BTreeSet<u64>, RandomState>,
    /// The number of accounts of unnamed conversations, and the number at which the next sweep
    /// begins.
    unnamed: [usize; 2],
    /// The largest number of accounts.
    most: usize,
    line: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    held: HeldReservations,
    swept: Option<Instant>,
}

/// What a request wants of the accounts.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) id: ReservationId,
    pub(super) claims: Vec<Claim>,
    pub(super) ask: ReservationAmounts,
    pub(super) patience: WaitLimits,
    /// The time at which it came, in milliseconds since 1970 and by the clock here.
    pub(super) at: u64,
    pub(super) since: Instant,
    /// The length of its lease in milliseconds.
    pub(super) lease: u64,
}

impl Wanted {
    /// Returns the time in milliseconds since 1970.
    fn wall_time(&self, now: Instant) -> u64 {
        let waited = now.saturating_duration_since(self.since).as_millis();
        self.at.saturating_add(u64::try_from(waited).unwrap_or(u64::MAX))
    }

    /// Returns the claims with a limit.
    fn limited_claims(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.limit.is_some() || claim.tokens_limit.is_some())
    }
}

/// The account that a claim is made on.
struct Claimed {
    name: Arc<str>,
    /// The window, if it is a budget's.
    span: Option<TimeSpan>,
}

impl AccountsState {
    /// Creates a state without accounts, which holds at most `most` of them. If leases expire,
    /// reservations that nobody settles are booked or released.
    pub(super) fn new(most: usize, leases_expire: bool) -> Self {
        let (accounts, waiting, line) = (HashMap::default(), HashMap::default(), BTreeMap::new());
        let (unnamed, held) = ([0, sweep::UNNAMED[0]], HeldReservations::new(leases_expire));
        let begun = HashMap::default();
        Self { accounts, begun, waiting, unnamed, most, line, next_ticket: 0, held, swept: None }
    }

    /// Returns the reservation of this name, if it was made before.
    pub(super) fn find_grant(&self, id: &ReservationId) -> Option<Grant> {
        self.held.find_grant(id)
    }

    /// Returns true if the windows of all claims are known at this time.
    pub(super) fn knows_windows(&self, claims: &[Claim], at: u64) -> bool {
        claims.iter().all(|claim| match &claim.window {
            Some(window) => window.bounds.find_span(at, None).is_some(),
            None => true,
        })
    }

    /// Reserves the most that is asked for if nobody waits for one of the accounts and each has
    /// room for it, as the queue would.
    pub(super) fn reserve_at_once(&mut self, now: Instant, wanted: &Wanted) -> Option<Grant> {
        self.expire_leases(now, wanted.at);
        self.sweep_idle(now);
        let at = wanted.wall_time(now);
        let most = wanted.ask.most;
        let free = wanted.claims.iter().all(|claim| {
            let is_waited_for = self.waiting.contains_key(&account_key(&claim.account));
            !is_waited_for
                && self.claim_room(claim, &wanted.ask, at).is_none_or(|room| room.left >= most)
        });
        if !free || self.is_full(&wanted.claims, at) {
            return None;
        }
        Some(self.grant_claims(now, wanted, most))
    }

    /// Reserves this amount of money, and the tokens that go with it, on all accounts of a request.
    fn grant_claims(&mut self, now: Instant, wanted: &Wanted, money: NanoUsd) -> Grant {
        let amount = wanted.ask.amount_with_tokens(money);
        let at = wanted.wall_time(now);
        let mut accounts = Vec::with_capacity(wanted.claims.len());
        for claim in &wanted.claims {
            let Claimed { name, span } = self.find_claimed(claim, at);
            if let (Some(span), Some(window)) = (span, &claim.window)
                && matches!(window.bounds, WindowBounds::FromFirst(_))
            {
                self.begun.insert(account_key(&claim.account), span);
            }
            let account = self.account_mut(now, &name);
            account.add_lease(amount);
            account.touch(now, span, at);
            if let Some(holds) = claim.window.as_ref().and_then(|window| window.holds.as_ref()) {
                account.keep_for_run(holds, at);
            }
            accounts.push(name);
        }
        let grant = Grant { id: wanted.id.clone(), accounts, amount };
        self.held.insert(grant.clone(), at, wanted.lease);
        grant
    }

    /// Returns the account of a claim at this time: of a budget, that of the window.
    fn find_claimed(&self, claim: &Claim, at: u64) -> Claimed {
        let Some(window) = &claim.window else {
            return Claimed { name: Arc::clone(&claim.account), span: None };
        };
        let open = self.begun.get(&account_key(&claim.account)).copied();
        let span = window.bounds.find_span(at, open).or_else(|| match &window.bounds {
            // A request that has waited beyond the last window that it knows.
            WindowBounds::Calendar(spans) => spans.last().copied(),
            WindowBounds::FromFirst(_) => None,
        });
        let name = match span {
            Some(span) => window_account(&claim.account, span),
            None => Arc::clone(&claim.account),
        };
        Claimed { name, span }
    }

    /// Notes that a reservation's request is sent.
    pub(super) fn mark_sent(&mut self, id: &ReservationId) {
        self.held.mark_sent(id);
    }

    /// Extends the leases of these reservations.
    pub(super) fn renew_leases(&mut self, ids: &[ReservationId], at: u64) {
        ids.iter().for_each(|id| self.held.renew(id, at));
    }

    /// Ends the leases that have expired: what was sent is booked whole.
    pub(super) fn expire_leases(&mut self, now: Instant, at: u64) {
        for (grant, booked) in self.held.take_expired(at) {
            self.book(now, &grant.accounts, grant.amount, booked);
        }
    }

    /// Ends a lease: releases its reservation and books the actual cost.
    pub(super) fn settle_lease(&mut self, now: Instant, id: &ReservationId, actual: Amount) {
        let Some(held) = self.held.remove(id) else { return };
        let Some(booked) = held.booked else {
            return self.book(now, &held.grant.accounts, held.grant.amount, actual);
        };
        // The lease had expired: what was booked then is corrected.
        for name in &held.grant.accounts {
            if let Some(account) = self.accounts.get_mut(&account_key(name)) {
                account.correct_spent(booked, actual);
            }
        }
        self.serve_freed(now, &held.grant.accounts);
    }

    /// Releases a reservation on these accounts and books an amount.
    fn book(&mut self, now: Instant, accounts: &[Arc<str>], reserved: Amount, actual: Amount) {
        for name in accounts {
            // An account with a lease is never forgotten, so it exists.
            let account = self.account_mut(now, name);
            account.end_lease(reserved, actual);
            account.touched = account.touched.max(now);
        }
        self.serve_freed(now, accounts);
    }

    /// Reduces a lease's reservation to this amount.
    pub(super) fn lower_reservation(&mut self, now: Instant, id: &ReservationId, to: Amount) {
        let Some((accounts, by)) = self.held.lower(id, to) else { return };
        for name in &accounts {
            if let Some(account) = self.accounts.get_mut(&account_key(name)) {
                account.release(by);
            }
        }
        self.serve_freed(now, &accounts);
    }

    /// Forgets what these windows keep back for the answer of a run that has ended.
    pub(super) fn forget_run(&mut self, now: Instant, accounts: &[Arc<str>], run: &str) {
        for name in accounts {
            if let Some(account) = self.accounts.get_mut(&account_key(name)) {
                account.forget_run(run);
            }
        }
        self.serve_freed(now, accounts);
    }

    /// Returns what is spent and reserved in an account, or in a window.
    pub(super) fn read_balance(&self, account: &str) -> Balance {
        self.accounts.get(&account_key(account)).map_or_else(Balance::default, |a| a.balance)
    }

    /// Returns the balances of claims at this time.
    pub(super) fn read_claims(&self, claims: &[Claim], at: u64) -> Vec<Balance> {
        claims.iter().map(|claim| self.read_balance(&self.find_claimed(claim, at).name)).collect()
    }

    /// Returns the windows of claims at this time; none for a claim without a window.
    pub(super) fn read_windows(&self, claims: &[Claim], at: u64) -> Vec<Option<WindowState>> {
        let read = |claim: &Claim| {
            let Claimed { name, span } = self.find_claimed(claim, at);
            let (account, span) = (self.accounts.get(&account_key(&name)), span?);
            let kept =
                account.map(|account| account.held_back_for(claim, None)).unwrap_or_default();
            let balance = account.map(|account| account.balance).unwrap_or_default();
            Some(WindowState { span, is_unused: account.is_none(), balance, kept })
        };
        claims.iter().map(read).collect()
    }

    /// Returns true if there is no room for those of these accounts that are new.
    fn is_full(&self, claims: &[Claim], at: u64) -> bool {
        if self.accounts.len() + claims.len() <= self.most {
            return false;
        }
        let new = |claim: &&Claim| {
            let name = self.find_claimed(claim, at).name;
            !self.accounts.contains_key(&account_key(&name))
        };
        self.accounts.len() + claims.iter().filter(new).count() > self.most
    }

    /// Returns an account, which begins with nothing spent if it is new.
    fn account_mut(&mut self, now: Instant, name: &str) -> &mut MoneyAccount {
        let unnamed = &mut self.unnamed[0];
        self.accounts.entry(account_key(name)).or_insert_with(|| {
            let account = MoneyAccount::new(now, name);
            *unnamed += usize::from(account.unnamed);
            account
        })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let nobody = self.line.is_empty() && self.waiting.is_empty() && self.held.is_empty();
        nobody && self.accounts.values().all(MoneyAccount::is_idle)
    }
}

/// Returns the key under which an account is stored.
fn account_key(account: &str) -> Digest {
    Digest::from_bytes(account.as_bytes())
}

/// Returns the key under which requests wait for an account, or for any of its windows.
fn waiting_key(account: &str) -> Digest {
    account_key(account_of_window(account))
}
