//! Included by tests: the windows of budgets against a model of them. Hosts crash, the store's clock
//! steps, windows roll over at midnight and where clocks are put on, and accounts lie in each other.

#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use softland_govern::budget::{AccountBudget, BudgetRule, OnExhausted, find_budgets};
use softland_govern::money::accounts::{
    Grant, ReservationAmounts, ReservationError, ReservationId, RunReserve, WaitLimits,
};
use softland_govern::money::window::{BudgetWindow, TimeSpan, WindowLength, window_account};
use softland_govern::runs::{RequestEnd, SnapshotEnd};
use softland_govern::shared::ReserveQuery;
use softland_govern::{Closing, SharedState};
use softland_session::core::{NanoUsd, Outcome, Reason, RunEnding};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
pub(crate) const LEASE: u64 = 5 * MINUTE;
/// The time without a request after which a window keeps back nothing for a run.
const IDLE_RUN: u64 = 10 * MINUTE;
const HOSTS: usize = 3;
const RUNS: usize = 3;

/// Minutes before a midnight, a change of clocks, or both, of three zones: in Havana, where clocks
/// change at midnight, in Berlin, and in Auckland.
const BEGINNINGS: [&str; 7] = [
    "2024-03-10T04:40:00Z",
    "2024-11-03T03:40:00Z",
    "2026-03-28T22:40:00Z",
    "2026-03-29T00:40:00Z",
    "2026-10-25T00:40:00Z",
    "2026-09-26T13:40:00Z",
    "2026-12-31T10:40:00Z",
];

const ZONES: [&str; 3] = ["America/Havana", "Europe/Berlin", "Pacific/Auckland"];

/// The rules: an account, whether each of its children has a budget, and the window.
const RULES: [(&str, bool, &str); 4] = [
    ("acme", false, "week"),
    ("acme", true, "day"),
    ("acme/search", false, "month"),
    ("acme/search/ana", false, "5h"),
];

