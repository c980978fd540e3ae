//! The windows of budgets against a model of them: hosts that crash, clocks that step, and windows
//! that roll over at midnight and where clocks are put on.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use softland_govern::money::accounts::{
    Claim, Grant, LeaseStore as _, ReservationAmounts, ReservationError, ReservationId, WaitLimits,
    WindowClaim,
};
use softland_govern::money::window::{BudgetWindow, TimeSpan, WindowLength, budget_account};
use softland_govern::shared::ReserveQuery;
use softland_govern::{LocalState, SharedState as _};
use softland_session::core::NanoUsd;
use softland_session::core::lease::Amount;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const LEASE: u64 = 5 * MINUTE;
const HOSTS: usize = 3;

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
const LENGTHS: [&str; 4] = ["day", "5h", "week", "month"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Event {
    /// So many minutes pass.
    Pass(u64),
    /// The clock of the store is put by an hour, forward or back.
    Step(bool),
    /// A host reserves such an amount on some of the budgets.
    Reserve { host: usize, budgets: u8, amount: u64 },
    /// The host sends the request of one of its reservations.
    Send(usize, usize),
    /// The host settles one of its reservations for a share of it, in percent.
    Settle(usize, usize, u64),
    /// The host extends its leases.
    Renew(usize),
    /// The host is killed, and another one takes its place.
    Crash(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let host = || 0..HOSTS;
    prop_oneof![
        4 => (1..40_u64).prop_map(Event::Pass),
        1 => (60..400_u64).prop_map(Event::Pass),
        1 => any::<bool>().prop_map(Event::Step),
        8 => (host(), 1..16_u8, 1..60_u64)
            .prop_map(|(host, budgets, amount)| Event::Reserve { host, budgets, amount }),
        6 => (host(), 0..4_usize).prop_map(|(host, at)| Event::Send(host, at)),
        4 => (host(), 0..4_usize, 0..=100_u64).prop_map(|(h, at, share)| Event::Settle(h, at, share)),
        2 => host().prop_map(Event::Renew),
        1 => host().prop_map(Event::Crash),
    ]
}

/// A reservation in the model.
#[derive(Clone, Debug)]
struct Held {
    grant: Grant,
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

/// What is known of a budget: its window, its limit, and its newest window that began with a
/// reservation.
struct Budget {
    window: BudgetWindow,
    limit: u64,
    open: Option<TimeSpan>,
}

impl Budget {
    /// Returns the window at this time, by the civil dates of the zone.
    fn span_at(&self, at: u64) -> TimeSpan {
        match (self.window.length(), self.open) {
            (WindowLength::Rolling(_), Some(open)) if at < open.end => open,
            _ => self.window.span_at(at),
        }
    }
}

/// The model: every reservation that was ever made, and nothing else.
struct Model {
    store: LocalState,
    budgets: Vec<Budget>,
    clock: u64,
    held: BTreeMap<u64, Held>,
    hosts: [Vec<u64>; HOSTS],
    next: u64,
}

impl Model {
    fn new(begins: &str, limits: [u64; 4], zones: [usize; 4]) -> Self {
        let begins = begins.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let budget = |at: usize| {
            let length = WindowLength::parse(LENGTHS[at]).unwrap();
            let window = BudgetWindow::new(length, ZONES[zones[at]]).unwrap();
            Budget { window, limit: limits[at], open: None }
        };
        Self {
            store: LocalState::with_expiring_leases(),
            budgets: (0..4).map(budget).collect(),
            clock: u64::try_from(begins).unwrap(),
            held: BTreeMap::new(),
            hosts: Default::default(),
            next: 0,
        }
    }

    fn claim(&self, budget: usize) -> Claim {
        let Budget { window, limit, .. } = &self.budgets[budget];
        Claim {
            window: Some(WindowClaim { bounds: window.bounds_at(self.clock), holds: None }),
            ..Claim::new(budget_account(window, "acme"), Some(NanoUsd(*limit)))
        }
    }

    /// Ends the leases that have expired by the store's clock.
    fn expire(&mut self) {
        let clock = self.clock;
        for held in self.held.values_mut().filter(|held| held.forgotten <= clock) {
            held.forgotten = 0;
        }
        for held in self.held.values_mut().filter(|held| held.booked.is_none()) {
            if held.until <= clock {
                held.forgotten = clock + 24 * HOUR;
                held.booked = Some(if held.sent { held.grant.amount.money.0 } else { 0 });
            }
        }
    }

    /// Returns what is spent and reserved in a window.
    fn sums(&self, budget: usize, span: TimeSpan) -> (u64, u64) {
        let mut sums = (0, 0);
        for held in self.held.values().filter(|held| held.windows.contains(&(budget, span.start))) {
            match held.booked {
                Some(booked) => sums.0 += booked,
                None => sums.1 += held.grant.amount.money.0,
            }
        }
        sums
    }

    async fn reserve(&mut self, host: usize, budgets: u8, amount: u64) {
        let chosen: Vec<usize> = (0..4).filter(|at| budgets >> at & 1 == 1).collect();
        self.next += 1;
        let query = ReserveQuery {
            id: ReservationId(self.next.to_string().into()),
            at: self.clock,
            lease: LEASE,
            claims: chosen.iter().map(|budget| self.claim(*budget)).collect(),
            ask: ReservationAmounts::from_exact(NanoUsd(amount)),
            patience: WaitLimits::NONE,
            spent_before: NanoUsd::ZERO,
            opens: None,
        };
        let spans: Vec<_> =
            chosen.iter().map(|at| (*at, self.budgets[*at].span_at(self.clock))).collect();
        let fits = spans.iter().all(|(budget, span)| {
            let (spent, reserved) = self.sums(*budget, *span);
            spent + reserved + amount <= self.budgets[*budget].limit
        });
        let reserved = self.store.reserve(query.clone()).await.expect("it answers");
        let Ok(grant) = reserved.grant else {
            assert!(!fits, "{amount} has room in {spans:?}");
            assert!(!matches!(reserved.grant, Err(ReservationError::Away(_))));
            return;
        };
        assert!(fits, "{amount} has no room in {spans:?}");
        let again = self.store.reserve(query).await.expect("it answers").grant;
        assert_eq!(again.as_ref(), Ok(&grant), "the same query again");
        for (budget, span) in &spans {
            self.budgets[*budget].open = Some(*span);
        }
        let windows = spans.into_iter().map(|(budget, span)| (budget, span.start)).collect();
        let held = Held {
            grant,
            windows,
            until: self.clock + LEASE,
            sent: false,
            late: false,
            booked: None,
            forgotten: u64::MAX,
        };
        self.held.insert(self.next, held);
        self.hosts[host].push(self.next);
    }

    async fn play(&mut self, event: Event) {
        match event {
            Event::Pass(minutes) => self.clock += minutes * MINUTE,
            Event::Step(true) => self.clock += HOUR,
            Event::Step(false) => self.clock -= HOUR,
            Event::Reserve { host, budgets, amount } => self.reserve(host, budgets, amount).await,
            Event::Send(host, at) => {
                let Some(id) = self.hosts[host].get(at) else { return };
                let held = self.held.get_mut(id).expect("it is known");
                // A host that was slower than its lease still sends: it cannot know.
                self.store.mark_sent(&held.grant);
                held.late |= held.booked.is_some() && !held.sent;
                held.sent = true;
            }
            Event::Settle(host, at, share) => {
                if at >= self.hosts[host].len() {
                    return;
                }
                let id = self.hosts[host].remove(at);
                let held = self.held.get_mut(&id).expect("it is known");
                // What was never sent costs nothing.
                let share = if held.sent { share } else { 0 };
                let actual = held.grant.amount.money.0 * share / 100;
                for _ in 0..2 {
                    self.store.settle_lease(&held.grant, NanoUsd(actual).into());
                }
                if held.forgotten > 0 {
                    held.booked = Some(actual);
                }
            }
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
        }
    }

    /// Compares every window of now, and the newest accounts of every reservation.
    async fn compare(&self) {
        for (budget, length) in LENGTHS.iter().enumerate() {
            let span = self.budgets[budget].span_at(self.clock);
            let read = self.store.read_windows(vec![self.claim(budget)], self.clock).await;
            let state = read.expect("it answers").remove(0).expect("a window");
            assert_eq!(state.span, span, "{length}");
            let balance = (state.balance.spent.0, state.balance.reserved.0);
            assert_eq!(balance, self.sums(budget, span), "{length}");
            let limit = self.budgets[budget].limit;
            let late = self.held.values().filter(|held| held.late);
            let was_late =
                late.flat_map(|held| &held.windows).any(|at| *at == (budget, span.start));
            assert!(was_late || balance.0 + balance.1 <= limit, "{balance:?} of {limit}");
        }
    }

    /// Returns the balance of an account by its own name.
    async fn sum_of(&self, account: &Arc<str>) -> (NanoUsd, NanoUsd) {
        let accounts = vec![Arc::clone(account)];
        let closing = softland_govern::Closing { accounts, ..Default::default() };
        let balance = self.store.close(closing).await.expect("it answers").balances[0];
        (balance.spent, balance.reserved)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Whatever happens: a reservation is made if and only if it fits in all of its windows, every
    /// window is what its reservations make it, and no window passes its limit.
    #[test]
    fn windows_are_what_their_reservations_make_them(
        begins in prop::sample::select(&BEGINNINGS[..]),
        limits in prop::array::uniform4(20..300_u64),
        zones in prop::array::uniform4(0..3_usize),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new(begins, limits, zones);
            for event in events {
                model.expire();
                model.play(event).await;
                model.expire();
                model.compare().await;
            }
            // Once all hosts are gone and all leases have ended, nothing is held anywhere.
            let ends = model.held.values().map(|held| held.until);
            model.clock = ends.max().unwrap_or(0).max(model.clock);
            model.expire();
            model.compare().await;
            for held in model.held.values() {
                for (account, window) in held.grant.accounts.iter().zip(&held.windows) {
                    let (spent, reserved) = model.sum_of(account).await;
                    let of = |other: &&Held| other.windows.contains(window);
                    let booked = model.held.values().filter(of).filter_map(|other| other.booked);
                    assert_eq!((spent.0, reserved), (booked.sum(), NanoUsd::ZERO), "{account}");
                }
            }
        });
    }
}

/// A request that waits for a window that is used up gets its money when the next one begins.
#[tokio::test(start_paused = true)]
async fn who_waits_is_served_by_the_next_window() {
    let mut model = Model::new("2026-03-28T22:59:50Z", [100; 4], [1; 4]);
    let query = |model: &Model, id: &str, amount: u64, patience: u64| {
        let patience = std::time::Duration::from_secs(patience);
        ReserveQuery {
            id: ReservationId(id.into()),
            at: model.clock,
            lease: LEASE,
            claims: vec![model.claim(0)],
            ask: ReservationAmounts::from_exact(NanoUsd(amount)),
            patience: WaitLimits { for_most: patience, in_all: patience },
            spent_before: NanoUsd::ZERO,
            opens: None,
        }
    };
    let first = query(&model, "first", 60, 0);
    let first = model.store.reserve(first).await.expect("it answers").grant.expect("it fits");
    let began = tokio::time::Instant::now();
    let second = query(&model, "second", 70, 30);
    let second = model.store.reserve(second).await.expect("it answers").grant.expect("it fits");
    assert_eq!(began.elapsed().as_secs(), 10, "at midnight");
    assert_ne!(first.accounts, second.accounts);
    model.clock += 10_000;
    model.store.settle_lease(&first, Amount::from(NanoUsd(60)));
    model.store.settle_lease(&second, Amount::from(NanoUsd(70)));
    let third = query(&model, "third", 31, 0);
    let third = model.store.reserve(third).await.expect("it answers").grant;
    let Err(ReservationError::Spent(short)) = third else { panic!("{third:?}") };
    assert_eq!((short.spent, short.limit), (NanoUsd(70), NanoUsd(100)));
}
