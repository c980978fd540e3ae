//! Included by tests: a conversation, a run and accounts, as a gateway of one release leaves them for
//! those of the next.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use softland_govern::money::accounts::{
    Claim, Grant, ReservationAmounts, ReservationId, WaitLimits, WindowClaim,
};
use softland_govern::money::window::{BudgetWindow, WindowLength, budget_account};
use softland_govern::recall::RecallQuery;
use softland_govern::runs::{RequestEnd, RunInfo, RunOpening, RunTotals};
use softland_govern::shared::{Closing, ReserveQuery, ShownLink};
use softland_govern::store::{Namesake, RunState, StoreChanges};
use softland_govern::{LocalState, ModelLessons, SharedState, StateNote};
use softland_session::core::policy::Policy;
use softland_session::core::{Digest, NanoUsd, PinnedRecord, RunUsage};
use softland_session::wire::Tokens;
use softland_session::{ChainLink, SeenResult, StoredTail};

/// The time at which it happens: 27 November 2026, 12:00 UTC.
const AT: u64 = 1_795_780_800_000;
const LEASE: u64 = 60_000;

fn digest(text: &str) -> Digest {
    Digest::from_bytes(text.as_bytes())
}

fn run_state(tokens: u64) -> RunState {
    RunState {
        id: "run-1".into(),
        account: "run:run-1".into(),
        key: digest("history"),
        used: RunUsage { calls: 4, turns: 2, result_chars: 900, ..RunUsage::default() },
        delivered: Some(digest("calls")),
        tokens,
        cost: NanoUsd(70),
        begun: AT,
        last: AT + 9_000,
        active: 9_000,
        ..RunState::default()
    }
}

/// The record of a run with limits, in whose lines the policy's numbers are.
fn pinned() -> PinnedRecord {
    let policy = Policy { tool_calls_limit: Some(30), ..Policy::default() };
    PinnedRecord {
        looked: Some(2),
        went_on: [digest("arrived at once")].into(),
        ..PinnedRecord::new(policy)
    }
}

fn changes() -> StoreChanges {
    let tail = StoredTail {
        shown: "kt".to_owned(),
        messages: r#"{"role":"user","content":"You may answer now."}"#.to_owned(),
        before: digest("before"),
        own: None,
    };
    let seen = SeenResult {
        digest: digest("result"),
        chars: 450,
        failed: true,
        sent_back: false,
        unfinished: false,
    };
    let face = Namesake {
        scope: "talk".into(),
        root: "talk".into(),
        tools: digest("tools"),
        system: digest("system"),
        opening: digest("opening"),
        asked: Some(digest("asked")),
        answered: true,
        last: AT,
    };
    StoreChanges {
        pins: [(digest("history"), Box::new(pinned()))].into_iter().collect(),
        tails: vec![(digest("place"), tail)],
        results: vec![(digest("result's place"), seen)],
        run: Some((digest("history"), run_state(1_200))),
        asked: vec![digest("asked")],
        named: Some((vec![digest("name")], face)),
        clues: vec![digest("turn")],
        untaken: Some(digest("question")),
        ..StoreChanges::default()
    }
}

/// The claims of a request: its session, and the day of a budget.
fn claims() -> Vec<Claim> {
    let length = WindowLength::parse("day").expect("a length");
    let window = BudgetWindow::new(length, "Europe/Berlin").expect("a zone");
    let bounds = window.bounds_at(AT);
    let budget = Claim {
        window: Some(WindowClaim { bounds, holds: None }),
        ..Claim::new(budget_account(&window, "acme/ana"), Some(NanoUsd(1_000)))
    };
    vec![Claim::new("session:s".into(), Some(NanoUsd(500))), budget]
}

fn query(id: &str, amount: u64) -> ReserveQuery {
    ReserveQuery {
        id: ReservationId(id.into()),
        at: AT,
        lease: LEASE,
        claims: claims(),
        ask: ReservationAmounts::from_exact(NanoUsd(amount)),
        patience: WaitLimits::NONE,
        spent_before: NanoUsd::ZERO,
        opens: None,
    }
}

async fn reserve(state: &dyn SharedState, query: ReserveQuery) -> Grant {
    state.reserve(query).await.expect("it answers").grant.expect("it fits")
}

