//! The accounts and the line of those who wait, without a clock and without a task: every step is
//! told what time it is. What is granted to somebody is noted in his place, where he finds it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use softland_session::core::{Digest, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::accounts::{Ask, Away, Balance, Claim, OVERTAKEN_FOR, Patience, Refusal, Short};
use crate::names;

/// Accounts beyond this many are looked through for idle ones.
const MANY: usize = 100_000;
/// Accounts beyond this many are refused.
pub(super) const MOST: usize = 1_000_000;
/// Untouched for so long, an account is idle.
const IDLE: Duration = Duration::from_secs(48 * 3600);
/// Looking through many accounts takes milliseconds: not at every new one.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(60);

/// Accounts of conversations without a name beyond which the idle ones are looked through, and how
/// many of them stay.
const UNNAMED: [usize; 2] = [10_000, 8_192];

/// Accounts and line.
#[derive(Debug)]
pub(super) struct State {
    /// By the digests of their names: there may be many, and each is kept for days.
    accounts: HashMap<Digest, Account, RandomState>,
    /// Places in the line that have been granted nothing yet, of the accounts that have any.
    waiting: HashMap<Digest, BTreeSet<u64>, RandomState>,
    /// Accounts of conversations without a name, and with how many they are looked through.
    unnamed: [usize; 2],
    /// As many as there may be.
    most: usize,
    line: BTreeMap<u64, Waiter>,
    next_ticket: u64,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Account {
    balance: Balance,
    touched: Instant,
    /// Leases under way.
    leases: u32,
    /// Whether nobody can name it again once its conversation is forgotten.
    unnamed: bool,
}

#[derive(Debug)]
struct Waiter {
    claims: Vec<Claim>,
    ask: Ask,
    patience: Patience,
    since: Instant,
    granted: Option<NanoUsd>,
    wake: Arc<Notify>,
}

/// What somebody in the line finds.
#[derive(Debug)]
pub(super) enum Look {
    /// So much is reserved for him; his place is gone.
    Granted(NanoUsd),
    /// He gets nothing; his place is gone.
    Refused(Refusal),
    /// Nothing yet: he looks again when woken, or then.
    Wait(Instant),
}

/// What somebody insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Insists {
    Most,
    Enough,
    Least,
}

/// What there is for somebody's claims, over those with a limit.
#[derive(Clone, Copy)]
struct Room<'a> {
    /// The account with the least left.
    account: &'a str,
    limit: NanoUsd,
    balance: Balance,
    /// Left, reservations taken off.
    left: NanoUsd,
    /// Left if all others cost nothing.
    unspent: NanoUsd,
    /// Others who wait for one of the accounts.
    waiting: u64,
    /// Requests under way on one of the accounts.
    leases: u64,
}

impl State {
    /// No account yet, and never more than so many.
    pub(super) fn new(most: usize) -> Self {
        let (accounts, waiting, line) = (HashMap::default(), HashMap::default(), BTreeMap::new());
        let unnamed = [0, UNNAMED[0]];
        Self { accounts, waiting, unnamed, most, line, next_ticket: 0, swept: None }
    }

    /// Reserves all that is asked for where nobody waits for one of the accounts and each has room
    /// for it, as the line would: whether that was so.
    pub(super) fn at_once(&mut self, now: Instant, claims: &[Claim], most: NanoUsd) -> bool {
        self.sweep(now);
        let free = claims.iter().all(|claim| {
            let name = key(&claim.account);
            let has_room = |limit: NanoUsd| {
                let Balance { spent, reserved } = self.balance_of(&name);
                limit.less(spent).less(reserved) >= most
            };
            !self.waiting.contains_key(&name) && claim.limit.is_none_or(has_room)
        });
        if !free || self.is_full(claims) {
            return false;
        }
        for claim in claims {
            let account = self.account(now, &claim.account);
            account.balance.reserved += most;
            account.leases += 1;
            account.touched = now;
        }
        true
    }

