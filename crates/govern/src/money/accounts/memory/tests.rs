use proptest::prelude::*;
use softland_session::core::NanoUsd;

use super::*;
use std::time::Duration;

/// A request of that name, which claims one account.
fn wanted(account: &str, since: Instant) -> Wanted {
    Wanted {
        id: ReservationId(account.into()),
        claims: vec![Claim::new(account.into(), Some(NanoUsd(100)))],
        ask: ReservationAmounts::from_exact(NanoUsd(10)),
        patience: WaitLimits::NONE,
        at: 0,
        since,
        lease: 0,
    }
}

fn visit(state: &mut AccountsState, now: Instant, account: &str) -> Result<(), ReservationError> {
    let ticket = state.join_queue(now, wanted(account, now), Arc::new(Notify::new()))?;
    let QueueState::Granted(grant) = state.check_ticket(now, ticket) else { panic!("it fits") };
    assert_eq!(grant.amount.money, NanoUsd(10));
    Ok(())
}

fn settle(state: &mut AccountsState, now: Instant, account: &str) {
    state.settle_lease(now, &ReservationId(account.into()), NanoUsd(7).into());
}

/// 100,000 accounts stay. With one more, those that were idle for two days are forgotten, and no
/// others.
#[tokio::test(start_paused = true)]
async fn idle_accounts_are_forgotten_when_there_are_many() {
    let mut state = AccountsState::new(MOST, false);
    let began = now();
    let hours = |hours: u64| began + Duration::from_secs(hours * 3600);
    visit(&mut state, began, "held").unwrap();
    for number in 0..99_999 {
        let account = format!("account:{number}");
        visit(&mut state, began, &account).unwrap();
        settle(&mut state, began, &account);
    }
    visit(&mut state, hours(20), "account:5").unwrap();
    settle(&mut state, hours(20), "account:5");
    assert_eq!(state.len(), 100_000);
    visit(&mut state, hours(47), "young").unwrap();
    assert_eq!(state.len(), 100_001, "nobody is idle yet");
    visit(&mut state, hours(49), "new").unwrap();
    assert_eq!(state.len(), 4);
    assert_eq!(state.read_balance("account:5").spent, NanoUsd(14));
    assert_eq!(state.read_balance("held").reserved, NanoUsd(10));
    assert_eq!(state.read_balance("account:6"), Balance::default());
}

/// Accounts in use are never forgotten: new ones are refused instead.
#[tokio::test(start_paused = true)]
async fn more_accounts_than_can_be_kept_are_refused() {
    let mut state = AccountsState::new(1_000, false);
    for number in 0..1_000 {
        visit(&mut state, now(), &number.to_string()).unwrap();
    }
    let refused = visit(&mut state, now(), "one more").unwrap_err();
    assert_eq!(refused, ReservationError::Full { most: 1_000 });
    assert_eq!(refused.to_string(), "more than 1000 accounts of money are in use");
    visit(&mut state, now(), "5").unwrap();
}

/// Accounts that can never be named again have a bound of their own, so that others lose nothing to
/// them.
#[tokio::test(start_paused = true)]
async fn accounts_of_conversations_without_a_name_make_room_for_newer_ones() {
    let mut state = AccountsState::new(MOST, false);
    visit(&mut state, now(), "run:content:held").unwrap();
    visit(&mut state, now(), "session:named").unwrap();
    settle(&mut state, now(), "session:named");
    for number in 0..30_000 {
        tokio::time::advance(Duration::from_millis(1)).await;
        let account = format!("session:content:{number}");
        visit(&mut state, now(), &account).unwrap();
        settle(&mut state, now(), &account);
        assert!(state.len() <= 10_002, "{}", state.len());
    }
    assert!(state.len() > 8_192);
    assert_eq!(state.read_balance("run:content:held").reserved, NanoUsd(10));
    assert_eq!(state.read_balance("session:named").spent, NanoUsd(7));
    for newest in 30_000 - 8_192..30_000 {
        assert_eq!(state.read_balance(&format!("session:content:{newest}")).spent, NanoUsd(7));
    }
    assert_eq!(state.read_balance("session:content:1"), Balance::default());
}

