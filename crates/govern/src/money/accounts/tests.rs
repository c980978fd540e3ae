use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};

use super::*;

const LIMIT: NanoUsd = NanoUsd(1000);

fn claim(account: &str, limit: u64) -> Claim {
    Claim::new(account.into(), Some(NanoUsd(limit)))
}

fn exactly(amount: u64) -> ReservationAmounts {
    ReservationAmounts::from_exact(NanoUsd(amount))
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The patience of requests: 5 s for the most, 30 s in all.
const PATIENT: WaitLimits =
    WaitLimits { for_most: Duration::from_secs(5), in_all: Duration::from_secs(30) };

async fn take(
    accounts: &MemoryAccounts,
    claims: &[Claim],
    amount: u64,
) -> Result<Lease, ReservationError> {
    accounts.reserve_money(claims.to_vec(), exactly(amount), WaitLimits::NONE).await
}

async fn balance(accounts: &MemoryAccounts, account: &str) -> (u64, u64) {
    let found = accounts.read_balances(&[account]).await.unwrap();
    (found[0].spent.0, found[0].reserved.0)
}

#[tokio::test(start_paused = true)]
async fn reserves_on_all_accounts_or_on_none() {
    let accounts = MemoryAccounts::new();
    let both = [claim("run", 500), claim("session", 1000)];
    let first = take(&accounts, &both, 400).await.unwrap();
    let refused = take(&accounts, &both, 200).await.unwrap_err();
    let short = Shortfall {
        account: "run".into(),
        limit: NanoUsd(500),
        spent: NanoUsd::ZERO,
        reserved: NanoUsd(400),
        least: NanoUsd(200),
        ..Shortfall::default()
    };
    assert_eq!(refused, ReservationError::Busy(short.clone()));
    assert_eq!(short.remaining_amount(), NanoUsd(100));
    assert_eq!(balance(&accounts, "session").await, (0, 400));
    first.settle_cost(NanoUsd(350));
    assert_eq!(balance(&accounts, "run").await, (350, 0));
    assert_eq!(balance(&accounts, "session").await, (350, 0));
    let refused = take(&accounts, &both, 200).await.unwrap_err();
    assert!(
        matches!(refused, ReservationError::Spent(short) if short.unspent_amount() == NanoUsd(150))
    );
}

#[tokio::test(start_paused = true)]
async fn an_account_claimed_twice_is_charged_once_under_its_lower_limit() {
    let accounts = MemoryAccounts::new();
    let unlimited = Claim::new("a".into(), None);
    let twice = [claim("a", 1000), unlimited.clone(), claim("a", 500)];
    let lease = take(&accounts, &twice, 400).await.unwrap();
    assert_eq!(balance(&accounts, "a").await, (0, 400));
    assert!(take(&accounts, &twice, 200).await.is_err());
    let free = take(&accounts, &[unlimited], 10_000).await.unwrap();
    free.settle_cost(NanoUsd(1));
    lease.settle_cost(NanoUsd(400));
    assert_eq!(balance(&accounts, "a").await, (401, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_lease_books_what_was_received_or_all() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    drop(take(&accounts, &claims, 100).await.unwrap());
    assert_eq!(balance(&accounts, "a").await, (100, 0));
    let mut lease = take(&accounts, &claims, 100).await.unwrap();
    lease.set_received_cost(NanoUsd(30));
    lease.set_received_cost(NanoUsd(40));
    drop(lease);
    assert_eq!(balance(&accounts, "a").await, (140, 0));

    let task = tokio::spawn({
        let (accounts, claims) = (accounts.clone(), claims.clone());
        async move {
            let _lease = take(&accounts, &claims, 60).await.unwrap();
            std::future::pending::<()>().await;
        }
    });
    sleep(secs(1)).await;
    assert_eq!(balance(&accounts, "a").await, (140, 60));
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(balance(&accounts, "a").await, (200, 0));
}

#[tokio::test(start_paused = true)]
async fn what_costs_more_than_was_held_is_booked_all_the_same() {
    let accounts = MemoryAccounts::new();
    let lease = take(&accounts, &[claim("a", 1000)], 100).await.unwrap();
    lease.settle_cost(NanoUsd(1500));
    assert_eq!(balance(&accounts, "a").await, (1500, 0));
    let refused = take(&accounts, &[claim("a", 1000)], 1).await.unwrap_err();
    assert!(
        matches!(refused, ReservationError::Spent(short) if short.remaining_amount() == NanoUsd::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_come_is_not_waited_for() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", LIMIT.0)];
    take(&accounts, &claims, 600).await.unwrap().settle_cost(NanoUsd(600));
    let held = take(&accounts, &claims, 300).await.unwrap();
    let began = Instant::now();
    let refused = accounts.reserve_money(claims.to_vec(), exactly(401), PATIENT).await.unwrap_err();
    assert!(matches!(refused, ReservationError::Spent(_)), "{refused:?}");
    // 1000 can never come, but 50 are left: they are taken at once, and shared with the other
    // request.
    let ask = ReservationAmounts::new(NanoUsd(1000), NanoUsd(40), NanoUsd(10));
    let lease = accounts.reserve_money(claims.to_vec(), ask, PATIENT).await.unwrap();
    assert_eq!(lease.reserved_amount(), NanoUsd(50));
    assert_eq!(began.elapsed(), Duration::ZERO);
    lease.settle_cost(NanoUsd::ZERO);
    held.settle_cost(NanoUsd::ZERO);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_when_another_settles_or_lowers() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let mut held = take(&accounts, &claims, 900).await.unwrap();
    let waiting = tokio::spawn({
        let (accounts, claims) = (accounts.clone(), claims.clone());
        async move {
            let began = Instant::now();
            let lease =
                accounts.reserve_money(claims.to_vec(), exactly(300), PATIENT).await.unwrap();
            let other =
                accounts.reserve_money(claims.to_vec(), exactly(700), PATIENT).await.unwrap();
            lease.settle_cost(NanoUsd(1));
            other.settle_cost(NanoUsd(2));
            began.elapsed()
        }
    });
    sleep(secs(1)).await;
    held.lower_to(NanoUsd(700));
    sleep(secs(2)).await;
    held.settle_cost(NanoUsd::ZERO);
    assert_eq!(waiting.await.unwrap(), secs(3));
    assert_eq!(balance(&accounts, "a").await, (3, 0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_learns_at_once_that_the_money_is_spent() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let held = take(&accounts, &claims, 900).await.unwrap();
    let waiting = tokio::spawn({
        let (accounts, claims) = (accounts.clone(), claims.clone());
        async move {
            (accounts.reserve_money(claims.to_vec(), exactly(300), PATIENT).await, Instant::now())
        }
    });
    sleep(secs(1)).await;
    let settled = Instant::now();
    held.settle_cost(NanoUsd(800));
    let (refused, at) = waiting.await.unwrap();
    assert!(matches!(refused, Err(ReservationError::Spent(_))));
    assert_eq!(at, settled);
}

#[tokio::test(start_paused = true)]
async fn what_is_insisted_on_falls_with_the_time() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let ask = ReservationAmounts::new(NanoUsd(800), NanoUsd(300), NanoUsd(100));
    // 350 are left: enough, after five seconds. The other request is left a share.
    let held = take(&accounts, &claims, 650).await.unwrap();
    let began = Instant::now();
    let lease = accounts.reserve_money(claims.to_vec(), ask, PATIENT).await.unwrap();
    assert_eq!((lease.reserved_amount(), began.elapsed()), (NanoUsd(300), secs(5)));
    lease.settle_cost(NanoUsd::ZERO);
    // 150 are left: they are taken only at the end.
    let other = take(&accounts, &claims, 200).await.unwrap();
    let began = Instant::now();
    let lease = accounts.reserve_money(claims.to_vec(), ask, PATIENT).await.unwrap();
    assert_eq!((lease.reserved_amount(), began.elapsed()), (NanoUsd(150), secs(30)));
    // Nothing is left: the request is refused as busy.
    let refused = accounts.reserve_money(claims.to_vec(), ask, PATIENT).await.unwrap_err();
    assert!(matches!(refused, ReservationError::Busy(_)));
    for lease in [held, other, lease] {
        lease.settle_cost(NanoUsd::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_request_is_overtaken_for_two_seconds_and_no_longer() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let held = take(&accounts, &claims, 300).await.unwrap();
    let large = tokio::spawn({
        let (accounts, claims) = (accounts.clone(), claims.clone());
        async move {
            let patience = WaitLimits { for_most: secs(60), in_all: secs(60) };
            let lease =
                accounts.reserve_money(claims.to_vec(), exactly(900), patience).await.unwrap();
            let at = Instant::now();
            lease.settle_cost(NanoUsd::ZERO);
            at
        }
    });
    // Small requests come four times a second and hold their money for a second: without an end to
    // overtaking, four of them would always be running.
    let small = tokio::spawn({
        let (accounts, claims) = (accounts.clone(), claims.clone());
        async move {
            let mut waited = Vec::new();
            for _ in 0..80 {
                let began = Instant::now();
                let lease =
                    accounts.reserve_money(claims.to_vec(), exactly(100), PATIENT).await.unwrap();
                waited.push(began.elapsed());
                tokio::spawn(async move {
                    sleep(secs(1)).await;
                    lease.settle_cost(NanoUsd::ZERO);
                });
                sleep(Duration::from_millis(250)).await;
            }
            waited
        }
    });
    let began = Instant::now();
    sleep(secs(1)).await;
    held.settle_cost(NanoUsd::ZERO);
    let served = large.await.unwrap() - began;
    assert!(served >= secs(2) && served <= secs(4), "{served:?}");
    let waited = small.await.unwrap();
    assert_eq!(waited.iter().take(8).max(), Some(&Duration::ZERO), "two seconds of overtaking");
    assert!(waited.iter().max().unwrap() <= &secs(2), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_lacks_money_of_his_own_holds_up_nobody_else() {
    let accounts = MemoryAccounts::new();
    let session = || claim("session", 10_000);
    let own = [claim("run:a", 100), session()];
    let held = take(&accounts, &own, 100).await.unwrap();
    let waiting = tokio::spawn({
        let accounts = accounts.clone();
        async move { accounts.reserve_money(own.to_vec(), exactly(50), PATIENT).await }
    });
    sleep(secs(10)).await;
    let other = [claim("run:b", 100), session()];
    let lease =
        timeout(secs(1), accounts.reserve_money(other.to_vec(), exactly(100), PATIENT)).await;
    lease.expect("is not held up").unwrap().settle_cost(NanoUsd::ZERO);
    held.settle_cost(NanoUsd::ZERO);
    waiting.await.unwrap().unwrap().settle_cost(NanoUsd::ZERO);
}

#[tokio::test(start_paused = true)]
async fn equal_requests_are_served_in_the_order_in_which_they_came() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let held = take(&accounts, &claims, 1000).await.unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..50 {
        let (accounts, claims, tell) = (accounts.clone(), claims.clone(), tell.clone());
        tokio::spawn(async move {
            let lease =
                accounts.reserve_money(claims.to_vec(), exactly(600), PATIENT).await.unwrap();
            tell.send(number).unwrap();
            sleep(Duration::from_millis(100)).await;
            lease.settle_cost(NanoUsd::ZERO);
        });
        sleep(Duration::from_millis(1)).await;
    }
    drop(tell);
    held.settle_cost(NanoUsd::ZERO);
    for number in 0..50 {
        assert_eq!(told.recv().await, Some(number));
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_given_up_keeps_nothing() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1000)];
    let held = take(&accounts, &claims, 1000).await.unwrap();
    let mut waiting = Box::pin(accounts.reserve_money(claims.to_vec(), exactly(800), PATIENT));
    assert!(timeout(secs(1), waiting.as_mut()).await.is_err());
    // Granted, and dropped before it was looked at.
    held.settle_cost(NanoUsd::ZERO);
    assert_eq!(balance(&accounts, "a").await, (0, 800));
    drop(waiting);
    assert_eq!(balance(&accounts, "a").await, (0, 0));
}

/// One simulated request.
#[derive(Clone, Debug)]
struct Job {
    starts: u64,
    accounts: Vec<usize>,
    most: u64,
    enough: u64,
    least: u64,
    patience: (u64, u64),
    /// The time after which it gives up waiting, if it does.
    gives_up: Option<u64>,
    holds: u64,
    ends: End,
}

#[derive(Clone, Debug)]
enum End {
    Settles(u64),
    DropsAfter(Option<u64>),
    LowersThenSettles(u64, u64),
}

const ACCOUNTS: usize = 4;

fn job() -> impl Strategy<Value = Job> {
    let percent = || 0..=100_u64;
    let end = prop_oneof![
        percent().prop_map(End::Settles),
        proptest::option::of(percent()).prop_map(End::DropsAfter),
        (percent(), percent()).prop_map(|(to, of)| End::LowersThenSettles(to, of)),
    ];
    let ask = (0..1200_u64, percent(), percent());
    let accounts = proptest::collection::vec(0..ACCOUNTS, 0..4);
    let patience = (0..6_000_u64, 0..30_000_u64);
    let gives_up = proptest::option::weighted(0.2, 0..10_000_u64);
    (0..20_000_u64, accounts, ask, patience, gives_up, 0..8_000_u64, end).prop_map(
        |(starts, accounts, (most, enough, least), patience, gives_up, holds, ends)| {
            let (enough, least) = (most * enough / 100, most * least / 100);
            Job { starts, accounts, most, enough, least, patience, gives_up, holds, ends }
        },
    )
}

struct World {
    accounts: MemoryAccounts,
    limits: [u64; ACCOUNTS],
}

impl World {
    async fn check(&self) {
        for (number, limit) in self.limits.iter().enumerate() {
            let (spent, reserved) = balance(&self.accounts, &name(number)).await;
            assert!(spent + reserved <= *limit, "{number}: {spent} + {reserved} of {limit}");
        }
    }

    /// Runs the job. Returns the amount that it booked.
    async fn run(&self, job: &Job) -> u64 {
        sleep(Duration::from_millis(job.starts)).await;
        let claim = |number: &usize| claim(&name(*number), self.limits[*number]);
        let claims: Vec<Claim> = job.accounts.iter().map(claim).collect();
        let ask =
            ReservationAmounts::new(NanoUsd(job.most), NanoUsd(job.enough), NanoUsd(job.least));
        let millis = Duration::from_millis;
        let (for_most, in_all) = job.patience;
        let patience = WaitLimits { for_most: millis(for_most), in_all: millis(in_all) };
        let waiting = self.accounts.reserve_money(claims.to_vec(), ask, patience);
        let gives_up = millis(job.gives_up.unwrap_or_else(|| u64::from(u32::MAX)));
        let began = Instant::now();
        let result = timeout(gives_up, waiting).await;
        assert!(began.elapsed() <= patience.in_all, "waits beyond its patience");
        self.check().await;
        let Ok(Ok(mut lease)) = result else { return 0 };
        let held = lease.reserved_amount().0;
        let least = job.least.min(job.enough);
        assert!((least..=job.most).contains(&held), "{held} for {job:?}");
        sleep(millis(job.holds)).await;
        let booked = match job.ends {
            End::Settles(of) => {
                lease.settle_cost(NanoUsd(held * of / 100));
                held * of / 100
            }
            End::DropsAfter(received) => {
                let booked = received.map(|of| held * of / 100);
                if let Some(booked) = booked {
                    lease.set_received_cost(NanoUsd(booked));
                }
                drop(lease);
                booked.unwrap_or(held)
            }
            End::LowersThenSettles(to, of) => {
                let to = held * to / 100;
                lease.lower_to(NanoUsd(to));
                self.check().await;
                sleep(millis(job.holds)).await;
                lease.settle_cost(NanoUsd(to * of / 100));
                to * of / 100
            }
        };
        self.check().await;
        booked
    }
}

fn name(number: usize) -> String {
    format!("account:{number}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// In any order of events: no limit is exceeded at any moment, nothing stays reserved, no
    /// request stays in the queue, and the booked amount is the amount spent.
    #[test]
    fn no_order_of_events_passes_a_limit_or_leaks(
        jobs in proptest::collection::vec(job(), 1..40),
        limits in proptest::array::uniform4(0..2_000_u64),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let accounts = MemoryAccounts::new();
            let world = Arc::new(World { accounts: accounts.clone(), limits });
            let tasks: Vec<_> = jobs.into_iter().map(|job| {
                let world = Arc::clone(&world);
                tokio::spawn(async move { (world.run(&job).await, job.accounts) })
            }).collect();
            let mut expected = [0; ACCOUNTS];
            for task in tasks {
                let (booked, in_accounts) = task.await.unwrap();
                for (number, sum) in expected.iter_mut().enumerate() {
                    *sum += if in_accounts.contains(&number) { booked } else { 0 };
                }
            }
            for (number, expected) in expected.into_iter().enumerate() {
                assert_eq!(balance(&accounts, &name(number)).await, (expected, 0));
            }
            assert!(accounts.is_idle());
        });
    }
}

/// Threads that run in parallel, and tasks that are aborted at any moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn threads_and_aborts_leak_nothing() {
    let accounts = MemoryAccounts::new();
    let claims = [claim("a", 1_000_000), claim("b", 500_000)];
    let patience = WaitLimits { for_most: secs(1), in_all: secs(20) };
    let tasks: Vec<_> = (0..400_u64)
        .map(|number| {
            let (accounts, claims) = (accounts.clone(), claims.clone());
            tokio::spawn(async move {
                let ask = exactly(60_000 + number * 100);
                let Ok(mut lease) = accounts.reserve_money(claims.to_vec(), ask, patience).await
                else {
                    return;
                };
                lease.set_received_cost(NanoUsd(10));
                for _ in 0..number % 7 {
                    tokio::task::yield_now().await;
                }
                let found = accounts.read_balances(&["b"]).await.unwrap();
                assert!(found[0].spent + found[0].reserved <= NanoUsd(500_000));
                lease.settle_cost(NanoUsd(10));
            })
        })
        .collect();
    for (number, task) in tasks.iter().enumerate() {
        if number % 5 == 0 {
            task.abort();
        }
    }
    for task in tasks {
        let result = task.await;
        assert!(result.is_ok() || result.unwrap_err().is_cancelled());
    }
    let (spent, reserved) = balance(&accounts, "b").await;
    assert_eq!(reserved, 0);
    assert!(spent.is_multiple_of(10) && (3_200..=4_000).contains(&spent), "{spent}");
    assert!(accounts.is_idle());
}