    /// Takes a place at the end of the line; its number.
    pub(super) fn enter(
        &mut self,
        now: Instant,
        claims: Vec<Claim>,
        ask: Ask,
        patience: Patience,
        wake: Arc<Notify>,
    ) -> Result<u64, Refusal> {
        self.sweep(now);
        if self.is_full(&claims) {
            return Err(Refusal::Full { most: self.most });
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for claim in &claims {
            self.account(now, &claim.account).touched = now;
            self.waiting.entry(key(&claim.account)).or_default().insert(ticket);
        }
        let waiter = Waiter { claims, ask, patience, since: now, granted: None, wake };
        self.line.insert(ticket, waiter);
        Ok(ticket)
    }

    /// What has become of a place. Looking also serves all who are to be served before it.
    pub(super) fn look(&mut self, now: Instant, ticket: u64) -> Look {
        self.serve(now, [ticket].into());
        let Some(waiter) = self.line.get(&ticket) else {
            return Look::Refused(Refusal::Away(Away { because: "the place is gone".to_owned() }));
        };
        if let Some(amount) = waiter.granted {
            self.line.remove(&ticket);
            return Look::Granted(amount);
        }
        let room = self.room(waiter);
        let spent = room.is_some_and(|room| room.unspent < waiter.ask.least);
        let until = waiter.since + waiter.patience.in_all;
        if !spent && now < until {
            let next = waiter.since + waiter.patience.for_most;
            return Look::Wait(if now < next { next.min(until) } else { until });
        }
        let ask = waiter.ask;
        // At the end of his patience the order holds no longer. Without a limit there is room.
        let (takes, short) = match room {
            Some(room) => (waiter.takes(now, Some(room)), room.short(ask.least)),
            None => (Some(ask.most), Short::default()),
        };
        if let Some(amount) = takes {
            self.grant(ticket, amount);
        }
        let accounts = self.remove(ticket);
        self.freed(now, &accounts);
        match takes {
            Some(amount) => Look::Granted(amount),
            None if spent => Look::Refused(Refusal::Spent(short)),
            None => Look::Refused(Refusal::Busy(short)),
        }
    }

    /// Gives up a place, and what was granted to it.
    pub(super) fn leave(&mut self, now: Instant, ticket: u64) {
        let granted = self.line.get(&ticket).and_then(|waiter| waiter.granted);
        let accounts = self.remove(ticket);
        match granted {
            Some(amount) => self.settle(now, &accounts, amount, NanoUsd::ZERO),
            None => self.freed(now, &accounts),
        }
    }

    /// Takes a place out of the line; its accounts.
    fn remove(&mut self, ticket: u64) -> Vec<Arc<str>> {
        let Some(waiter) = self.line.remove(&ticket) else { return Vec::new() };
        let accounts: Vec<Arc<str>> =
            waiter.claims.into_iter().map(|claim| claim.account).collect();
        for account in &accounts {
            self.waits_no_more(key(account), ticket);
        }
        accounts
    }

    fn waits_no_more(&mut self, account: Digest, ticket: u64) {
        if let Entry::Occupied(mut waiting) = self.waiting.entry(account) {
            waiting.get_mut().remove(&ticket);
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }

    /// Ends a lease.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        accounts: &[Arc<str>],
        reserved: NanoUsd,
        actual: NanoUsd,
    ) {
        for account in accounts {
            // One with a lease is never forgotten, so it is there.
            let account = self.account(now, account);
            account.balance.reserved = account.balance.reserved.less(reserved);
            account.balance.spent += actual;
            account.leases = account.leases.saturating_sub(1);
            account.touched = now;
        }
        self.freed(now, accounts);
    }

    /// Makes a lease smaller.
    pub(super) fn lower(&mut self, now: Instant, accounts: &[Arc<str>], by: NanoUsd) {
        for account in accounts {
            if let Some(account) = self.accounts.get_mut(&key(account)) {
                account.balance.reserved = account.balance.reserved.less(by);
                account.touched = now;
            }
        }
        self.freed(now, accounts);
    }

    /// What stands in an account.
    pub(super) fn balance(&self, account: &str) -> Balance {
        self.balance_of(&key(account))
    }

    fn balance_of(&self, name: &Digest) -> Balance {
        self.accounts.get(name).map_or_else(Balance::default, |account| account.balance)
    }

    /// Whether there is no place for those accounts of these that are new.
    fn is_full(&self, claims: &[Claim]) -> bool {
        if self.accounts.len() + claims.len() <= self.most {
            return false;
        }
        let new = |claim: &&Claim| !self.accounts.contains_key(&key(&claim.account));
        self.accounts.len() + claims.iter().filter(new).count() > self.most
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.accounts.len()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let idle =
            |account: &Account| account.leases == 0 && account.balance.reserved == NanoUsd::ZERO;
        let nobody = self.line.is_empty() && self.waiting.is_empty();
        nobody && self.accounts.values().all(idle)
    }

    /// Something may have come free in these accounts.
    fn freed(&mut self, now: Instant, accounts: &[Arc<str>]) {
        let waiting = accounts.iter().filter_map(|account| self.waiting.get(&key(account)));
        let waiting: BTreeSet<u64> = waiting.flatten().copied().collect();
        if !waiting.is_empty() {
            self.serve(now, waiting);
        }
    }

    /// Serves these, and all who share an account with them, in the order in which they came.
    fn serve(&mut self, now: Instant, tickets: BTreeSet<u64>) {
        let mut closed: BTreeSet<String> = BTreeSet::new();
        for ticket in self.together(tickets) {
            let Some(waiter) = self.line.get(&ticket).filter(|w| w.granted.is_none()) else {
                continue;
            };
            let room = self.room(waiter);
            let shut = waiter.limited().any(|(account, _)| closed.contains(account));
            let takes = if shut { None } else { waiter.takes(now, room) };
            if let Some(amount) = takes {
                waiter.wake.notify_one();
                self.grant(ticket, amount);
            } else if room.is_some_and(|room| room.unspent < waiter.ask.least) {
                // He is not to wait for what cannot come.
                waiter.wake.notify_one();
            } else if now.saturating_duration_since(waiter.since) >= OVERTAKEN_FOR {
                let insists = waiter.amount(waiter.insists(now, room));
                closed.extend(self.lacking(waiter, insists).map(str::to_owned));
            }
        }
    }

    /// Those, and all who share an account with one of them, and so on.
    fn together(&self, mut found: BTreeSet<u64>) -> BTreeSet<u64> {
        let mut open: Vec<u64> = found.iter().copied().collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(ticket) = open.pop() {
            let Some(waiter) = self.line.get(&ticket) else { continue };
            for (name, _) in waiter.limited() {
                let waiting = self.waiting.get(&key(name)).filter(|_| seen.insert(name));
                let Some(waiting) = waiting else { continue };
                open.extend(waiting.iter().filter(|ticket| found.insert(**ticket)));
            }
        }
        found
    }

    /// An account; a new one has nothing spent.
    fn account(&mut self, now: Instant, name: &str) -> &mut Account {
        let unnamed = &mut self.unnamed[0];
        self.accounts.entry(key(name)).or_insert_with(|| {
            let account = Account::new(now, name);
            *unnamed += usize::from(account.unnamed);
            account
        })
    }

    /// Reserves for a place in the line.
    fn grant(&mut self, ticket: u64, amount: NanoUsd) {
        let Some(waiter) = self.line.get_mut(&ticket) else { return };
        waiter.granted = Some(amount);
        let accounts: Vec<Digest> = waiter.claims.iter().map(|c| key(&c.account)).collect();
        for account in accounts {
            if let Some(account) = self.accounts.get_mut(&account) {
                account.balance.reserved += amount;
                account.leases += 1;
            }
            self.waits_no_more(account, ticket);
        }
    }

    /// `None` where no claim has a limit.
    fn room<'a>(&'a self, waiter: &'a Waiter) -> Option<Room<'a>> {
        let rooms = waiter.limited().filter_map(|(account, limit)| {
            let name = key(account);
            let Account { balance, leases, .. } = self.accounts.get(&name)?;
            let (balance, unspent) = (*balance, limit.less(balance.spent));
            let left = unspent.less(balance.reserved);
            let waiting = self.waiting.get(&name).map_or(0, BTreeSet::len);
            let (waiting, leases) = (waiting.saturating_sub(1) as u64, u64::from(*leases));
            Some(Room { account, limit, balance, left, unspent, waiting, leases })
        });
        rooms.reduce(Room::and)
    }

    /// The accounts that have less left than that.
    fn lacking<'a>(
        &'a self,
        waiter: &'a Waiter,
        amount: NanoUsd,
    ) -> impl Iterator<Item = &'a str> + 'a {
        waiter.limited().filter_map(move |(account, limit)| {
            let Balance { spent, reserved } = self.balance(account);
            (limit.less(spent).less(reserved) < amount).then_some(account)
        })
    }

