//! The state does what every state does, in as many round trips as are promised, and keeps nothing for
//! ever.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use softland_govern::money::accounts::{LeaseStore as _, ReservationError};
use softland_govern::recall::RecallQuery;
use softland_govern::runs::{RequestEnd, RunOpening, RunTotals};
use softland_govern::shared::{Closing, ReserveQuery};
use softland_govern::store::{RunState, StoreChanges};
use softland_govern::suite::check_shared_state;
use softland_govern::{SharedState as _, StateNote};
use softland_redis::RedisState;
use softland_session::core::{Digest, NanoUsd};

use crate::alike::check_alike;
use crate::outage::wanted;
use crate::server::RedisServer;
use crate::windows::check_against_model;

pub(crate) fn connect(server: &RedisServer) -> RedisState {
    softland_redis::connect(&server.url()).expect("an address")
}

/// The number of scripts that the server has run.
fn count_scripts(server: &RedisServer) -> u64 {
    let stats = server.command(&["info", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn the_state_on_redis_does_what_every_state_does() {
    let server = RedisServer::start();
    check_shared_state(async || {
        server.command(&["flushall"]);
        connect(&server).with_given_times()
    })
    .await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn conversations_on_redis_are_found_as_those_in_memory() {
    let server = RedisServer::start();
    let make = || {
        server.command(&["flushall"]);
        connect(&server)
    };
    check_alike(make).await;
}

#[test]
#[ignore = "needs redis-server"]
fn windows_on_redis_are_what_their_reservations_make_them() {
    let server = RedisServer::start();
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    check_against_model(16, runtime, || {
        server.command(&["flushall"]);
        (connect(&server).with_given_times(), false)
    });
}

/// A whole request of a run, with everything that it can bring.
async fn make_request(state: &RedisState) {
    let turns = vec![Digest::from_bytes(b"turn")];
    let query = RecallQuery { turns, here: Digest::from_bytes(b"here"), ..RecallQuery::default() };
    state.recall(query).await.expect("it answers");
    let opening = RunOpening { run: "r".into(), ..RunOpening::default() };
    let opens = Some(Box::new(opening));
    let reserved = state.reserve(ReserveQuery { opens, ..wanted("one", 100, 60) }).await;
    let reserved = reserved.expect("it answers");
    let run = RunState { id: "r".into(), ..RunState::default() };
    let changes = StoreChanges {
        run: Some((Digest::from_bytes(b"run"), run)),
        clues: vec![Digest::from_bytes(b"answered")],
        untaken: Some(Digest::from_bytes(b"question")),
        ..StoreChanges::default()
    };
    state.settle_lease(&reserved.grant.expect("it fits"), NanoUsd(40).into());
    let totals = RunTotals { turns: 1, ..RunTotals::default() };
    let request = Some(RequestEnd { run: "r".into(), totals, ..RequestEnd::default() });
    let accounts = vec!["session:s".into()];
    let closing = Closing { scope: "s".into(), changes, accounts, request, ..Closing::default() };
    let closed = state.close(closing).await.expect("it answers");
    assert_eq!(closed.balances[0].spent, NanoUsd(40), "the settlement came before");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_request_makes_three_round_trips_to_redis() {
    let server = RedisServer::start();
    let state = connect(&server);
    state.find_run("nobody").await.expect("it answers");
    let before = count_scripts(&server);
    make_request(&state).await;
    assert_eq!(count_scripts(&server) - before, 3, "two to open, one to end");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn all_that_redis_holds_has_one_tag_and_expires() {
    let server = RedisServer::start();
    let state = connect(&server);
    make_request(&state).await;
    state.take_note(StateNote::Learned { model: "m".into(), lessons: Default::default() });
    state.cancel_run("r", 9).await.expect("it answers");
    let keys = server.command(&["keys", "*"]);
    assert!(keys.lines().count() > 8, "{keys}");
    for key in keys.lines() {
        assert!(key.starts_with("{softland}:"), "{key}");
        let left: i64 = server.command(&["ttl", key]).trim().parse().expect("seconds");
        assert!(left > 0, "{key} is kept for ever");
    }
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn gateways_on_one_redis_hold_one_limit() {
    let server = RedisServer::start();
    let states = [connect(&server), connect(&server), connect(&server)];
    let mut asked = tokio::task::JoinSet::new();
    let states = states.map(std::sync::Arc::new);
    for n in 0..60 {
        let state = std::sync::Arc::clone(&states[n % states.len()]);
        asked.spawn(async move {
            let reserved = state.reserve(wanted(&format!("r{n}"), 1000, 100)).await;
            match reserved.expect("it answers").grant {
                Ok(grant) => state.settle_lease(&grant, NanoUsd(90).into()),
                Err(ReservationError::Busy(_) | ReservationError::Spent(_)) => {}
                Err(other) => panic!("{other}"),
            }
        });
    }
    asked.join_all().await;
    for state in &states {
        // What is settled is told shortly after.
        let settled = async {
            loop {
                let query = Closing { accounts: vec!["session:s".into()], ..Closing::default() };
                let balance = state.close(query).await.expect("it answers").balances[0];
                assert!(balance.spent + balance.reserved <= NanoUsd(1000), "{balance:?}");
                if balance.spent > NanoUsd::ZERO {
                    break;
                }
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(30), settled).await;
        assert!(waited.is_ok(), "nothing is settled");
    }
}
