//! The part of the suite about the windows of budgets, and about reservations whose host is gone.

use std::sync::Arc;

use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

use super::{LEASE, balance, next_id, reserve, wanted};
use crate::money::accounts::{
    Balance, Claim, Grant, ReservationAmounts, ReservationError, RunReserve, TokenScale,
    WindowClaim, WindowState,
};
use crate::money::window::{
    BudgetWindow, TimeSpan, WindowLength, account_of_window, budget_account,
};
use crate::runs::RequestEnd;
use crate::shared::{Closing, ReserveQuery, SharedState};

pub(super) async fn check_windows<S: SharedState>(make: &impl AsyncFn() -> S) {
    check_calendar(&make().await).await;
    check_first_reservation(&make().await).await;
    check_tokens(&make().await).await;
    check_kept_back(&make().await).await;
    check_names(&make().await).await;
    check_same_query(&make().await).await;
    check_dead_hosts(&make().await).await;
}

const DAY: u64 = 24 * 3_600_000;
const HOUR: u64 = 3_600_000;

/// A claim on a window of the account `acme` with a limit of 100.
fn claim(length: &str, at: u64) -> Claim {
    let length = WindowLength::parse(length).expect("a length");
    let window = BudgetWindow::new(length, "UTC").expect("a zone");
    Claim {
        window: Some(WindowClaim { bounds: window.bounds_at(at), holds: None }),
        ..Claim::new(budget_account(&window, "acme"), Some(NanoUsd(100)))
    }
}

fn query(claims: Vec<Claim>, amount: u64, at: u64) -> ReserveQuery {
    ReserveQuery { claims, at, ..wanted(0, amount, 0) }
}

async fn grant(shared: &dyn SharedState, query: ReserveQuery) -> Result<Grant, ReservationError> {
    reserve(shared, query).await.grant
}

async fn read(shared: &dyn SharedState, claim: Claim, at: u64) -> WindowState {
    let windows = shared.read_windows(vec![claim], at).await.expect("the state answers");
    windows.into_iter().next().flatten().expect("a window")
}

fn is_short(grant: &Result<Grant, ReservationError>) -> bool {
    matches!(grant, Err(ReservationError::Spent(_) | ReservationError::Busy(_)))
}

/// A request counts in the window in which it was reserved, and each window begins with nothing.
async fn check_calendar(shared: &dyn SharedState) {
    let (evening, morning) = (DAY - HOUR, DAY + HOUR);
    let late = grant(shared, query(vec![claim("day", evening)], 60, evening)).await.expect("fits");
    assert_eq!(account_of_window(&late.accounts[0]), &*claim("day", 0).account);
    let next = reserve(shared, query(vec![claim("day", morning)], 90, morning)).await;
    assert_eq!(next.balances, [balance(0, 0)]);
    let next = next.grant.expect("a new window");
    assert_ne!(late.accounts, next.accounts);
    shared.settle_lease(&late, NanoUsd(70).into());
    let of_yesterday = read(shared, claim("day", evening), evening).await;
    let span = TimeSpan { start: 0, end: DAY };
    let (kept, is_unused) = (Amount::default(), false);
    assert_eq!(of_yesterday, WindowState { span, is_unused, balance: balance(70, 0), kept });
    let today = read(shared, claim("day", morning), morning).await;
    assert_eq!((today.span.start, today.balance), (DAY, balance(0, 90)));
    // The clock is put back by two hours: what was spent in the old window counts again.
    let refused = grant(shared, query(vec![claim("day", evening)], 31, evening)).await;
    let Err(ReservationError::Spent(short)) = refused else { panic!("{refused:?}") };
    assert_eq!((short.window, &short.account), (Some(span), &late.accounts[0]));
    // A host whose clock is behind computes the bounds, and the window is still the right one.
    let refused = grant(shared, query(vec![claim("day", evening)], 11, morning)).await;
    assert!(is_short(&refused), "{refused:?}");
    let names = late.accounts.iter().chain(&next.accounts).cloned().collect();
    let closing = Closing { scope: "s".into(), accounts: names, ..Closing::default() };
    let closed = shared.close(closing).await.expect("the state answers");
    assert_eq!(closed.balances, [balance(70, 0), balance(0, 90)]);
}

