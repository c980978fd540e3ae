//! Tests of [`SharedState`] and of [`KeyStore`](crate::KeyStore) that any implementation can run.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test: a state that does not answer, or answers otherwise, has failed it"
)]

mod content;
mod keys;
mod runs;
mod windows;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use softland_session::ChainLink;
use softland_session::core::{Digest, NanoUsd};

use crate::learned::ModelLessons;
use crate::money::accounts::{
    Balance, Claim, ReservationAmounts, ReservationError, ReservationId, WaitLimits,
};
use crate::recall::{FoundBy, FoundTurn, RecallQuery, Recollection};
use crate::shared::{Closing, ReserveQuery, Reserved, SharedState, ShownLink, StateNote};
use crate::store::{Namesake, RunState, StoreChanges};

pub use content::check_content_store;
pub use keys::check_key_store;

/// Checks an implementation. Each call of `make` has to give an empty state, whose reservations end
/// with their leases, and which takes the times of the calls for its own: an implementation with a
/// clock of its own needs a mode for that.
///
/// # Panics
/// Panics where the implementation does something else than [`LocalState`](crate::LocalState) does.
pub async fn check_shared_state<S: SharedState>(make: impl AsyncFn() -> S) {
    check_content(&make().await).await;
    check_names(&make().await).await;
    check_unanswered_questions(&make().await).await;
    check_links(&make().await).await;
    check_money(&make().await).await;
    check_waiting(&make().await).await;
    check_order(&make().await).await;
    windows::check_windows(&make).await;
    check_lessons(&make().await).await;
    runs::check_runs(make).await;
}

fn digest(text: &str) -> Digest {
    Digest::from_bytes(text.as_bytes())
}

fn state(id: &str, tokens: u64) -> RunState {
    RunState { id: id.into(), tokens, key: digest("run"), ..RunState::default() }
}

async fn close(state: &dyn SharedState, scope: &str, changes: StoreChanges) {
    let closing = Closing { scope: scope.into(), changes, ..Closing::default() };
    state.close(closing).await.expect("the state answers");
}

async fn find(state: &dyn SharedState, query: RecallQuery) -> Option<Recollection> {
    state.recall(query).await.expect("the state answers").found
}

/// A turn finds its conversation; the same history finds it again, another one is a fork.
async fn check_content(shared: &dyn SharedState) {
    let turn = digest("turn");
    let query = |here: &str| RecallQuery {
        here: digest(here),
        turns: vec![turn],
        fork: format!("fork {here}").into(),
        ..RecallQuery::default()
    };
    assert_eq!(find(shared, query("one")).await, None, "an empty state finds nothing");
    for tokens in [5, 7] {
        let run = Some((digest("run"), state("r", tokens)));
        let changes = StoreChanges { run, clues: vec![turn], ..StoreChanges::default() };
        close(shared, "s", changes).await;
    }
    for (here, scope, forks) in
        [("one", "s", false), ("one", "s", false), ("two", "fork two", true)]
    {
        let found = find(shared, query(here)).await.expect("known");
        assert_eq!(&*found.scope, scope, "{here}");
        let turn = content_turn(&found.by).expect("the rule of content applies");
        assert_eq!((turn.fork, turn.then.tokens), (forks, 12), "tokens add up");
        assert_eq!(found.kept.runs.contains_key(&digest("run")), !forks, "a fork begins anew");
    }
    let child = StoreChanges { child_tokens: Some((digest("run"), 100)), ..Default::default() };
    close(shared, "s", child).await;
    let found = find(shared, query("one")).await.expect("known");
    assert_eq!(found.kept.runs[&digest("run")].tokens, 112, "a sub-agent's count for its parent");
}

