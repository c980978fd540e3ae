//! 50 agents of one session, all at once, under one limit of $5. Their contexts have 100,000
//! tokens, `max_tokens` is 128,000 or absent (then the model's own 128,000 holds), and the prices
//! are those of a large model.

use super::*;

const CAP: u64 = 500 * CENT;
const AGENTS: u64 = 50;

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, low: u64, high: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (self.0 >> 33) % (high - low + 1)
    }
}

/// The behaviour of one kind of crowd.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    stream: bool,
    /// True if most of each context is read from the cache, as for one agent that continues; else
    /// it is written to it, as for 50 agents that begin.
    cached: bool,
    /// True if each lease is lowered when the head of the response states the billed input.
    lowers: bool,
    /// True if one more request at the uncached price and 4,096 tokens are held back for answers,
    /// as `reserve_tokens` does; an agent that is landed asks for its answer with them.
    holds_back: bool,
    seed: u64,
}

#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    lowered: u64,
    busy: u64,
    gave_up: u64,
    /// The amount spent when the first run was landed.
    at_first_landing: Option<u64>,
    cut: u64,
    answered: u64,
    seconds: u64,
}

struct Session {
    accounts: MemoryAccounts,
    /// The claims of requests that explore.
    claims: Vec<Claim>,
    seen: std::sync::Mutex<Seen>,
}

impl Session {
    async fn spent(&self) -> u64 {
        let balance = self.accounts.read_balances(&["session:s"]).await.unwrap()[0];
        assert!(balance.spent.0 + balance.reserved.0 <= CAP, "{balance:?}");
        balance.spent.0
    }

    fn note(&self, note: impl FnOnce(&mut Seen)) {
        note(&mut self.seen.lock().unwrap());
    }

    /// Runs an agent that sends requests until it is landed. If others hold the money, it retries
    /// after some time, 10 times at most.
    async fn agent(&self, crowd: Crowd, number: u64) {
        let mut dice = Dice(crowd.seed * 1000 + number);
        let mut tries = 0;
        loop {
            sleep(Duration::from_millis(dice.roll(0, 2_000))).await;
            match reserve_worst_case(&self.accounts, self.claims.clone(), want(crowd.stream), || {})
                .await
            {
                Reservation::Granted { lease, output_limit } => {
                    tries = 0;
                    self.note(|seen| {
                        seen.requests += 1;
                        seen.lowered += u64::from(output_limit.is_some());
                    });
                    self.respond(crowd, &mut dice, lease, output_limit).await;
                }
                Reservation::Land(_) => {
                    let spent = self.spent().await;
                    self.note(|seen| _ = seen.at_first_landing.get_or_insert(spent));
                    return self.answer(crowd, &mut dice).await;
                }
                Reservation::Busy(_) if tries < 10 => {
                    tries += 1;
                    self.note(|seen| seen.busy += 1);
                    sleep(Duration::from_millis(dice.roll(500, 8_000))).await;
                }
                Reservation::Busy(_) => return self.note(|seen| seen.gave_up += 1),
                Reservation::Lost(lost) => panic!("{lost}"),
            }
        }
    }

    /// Sends the last request of a run, with the money that was held back, if no other request has
    /// used it.
    async fn answer(&self, crowd: Crowd, dice: &mut Dice) {
        let last = WorstCase { floor: 16, ..want(crowd.stream) };
        let result = reserve_worst_case(&self.accounts, claims(500).to_vec(), last, || {}).await;
        if let Reservation::Granted { lease, output_limit } = result {
            self.respond(crowd, dice, lease, output_limit).await;
            self.note(|seen| seen.answered += 1);
        }
    }

    /// Answers with 1,000 to 4,000 tokens of output (one in 50: 12,000) at 60 a second.
    async fn respond(
        &self,
        crowd: Crowd,
        dice: &mut Dice,
        mut lease: Lease,
        output_limit: Option<u64>,
    ) {
        let wanted = if dice.roll(1, 50) == 1 { 12_000 } else { dice.roll(1_000, 4_000) };
        let output = wanted.min(output_limit.unwrap_or(128_000));
        self.note(|seen| seen.cut += u64::from(output < wanted));
        let written = if crowd.cached { dice.roll(500, 5_000) } else { 100_000 };
        let read = 100_000 - written;
        let input = Tokens { cache_read: read, cache_write_5m: written, ..Tokens::default() };
        let price = &opus().price;
        sleep(Duration::from_millis(1_500)).await;
        if crowd.lowers {
            let output = output_limit.unwrap_or(128_000);
            lease.lower_to(billed(&Tokens { output, ..input }, price));
        }
        self.spent().await;
        sleep(Duration::from_millis(output * 1000 / 60)).await;
        lease.settle_cost(billed(&Tokens { output, ..input }, price));
        self.spent().await;
    }
}

async fn run(crowd: Crowd) -> (Seen, u64) {
    let began = Instant::now();
    let session = Arc::new(Session {
        accounts: MemoryAccounts::new(),
        claims: claims(if crowd.holds_back { 500 - 49 } else { 500 }),
        seen: std::sync::Mutex::default(),
    });
    let agents: Vec<_> = (0..AGENTS)
        .map(|number| {
            let session = Arc::clone(&session);
            tokio::spawn(async move { session.agent(crowd, number).await })
        })
        .collect();
    for agent in agents {
        agent.await.unwrap();
    }
    assert!(session.accounts.is_idle());
    let spent = session.spent().await;
    let mut seen = std::mem::take(&mut *session.seen.lock().unwrap());
    seen.seconds = began.elapsed().as_secs();
    (seen, spent)
}

#[tokio::test(start_paused = true)]
async fn fifty_agents_use_a_cap_and_never_pass_it() {
    for number in 0..48 {
        let crowd = Crowd {
            stream: number & 1 == 0,
            cached: number & 2 == 0,
            lowers: number & 4 == 0,
            holds_back: number & 8 == 0,
            seed: number >> 4,
        };
        let (seen, spent) = run(crowd).await;
        let percent = |spent: u64| spent * 100 / CAP;
        let first = percent(seen.at_first_landing.expect("some land"));
        let end = percent(spent);
        println!("{first}% spent before the first landing, {end}% at the end: {crowd:?} {seen:?}");
        assert!(spent <= CAP);
        assert!(end >= 80, "{crowd:?}");
        // Nearly a tenth of the limit is held back.
        assert!(first >= if crowd.holds_back { 75 } else { 80 }, "{crowd:?}");
        assert!(seen.cut <= 5, "{crowd:?}");
        // If leases are lowered early, every agent with a stream gets to its landing.
        assert!(seen.gave_up == 0 || !(crowd.stream && crowd.lowers), "{crowd:?}");
    }
}
