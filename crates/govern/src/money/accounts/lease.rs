//! Leases: money that is held for one request until it is settled.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

/// The name of a reservation, which its host chooses. A reservation that is asked for again under
/// the same name is the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReservationId(pub Arc<str>);

/// A reservation, which its holder settles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub id: ReservationId,
    /// The accounts, each once; of a budget, the account of the window.
    pub accounts: Vec<Arc<str>>,
    /// The amount that is held on each.
    pub amount: Amount,
}

/// The store to which leases are given back. It may neither block nor fail, since a drop can do
/// neither.
///
/// A reservation is settled by whoever holds it. If its host is killed, it is settled by the store,
/// at the end of its lease ([`ReserveQuery::lease`](crate::shared::ReserveQuery::lease)): what may
/// have been sent is booked whole, and what was not sent is released. A holder that settles later
/// than that corrects what was booked.
pub trait LeaseStore: Send + Sync + fmt::Debug {
    /// Notes that the request of a reservation is sent from now on. A store whose notes can be lost
    /// takes every reservation for one that may have been sent.
    fn mark_sent(&self, grant: &Grant);
    /// Reduces a reservation to this amount; the lease continues.
    fn lower_reservation(&self, grant: &Grant, to: Amount);
    /// Ends a lease: releases its reservation and books what was spent. The second time, nothing
    /// happens.
    fn settle_lease(&self, grant: &Grant, actual: Amount);
}

/// Money held for one request. If it is dropped without [`Lease::settle_cost`] (a panic, a
/// cancelled task), it books the last amount given to [`Lease::set_received_cost`], or the whole
/// reservation if there was none. So a dropped lease never books nothing by accident, and never
/// leaves a reservation behind.
#[derive(Debug)]
#[must_use = "a lease that is dropped books its whole amount"]
pub struct Lease {
    book: Arc<dyn LeaseStore>,
    grant: Grant,
    /// The amount that a drop books.
    received: Option<Amount>,
    /// True if somebody else settles it.
    detached: bool,
}

impl Lease {
    /// Creates a lease whose reservation is in `book` already.
    pub fn new(book: Arc<dyn LeaseStore>, grant: Grant) -> Self {
        Self { book, grant, received: None, detached: false }
    }

    /// Returns the money that is held.
    pub fn reserved_amount(&self) -> NanoUsd {
        self.grant.amount.money
    }

    /// Returns the reservation.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// Notes that the request is sent from now on.
    pub fn mark_sent(&self) {
        self.book.mark_sent(&self.grant);
    }

    /// Notes what the response has cost so far, in case it ends here.
    pub fn set_received_cost(&mut self, cost: impl Into<Amount>) {
        self.received = Some(cost.into());
    }

    /// Lowers the reservation to `to`, so that others can have the rest. As soon as a response
    /// states its billed input, only its output is uncertain.
    pub fn lower_to(&mut self, to: impl Into<Amount>) {
        let to = to.into().min(self.grant.amount);
        if to != self.grant.amount {
            self.book.lower_reservation(&self.grant, to);
            self.grant.amount = to;
        }
    }

    /// Gives up the lease without settling it. Returns the reservation, which somebody else now has
    /// to settle.
    pub fn detach(mut self) -> Grant {
        self.detached = true;
        std::mem::take(&mut self.grant)
    }

    /// Ends the lease and books the real cost, even if it is more than was held.
    pub fn settle_cost(mut self, actual: impl Into<Amount>) {
        self.received = Some(actual.into());
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.detached {
            return;
        }
        let actual = self.received.unwrap_or(self.grant.amount);
        self.book.settle_lease(&self.grant, actual);
    }
}
