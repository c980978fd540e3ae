//! The part of the suite about open runs: their totals, their ends, and cancelling.

use std::sync::Arc;

use softland_session::core::{NanoUsd, Outcome, Reason, RunEnding};

use super::{close, digest, reserve, state, wanted};
use crate::recall::RecallQuery;
use crate::runs::{
    EndedRun, ObservedEnd, OpenedRun, RequestEnd, RunAfter, RunInfo, RunOpening, RunPhase,
    RunProgress, RunSnapshot, RunTotals, RunsToEnd, SnapshotEnd,
};
use crate::shared::{Closing, ReserveQuery, SharedState, StateNote};
use crate::store::{IDLE_MS, StoreChanges};

pub(super) async fn check_runs<S: SharedState>(make: impl AsyncFn() -> S) {
    check_totals(&make().await).await;
    check_ends(&make().await).await;
    check_withdrawal(&make().await).await;
    check_idle_runs(&make().await).await;
    check_continued_runs(&make().await).await;
    check_observed_runs(&make().await).await;
    check_cancelling(&make().await).await;
    check_cancelled_conversation(&make().await).await;
}

/// Begins a request of a run, at this time.
async fn open(shared: &dyn SharedState, run: &str, info: RunInfo, at: u64) -> OpenedRun {
    let opening = RunOpening { run: run.into(), info, at, here: digest(run) };
    let opens = Some(Box::new(opening));
    let reserved = reserve(shared, ReserveQuery { opens, ..wanted(100, 1, 0) }).await;
    if let Ok(grant) = reserved.grant {
        shared.settle_lease(&grant, NanoUsd::ZERO.into());
    }
    reserved.opened.expect("a run was named")
}

fn note_turn(shared: &dyn SharedState, run: &str, turn: u64, phase: RunPhase) {
    let progress = RunProgress { run: run.into(), turn, calls: turn - 1, before: (0, 0), phase };
    shared.take_note(StateNote::Progress(progress));
}

/// The end of a request that brought this turn.
fn request(run: &str, turns: u64, last: u64) -> RequestEnd {
    let cost = Some(NanoUsd(5));
    let totals = RunTotals { last, turns, calls: turns, cost, ..RunTotals::default() };
    RequestEnd { run: run.into(), totals, ..RequestEnd::default() }
}

async fn end(shared: &dyn SharedState, request: RequestEnd) -> RunAfter {
    let closing = Closing { scope: "s".into(), request: Some(request), ..Closing::default() };
    shared.close(closing).await.expect("the state answers").run
}

fn answered(at: u64) -> SnapshotEnd {
    SnapshotEnd {
        at,
        ending: RunEnding::without_limit(Outcome::Answered, Reason::Final),
        local: false,
    }
}

async fn find(shared: &dyn SharedState, run: &str) -> Option<RunSnapshot> {
    shared.find_run(run).await.expect("the state answers")
}

/// The runs that have changed after a version, and the version now.
async fn list(shared: &dyn SharedState, after: u64) -> (Vec<Arc<str>>, u64) {
    let list = shared.list_runs(after).await.expect("the state answers");
    (list.runs.into_iter().map(|row| row.run).collect(), list.version)
}

fn names(ended: &[EndedRun]) -> Vec<&str> {
    ended.iter().map(|ended| &*ended.run).collect()
}

/// A run is new once, is busy while a request runs, and adds its requests up.
async fn check_totals(shared: &dyn SharedState) {
    let info = RunInfo { started: 5, model: "m".into(), ..RunInfo::default() };
    let opened = open(shared, "r", info.clone(), 5).await;
    assert_eq!(opened, OpenedRun { is_new: true, ..OpenedRun::default() });
    let (listed, version) = list(shared, 0).await;
    assert!(listed.is_empty(), "nothing was sent yet");
    note_turn(shared, "r", 1, RunPhase::Countdown);
    let (listed, then) = list(shared, version).await;
    assert_eq!(listed, ["r".into()]);
    let row = find(shared, "r").await.expect("it is open");
    assert_eq!((&*row.info, row.phase, row.is_busy), (&info, RunPhase::Countdown, true));
    assert_eq!((row.turns, row.calls, row.cost), (1, 0, Some(NanoUsd::ZERO)));
    let opened = open(shared, "r", RunInfo::default(), 6).await;
    assert_eq!((opened.is_new, opened.begun), (false, 1));
    for (turns, last) in [(2, 9), (1, 8)] {
        let after = end(shared, request("r", turns, last)).await;
        assert_eq!(after, RunAfter::default(), "it goes on");
        let row = find(shared, "r").await.expect("it is open");
        assert_eq!((row.is_busy, &*row.info), (turns == 2, &info));
    }
    let row = find(shared, "r").await.expect("it is open");
    assert_eq!((row.turns, row.calls, row.cost, row.last), (2, 2, Some(NanoUsd(10)), 9));
    let (listed, last) = list(shared, then).await;
    assert!(listed == ["r".into()] && list(shared, last).await.0.is_empty());
    // A request whose cost is not known leaves that of the run unknown.
    open(shared, "r", RunInfo::default(), 10).await;
    let mut unknown = request("r", 3, 11);
    unknown.totals.cost = None;
    end(shared, unknown).await;
    assert_eq!(find(shared, "r").await.and_then(|row| row.cost), None);
    assert_eq!(find(shared, "nobody").await, None);
}

