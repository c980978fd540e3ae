//! The accounts and the queue of waiting requests, without a clock and without a task: every step
//! gets the time as an argument. A granted amount is noted in the waiter's queue entry, where the
//! waiter finds it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use softland_session::core::{Digest, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::money::accounts::{
    AccountsUnavailable, Balance, Claim, OVERTAKEN_FOR, ReservationAmounts, ReservationError,
    Shortfall, WaitLimits,
};
use crate::names;

/// With more accounts than this, idle ones are looked for.
const MANY: usize = 100_000;
/// Accounts beyond this many are refused.
pub(super) const MOST: usize = 1_000_000;
/// The time without a change after which an account is idle.
const IDLE: Duration = Duration::from_secs(48 * 3600);
/// The shortest interval between two sweeps: a sweep of many accounts takes milliseconds.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

/// The number of accounts of unnamed conversations at which idle ones are dropped, and the number
/// that is kept then.
const UNNAMED: [usize; 2] = [10_000, 8_192];

/// All accounts, and the queue of waiting requests.
#[derive(Debug)]
pub(super) struct AccountsState {
    /// The accounts by the digests of their names: there may be many, and each is kept for days.
    accounts: HashMap<Digest, MoneyAccount, RandomState>,
    /// For each account with waiters, the tickets that have not been granted anything yet.
    waiting: HashMap<Digest, BTreeSet<u64>, RandomState>,
    /// The number of accounts of unnamed conversations, and the number at which the next sweep
    /// begins.
    unnamed: [usize; 2],
    /// The largest number of accounts.
    most: usize,
    line: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct MoneyAccount {
    balance: Balance,
    touched: Instant,
    /// The number of open leases.
    leases: u32,
    /// True if nobody can name the account again once its conversation is forgotten.
    unnamed: bool,
}

#[derive(Debug)]
struct Waiter {
    claims: Vec<Claim>,
    ask: ReservationAmounts,
    patience: WaitLimits,
    since: Instant,
    granted: Option<NanoUsd>,
    wake: Arc<Notify>,
}

/// The state of a waiting request.
#[derive(Debug)]
pub(super) enum QueueState {
    /// This amount is reserved for the request, which has left the queue.
    Granted(NanoUsd),
    /// The request gets nothing, and has left the queue.
    Refused(ReservationError),
    /// Nothing yet: the request looks again when it is woken, or at this time.
    Wait(Instant),
}

/// The lowest amount that a waiter accepts at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AmountLevel {
    Most,
    Enough,
    Least,
}

/// The money that is available for a request's claims, over those with a limit.
#[derive(Clone, Copy)]
struct Headroom<'a> {
    /// The name of the account with the least left.
    account: &'a str,
    limit: NanoUsd,
    balance: Balance,
    /// The amount that is left after reservations.
    left: NanoUsd,
    /// The amount that would be left if all other requests cost nothing.
    unspent: NanoUsd,
    /// The number of other requests that wait for one of the accounts.
    waiting: u64,
    /// The number of open leases on one of the accounts.
    leases: u64,
}

impl AccountsState {
    /// Creates a state without accounts, which holds at most `most` of them.
    pub(super) fn new(most: usize) -> Self {
        let (accounts, waiting, line) = (HashMap::default(), HashMap::default(), BTreeMap::new());
        let unnamed = [0, UNNAMED[0]];
        Self { accounts, waiting, unnamed, most, line, next_ticket: 0, swept: None }
    }

    /// Reserves `most` if nobody waits for one of the accounts and each has room for it, as the
    /// queue would. Returns true if the money was reserved.
    pub(super) fn reserve_at_once(
        &mut self,
        now: Instant,
        claims: &[Claim],
        most: NanoUsd,
    ) -> bool {
        self.sweep_idle(now);
        let free = claims.iter().all(|claim| {
            let name = account_key(&claim.account);
            let has_room = |limit: NanoUsd| {
                let Balance { spent, reserved } = self.find_balance(&name);
                limit.saturating_sub(spent).saturating_sub(reserved) >= most
            };
            !self.waiting.contains_key(&name) && claim.limit.is_none_or(has_room)
        });
        if !free || self.is_full(claims) {
            return false;
        }
        for claim in claims {
            let account = self.account_mut(now, &claim.account);
            account.balance.reserved += most;
            account.leases += 1;
            account.touched = now;
        }
        true
    }