    /// Forgets idle accounts when there are many.
    fn sweep(&mut self, now: Instant) {
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

    /// Of the accounts of conversations without a name only the newest stay, and those in use.
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
        // Where most are in use it is not looked again at each new one.
        let [most, stay] = UNNAMED;
        self.unnamed = [unnamed, unnamed + most - stay];
    }
}

impl Account {
    fn new(now: Instant, name: &str) -> Self {
        let of = name.split_once(':').map_or("", |(_, of)| of);
        let unnamed = of.starts_with(names::UNNAMED);
        Self { balance: Balance::default(), touched: now, leases: 0, unnamed }
    }
}

/// What an account is found by.
fn key(account: &str) -> Digest {
    Digest::of(account.as_bytes())
}

impl<'a> Room<'a> {
    /// The narrower of both.
    fn and(self, other: Self) -> Self {
        Self {
            unspent: self.unspent.min(other.unspent),
            waiting: self.waiting.max(other.waiting),
            leases: self.leases.max(other.leases),
            ..if other.left < self.left { other } else { self }
        }
    }

    fn short(&self, least: NanoUsd) -> Short {
        let Balance { spent, reserved } = self.balance;
        Short { account: self.account.into(), limit: self.limit, spent, reserved, least }
    }
}

impl Waiter {
    /// The claims with a limit.
    fn limited(&self) -> impl Iterator<Item = (&str, NanoUsd)> {
        self.claims.iter().filter_map(|claim| Some((&*claim.account, claim.limit?)))
    }