/// The accounts of the keys. They count in four, three, two and one of the budgets.
const ACCOUNTS: [&str; 4] = ["acme/search/ana", "acme/search/bo", "acme/ops", "acme"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// So many minutes pass.
    Pass(u64),
    /// The clock of the store is put by an hour, forward or back.
    Step(bool),
    /// A host reserves such an amount for a key's account. If it explores, its run holds back so much.
    Reserve { host: usize, account: usize, amount: u64, holds: Option<(usize, u64)> },
    /// The host sends the request of one of its reservations.
    Send(usize, usize),
    /// The host lowers one of its reservations to a share of it, in percent.
    Lower(usize, usize, u64),
    /// The host settles one of its reservations for a share of it, in percent.
    Settle(usize, usize, u64),
    /// The host extends its leases.
    Renew(usize),
    /// The host is killed, and another one takes its place.
    Crash(usize),
    /// A run ends, and needs no answer any more.
    EndRun(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let host = || 0..HOSTS;
    let holds = || prop::option::of((0..RUNS, 0..20_u64));
    prop_oneof![
        4 => (1..40_u64).prop_map(Event::Pass),
        1 => (60..400_u64).prop_map(Event::Pass),
        1 => any::<bool>().prop_map(Event::Step),
        8 => (host(), 0..ACCOUNTS.len(), 1..60_u64, holds())
            .prop_map(|(host, account, amount, holds)| Event::Reserve { host, account, amount, holds }),
        6 => (host(), 0..4_usize).prop_map(|(host, at)| Event::Send(host, at)),
        1 => (host(), 0..4_usize, 0..=100_u64).prop_map(|(h, at, share)| Event::Lower(h, at, share)),
        4 => (host(), 0..4_usize, 0..=100_u64).prop_map(|(h, at, share)| Event::Settle(h, at, share)),
        2 => host().prop_map(Event::Renew),
        1 => host().prop_map(Event::Crash),
        1 => (0..RUNS).prop_map(Event::EndRun),
    ]
}

/// A reservation in the model.
#[derive(Clone, Debug)]
struct Held {
    grant: Grant,
    /// The amount that is held, or that was.
    amount: u64,
    windows: Vec<(usize, u64)>,
    until: u64,
    sent: bool,
    /// True if it was sent after its lease had ended unsent, so that others could take its money.
    late: bool,
    /// Its end, once it has come.
    booked: Option<u64>,
    /// The time from which on nothing corrects what was booked at the end of its lease; zero once it
    /// has come.
    forgotten: u64,
}

/// What is known of a budget.
struct Budget {
    budget: AccountBudget,
    limit: u64,
    zone: TimeZone,
    /// Its newest window that began with a reservation.
    open: Option<TimeSpan>,
}

impl Budget {
    /// Returns the window at this time. Of a window of the calendar, the civil dates of its zone say
    /// where it begins and ends.
    fn span_at(&self, at: u64) -> TimeSpan {
        let window = &self.budget.rule.window;
        let is_rolling = matches!(window.length(), WindowLength::Rolling(_));
        if let Some(open) = self.open.filter(|open| is_rolling && at < open.end) {
            return open;
        }
        let span = window.span_at(at);
        if let Some(of) = self.period(at) {
            for (time, is_same) in [
                (span.start - 1, false),
                (span.start, true),
                (span.end - 1, true),
                (span.end, false),
            ] {
                assert_eq!(self.period(time) == Some(of), is_same, "{time} is not of {span:?}");
            }
        }
        span
    }

    /// Returns the first day of the day, week or month in which a time lies where the zone is.
    fn period(&self, at: u64) -> Option<Date> {
        let at = Timestamp::from_millisecond(i64::try_from(at).expect("a time")).expect("a time");
        let day = at.to_zoned(self.zone.clone()).date();
        match self.budget.rule.window.length() {
            WindowLength::Rolling(_) => None,
            WindowLength::Day => Some(day),
            WindowLength::Week => Some(day - day.weekday().since(Weekday::Monday).days()),
            WindowLength::Month => Some(day.first_of_month()),
        }
    }
}

/// What a window keeps back for the answers of its open runs: the amount of each, and the time of its
/// last request.
#[derive(Default)]
struct Kept {
    runs: BTreeMap<usize, (u64, u64)>,
    pruned: u64,
}

impl Kept {
    fn sum(&self) -> u64 {
        self.runs.values().map(|(amount, _)| amount).sum()
    }

    fn keep(&mut self, run: usize, amount: u64, at: u64) {
        self.runs.insert(run, (amount, at));
        if at.saturating_sub(self.pruned) >= MINUTE {
            self.pruned = at;
            self.runs.retain(|_, (_, used)| at.saturating_sub(*used) < IDLE_RUN);
        }
    }
}

/// The model: every reservation that was ever made, what runs hold back, and nothing else.
pub(crate) struct Model<S> {
    pub(crate) store: S,
    /// True if the store knows whether the request of a reservation was sent; otherwise it takes each
    /// for sent.
    knows_sent: bool,
    rules: Vec<Arc<BudgetRule>>,
    budgets: Vec<Budget>,
    kept: BTreeMap<(usize, u64), Kept>,
    pub(crate) clock: u64,
    held: BTreeMap<u64, Held>,
    hosts: [Vec<u64>; HOSTS],
    next: u64,
}

impl<S: SharedState> Model<S> {
    pub(crate) fn new(
        (store, knows_sent): (S, bool),
        begins: &str,
        limits: [u64; 4],
        zones: [usize; 4],
    ) -> Self {
        let begins = begins.parse::<Timestamp>().expect("a time").as_millisecond();
        let rule = |at: usize| {
            let (account, each_child, length) = RULES[at];
            let length = WindowLength::parse(length).expect("a length");
            Arc::new(BudgetRule {
                account: account.to_owned(),
                each_child,
                limit: Some(NanoUsd(limits[at])),
                tokens_limit: None,
                window: BudgetWindow::new(length, ZONES[zones[at]]).expect("a zone"),
                notify_at: Vec::new(),
                on_exhausted: if at.is_multiple_of(2) {
                    OnExhausted::Land
                } else {
                    OnExhausted::Refuse
                },
            })
        };
        let rules: Vec<_> = (0..RULES.len()).map(rule).collect();
        let mut budgets: Vec<Budget> = Vec::new();
        for budget in ACCOUNTS.iter().flat_map(|account| find_budgets(&rules, account)) {
            if budgets.iter().all(|known| known.budget.account != budget.account) {
                let limit = budget.rule.limit.expect("a limit").0;
                let zone = TimeZone::get(budget.rule.window.zone_name()).expect("a zone");
                budgets.push(Budget { budget, limit, zone, open: None });
            }
        }
        Self {
            store,
            knows_sent,
            rules,
            budgets,
            kept: BTreeMap::new(),
            clock: u64::try_from(begins).expect("after 1970"),
            held: BTreeMap::new(),
            hosts: Default::default(),
            next: 0,
        }
    }

    /// Returns the budgets in which a request of this account counts.
    fn budgets_of(&self, account: &str) -> Vec<usize> {
        let of = find_budgets(&self.rules, account);
        let place = |budget: &AccountBudget| {
            self.budgets.iter().position(|known| known.budget.account == budget.account)
        };
        of.iter().filter_map(place).collect()
    }

    /// Returns a query for an account, at the time of the clock.
    pub(crate) fn query(
        &mut self,
        account: &str,
        amount: u64,
        holds: Option<(usize, u64)>,
    ) -> ReserveQuery {
        self.next += 1;
        let holds = holds
            .map(|(run, amount)| RunReserve { run: run_name(run), amount: NanoUsd(amount).into() });
        let budgets = self.budgets_of(account).into_iter().map(|at| &self.budgets[at].budget);
        ReserveQuery {
            id: ReservationId(self.next.to_string().into()),
            at: self.clock,
            lease: LEASE,
            claims: budgets.map(|budget| budget.claim_at(self.clock, holds.clone())).collect(),
            ask: ReservationAmounts::from_exact(NanoUsd(amount)),
            patience: WaitLimits::NONE,
            spent_before: NanoUsd::ZERO,
            opens: None,
        }
    }

    /// Ends the leases that have expired by the store's clock.
    fn expire(&mut self) {
        let (clock, knows_sent) = (self.clock, self.knows_sent);
        for held in self.held.values_mut().filter(|held| held.forgotten <= clock) {
            held.forgotten = 0;
        }
        for held in self.held.values_mut().filter(|held| held.booked.is_none()) {
            if held.until <= clock {
                // A store of its own keeps them for days of its own clock, which nobody puts.
                held.forgotten = if knows_sent { clock + 24 * HOUR } else { u64::MAX };
                held.booked = Some(if held.sent || !knows_sent { held.amount } else { 0 });
            }
        }
    }

    /// Returns what is spent and reserved in a window.
    fn sums(&self, window: (usize, u64)) -> (u64, u64) {
        let mut sums = (0, 0);
        for held in self.held.values().filter(|held| held.windows.contains(&window)) {
            match held.booked {
                Some(booked) => sums.0 += booked,
                None => sums.1 += held.amount,
            }
        }
        sums
    }

    /// Returns true if a budget keeps something back for answers: one that refuses lands no run.
    fn keeps_back(&self, budget: usize) -> bool {
        self.budgets[budget].budget.rule.on_exhausted == OnExhausted::Land
    }

    /// Returns what a window keeps back from a request.
    fn kept_back(&self, window: (usize, u64), holds: Option<(usize, u64)>) -> u64 {
        let kept = self.kept.get(&window);
        let mut sum = kept.map_or(0, Kept::sum);
        if let Some((run, amount)) = holds {
            let own = kept.and_then(|kept| kept.runs.get(&run));
            sum = sum - own.map_or(0, |(own, _)| *own) + amount;
        }
        sum.min(self.budgets[window.0].limit / 20)
    }

    /// Returns true if a window has room for a request.
    fn has_room(&self, window: (usize, u64), amount: u64, holds: Option<(usize, u64)>) -> bool {
        let (spent, reserved) = self.sums(window);
        let keeps = holds.is_some() && self.keeps_back(window.0);
        let kept = if keeps { self.kept_back(window, holds) } else { 0 };
        spent + reserved + amount + kept <= self.budgets[window.0].limit
    }

    async fn reserve(
        &mut self,
        host: usize,
        account: &str,
        amount: u64,
        holds: Option<(usize, u64)>,
    ) {
        let query = self.query(account, amount, holds);
        let chosen = self.budgets_of(account);
        let spans: Vec<_> =
            chosen.into_iter().map(|at| (at, self.budgets[at].span_at(self.clock))).collect();
        let fits = spans.iter().all(|(at, span)| self.has_room((*at, span.start), amount, holds));
        let reserved = self.store.reserve(query.clone()).await.expect("it answers");
        let Ok(grant) = reserved.grant else {
            assert!(!fits, "{amount} has room in {spans:?}");
            assert!(!matches!(reserved.grant, Err(ReservationError::Away(_))));
            return;
        };
        assert!(fits, "{amount} has no room in {spans:?}");
        let again = self.store.reserve(query).await.expect("it answers").grant;
        assert_eq!(again.as_ref(), Ok(&grant), "the same query again");
        for (at, span) in &spans {
            self.budgets[*at].open = Some(*span);
            if let Some((run, amount)) = holds.filter(|_| self.keeps_back(*at)) {
                let kept = self.kept.entry((*at, span.start)).or_default();
                kept.keep(run, amount, self.clock);
            }
        }
        let held = Held {
            grant,
            amount,
            windows: spans.into_iter().map(|(at, span)| (at, span.start)).collect(),
            until: self.clock + LEASE,
            sent: false,
            late: false,
            booked: None,
            forgotten: u64::MAX,
        };
        self.held.insert(self.next, held);
        self.hosts[host].push(self.next);
    }

    fn settle(&mut self, host: usize, at: usize, share: u64) {
        if at >= self.hosts[host].len() {
            return;
        }
        let id = self.hosts[host].remove(at);
        let held = self.held.get_mut(&id).expect("it is known");
        // What was never sent costs nothing.
        let share = if held.sent { share } else { 0 };
        let actual = held.amount * share / 100;
        for _ in 0..2 {
            self.store.settle_lease(&held.grant, NanoUsd(actual).into());
        }
        if held.forgotten > 0 {
            held.booked = Some(actual);
        }
    }

    async fn end_run(&mut self, run: usize) {
        let ending = RunEnding::without_limit(Outcome::Answered, Reason::Final);
        let end = Some(SnapshotEnd { at: self.clock, ending, local: false });
        let request = Some(RequestEnd { run: run_name(run), end, ..RequestEnd::default() });
        let name = |(at, start): &(usize, u64)| {
            window_account(&self.budgets[*at].budget.account, TimeSpan { start: *start, end: 0 })
        };
        let accounts = self.kept.keys().map(name).collect();
        let closing = Closing { scope: "s".into(), accounts, request, ..Closing::default() };
        self.store.close(closing).await.expect("it answers");
        for kept in self.kept.values_mut() {
            kept.runs.remove(&run);
        }
    }

    async fn play(&mut self, event: Event) {
        match event {
            Event::Pass(minutes) => self.clock += minutes * MINUTE,
            Event::Step(true) => self.clock += HOUR,
            Event::Step(false) => self.clock -= HOUR,
            Event::Reserve { host, account, amount, holds } => {
                self.reserve(host, ACCOUNTS[account], amount, holds).await;
            }
            Event::Send(host, at) => {
                let Some(id) = self.hosts[host].get(at) else { return };
                let held = self.held.get_mut(id).expect("it is known");
                // A host that was slower than its lease still sends: it cannot know.
                self.store.mark_sent(&held.grant);
                held.late |= self.knows_sent && held.booked.is_some() && !held.sent;
                held.sent = true;
            }
            Event::Lower(host, at, share) => {
                let Some(id) = self.hosts[host].get(at) else { return };
                let held = self.held.get_mut(id).expect("it is known");
                let to = held.grant.amount.money.0 * share / 100;
                self.store.lower_reservation(&held.grant, NanoUsd(to).into());
                if held.booked.is_none() {
                    held.amount = held.amount.min(to);
                }
            }
            Event::Settle(host, at, share) => self.settle(host, at, share),
            Event::Renew(host) => {
                let ids: Vec<_> =
                    self.hosts[host].iter().map(|id| self.held[id].grant.id.clone()).collect();
                self.store.renew_leases(&ids, self.clock).await.expect("it answers");
                for id in &self.hosts[host] {
                    let held = self.held.get_mut(id).expect("it is known");
                    held.until = self.clock + LEASE;
                }
            }
            Event::Crash(host) => self.hosts[host].clear(),
            Event::EndRun(run) => self.end_run(run).await,
        }
    }

    /// Compares every window of now.
    async fn compare(&self) {
        let claims = self.budgets.iter().map(|of| of.budget.claim_at(self.clock, None)).collect();
        let windows = self.store.read_windows(claims, self.clock).await.expect("it answers");
        for (at, (of, state)) in self.budgets.iter().zip(windows).enumerate() {
            let (state, span) = (state.expect("a window"), of.span_at(self.clock));
            let (name, window) = (&of.budget.account, (at, span.start));
            assert_eq!(state.span, span, "{name}");
            let balance = (state.balance.spent.0, state.balance.reserved.0);
            assert_eq!(balance, self.sums(window), "{name}");
            assert_eq!(state.kept.money.0, self.kept_back(window, None), "{name}");
            let late = self.held.values().filter(|held| held.late);
            let was_late = late.flat_map(|held| &held.windows).any(|at| *at == window);
            assert!(was_late || balance.0 + balance.1 <= of.limit, "{balance:?} of {}", of.limit);
        }
    }

    /// Ends all leases, and compares the accounts of every window that there ever was.
    async fn compare_ends(&mut self) {
        let ends = self.held.values().map(|held| held.until);
        self.clock = ends.max().unwrap_or(0).max(self.clock);
        self.expire();
        self.compare().await;
        for held in self.held.values() {
            for (account, window) in held.grant.accounts.iter().zip(&held.windows) {
                let (spent, reserved) = self.sum_of(account).await;
                assert_eq!((spent.0, reserved.0), self.sums(*window), "{account}");
                assert_eq!(reserved, NanoUsd::ZERO, "{account}");
            }
        }
    }

    /// Returns the balance of an account by its own name.
    async fn sum_of(&self, account: &Arc<str>) -> (NanoUsd, NanoUsd) {
        let accounts = vec![Arc::clone(account)];
        let closing = Closing { accounts, ..Default::default() };
        let balance = self.store.close(closing).await.expect("it answers").balances[0];
        (balance.spent, balance.reserved)
    }
}

fn run_name(run: usize) -> Arc<str> {
    format!("run {run}").into()
}

/// Whatever happens: a reservation is made if and only if it fits in all of its windows, every window
/// is what its reservations make it, and no window passes its limit. Each call of `make` has to give
/// an empty state that takes the times of the calls for its own, and says whether it knows which
/// requests were sent.
pub(crate) fn check_against_model<S: SharedState>(
    cases: u32,
    runtime: impl Fn() -> tokio::runtime::Runtime,
    make: impl Fn() -> (S, bool),
) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let story = (
        prop::sample::select(&BEGINNINGS[..]),
        prop::array::uniform4(20..300_u64),
        prop::array::uniform4(0..ZONES.len()),
        prop::collection::vec(event(), 1..120),
    );
    let played = TestRunner::new(config).run(&story, |(begins, limits, zones, events)| {
        runtime().block_on(async {
            let mut model = Model::new(make(), begins, limits, zones);
            for event in events {
                model.expire();
                model.play(event).await;
                model.expire();
                model.compare().await;
            }
            model.compare_ends().await;
        });
        Ok(())
    });
    if let Err(wrong) = played {
        panic!("{wrong}");
    }
}