/// A run ends once, with its totals, and is remembered with its end.
async fn check_ends(shared: &dyn SharedState) {
    for _ in 0..2 {
        open(shared, "r", RunInfo::default(), 5).await;
    }
    note_turn(shared, "r", 1, RunPhase::Silent);
    let (_, version) = list(shared, 0).await;
    let ends = |last| RequestEnd { end: Some(answered(last)), ..request("r", 1, last) };
    let ended = end(shared, ends(7)).await.ended.expect("it ends");
    assert_eq!((ended.turns, ended.cost, ended.last), (1, Some(NanoUsd(5)), 7));
    assert_eq!(end(shared, ends(8)).await, RunAfter::default(), "it has ended before");
    let row = find(shared, "r").await.expect("it is remembered");
    assert_eq!((row.end, row.is_busy), (Some(answered(7)), false));
    let (listed, then) = list(shared, version).await;
    assert_eq!(listed, ["r".into()]);
    let known = SnapshotEnd { local: true, ..answered(7) };
    shared.take_note(StateNote::EndKnown { run: "r".into(), end: known.clone() });
    assert_eq!(find(shared, "r").await.and_then(|row| row.end), Some(known));
    assert_eq!(list(shared, then).await.0, ["r".into()], "the change is listed");
    // The end of a request that could not be stored is noted.
    open(shared, "lost", RunInfo::default(), 5).await;
    shared.take_note(StateNote::Ended(request("lost", 4, 6)));
    let row = find(shared, "lost").await.expect("it is open");
    assert_eq!((row.turns, row.is_busy), (4, false));
}

/// A run of which no request was sent was never there.
async fn check_withdrawal(shared: &dyn SharedState) {
    open(shared, "r", RunInfo::default(), 5).await;
    shared.take_note(StateNote::Withdrawn("r".into()));
    assert_eq!(find(shared, "r").await, None);
    open(shared, "r", RunInfo::default(), 6).await;
    note_turn(shared, "r", 1, RunPhase::Silent);
    end(shared, request("r", 1, 7)).await;
    open(shared, "r", RunInfo::default(), 8).await;
    shared.take_note(StateNote::Withdrawn("r".into()));
    let row = find(shared, "r").await.expect("it had a request before");
    assert!(!row.is_busy);
}

/// Runs that nobody continues end once, but not while a request runs.
async fn check_idle_runs(shared: &dyn SharedState) {
    for run in ["failed", "left", "busy"] {
        let info = RunInfo { model: "m".into(), ..RunInfo::default() };
        open(shared, run, info, 5).await;
        note_turn(shared, run, 1, RunPhase::Silent);
    }
    let mut failed = request("failed", 1, 10);
    failed.totals.failed = true;
    end(shared, failed).await;
    end(shared, request("left", 1, 10)).await;
    let idle =
        async |now| shared.end_runs(RunsToEnd::Idle { now }).await.expect("the state answers");
    assert_eq!(names(&idle(10 + IDLE_MS).await), [""; 0], "not yet");
    let mut ended = idle(11 + IDLE_MS).await;
    ended.sort_by(|one, other| one.run.cmp(&other.run));
    assert_eq!(names(&ended), ["failed", "left"]);
    assert!(ended.iter().all(|ended| &*ended.info.model == "m"), "{ended:?}");
    assert_eq!(ended.first().map(|ended| ended.totals.turns), Some(1));
    for (run, outcome) in [("failed", Outcome::Failed), ("left", Outcome::Cancelled)] {
        let end = find(shared, run).await.and_then(|row| row.end).expect("it has ended");
        assert_eq!((end.at, end.ending.outcome), (11 + IDLE_MS, outcome), "{run}");
    }
    assert_eq!(names(&idle(12 + IDLE_MS).await), [""; 0], "each ends once");
    assert!(find(shared, "busy").await.is_some_and(|row| row.end.is_none()));
}

