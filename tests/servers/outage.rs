//! Included by tests: the server of a state ends and comes back, and a gateway ends and does not.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use softland_govern::key_store::{add_key, revoke_key};
use softland_govern::money::accounts::{Claim, ReservationAmounts, ReservationId, WaitLimits};
use softland_govern::runs::{RunOpening, RunProgress};
use softland_govern::shared::{Closing, ReserveQuery};
use softland_govern::{KeyStore, SharedState, StateNote, StoredKey, TokenDigest};
use softland_session::core::NanoUsd;

/// The time after which a call that gets no answer has failed, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// The time within which a server that has come back is of use, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that a test ends and starts again.
pub(crate) trait TestServer {
    /// Ends it, as a crash does.
    fn kill(&mut self);

    /// Starts it again, on its port and with what it has kept.
    fn restart(&mut self);
}

/// A reservation of `amount` in a session with this limit, both in nano-dollars.
pub(crate) fn wanted(id: &str, limit: u64, amount: u64) -> ReserveQuery {
    ReserveQuery {
        id: ReservationId(id.into()),
        at: 0,
        lease: 60_000,
        claims: vec![Claim::new("session:s".into(), Some(NanoUsd(limit)))],
        ask: ReservationAmounts::from_exact(NanoUsd(amount)),
        patience: WaitLimits::NONE,
        spent_before: NanoUsd::ZERO,
        opens: None,
    }
}

/// A key with this name.
pub(crate) fn key(name: &str) -> StoredKey {
    StoredKey::new(name, TokenDigest::from_sha256([7; 32]), 1)
}

/// Returns what the session of [`wanted`] has spent and reserved.
pub(crate) async fn read_balance(state: &dyn SharedState) -> (NanoUsd, NanoUsd) {
    let closing = Closing { accounts: vec!["session:s".into()], ..Closing::default() };
    let balance = state.close(closing).await.expect("it answers").balances[0];
    (balance.spent, balance.reserved)
}

/// Waits for a balance: notes come shortly after what they tell of.
pub(crate) async fn wait_for_balance(state: &dyn SharedState, wanted: (NanoUsd, NanoUsd)) {
    let since = Instant::now();
    while read_balance(state).await != wanted {
        assert!(since.elapsed() < PATIENCE, "{wanted:?} is booked");
        tokio::task::yield_now().await;
    }
}

/// Asks until the store answers.
pub(crate) async fn wait_for_answer(state: &dyn SharedState) {
    let since = Instant::now();
    while state.find_run("nobody").await.is_err() {
        assert!(since.elapsed() < PATIENCE, "it answers again");
        tokio::task::yield_now().await;
    }
}

/// What is spent while the server is away is booked once when it is back.
pub(crate) async fn check_spending(server: &mut impl TestServer, state: &dyn SharedState) {
    let reserved = state.reserve(wanted("one", 1000, 100)).await.expect("it answers");
    let grant = reserved.grant.expect("it fits");
    server.kill();
    state.settle_lease(&grant, NanoUsd(70).into());
    let began = Instant::now();
    let away = state.reserve(wanted("two", 1000, 100)).await;
    assert!(away.is_err(), "{away:?}");
    assert!(began.elapsed() < SOON, "it says so soon");
    assert!(state.find_run("nobody").await.is_err());
    server.restart();
    wait_for_answer(state).await;
    wait_for_balance(state, (NanoUsd(70), NanoUsd::ZERO)).await;
    // Nothing was reserved by the one that failed, and it can be made again.
    let again = state.reserve(wanted("two", 1000, 930)).await.expect("it answers");
    assert!(again.grant.is_ok(), "{again:?}");
}

/// A state that is made while its server is away is of use once the server is there.
pub(crate) async fn check_start<S: SharedState>(
    server: &mut impl TestServer,
    make: impl FnOnce() -> S,
) {
    server.kill();
    let state = make();
    assert!(state.find_run("r").await.is_err());
    server.restart();
    wait_for_answer(&state).await;
}

/// A run goes on through another gateway when its own has died with a request under way. `find_host`
/// is called while that gateway is the only one; what it returns lets the store forget the gateway.
pub(crate) async fn check_another_gateway<S: SharedState, F: FnOnce()>(
    (one, other): (S, S),
    find_host: impl FnOnce() -> F,
) {
    let opening = RunOpening { run: "r".into(), at: 5, ..RunOpening::default() };
    let opens = Some(Box::new(opening.clone()));
    let opened = one.reserve(ReserveQuery { opens, ..wanted("a", 100, 1) }).await;
    assert!(opened.expect("it answers").opened.expect("a run").is_new);
    let progress = RunProgress { run: "r".into(), turn: 1, ..RunProgress::default() };
    one.take_note(StateNote::Progress(progress));
    one.find_run("r").await.expect("it answers");
    let forget_host = find_host();
    let row = other.find_run("r").await.expect("it answers").expect("it is open");
    assert!(row.is_busy && row.turns == 1, "{row:?}");
    assert_eq!(other.list_runs(0).await.expect("it answers").runs.len(), 1);
    drop(one);
    forget_host();
    let row = other.find_run("r").await.expect("it answers").expect("it is open");
    assert!(!row.is_busy, "its request is forgotten");
    let opens = Some(Box::new(RunOpening { at: 9, ..opening }));
    let opened = other.reserve(ReserveQuery { opens, ..wanted("b", 100, 1) }).await;
    let opened = opened.expect("it answers").opened.expect("a run");
    assert_eq!((opened.is_new, opened.begun), (false, 1), "the same run");
    let cancelled = other.cancel_run("r", 10).await.expect("it answers").expect("it is open");
    assert_eq!(cancelled.family, [Arc::<str>::from("r")]);
}

/// Keys stay over a restart of their server. `sweep` lets it forget what nobody uses.
pub(crate) async fn check_kept_keys<S: TestServer>(
    server: &mut S,
    store: &dyn KeyStore,
    sweep: impl FnOnce(&S),
) {
    add_key(store, key("ana-token")).await.expect("it answers");
    revoke_key(store, "ana-token", 2).await.expect("it answers");
    sweep(server);
    let before = store.read_keys(None).await.expect("it answers").expect("keys");
    assert_eq!(before.keys.len(), 1, "{before:?}");
    server.restart();
    let answered = async {
        loop {
            if let Ok(keys) = store.read_keys(Some(before.version)).await {
                break keys;
            }
        }
    };
    let again = tokio::time::timeout(PATIENCE, answered).await;
    assert_eq!(again, Ok(None), "it has kept them");
}

/// Keys that cannot be read are named, and no other is lost. The store has been given them.
pub(crate) async fn check_unreadable_keys(store: &dyn KeyStore, names: &[&str]) {
    let mut keys = store.read_keys(None).await.expect("it answers").expect("keys");
    keys.unreadable.sort();
    assert_eq!(keys.keys, [key("ana")]);
    let unreadable: Vec<&str> = keys.unreadable.iter().map(|name| &**name).collect();
    assert_eq!(unreadable, names);
}
