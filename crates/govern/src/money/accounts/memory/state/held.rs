//! The reservations that nobody has settled yet, and the ends of their leases.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use softland_session::core::lease::Amount;

use crate::money::accounts::{Grant, ReservationId};

/// The time for which a reservation is known after its lease has expired, in milliseconds. Within
/// it, its holder can still correct what was booked.
const CORRECTED_FOR: u64 = 24 * 3_600_000;
/// The largest number of those; beyond it, the ones that expired first are forgotten.
const MOST_EXPIRED: usize = 100_000;

/// A reservation.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) grant: Grant,
    until: u64,
    /// The length of its lease in milliseconds.
    lease: u64,
    sent: bool,
    /// The amount that was booked at the end of its lease.
    pub(super) booked: Option<Amount>,
}

/// All reservations.
#[derive(Debug, Default)]
pub(super) struct HeldReservations {
    by_id: HashMap<ReservationId, Held, RandomState>,
    /// The ends of the leases, if they end at all.
    ends: Option<BTreeSet<(u64, ReservationId)>>,
    /// The ends of the time in which expired ones can be corrected.
    expired: BTreeSet<(u64, ReservationId)>,
}

impl HeldReservations {
    pub(super) fn new(leases_expire: bool) -> Self {
        Self { ends: leases_expire.then(BTreeSet::new), ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn find_grant(&self, id: &ReservationId) -> Option<Grant> {
        self.by_id.get(id).map(|held| held.grant.clone())
    }

    pub(super) fn insert(&mut self, grant: Grant, at: u64, lease: u64) {
        let until = at.saturating_add(lease);
        if let Some(ends) = &mut self.ends {
            ends.insert((until, grant.id.clone()));
        }
        let held = Held { until, lease, sent: false, booked: None, grant };
        self.by_id.insert(held.grant.id.clone(), held);
    }

    pub(super) fn mark_sent(&mut self, id: &ReservationId) {
        if let Some(held) = self.by_id.get_mut(id) {
            held.sent = true;
        }
    }

    pub(super) fn renew(&mut self, id: &ReservationId, at: u64) {
        let Some(held) = self.by_id.get_mut(id).filter(|held| held.booked.is_none()) else {
            return;
        };
        let until = at.saturating_add(held.lease);
        if let Some(ends) = &mut self.ends {
            ends.remove(&(held.until, id.clone()));
            ends.insert((until, id.clone()));
        }
        held.until = until;
    }

    pub(super) fn remove(&mut self, id: &ReservationId) -> Option<Held> {
        let held = self.by_id.remove(id)?;
        let place = (held.until, id.clone());
        match (&mut self.ends, held.booked) {
            (_, Some(_)) => self.expired.remove(&place),
            (Some(ends), None) => ends.remove(&place),
            (None, None) => false,
        };
        Some(held)
    }

    /// Lowers a reservation. Returns its accounts and the difference.
    pub(super) fn lower(
        &mut self,
        id: &ReservationId,
        to: Amount,
    ) -> Option<(Vec<Arc<str>>, Amount)> {
        let held = self.by_id.get_mut(id).filter(|held| held.booked.is_none())?;
        let to = to.min(held.grant.amount);
        let by = held.grant.amount.saturating_sub(to);
        held.grant.amount = to;
        Some((held.grant.accounts.clone(), by))
    }

    /// Ends the leases that end at this time. Returns their reservations, and the amount to book
    /// for each.
    pub(super) fn take_expired(&mut self, at: u64) -> Vec<(Grant, Amount)> {
        let mut taken = Vec::new();
        let Some(ends) = &mut self.ends else { return taken };
        while ends.first().is_some_and(|(until, _)| *until <= at) {
            let Some((_, id)) = ends.pop_first() else { break };
            let Some(held) = self.by_id.get_mut(&id) else { continue };
            let booked = if held.sent { held.grant.amount } else { Amount::default() };
            held.booked = Some(booked);
            held.until = at.saturating_add(CORRECTED_FOR);
            self.expired.insert((held.until, id));
            taken.push((held.grant.clone(), booked));
        }
        let is_old = |(until, _): &(u64, ReservationId)| *until <= at;
        while self.expired.len() > MOST_EXPIRED || self.expired.first().is_some_and(is_old) {
            let Some((_, id)) = self.expired.pop_first() else { break };
            self.by_id.remove(&id);
        }
        taken
    }
}