/// A run that continues another one ends it, once.
async fn check_continued_runs(shared: &dyn SharedState) {
    open(shared, "old", RunInfo::default(), 5).await;
    note_turn(shared, "old", 1, RunPhase::Silent);
    end(shared, request("old", 1, 6)).await;
    for (run, superseded) in [("new", true), ("newer", false)] {
        let continues = RunInfo { continues: Some("old".into()), ..RunInfo::default() };
        let opened = open(shared, run, continues, 7).await;
        assert_eq!(opened.superseded.is_some_and(|old| &*old.run == "old"), superseded, "{run}");
    }
    assert!(find(shared, "old").await.is_some_and(|row| row.end.is_some()));
    // Its own counts are those behind the old run's.
    let progress = RunProgress { run: "new".into(), turn: 2, before: (1, 1), ..Default::default() };
    shared.take_note(StateNote::Progress(progress));
    let ends = RequestEnd { end: Some(answered(9)), ..request("new", 2, 9) };
    let ended = end(shared, ends).await.ended.expect("it ends");
    assert_eq!((ended.turns, ended.own_counts()), (2, (1, 1)));
}

/// The first end to which a run would have been brought counts.
async fn check_observed_runs(shared: &dyn SharedState) {
    for (observed_end, first) in [
        (None, None),
        (Some(ObservedEnd::Landed), Some(ObservedEnd::Landed)),
        (Some(ObservedEnd::Stopped), None),
    ] {
        open(shared, "r", RunInfo::default(), 5).await;
        let after = end(shared, RequestEnd { observed_end, ..request("r", 1, 6) }).await;
        assert_eq!(after.first_observed_end, first, "{observed_end:?}");
    }
}

/// A run is cancelled with its sub-agents, by whoever shares the state.
async fn check_cancelling(shared: &dyn SharedState) {
    for (run, parent, ends) in
        [("r", None, false), ("child", Some("r"), true), ("grandchild", Some("child"), false)]
    {
        let info = RunInfo { parent: parent.map(Into::into), ..RunInfo::default() };
        open(shared, run, info, 5).await;
        note_turn(shared, run, 1, RunPhase::Silent);
        if ends {
            end(shared, request(run, 1, 6)).await;
        }
    }
    open(shared, "other", RunInfo::default(), 5).await;
    let all: Vec<Arc<str>> = ["other", "grandchild", "r", "child"].map(Into::into).into();
    let found = async || {
        let mut found = shared.find_cancelled(&all).await.expect("the state answers");
        found.sort();
        found
    };
    assert_eq!(found().await, [""; 0].map(Arc::<str>::from));
    let cancel = async |run: &str| shared.cancel_run(run, 9).await.expect("the state answers");
    assert_eq!(cancel("nobody").await, None);
    let cancelled = cancel("r").await.expect("it is open");
    assert_eq!(cancelled.family, ["r", "child", "grandchild"].map(Arc::<str>::from));
    assert_eq!(names(&cancelled.ended), ["child"], "the others have a running request");
    let row = find(shared, "child").await.and_then(|row| row.end).expect("it has ended");
    assert_eq!((row.at, row.ending.outcome), (9, Outcome::Cancelled));
    assert_eq!(found().await, ["child", "grandchild", "r"].map(Arc::<str>::from));
    assert_eq!(cancel("child").await, None, "it is over");
    let ends = RequestEnd { end: Some(answered(10)), ..request("r", 1, 10) };
    assert!(end(shared, ends).await.ended.is_some(), "its request ends it");
}

/// A cancellation comes with the conversation that it concerns, and with the history in which it
/// was.
async fn check_cancelled_conversation(shared: &dyn SharedState) {
    let run = Some((digest("run"), state("r", 1)));
    let changes = StoreChanges { run, clues: vec![digest("turn")], ..StoreChanges::default() };
    close(shared, "s", changes).await;
    for run in ["r", "another"] {
        open(shared, run, RunInfo::default(), 5).await;
        shared.cancel_run(run, 6).await.expect("the state answers");
    }
    let turns = vec![digest("turn")];
    let query = RecallQuery { here: digest("here"), turns, ..RecallQuery::default() };
    let recalled = shared.recall(query).await.expect("the state answers");
    assert_eq!(recalled.cancelled, [("r".into(), Some(digest("r")))]);
}