/// A name finds the only conversation of the same program, and a parent's.
async fn check_names(shared: &dyn SharedState) {
    let face = |scope: &str| Namesake {
        scope: scope.into(),
        root: scope.into(),
        tools: digest("tools"),
        system: digest("system"),
        opening: digest("opening"),
        asked: None,
        answered: true,
        last: 1,
    };
    let query = RecallQuery {
        here: digest("here"),
        name: digest("name"),
        is_named: true,
        is_client: true,
        tools: digest("tools"),
        system: digest("system"),
        parents: vec![digest("nobody"), digest("name")],
        openings: vec![digest("opening")],
        ..RecallQuery::default()
    };
    for (scope, found) in [("a", true), ("b", false)] {
        let named = Some((vec![digest("name")], face(scope)));
        close(shared, scope, StoreChanges { named, ..StoreChanges::default() }).await;
        let recalled = shared.recall(query.clone()).await.expect("the state answers");
        let parent = recalled.parent.map(|(parent, _)| parent);
        assert_eq!(parent.as_deref(), Some(scope), "the newest of a name is the parent");
        let known = recalled.found.map(|found| (found.scope, found.by));
        assert_eq!(known.is_some(), found, "two of a name are nobody's");
        assert!(known.is_none_or(|(_, by)| by == FoundBy::Name(true)));
    }
    let strange = RecallQuery { tools: digest("others"), ..query };
    assert_eq!(find(shared, strange).await, None, "another program");
}

/// A question without a name that was not answered is found once.
async fn check_unanswered_questions(shared: &dyn SharedState) {
    let here = digest("here");
    close(shared, "s", StoreChanges { untaken: Some(here), ..StoreChanges::default() }).await;
    let query = RecallQuery { here, question: here, ..RecallQuery::default() };
    assert_eq!(find(shared, query.clone()).await.map(|found| found.by), Some(FoundBy::Again));
    assert_eq!(find(shared, query).await, None, "it is found once");
}

/// The responses of a stored history come back in their order, or not at all.
async fn check_links(shared: &dyn SharedState) {
    for (id, before, items) in [("one", None, "{1}"), ("two", Some("one"), "{2}")] {
        let before = before.map(str::to_owned);
        let link = ChainLink { before, items: items.to_owned(), ..ChainLink::default() };
        let shown = Some(ShownLink { ids: vec![id.to_owned()], conversation: None, link });
        let closing = Closing { scope: "s".into(), shown, ..Closing::default() };
        shared.close(closing).await.expect("the state answers");
    }
    let links = async |id: &str, most| {
        let links = shared.recall_links(id, most).await.expect("the state answers");
        links.map(|links| links.into_iter().map(|link| link.items).collect::<Vec<_>>())
    };
    assert_eq!(links("two", 1000).await, Some(vec!["{1}".to_owned(), "{2}".to_owned()]));
    assert_eq!(links("two", 2).await, None, "too large");
    assert_eq!(links("three", 1000).await, None, "unknown");
}

/// The length of the leases of this suite, in milliseconds.
const LEASE: u64 = 60_000;

/// Returns a name that no other reservation of this process has.
fn next_id() -> ReservationId {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    ReservationId(format!("suite {}", NEXT.fetch_add(1, Ordering::Relaxed)).into())
}

fn wanted(limit: u64, amount: u64, spent_before: u64) -> ReserveQuery {
    let claim = |account: &str, limit| Claim::new(account.into(), limit);
    ReserveQuery {
        id: next_id(),
        at: 0,
        lease: LEASE,
        claims: vec![claim("run", Some(NanoUsd(limit))), claim("session", None)],
        ask: ReservationAmounts::from_exact(NanoUsd(amount)),
        patience: WaitLimits::NONE,
        spent_before: NanoUsd(spent_before),
        opens: None,
    }
}

async fn reserve(shared: &dyn SharedState, wanted: ReserveQuery) -> Reserved {
    shared.reserve(wanted).await.expect("the state answers")
}

fn balance(spent: u64, reserved: u64) -> Balance {
    Balance { spent: NanoUsd(spent), reserved: NanoUsd(reserved), ..Balance::default() }
}