/// A window of hours begins with its first reservation, and the next one with the first after it.
async fn check_first_reservation(shared: &dyn SharedState) {
    let window = |at| claim("5h", at);
    let before = read(shared, window(HOUR), HOUR).await;
    assert_eq!((before.span.start, before.is_unused), (HOUR, true));
    let first = grant(shared, query(vec![window(2 * HOUR)], 60, 2 * HOUR)).await.expect("fits");
    shared.settle_lease(&first, NanoUsd(60).into());
    for at in [HOUR, 3 * HOUR, 7 * HOUR - 1] {
        assert!(is_short(&grant(shared, query(vec![window(at)], 60, at)).await), "{at}");
        let span = TimeSpan { start: 2 * HOUR, end: 7 * HOUR };
        assert_eq!(read(shared, window(at), at).await.span, span);
    }
    // A request that gets nothing begins no window.
    assert!(is_short(&grant(shared, query(vec![window(8 * HOUR)], 101, 8 * HOUR)).await));
    let next = grant(shared, query(vec![window(9 * HOUR)], 100, 9 * HOUR)).await.expect("fits");
    assert_eq!(read(shared, window(10 * HOUR), 10 * HOUR).await.span.start, 9 * HOUR);
    shared.settle_lease(&next, NanoUsd(0).into());
}

/// Tokens are limited as money is; who asks for less output gets what is left.
async fn check_tokens(shared: &dyn SharedState) {
    let claims = || vec![Claim { limit: None, tokens_limit: Some(1000), ..claim("day", 0) }];
    // 100 tokens of input at no price, and up to 500 of output at 2 nano-dollars each.
    let scale = TokenScale { input: 100, input_cost: NanoUsd(0), output: 500, output_pico: 2000 };
    let ask = ReservationAmounts::new(NanoUsd(1000), NanoUsd(1000), NanoUsd(20)).with_tokens(scale);
    let wanted = || ReserveQuery { ask, ..query(claims(), 0, 0) };
    let first = grant(shared, wanted()).await.expect("it fits");
    assert_eq!(first.amount, Amount { money: NanoUsd(1000), tokens: 600 });
    let second = grant(shared, wanted()).await.expect("less fits");
    assert_eq!(second.amount, Amount { money: NanoUsd(600), tokens: 400 });
    let third = grant(shared, wanted()).await;
    let Err(ReservationError::Busy(short)) = third else { panic!("{third:?}") };
    let tokens = short.tokens.expect("tokens are short");
    assert_eq!((tokens.limit, tokens.spent, tokens.reserved, tokens.least), (1000, 0, 1000, 110));
    shared.lower_reservation(&first, Amount { money: NanoUsd(1000), tokens: 550 });
    shared.settle_lease(&first, Amount { money: NanoUsd(7), tokens: 500 });
    shared.settle_lease(&second, Amount { money: NanoUsd(7), tokens: 400 });
    let now = read(shared, claims().remove(0), 0).await.balance;
    let booked = Balance { spent: NanoUsd(14), tokens_spent: 900, ..Balance::default() };
    assert_eq!(now, booked);
    // Without a price, money says nothing of the output: all of it or nothing.
    let free = TokenScale { input: 60, output: 50, ..TokenScale::default() };
    let nothing = ReservationAmounts::from_exact(NanoUsd::ZERO);
    let ask = nothing.with_tokens(free);
    assert!(is_short(&grant(shared, ReserveQuery { ask, ..query(claims(), 0, 0) }).await));
    let ask = nothing.with_tokens(TokenScale { output: 40, ..free });
    let last = grant(shared, ReserveQuery { ask, ..query(claims(), 0, 0) }).await;
    assert_eq!(last.map(|grant| grant.amount.tokens), Ok(100));
}