    /// Adds a request to the end of the queue. Returns its ticket.
    ///
    /// # Errors
    /// Returns [`ReservationError::Full`] if there are too many accounts.
    pub(super) fn join_queue(
        &mut self,
        now: Instant,
        claims: Vec<Claim>,
        ask: ReservationAmounts,
        patience: WaitLimits,
        wake: Arc<Notify>,
    ) -> Result<u64, ReservationError> {
        self.sweep_idle(now);
        if self.is_full(&claims) {
            return Err(ReservationError::Full { most: self.most });
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for claim in &claims {
            self.account_mut(now, &claim.account).touched = now;
            self.waiting.entry(account_key(&claim.account)).or_default().insert(ticket);
        }
        let waiter = Waiter { claims, ask, patience, since: now, granted: None, wake };
        self.line.insert(ticket, waiter);
        Ok(ticket)
    }

    /// Returns the state of a waiting request. This also serves all requests that come before it.
    pub(super) fn check_ticket(&mut self, now: Instant, ticket: u64) -> QueueState {
        self.serve_waiters(now, [ticket].into());
        let Some(waiter) = self.line.get(&ticket) else {
            return QueueState::Refused(ReservationError::Away(AccountsUnavailable {
                because: "the place is gone".to_owned(),
            }));
        };
        if let Some(amount) = waiter.granted {
            self.line.remove(&ticket);
            return QueueState::Granted(amount);
        }
        let room = self.find_headroom(waiter);
        let spent = room.is_some_and(|room| room.unspent < waiter.ask.least);
        let until = waiter.since + waiter.patience.in_all;
        if !spent && now < until {
            let next = waiter.since + waiter.patience.for_most;
            return QueueState::Wait(if now < next { next.min(until) } else { until });
        }
        let ask = waiter.ask;
        // At the end of a request's patience the order no longer holds. Without a limit there is
        // room.
        let (takes, short) = match room {
            Some(room) => (waiter.amount_taken(now, Some(room)), room.shortfall_below(ask.least)),
            None => (Some(ask.most), Shortfall::default()),
        };
        if let Some(amount) = takes {
            self.grant_amount(ticket, amount);
        }
        let accounts = self.remove_waiter(ticket);
        self.serve_freed(now, &accounts);
        match takes {
            Some(amount) => QueueState::Granted(amount),
            None if spent => QueueState::Refused(ReservationError::Spent(short)),
            None => QueueState::Refused(ReservationError::Busy(short)),
        }
    }

    /// Gives up a queue entry, and the amount that was granted to it.
    pub(super) fn leave_queue(&mut self, now: Instant, ticket: u64) {
        let granted = self.line.get(&ticket).and_then(|waiter| waiter.granted);
        let accounts = self.remove_waiter(ticket);
        match granted {
            Some(amount) => self.settle_lease(now, &accounts, amount, NanoUsd::ZERO),
            None => self.serve_freed(now, &accounts),
        }
    }

    /// Removes an entry from the queue. Returns its accounts.
    fn remove_waiter(&mut self, ticket: u64) -> Vec<Arc<str>> {
        let Some(waiter) = self.line.remove(&ticket) else { return Vec::new() };
        let accounts: Vec<Arc<str>> =
            waiter.claims.into_iter().map(|claim| claim.account).collect();
        for account in &accounts {
            self.stop_waiting(account_key(account), ticket);
        }
        accounts
    }

    fn stop_waiting(&mut self, account: Digest, ticket: u64) {
        if let Entry::Occupied(mut waiting) = self.waiting.entry(account) {
            waiting.get_mut().remove(&ticket);
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }

    /// Ends a lease: releases its reservation and books the actual cost.
    pub(super) fn settle_lease(
        &mut self,
        now: Instant,
        accounts: &[Arc<str>],
        reserved: NanoUsd,
        actual: NanoUsd,
    ) {
        for account in accounts {
            // An account with a lease is never forgotten, so it exists.
            let account = self.account_mut(now, account);
            account.balance.reserved = account.balance.reserved.saturating_sub(reserved);
            account.balance.spent += actual;
            account.leases = account.leases.saturating_sub(1);
            account.touched = now;
        }
        self.serve_freed(now, accounts);
    }

    /// Reduces a lease's reservation.
    pub(super) fn lower_reservation(&mut self, now: Instant, accounts: &[Arc<str>], by: NanoUsd) {
        for account in accounts {
            if let Some(account) = self.accounts.get_mut(&account_key(account)) {
                account.balance.reserved = account.balance.reserved.saturating_sub(by);
                account.touched = now;
            }
        }
        self.serve_freed(now, accounts);
    }

    /// Returns what is spent and reserved in an account.
    pub(super) fn read_balance(&self, account: &str) -> Balance {
        self.find_balance(&account_key(account))
    }

    fn find_balance(&self, name: &Digest) -> Balance {
        self.accounts.get(name).map_or_else(Balance::default, |account| account.balance)
    }

    /// Returns true if there is no room for those of these accounts that are new.
    fn is_full(&self, claims: &[Claim]) -> bool {
        if self.accounts.len() + claims.len() <= self.most {
            return false;
        }
        let new = |claim: &&Claim| !self.accounts.contains_key(&account_key(&claim.account));
        self.accounts.len() + claims.iter().filter(new).count() > self.most
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let idle = |account: &MoneyAccount| {
            account.leases == 0 && account.balance.reserved == NanoUsd::ZERO
        };
        let nobody = self.line.is_empty() && self.waiting.is_empty();
        nobody && self.accounts.values().all(idle)
    }

    /// Serves the waiters of these accounts, in which money may have been freed.
    fn serve_freed(&mut self, now: Instant, accounts: &[Arc<str>]) {
        let waiting = accounts.iter().filter_map(|account| self.waiting.get(&account_key(account)));
        let waiting: BTreeSet<u64> = waiting.flatten().copied().collect();
        if !waiting.is_empty() {
            self.serve_waiters(now, waiting);
        }
    }

    /// Serves these tickets, and all that share an account with them, in order of arrival.
    fn serve_waiters(&mut self, now: Instant, tickets: BTreeSet<u64>) {
        let mut closed: BTreeSet<String> = BTreeSet::new();
        for ticket in self.collect_connected(tickets) {
            let Some(waiter) = self.line.get(&ticket).filter(|w| w.granted.is_none()) else {
                continue;
            };
            let room = self.find_headroom(waiter);
            let shut = waiter.limited_claims().any(|(account, _)| closed.contains(account));
            let takes = if shut { None } else { waiter.amount_taken(now, room) };
            if let Some(amount) = takes {
                waiter.wake.notify_one();
                self.grant_amount(ticket, amount);
            } else if room.is_some_and(|room| room.unspent < waiter.ask.least) {
                // A request must not wait for money that cannot come.
                waiter.wake.notify_one();
            } else if now.saturating_duration_since(waiter.since) >= OVERTAKEN_FOR {
                let insists = waiter.level_amount(waiter.accepted_level(now, room));
                closed.extend(self.lacking_accounts(waiter, insists).map(str::to_owned));
            }
        }
    }

    /// Returns these tickets and all that are connected to them through shared accounts.
    fn collect_connected(&self, mut found: BTreeSet<u64>) -> BTreeSet<u64> {
        let mut open: Vec<u64> = found.iter().copied().collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(ticket) = open.pop() {
            let Some(waiter) = self.line.get(&ticket) else { continue };
            for (name, _) in waiter.limited_claims() {
                let waiting = self.waiting.get(&account_key(name)).filter(|_| seen.insert(name));
                let Some(waiting) = waiting else { continue };
                open.extend(waiting.iter().filter(|ticket| found.insert(**ticket)));
            }
        }
        found
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

    /// Reserves an amount for a queue entry.
    fn grant_amount(&mut self, ticket: u64, amount: NanoUsd) {
        let Some(waiter) = self.line.get_mut(&ticket) else { return };
        waiter.granted = Some(amount);
        let accounts: Vec<Digest> = waiter.claims.iter().map(|c| account_key(&c.account)).collect();
        for account in accounts {
            if let Some(account) = self.accounts.get_mut(&account) {
                account.balance.reserved += amount;
                account.leases += 1;
            }
            self.stop_waiting(account, ticket);
        }
    }

    /// Returns the money available for a waiter's claims; `None` if no claim has a limit.
    fn find_headroom<'a>(&'a self, waiter: &'a Waiter) -> Option<Headroom<'a>> {
        let rooms = waiter.limited_claims().filter_map(|(account, limit)| {
            let name = account_key(account);
            let MoneyAccount { balance, leases, .. } = self.accounts.get(&name)?;
            let (balance, unspent) = (*balance, limit.saturating_sub(balance.spent));
            let left = unspent.saturating_sub(balance.reserved);
            let waiting = self.waiting.get(&name).map_or(0, BTreeSet::len);
            let (waiting, leases) = (waiting.saturating_sub(1) as u64, u64::from(*leases));
            Some(Headroom { account, limit, balance, left, unspent, waiting, leases })
        });
        rooms.reduce(Headroom::min_with)
    }

    /// Returns the accounts that have less than `amount` left.
    fn lacking_accounts<'a>(
        &'a self,
        waiter: &'a Waiter,
        amount: NanoUsd,
    ) -> impl Iterator<Item = &'a str> + 'a {
        waiter.limited_claims().filter_map(move |(account, limit)| {
            let Balance { spent, reserved } = self.read_balance(account);
            (limit.saturating_sub(spent).saturating_sub(reserved) < amount).then_some(account)
        })
    }

    /// Forgets idle accounts if there are many.
    fn sweep_idle(&mut self, now: Instant) {
        if self.unnamed[0] >= self.unnamed[1] {
            self.forget_unnamed();
        }
        let recent = |at: Instant, within| now.saturating_duration_since(at) <= within;
        if self.accounts.len() < MANY || self.swept.is_some_and(|at| recent(at, BETWEEN_SWEEPS)) {
            return;
        }
        self.swept = Some(now);
        let waiting = &self.waiting;
        self.accounts.retain(|name, account| {
            account.leases > 0 || waiting.contains_key(name) || recent(account.touched, IDLE)
        });
        self.count_unnamed();
    }

    /// Keeps only the newest accounts of unnamed conversations, and those in use.
    fn forget_unnamed(&mut self) {
        let [_, stay] = UNNAMED;
        let unnamed = self.accounts.values().filter(|account| account.unnamed);
        let mut touched: Vec<Instant> = unnamed.map(|account| account.touched).collect();
        if let Some(old) = touched.len().checked_sub(stay) {
            let (_, limit, _) = touched.select_nth_unstable(old);
            let limit = *limit;
            let waiting = &self.waiting;
            self.accounts.retain(|name, account| {
                let used = account.leases > 0 || waiting.contains_key(name);
                used || account.touched >= limit || !account.unnamed
            });
        }
        self.count_unnamed();
    }

    fn count_unnamed(&mut self) {
        let unnamed = self.accounts.values().filter(|account| account.unnamed).count();
        // If most are in use, they are not counted again for each new one.
        let [most, stay] = UNNAMED;
        self.unnamed = [unnamed, unnamed + most - stay];
    }
}

impl MoneyAccount {
    fn new(now: Instant, name: &str) -> Self {
        let of = name.split_once(':').map_or("", |(_, of)| of);
        let unnamed = of.starts_with(names::UNNAMED);
        Self { balance: Balance::default(), touched: now, leases: 0, unnamed }
    }
}

/// Returns the key under which an account is stored.
fn account_key(account: &str) -> Digest {
    Digest::from_bytes(account.as_bytes())
}

impl<'a> Headroom<'a> {
    /// Combines two accounts' figures into the tighter bounds.
    fn min_with(self, other: Self) -> Self {
        Self {
            unspent: self.unspent.min(other.unspent),
            waiting: self.waiting.max(other.waiting),
            leases: self.leases.max(other.leases),
            ..if other.left < self.left { other } else { self }
        }
    }

    fn shortfall_below(&self, least: NanoUsd) -> Shortfall {
        let Balance { spent, reserved } = self.balance;
        Shortfall { account: self.account.into(), limit: self.limit, spent, reserved, least }
    }
}

impl Waiter {
    /// Returns the claims with a limit.
    fn limited_claims(&self) -> impl Iterator<Item = (&str, NanoUsd)> {
        self.claims.iter().filter_map(|claim| Some((&*claim.account, claim.limit?)))
    }

    /// Returns the amount that the waiter takes of this room, if any.
    fn amount_taken(&self, now: Instant, room: Option<Headroom<'_>>) -> Option<NanoUsd> {
        let ReservationAmounts { most, enough, least } = self.ask;
        let Some(room) = room else { return Some(most) };
        let insists = self.accepted_level(now, Some(room));
        if room.left >= most && (insists == AmountLevel::Most || room.waiting == 0) {
            return Some(most);
        }
        match insists {
            // The other waiting and running requests may come again: each takes a share, so that no
            // request holds everything.
            AmountLevel::Enough | AmountLevel::Least if room.left >= enough => {
                let sharers = room.waiting.saturating_add(room.leases).saturating_add(1);
                Some(NanoUsd(room.left.0 / sharers).clamp(enough, most.min(room.left)))
            }
            AmountLevel::Least if room.left >= least => Some(room.left),
            AmountLevel::Most | AmountLevel::Enough | AmountLevel::Least => None,
        }
    }

    /// Returns the lowest amount that is accepted now. It falls with the time, and with the money
    /// that can still become free.
    fn accepted_level(&self, now: Instant, room: Option<Headroom<'_>>) -> AmountLevel {
        let waited = now.saturating_duration_since(self.since);
        let unspent = room.map_or(self.ask.most, |room| room.unspent);
        if waited >= self.patience.in_all || unspent < self.ask.enough {
            AmountLevel::Least
        } else if waited >= self.patience.for_most || unspent < self.ask.most {
            AmountLevel::Enough
        } else {
            AmountLevel::Most
        }
    }

    fn level_amount(&self, insists: AmountLevel) -> NanoUsd {
        match insists {
            AmountLevel::Most => self.ask.most,
            AmountLevel::Enough => self.ask.enough,
            AmountLevel::Least => self.ask.least,
        }
    }
}
