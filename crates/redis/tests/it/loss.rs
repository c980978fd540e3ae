//! The store ends and comes back; a gateway ends and does not.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use softland_govern::money::accounts::LeaseStore as _;
use softland_govern::runs::{RunOpening, RunProgress};
use softland_govern::shared::{Closing, ReserveQuery};
use softland_govern::{SharedState, StateNote};
use softland_session::core::NanoUsd;

use crate::server::RedisServer;
use crate::state::{connect, wanted};

/// Asks until the store answers.
async fn wait_for(state: &dyn SharedState) {
    let since = Instant::now();
    while state.find_run("nobody").await.is_err() {
        assert!(since.elapsed() < Duration::from_secs(30), "it answers again");
        tokio::task::yield_now().await;
    }
}

async fn read_balance(state: &dyn SharedState) -> (NanoUsd, NanoUsd) {
    let closing = Closing { accounts: vec!["session:s".into()], ..Closing::default() };
    let balance = state.close(closing).await.expect("it answers").balances[0];
    (balance.spent, balance.reserved)
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn what_was_spent_while_redis_was_away_is_booked_once_when_it_is_back() {
    let mut server = RedisServer::start();
    let state = connect(&server);
    let reserved = state.reserve(wanted("one", 1000, 100)).await.expect("it answers");
    let grant = reserved.grant.expect("it fits");
    server.kill();
    state.settle_lease(&grant, NanoUsd(70).into());
    let began = Instant::now();
    let away = state.reserve(wanted("two", 1000, 100)).await;
    assert!(away.is_err(), "{away:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "it says so soon");
    assert!(state.find_run("nobody").await.is_err());
    server.restart();
    wait_for(&state).await;
    assert_eq!(read_balance(&state).await, (NanoUsd(70), NanoUsd::ZERO));
    // Nothing was reserved by the one that failed, and it can be made again.
    let again = state.reserve(wanted("two", 1000, 930)).await.expect("it answers");
    assert!(again.grant.is_ok(), "{again:?}");
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_gateway_starts_while_redis_is_away() {
    let mut server = RedisServer::start();
    server.kill();
    let state = connect(&server);
    assert!(state.find_run("r").await.is_err());
    server.restart();
    wait_for(&state).await;
}

#[tokio::test]
#[ignore = "needs redis-server"]
async fn a_run_goes_on_through_another_gateway_of_one_redis() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server), connect(&server));
    let opening = RunOpening { run: "r".into(), at: 5, ..RunOpening::default() };
    let opens = Some(Box::new(opening.clone()));
    let opened = one.reserve(ReserveQuery { opens, ..wanted("a", 100, 1) }).await;
    assert!(opened.expect("it answers").opened.expect("a run").is_new);
    let progress = RunProgress { run: "r".into(), turn: 1, ..RunProgress::default() };
    one.take_note(StateNote::Progress(progress));
    one.find_run("r").await.expect("it answers");
    let host = server.command(&["zrange", "{softland}:hosts", "0", "0"]);
    let row = other.find_run("r").await.expect("it answers").expect("it is open");
    assert!(row.is_busy && row.turns == 1, "{row:?}");
    assert_eq!(other.list_runs(0).await.expect("it answers").runs.len(), 1);
    // The first gateway dies with its request under way.
    drop(one);
    server.command(&["zadd", "{softland}:hosts", "1", host.trim()]);
    let row = other.find_run("r").await.expect("it answers").expect("it is open");
    assert!(!row.is_busy, "its request is forgotten");
    let opens = Some(Box::new(RunOpening { at: 9, ..opening }));
    let opened = other.reserve(ReserveQuery { opens, ..wanted("b", 100, 1) }).await;
    let opened = opened.expect("it answers").opened.expect("a run");
    assert_eq!((opened.is_new, opened.begun), (false, 1), "the same run");
    let cancelled = other.cancel_run("r", 10).await.expect("it answers").expect("it is open");
    assert_eq!(cancelled.family, [std::sync::Arc::<str>::from("r")]);
}
