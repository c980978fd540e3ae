//! The queue of waiting requests.

use std::collections::hash_map::Entry;

use super::account::ClaimRoom;
use super::*;
use crate::money::accounts::{OVERTAKEN_FOR, Shortfall};

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    wanted: Wanted,
    granted: Option<Grant>,
    wake: Arc<Notify>,
}

/// The state of a waiting request.
#[derive(Debug)]
pub(in super::super) enum QueueState {
    /// This is reserved for the request, which has left the queue.
    Granted(Grant),
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
    /// The claim with the least left.
    claim: &'a Claim,
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
    /// Adds a request to the end of the queue. Returns its ticket.
    ///
    /// # Errors
    /// Returns [`ReservationError::Full`] if there are too many accounts.
    pub(in super::super) fn join_queue(
        &mut self,
        now: Instant,
        wanted: Wanted,
        wake: Arc<Notify>,
    ) -> Result<u64, ReservationError> {
        self.expire_leases(now, wanted.at);
        self.sweep_idle(now);
        let at = wanted.wall_time(now);
        if self.is_full(&wanted.claims, at) {
            return Err(ReservationError::Full { most: self.most });
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        for claim in &wanted.claims {
            let Claimed { name, span } = self.find_claimed(claim, at);
            // A window that begins with its first reservation has not begun yet.
            if span.is_none() || self.accounts.contains_key(&account_key(&name)) {
                self.account_mut(now, &name).touch(now, span, at);
            }
            self.waiting.entry(account_key(&claim.account)).or_default().insert(ticket);
        }
        self.line.insert(ticket, Waiter { wanted, granted: None, wake });
        Ok(ticket)
    }

    /// Returns the state of a waiting request. This also serves all requests that come before it.
    pub(in super::super) fn check_ticket(&mut self, now: Instant, ticket: u64) -> QueueState {
        self.serve_waiters(now, [ticket].into());
        let Some(waiter) = self.line.get_mut(&ticket) else {
            return QueueState::Refused(ReservationError::Away(AccountsUnavailable {
                because: "the place is gone".to_owned(),
            }));
        };
        if let Some(grant) = waiter.granted.take() {
            self.line.remove(&ticket);
            return QueueState::Granted(grant);
        }
        let Some(waiter) = self.line.get(&ticket) else {
            return QueueState::Wait(now);
        };
        let Wanted { ask, patience, since, .. } = waiter.wanted;
        let room = self.find_headroom(&waiter.wanted, now);
        let spent = room.is_some_and(|room| room.unspent < ask.least);
        let until = since + patience.in_all;
        if !spent && now < until {
            let next = since + patience.for_most;
            let next = if now < next { next.min(until) } else { until };
            let rollover = self.next_rollover(&waiter.wanted, now);
            return QueueState::Wait(rollover.map_or(next, |rollover| rollover.min(next)));
        }
        // At the end of a request's patience the order no longer holds. Without a limit there is
        // room.
        let at = waiter.wanted.wall_time(now);
        let (takes, short) = match room {
            Some(room) => {
                let short = self.shortfall_of(room.claim, &ask, at);
                (waiter.amount_taken(now, Some(room)), short)
            }
            None => (Some(ask.most), Shortfall::default()),
        };
        if let Some(amount) = takes {
            self.grant_amount(now, ticket, amount);
        }
        let granted = self.line.get_mut(&ticket).and_then(|waiter| waiter.granted.take());
        let accounts = self.remove_waiter(ticket);
        self.serve_freed(now, &accounts);
        match granted {
            Some(grant) => QueueState::Granted(grant),
            None if spent => QueueState::Refused(ReservationError::Spent(short)),
            None => QueueState::Refused(ReservationError::Busy(short)),
        }
    }

    /// Returns the time at which the next of a request's windows ends.
    fn next_rollover(&self, wanted: &Wanted, now: Instant) -> Option<Instant> {
        let at = wanted.wall_time(now);
        let ends = wanted.claims.iter().filter_map(|claim| self.find_claimed(claim, at).span);
        let millis = ends.map(|span| span.end.saturating_sub(at)).min()?;
        now.checked_add(Duration::from_millis(millis.max(1)))
    }

    /// Gives up a queue entry, and the amount that was granted to it.
    pub(in super::super) fn leave_queue(&mut self, now: Instant, ticket: u64) {
        let granted = self.line.get_mut(&ticket).and_then(|waiter| waiter.granted.take());
        let accounts = self.remove_waiter(ticket);
        match granted {
            Some(grant) => self.settle_lease(now, &grant.id, Amount::default()),
            None => self.serve_freed(now, &accounts),
        }
    }

    /// Removes an entry from the queue. Returns its accounts.
    fn remove_waiter(&mut self, ticket: u64) -> Vec<Arc<str>> {
        let Some(waiter) = self.line.remove(&ticket) else { return Vec::new() };
        let claims = waiter.wanted.claims.into_iter();
        let accounts: Vec<Arc<str>> = claims.map(|claim| claim.account).collect();
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

    /// Serves the waiters of these accounts, in which money may have been freed.
    pub(super) fn serve_freed(&mut self, now: Instant, accounts: &[Arc<str>]) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = accounts.iter().filter_map(|account| self.waiting.get(&waiting_key(account)));
        let waiting: BTreeSet<u64> = waiting.flatten().copied().collect();
        if !waiting.is_empty() {
            self.serve_waiters(now, waiting);
        }
    }

    /// Serves these tickets, and all that share an account with them, in order of arrival.
    fn serve_waiters(&mut self, now: Instant, tickets: BTreeSet<u64>) {
        let mut closed: BTreeSet<Arc<str>> = BTreeSet::new();
        for ticket in self.collect_connected(tickets) {
            let Some(waiter) = self.line.get(&ticket).filter(|w| w.granted.is_none()) else {
                continue;
            };
            let wanted = &waiter.wanted;
            let room = self.find_headroom(wanted, now);
            let shut = wanted.limited_claims().any(|claim| closed.contains(&claim.account));
            let takes = if shut { None } else { waiter.amount_taken(now, room) };
            if let Some(amount) = takes {
                waiter.wake.notify_one();
                self.grant_amount(now, ticket, amount);
            } else if room.is_some_and(|room| room.unspent < wanted.ask.least) {
                // A request must not wait for money that cannot come.
                waiter.wake.notify_one();
            } else if now.saturating_duration_since(wanted.since) >= OVERTAKEN_FOR {
                let insists = waiter.level_amount(waiter.accepted_level(now, room));
                closed.extend(self.lacking_accounts(wanted, now, insists));
            }
        }
    }

    /// Returns these tickets and all that are connected to them through shared accounts.
    fn collect_connected(&self, mut found: BTreeSet<u64>) -> BTreeSet<u64> {
        let mut open: Vec<u64> = found.iter().copied().collect();
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        while let Some(ticket) = open.pop() {
            let Some(waiter) = self.line.get(&ticket) else { continue };
            for claim in waiter.wanted.limited_claims() {
                let name = &*claim.account;
                let waiting = self.waiting.get(&account_key(name)).filter(|_| seen.insert(name));
                let Some(waiting) = waiting else { continue };
                open.extend(waiting.iter().filter(|ticket| found.insert(**ticket)));
            }
        }
        found
    }

    /// Reserves an amount for a queue entry.
    fn grant_amount(&mut self, now: Instant, ticket: u64, amount: NanoUsd) {
        let Some(mut waiter) = self.line.remove(&ticket) else { return };
        waiter.granted = Some(self.grant_claims(now, &waiter.wanted, amount));
        for claim in &waiter.wanted.claims {
            self.stop_waiting(account_key(&claim.account), ticket);
        }
        self.line.insert(ticket, waiter);
    }

    /// Returns the money available for a request's claims; `None` if no claim has a limit.
    fn find_headroom<'a>(&self, wanted: &'a Wanted, now: Instant) -> Option<Headroom<'a>> {
        let at = wanted.wall_time(now);
        let rooms = wanted.limited_claims().filter_map(|claim| {
            let ClaimRoom { left, unspent, leases, .. } =
                self.claim_room(claim, &wanted.ask, at)?;
            let waiting = self.waiting.get(&account_key(&claim.account)).map_or(0, BTreeSet::len);
            let (waiting, leases) = (waiting.saturating_sub(1) as u64, u64::from(leases));
            Some(Headroom { claim, left, unspent, waiting, leases })
        });
        rooms.reduce(Headroom::min_with)
    }

    /// Returns the accounts that have less than `amount` left.
    fn lacking_accounts(
        &self,
        wanted: &Wanted,
        now: Instant,
        amount: NanoUsd,
    ) -> impl Iterator<Item = Arc<str>> {
        let at = wanted.wall_time(now);
        wanted.limited_claims().filter_map(move |claim| {
            let room = self.claim_room(claim, &wanted.ask, at)?;
            (room.left < amount).then(|| Arc::clone(&claim.account))
        })
    }
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
}

impl Waiter {
    /// Returns the amount that the waiter takes of this room, if any.
    fn amount_taken(&self, now: Instant, room: Option<Headroom<'_>>) -> Option<NanoUsd> {
        let ReservationAmounts { most, enough, least, .. } = self.wanted.ask;
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
        let waited = now.saturating_duration_since(self.wanted.since);
        let unspent = room.map_or(self.wanted.ask.most, |room| room.unspent);
        if waited >= self.wanted.patience.in_all || unspent < self.wanted.ask.enough {
            AmountLevel::Least
        } else if waited >= self.wanted.patience.for_most || unspent < self.wanted.ask.most {
            AmountLevel::Enough
        } else {
            AmountLevel::Most
        }
    }

    fn level_amount(&self, insists: AmountLevel) -> NanoUsd {
        match insists {
            AmountLevel::Most => self.wanted.ask.most,
            AmountLevel::Enough => self.wanted.ask.enough,
            AmountLevel::Least => self.wanted.ask.least,
        }
    }
}