    /// What he takes of this room, if he takes any.
    fn takes(&self, now: Instant, room: Option<Room<'_>>) -> Option<NanoUsd> {
        let Ask { most, enough, least } = self.ask;
        let Some(room) = room else { return Some(most) };
        let insists = self.insists(now, Some(room));
        if room.left >= most && (insists == Insists::Most || room.waiting == 0) {
            return Some(most);
        }
        match insists {
            // As many as are here may come again: each takes his share, so that no one holds all.
            Insists::Enough | Insists::Least if room.left >= enough => {
                let sharers = room.waiting.saturating_add(room.leases).saturating_add(1);
                Some(NanoUsd(room.left.0 / sharers).clamp(enough, most.min(room.left)))
            }
            Insists::Least if room.left >= least => Some(room.left),
            Insists::Most | Insists::Enough | Insists::Least => None,
        }
    }

    /// It falls with the time, and to what may come at all.
    fn insists(&self, now: Instant, room: Option<Room<'_>>) -> Insists {
        let waited = now.saturating_duration_since(self.since);
        let unspent = room.map_or(self.ask.most, |room| room.unspent);
        if waited >= self.patience.in_all || unspent < self.ask.enough {
            Insists::Least
        } else if waited >= self.patience.for_most || unspent < self.ask.most {
            Insists::Enough
        } else {
            Insists::Most
        }
    }

    fn amount(&self, insists: Insists) -> NanoUsd {
        match insists {
            Insists::Most => self.ask.most,
            Insists::Enough => self.ask.enough,
            Insists::Least => self.ask.least,
        }
    }
}
