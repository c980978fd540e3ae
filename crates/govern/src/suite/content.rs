//! A test of [`ContentStore`] that any implementation can run.

use softland_session::ChainLink;
use softland_session::core::{Outcome, Reason, RunEnding};

use super::{digest, find, reserve, state, wanted};
use crate::content_store::ContentStore;
use crate::recall::RecallQuery;
use crate::runs::{RequestEnd, RunInfo, RunOpening, RunTotals, SnapshotEnd};
use crate::shared::{Closing, ReserveQuery, SharedState, ShownLink};
use crate::store::StoreChanges;

/// Conversations enough that no implementation finds all in one step.
const OTHERS: usize = 2500;

/// Checks an implementation, which `make` gives empty.
///
/// # Panics
/// Panics where the implementation does something else than is said of [`ContentStore`].
pub async fn check_content_store<S: SharedState + ContentStore>(make: impl AsyncFn() -> S) {
    let shared = make().await;
    assert_eq!(forget(&shared, &["a"]).await, 0, "an empty store has nothing to forget");
    for run in ["a", "b", "open"] {
        converse(&shared, run, run != "open").await;
    }
    assert_eq!(forget(&shared, &[]).await, 0, "nothing is named");
    assert_eq!(forget(&shared, &["c"]).await, 0, "nothing is of this run");
    assert_eq!(forget(&shared, &["a", "open"]).await, 2);
    for (run, is_kept) in [("a", false), ("b", true), ("open", false)] {
        let links = shared.recall_links(&format!("response {run}"), 1000).await;
        assert_eq!(links.expect("the state answers").is_some(), is_kept, "the response of {run}");
        let links = shared.recall_links(&format!("conversation {run}"), 1000).await;
        assert_eq!(links.expect("the state answers").is_some(), is_kept, "the newest of {run}");
        let kept = find(&shared, found_by(run))
            .await
            .is_some_and(|found| found.kept.runs.values().any(|known| *known.id == *run));
        assert_eq!(kept, is_kept, "the conversation of {run}");
        let known = shared.find_run(run).await.expect("the state answers");
        assert_eq!(known.is_some(), run != "a", "what is known of the run {run}");
    }
    let balance = reserve(&shared, wanted(100, 1, 0)).await.balances[0].spent;
    assert!(balance.0 > 0, "what was spent stays");
    check_many(&make().await).await;
}

/// All conversations of a run are found among many others.
async fn check_many<S: SharedState + ContentStore>(shared: &S) {
    for n in 0..OTHERS {
        let run = Some((digest("run"), state(if n % 500 == 0 { "a" } else { "b" }, 1)));
        let changes = StoreChanges { run, ..StoreChanges::default() };
        let scope = format!("s{n}").into();
        let link = ChainLink { items: "{}".to_owned(), ..ChainLink::default() };
        let shown = Some(ShownLink { ids: vec![format!("r{n}")], conversation: None, link });
        let closing = Closing { scope, changes, shown, ..Closing::default() };
        shared.close(closing).await.expect("the state answers");
    }
    let expected = OTHERS.div_ceil(500) as u64;
    assert_eq!(forget(shared, &["a"]).await, expected);
    for n in 0..OTHERS {
        let link = shared.recall_links(&format!("r{n}"), 1000).await.expect("the state answers");
        assert_eq!(link.is_some(), n % 500 != 0, "the response {n}");
    }
}

async fn forget(store: &dyn ContentStore, runs: &[&str]) -> u64 {
    let runs = runs.iter().map(|run| (*run).to_owned()).collect();
    store.forget_runs(&runs).await.expect("the store answers")
}

fn found_by(run: &str) -> RecallQuery {
    let turns = vec![digest(&format!("turn {run}"))];
    RecallQuery { here: digest("here"), turns, fork: "fork".into(), ..RecallQuery::default() }
}

/// A conversation with one request of a run, and the response that was shown for it.
async fn converse(shared: &dyn SharedState, run: &str, ends: bool) {
    let opening =
        RunOpening { run: run.into(), info: RunInfo::default(), at: 1, here: digest(run) };
    let opens = Some(Box::new(opening));
    let reserved = reserve(shared, ReserveQuery { opens, ..wanted(100, 1, 0) }).await;
    if let Ok(grant) = reserved.grant {
        shared.settle_lease(&grant, softland_session::core::NanoUsd(1).into());
    }
    let ending = RunEnding::without_limit(Outcome::Answered, Reason::Final);
    let end = ends.then_some(SnapshotEnd { at: 2, ending, local: false });
    let totals = RunTotals { last: 2, turns: 1, calls: 0, ..RunTotals::default() };
    let link = ChainLink { items: "{1}".to_owned(), ..ChainLink::default() };
    let closing = Closing {
        scope: format!("scope {run}").into(),
        changes: StoreChanges {
            run: Some((digest("run"), state(run, 5))),
            clues: vec![digest(&format!("turn {run}"))],
            ..StoreChanges::default()
        },
        shown: Some(ShownLink {
            ids: vec![format!("response {run}")],
            conversation: Some(format!("conversation {run}")),
            link,
        }),
        request: Some(RequestEnd { run: run.into(), totals, end, ..RequestEnd::default() }),
        ..Closing::default()
    };
    shared.close(closing).await.expect("the state answers");
}
