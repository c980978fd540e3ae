//! What requests have spent while the accounts did not respond, until it is booked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use crate::money::accounts::{Claim, Grant, Lease, LeaseStore, ReservationAmounts, WaitLimits};
use crate::services::Services;
use crate::shared::{ReserveQuery, Reserved};

/// The most requests whose spending is kept. What more of them spend is lost for the accounts.
const MOST: usize = 100_000;

/// What was spent without a reservation, in the order in which it was spent. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct UnbookedSpend(Arc<Mutex<VecDeque<(ReserveQuery, Amount)>>>);

impl UnbookedSpend {
    /// Returns a lease for a request that may be sent although its reservation `wanted` got no
    /// answer. `most` is the most that it can spend.
    pub(crate) fn lend(&self, wanted: ReserveQuery, most: Amount) -> Lease {
        let accounts = wanted.claims.iter().map(|claim| Arc::clone(&claim.account)).collect();
        let grant = Grant { id: wanted.id.clone(), accounts, amount: most };
        // Under its name the reservation is found again if it was made, and only its answer lost.
        let wanted = ReserveQuery {
            claims: wanted.claims.into_iter().map(Claim::without_limits).collect(),
            ask: ReservationAmounts::from_exact(NanoUsd::ZERO),
            patience: WaitLimits::NONE,
            opens: None,
            ..wanted
        };
        let sent = AtomicBool::new(false);
        Lease::new(Arc::new(UnheldLease { spend: self.clone(), wanted, sent }), grant)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(ReserveQuery, Amount)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lease of a request without a reservation.
#[derive(Debug)]
struct UnheldLease {
    spend: UnbookedSpend,
    wanted: ReserveQuery,
    /// True once the request is sent. What is not sent spends nothing.
    sent: AtomicBool,
}

impl LeaseStore for UnheldLease {
    fn mark_sent(&self, _: &Grant) {
        self.sent.store(true, Ordering::Relaxed);
    }

    fn lower_reservation(&self, _: &Grant, _: Amount) {}

    fn settle_lease(&self, _: &Grant, actual: Amount) {
        if !self.sent.load(Ordering::Relaxed) {
            return;
        }
        let mut unbooked = self.spend.lock();
        if unbooked.len() < MOST {
            unbooked.push_back((self.wanted.clone(), actual));
        } else {
            tracing::error!(money = %actual.money, "spent, and not counted in its accounts");
        }
    }
}

impl Services {
    /// Books what requests have spent while the accounts did not respond, as far as they respond
    /// now. A host calls this every few seconds.
    pub async fn book_unheld_spend(&self) {
        loop {
            let Some((wanted, spent)) = self.unbooked.lock().pop_front() else { return };
            match self.state.reserve(wanted.clone()).await {
                Ok(Reserved { grant: Ok(grant), .. }) => self.state.settle_lease(&grant, spent),
                Ok(Reserved { grant: Err(error), .. }) => {
                    tracing::error!(money = %spent.money, %error, "spent, and not booked");
                }
                Err(_) => {
                    self.unbooked.lock().push_front((wanted, spent));
                    return;
                }
            }
        }
    }
}