/// What a gateway does: a request of a run, and another one that is under way when it ends. The
/// state has to take the times of the calls.
pub(crate) async fn leave_records(state: &dyn SharedState) {
    let info = RunInfo {
        started: AT,
        session: "s".into(),
        name: Some("nightly".into()),
        model: "claude-sonnet-5-5".into(),
        policy: "coding".to_owned(),
        key: Some("ana".into()),
        account: Some("acme/ana".into()),
        calls_limit: Some(30),
        ..RunInfo::default()
    };
    let opening = RunOpening { run: "run-1".into(), info, at: AT, here: digest("here") };
    let opens = Some(Box::new(opening));
    let first = reserve(state, ReserveQuery { opens, ..query("first", 200) }).await;
    state.mark_sent(&first);
    state.settle_lease(&first, NanoUsd(70).into());
    let lessons = ModelLessons { no_forcing: true, ..ModelLessons::default() };
    state.take_note(StateNote::Learned { model: "m".into(), lessons });
    let totals = RunTotals {
        last: AT + 9_000,
        turns: 2,
        calls: 4,
        tokens: Tokens { input: 1_000, output: 200, ..Tokens::default() },
        cost: Some(NanoUsd(70)),
        ..RunTotals::default()
    };
    let link = ChainLink { items: r#"{"type":"message"}"#.to_owned(), ..ChainLink::default() };
    let shown = ShownLink { ids: vec!["resp_1".to_owned()], conversation: None, link };
    let closing = Closing {
        scope: "talk".into(),
        changes: changes(),
        shown: Some(shown),
        request: Some(RequestEnd { run: "run-1".into(), totals, ..RequestEnd::default() }),
        ..Closing::default()
    };
    state.close(closing).await.expect("it answers");
    let second = reserve(state, query("second", 300)).await;
    state.mark_sent(&second);
}

/// Checks that a state which holds these records does what one does that has just been told of them.
pub(crate) async fn check_records(state: &dyn SharedState) {
    let told = LocalState::with_expiring_leases();
    leave_records(&told).await;
    let states = [state, &told as &dyn SharedState];
    // The conversation, with its pinned record, its tail, its results and its state.
    let turn = RecallQuery {
        here: digest("further"),
        turns: vec![digest("turn")],
        model: "m".into(),
        fork: "fork".into(),
        ..RecallQuery::default()
    };
    let question =
        RecallQuery { here: digest("x"), question: digest("question"), ..RecallQuery::default() };
    for query in [turn, question] {
        let [read, expected] = states.map(|state| state.recall(query.clone()));
        let (read, expected) = (read.await.expect("answers"), expected.await.expect("answers"));
        assert!(expected.found.is_some(), "{query:?}");
        assert_eq!(read, expected);
    }
    let [read, expected] = states.map(|state| state.recall_links("resp_1", 1_000));
    assert_eq!(read.await.expect("it answers"), expected.await.expect("it answers"));
    let [read, expected] = states.map(|state| state.find_run("run-1"));
    let (read, expected) = (read.await.expect("answers"), expected.await.expect("answers"));
    assert!(expected.is_some() && read == expected, "{read:?}");
    check_money(states).await;
}

/// The money of the request that was under way is held until its lease ends, and then booked.
async fn check_money(states: [&dyn SharedState; 2]) {
    for (at, window) in [(AT + LEASE - 1, [70, 300]), (AT + LEASE, [370, 0])] {
        for state in states {
            let read = state.read_windows(claims(), at).await.expect("it answers").remove(1);
            let balance = read.expect("a window").balance;
            assert_eq!([balance.spent, balance.reserved], window.map(NanoUsd));
        }
    }
    for state in states {
        // The run goes on: its conversation is written by this release, and read again.
        let run = Some((digest("history"), run_state(50)));
        let changes = StoreChanges { run, clues: vec![digest("third")], ..StoreChanges::default() };
        let accounts = vec!["session:s".into()];
        let closing = Closing { scope: "talk".into(), changes, accounts, ..Closing::default() };
        let balance = state.close(closing).await.expect("it answers").balances[0];
        assert_eq!(balance.spent, NanoUsd(370));
        let turns = vec![digest("third")];
        let query = RecallQuery { here: digest("y"), turns, ..RecallQuery::default() };
        let found = state.recall(query).await.expect("it answers").found.expect("it is known");
        let kept = &found.kept;
        assert_eq!(kept.runs[&digest("history")].tokens, 1_250, "counts go on");
        assert_eq!(*kept.pins[&digest("history")], pinned(), "the lines stay");
        assert_eq!(kept.tails.len(), 1, "so do messages that the client never saw");
    }
}
