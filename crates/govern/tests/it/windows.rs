//! The windows of budgets in memory against a model of them, and a request that waits for the next one.

use std::time::Duration;

use softland_govern::money::accounts::{LeaseStore as _, ReservationError, WaitLimits};
use softland_govern::shared::ReserveQuery;
use softland_govern::{LocalState, SharedState as _};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use crate::model::{Model, check_against_model};

/// The state in memory knows which requests were sent.
fn make() -> (LocalState, bool) {
    (LocalState::with_expiring_leases(), true)
}

#[test]
fn windows_are_what_their_reservations_make_them() {
    let runtime = || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap()
    };
    check_against_model(60, runtime, make);
}

/// A request that waits for a window that is used up gets its money when the next one begins.
#[tokio::test(start_paused = true)]
async fn who_waits_is_served_by_the_next_window() {
    // The budget of each child ends at midnight in Berlin, all others later.
    let mut model =
        Model::new(make(), "2026-03-24T22:59:50Z", [10_000, 100, 10_000, 10_000], [1; 4]);
    let patience = Duration::from_secs(30);
    let patience = WaitLimits { for_most: patience, in_all: patience };
    let first = model.query("acme/ops", 60, None);
    let first = model.store.reserve(first).await.expect("it answers").grant.expect("it fits");
    let began = tokio::time::Instant::now();
    let second = ReserveQuery { patience, ..model.query("acme/ops", 70, None) };
    let second = model.store.reserve(second).await.expect("it answers").grant.expect("it fits");
    assert_eq!(began.elapsed().as_secs(), 10, "at midnight");
    assert_ne!(first.accounts, second.accounts);
    model.clock += 10_000;
    model.store.settle_lease(&first, Amount::from(NanoUsd(60)));
    model.store.settle_lease(&second, Amount::from(NanoUsd(70)));
    let third = model.query("acme/ops", 31, None);
    let third = model.store.reserve(third).await.expect("it answers").grant;
    let Err(ReservationError::Spent(short)) = third else { panic!("{third:?}") };
    assert_eq!((short.spent, short.limit), (NanoUsd(70), NanoUsd(100)));
}
