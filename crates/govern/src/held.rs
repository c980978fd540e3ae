//! The reservations that this process holds, whose leases it extends.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use softland_session::core::lease::Amount;

use crate::money::accounts::{Grant, LeaseStore, ReservationId};
use crate::shared::SharedState;

/// The reservations that this process holds. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HeldLeases(Arc<Mutex<HashSet<ReservationId, RandomState>>>);

impl HeldLeases {
    /// Returns the reservations.
    #[must_use]
    pub fn list_ids(&self) -> Vec<ReservationId> {
        self.lock().iter().cloned().collect()
    }

    /// Notes a reservation until it is settled through the returned store.
    pub(crate) fn keep(&self, state: &Arc<dyn SharedState>, grant: &Grant) -> Arc<dyn LeaseStore> {
        self.lock().insert(grant.id.clone());
        Arc::new(KeptLease { state: Arc::clone(state), held: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<ReservationId, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way of one lease back to the shared state.
#[derive(Debug)]
struct KeptLease {
    state: Arc<dyn SharedState>,
    held: HeldLeases,
}

impl LeaseStore for KeptLease {
    fn mark_sent(&self, grant: &Grant) {
        self.state.mark_sent(grant);
    }

    fn lower_reservation(&self, grant: &Grant, to: Amount) {
        self.state.lower_reservation(grant, to);
    }

    fn settle_lease(&self, grant: &Grant, actual: Amount) {
        self.held.lock().remove(&grant.id);
        self.state.settle_lease(grant, actual);
    }
}