/// A window keeps back what its open runs need for their answers, a twentieth at most.
async fn check_kept_back(shared: &dyn SharedState) {
    let claims = |run: &str, reserve: u64, explores: bool| {
        let amount = NanoUsd(reserve).into();
        let holds = explores.then(|| RunReserve { run: run.into(), amount });
        let mut claim = claim("day", 0);
        claim.window = claim.window.map(|window| WindowClaim { holds, ..window });
        vec![claim]
    };
    let wants = |run, reserve, explores, amount| query(claims(run, reserve, explores), amount, 0);
    let first = grant(shared, wants("one", 2, true, 10)).await.expect("it fits");
    let kept = read(shared, claims("one", 2, true).remove(0), 0).await.kept;
    assert_eq!(kept, NanoUsd(2).into());
    assert!(is_short(&grant(shared, wants("one", 2, true, 89)).await), "88 are left to explore");
    assert!(is_short(&grant(shared, wants("two", 2, true, 87)).await), "86 with a second run");
    let second = grant(shared, wants("two", 9, true, 85)).await.expect("a twentieth at most");
    assert!(is_short(&grant(shared, wants("two", 9, true, 1)).await));
    let answer = grant(shared, wants("two", 9, false, 4)).await.expect("an answer has the rest");
    for held in [&first, &second, &answer] {
        shared.settle_lease(held, NanoUsd(0).into());
    }
    for (run, left) in [("one", 5), ("two", 0)] {
        let request = RequestEnd { run: run.into(), ..ended() };
        let accounts = first.accounts.clone();
        let closing =
            Closing { scope: "s".into(), accounts, request: Some(request), ..Closing::default() };
        shared.close(closing).await.expect("the state answers");
        let kept = read(shared, claims("one", 2, true).remove(0), 0).await.kept;
        assert_eq!(kept, NanoUsd(left).into(), "{run} has ended");
    }
}

/// The end of a request with which its run has ended.
fn ended() -> RequestEnd {
    use softland_session::core::{Outcome, Reason, RunEnding};
    let ending = RunEnding::without_limit(Outcome::Answered, Reason::Final);
    let end = crate::runs::SnapshotEnd { at: 1, ending, local: false };
    RequestEnd { end: Some(end), ..RequestEnd::default() }
}

/// Accounts are told apart, whatever is in their names.
async fn check_names(shared: &dyn SharedState) {
    let length = WindowLength::parse("day").expect("a length");
    let window = BudgetWindow::new(length, "UTC").expect("a zone");
    let names = ["a", "a/b", "a@0", "a:b", "a b", "{a}", "a\n", "ä", "A", "budget:day:UTC:a", "*"];
    let mut held = Vec::new();
    for name in names {
        let mut claim = claim("day", 0);
        claim.account = budget_account(&window, name);
        let reserved = grant(shared, query(vec![claim], 100, 0)).await;
        held.push(reserved.unwrap_or_else(|short| panic!("{name} has its own: {short}")));
    }
    // An account without a window of the same name is another one, too.
    let plain = Claim::new(Arc::clone(&held[0].accounts[0]), Some(NanoUsd(200)));
    assert!(is_short(&grant(shared, query(vec![plain], 101, 0)).await), "a window by its own name");
}

/// A query that is made again returns its reservation, and settling twice books once.
async fn check_same_query(shared: &dyn SharedState) {
    let query = query(vec![claim("day", 0)], 60, 0);
    let first = grant(shared, query.clone()).await.expect("it fits");
    let again = grant(shared, query).await.expect("it is the same");
    assert_eq!(first, again);
    for _ in 0..2 {
        shared.settle_lease(&first, NanoUsd(50).into());
    }
    assert_eq!(read(shared, claim("day", 0), 0).await.balance, balance(50, 0));
}

/// A request whose host is gone is booked whole if it was sent, and what its host settles later
/// than that corrects it.
async fn check_dead_hosts(shared: &dyn SharedState) {
    let ask = |id| ReserveQuery { id, ..query(vec![claim("day", 0)], 30, 0) };
    let (dead, renewed, slow) = (next_id(), next_id(), next_id());
    let mut held = Vec::new();
    for id in [&dead, &renewed, &slow] {
        let grant = grant(shared, ask(id.clone())).await.expect("it fits");
        shared.mark_sent(&grant);
        held.push(grant);
    }
    shared.lower_reservation(&held[0], NanoUsd(20).into());
    shared.renew_leases(std::slice::from_ref(&renewed), LEASE / 2).await.expect("it answers");
    let now = async |at| read(shared, claim("day", 0), at).await.balance;
    assert_eq!(now(LEASE - 1).await, balance(0, 80));
    assert_eq!(now(LEASE).await, balance(50, 30), "booked whole, but for the one that lives");
    shared.settle_lease(&held[2], NanoUsd(3).into());
    assert_eq!(now(LEASE).await, balance(23, 30), "a late settlement corrects");
    shared.settle_lease(&held[1], NanoUsd(4).into());
    for grant in &held[1..] {
        shared.settle_lease(grant, NanoUsd(9).into());
    }
    assert_eq!(now(2 * LEASE).await, balance(27, 0));
}
