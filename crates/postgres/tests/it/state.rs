//! The state does what every state does, from many gateways at once, too.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use softland_govern::SharedState;
use softland_govern::money::accounts::{LeaseStore as _, ReservationError, WaitLimits};
use softland_govern::shared::ReserveQuery;
use softland_govern::suite::check_shared_state;
use softland_postgres::PostgresState;
use softland_session::core::NanoUsd;

use crate::alike::check_alike;
use crate::outage::{wait_for_balance, wanted};
use crate::server::PostgresServer;

pub(crate) fn connect(server: &PostgresServer) -> PostgresState {
    softland_postgres::connect(&server.url()).expect("an address")
}

/// An empty database, and a state on it.
pub(crate) fn connect_empty(server: &PostgresServer) -> PostgresState {
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    connect(server)
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn the_state_on_postgres_does_what_every_state_does() {
    let server = PostgresServer::start();
    check_shared_state(async || connect_empty(&server).with_given_times()).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn conversations_on_postgres_are_found_as_those_in_memory() {
    let server = PostgresServer::start();
    check_alike(|| connect_empty(&server)).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn gateways_on_one_postgres_hold_one_limit_to_the_nano_dollar() {
    let server = PostgresServer::start();
    let states = [connect(&server), connect(&server), connect(&server)].map(Arc::new);
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..60 {
        let state = Arc::clone(&states[n % states.len()]);
        asked.spawn(async move {
            let patience = Duration::from_secs(60);
            let patience = WaitLimits { for_most: patience, in_all: patience };
            let asked = ReserveQuery { patience, ..wanted(&format!("r{n}"), 1000, 100) };
            match state.reserve(asked).await.expect("it answers").grant {
                Ok(grant) => {
                    state.settle_lease(&grant, NanoUsd(90).into());
                    true
                }
                Err(ReservationError::Busy(_) | ReservationError::Spent(_)) => false,
                Err(other) => panic!("{other}"),
            }
        });
    }
    let granted = asked.join_all().await.into_iter().filter(|granted| *granted).count();
    // Eleven times 90 leave 10, which is less than 100.
    assert_eq!(granted, 11);
    wait_for_balance(&*states[0], (NanoUsd(990), NanoUsd::ZERO)).await;
}