/// A request of the property below: the accounts that it claims, their limits (zero: none), the
/// most and the least that it asks for, and whether a lease is settled before it.
type Request = (u8, [u64; 3], u64, u64, bool);

proptest! {
    /// A reservation at once equals one through an empty queue: with it and without, every request
    /// gets the same amount, no waiting request is overtaken, and the balances are equal.
    #[test]
    fn being_served_at_once_is_no_way_past_the_line(
        requests in prop::collection::vec(
            (1_u8..8, [0_u64..200, 0_u64..200, 0_u64..200], 1_u64..120, 1_u64..120, any::<bool>()),
            1..40,
        ),
    ) {
        let (mut one, mut other) = (Played::default(), Played::default());
        for (number, request) in requests.iter().enumerate() {
            let now = one.began.max(other.began) + Duration::from_millis(900 * number as u64);
            let (fast, slow) = (one.plays(now, request, true), other.plays(now, request, false));
            prop_assert_eq!(fast, slow, "request {}", number);
        }
    }
}

/// A state, with the leases and the queue entries of its requests.
struct Played {
    state: AccountsState,
    began: Instant,
    leases: Vec<Grant>,
    line: Vec<u64>,
    named: u64,
}

impl Default for Played {
    fn default() -> Self {
        let (leases, line) = (Vec::new(), Vec::new());
        Self { state: AccountsState::new(MOST, false), began: now(), leases, line, named: 0 }
    }
}

impl Played {
    /// Returns the result of the request, the results of all waiting requests, and the balances
    /// after that.
    fn plays(&mut self, now: Instant, request: &Request, at_once: bool) -> Vec<String> {
        let (which, limits, most, least, settles) = *request;
        if settles && !self.leases.is_empty() {
            let Grant { id, amount, .. } = self.leases.remove(0);
            self.state.settle_lease(now, &id, NanoUsd(amount.money.0 / 2).into());
        }
        let claimed = (0..3_usize).filter(|at| which >> at & 1 == 1);
        let claims: Vec<Claim> = claimed
            .map(|at| {
                let limit = Some(NanoUsd(limits[at])).filter(|limit| limit.0 > 0);
                Claim::new(format!("account {at}").into(), limit)
            })
            .collect();
        let ask = ReservationAmounts::new(NanoUsd(most), NanoUsd(least), NanoUsd(least));
        let patience =
            WaitLimits { for_most: Duration::from_secs(5), in_all: Duration::from_secs(30) };
        self.named += 1;
        let id = ReservationId(self.named.to_string().into());
        let wanted = Wanted { id, claims, ask, patience, at: 0, since: now, lease: 0 };
        if at_once && let Some(grant) = self.state.reserve_at_once(now, &wanted) {
            let got = format!("{:?}", QueueState::Granted(grant.clone()));
            self.leases.push(grant);
            self.look_again(now);
            return self.stands(got);
        }
        let entered = self.state.join_queue(now, wanted, Arc::new(Notify::new()));
        let ticket = entered.expect("a place");
        let got = self.looks(now, ticket);
        self.look_again(now);
        self.stands(got)
    }

    fn looks(&mut self, now: Instant, ticket: u64) -> String {
        let look = self.state.check_ticket(now, ticket);
        let got = format!("{look:?}");
        match look {
            QueueState::Granted(grant) => self.leases.push(grant),
            QueueState::Refused(_) => {}
            QueueState::Wait(_) => {
                self.line.push(ticket);
                return "waits".to_owned();
            }
        }
        got
    }

    fn look_again(&mut self, now: Instant) {
        for ticket in std::mem::take(&mut self.line) {
            self.looks(now, ticket);
        }
    }

    fn stands(&self, got: String) -> Vec<String> {
        let accounts =
            (0..3).map(|at| format!("{:?}", self.state.read_balance(&format!("account {at}"))));
        let leases = self.leases.iter().map(|lease| format!("{lease:?}"));
        [got, self.line.len().to_string()].into_iter().chain(accounts).chain(leases).collect()
    }
}