/// Money is reserved on all accounts or on none, and settled in full.
async fn check_money(shared: &dyn SharedState) {
    let first = reserve(shared, wanted(100, 60, 10)).await;
    assert_eq!(first.balances, [balance(10, 0); 2], "a fork's spend is booked first");
    let grant = first.grant.expect("it fits");
    assert_eq!(grant.amount, NanoUsd(60).into());
    let second = reserve(shared, wanted(100, 60, 0)).await;
    assert_eq!(second.balances, [balance(10, 60); 2]);
    let short = second.grant.err();
    assert!(matches!(&short, Some(ReservationError::Busy(short)) if &*short.account == "run"));
    shared.lower_reservation(&grant, NanoUsd(40).into());
    shared.settle_lease(&grant, NanoUsd(30).into());
    let names: Vec<Arc<str>> = vec!["run".into(), "session".into(), "nobody".into()];
    let closing = Closing { scope: "s".into(), accounts: names, ..Closing::default() };
    let balances = shared.close(closing).await.expect("the state answers");
    assert_eq!(balances.balances, [balance(40, 0), balance(40, 0), Balance::default()]);
    let third = reserve(shared, wanted(50, 60, 0)).await.grant.err();
    assert!(matches!(third, Some(ReservationError::Spent(_))), "{third:?}");
}

/// A request that waits gets what another one settles.
async fn check_waiting(shared: &dyn SharedState) {
    let first = reserve(shared, wanted(100, 100, 0)).await.grant.expect("it fits");
    let patience = Duration::from_secs(20);
    let patience = WaitLimits { for_most: patience, in_all: patience };
    let waiting = reserve(shared, ReserveQuery { patience, ..wanted(100, 50, 0) });
    let settling = async {
        tokio::task::yield_now().await;
        shared.settle_lease(&first, NanoUsd(50).into());
    };
    let (second, ()) = futures_util::future::join(waiting, settling).await;
    assert_eq!(second.grant.map(|grant| grant.amount.money), Ok(NanoUsd(50)));
}

/// Requests that wait get what is settled in their order of arrival, and none loses its place.
async fn check_order(shared: &dyn SharedState) {
    let patience = Duration::from_secs(60);
    let patience = WaitLimits { for_most: patience, in_all: patience };
    let first = reserve(shared, wanted(100, 100, 0)).await.grant.expect("it fits");
    let (served, rounds) = (AtomicU64::new(0), 5);
    let waiting = (0..rounds).map(|place| {
        let served = &served;
        async move {
            let asked = ReserveQuery { patience, ..wanted(100, 60, 0) };
            let grant = reserve(shared, asked).await.grant.expect("it fits when it is its turn");
            assert_eq!(served.fetch_add(1, Ordering::Relaxed), place, "in order of arrival");
            shared.settle_lease(&grant, NanoUsd(1).into());
        }
    });
    let settling = async {
        tokio::task::yield_now().await;
        shared.settle_lease(&first, NanoUsd(10).into());
    };
    futures_util::future::join(futures_util::future::join_all(waiting), settling).await;
    assert_eq!(served.into_inner(), rounds);
}

/// Lessons come with the model that they concern, and add up.
async fn check_lessons(shared: &dyn SharedState) {
    for lessons in [
        ModelLessons { no_none: true, ..ModelLessons::default() },
        ModelLessons { no_forcing: true, ..ModelLessons::default() },
    ] {
        shared.take_note(StateNote::Learned { model: "m".into(), lessons });
    }
    let both = ModelLessons { no_none: true, no_forcing: true, limit: None };
    for (model, known) in [("m", both), ("another", ModelLessons::default())] {
        let query = RecallQuery { model: model.into(), ..RecallQuery::default() };
        let recalled = shared.recall(query).await.expect("the state answers");
        assert_eq!(recalled.lessons, known, "{model}");
    }
}

fn content_turn(by: &FoundBy) -> Option<&FoundTurn> {
    if let FoundBy::Content(turn) = by { Some(turn) } else { None }
}
