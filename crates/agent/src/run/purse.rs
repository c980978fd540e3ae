//! What a run may spend together with all the runs of its tree: its account among the core's
//! leases, with the clock, the lock and the waiting that those leave to others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softland_session::core::lease::{
    AccountId, Amount, Ask, Caps, LeaseId, Leases, Short, Standing, Terms, What,
};
use softland_session::core::policy::Policy;
use softland_session::core::{Above, Facts, Millis, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::journal::Clock;

/// A run's account; closed when it is dropped.
pub(super) struct Purse {
    tree: Arc<Tree>,
    account: AccountId,
    /// Among how many the session's caps are divided where the run is: its caller's siblings,
    /// times its own.
    part: u64,
}

/// The accounts of a session.
struct Tree {
    leases: Mutex<Leases>,
    /// Something was given back.
    changed: Notify,
    clock: Clock,
}

/// A lease for one request. Dropped without [`Held::settle`] it books the least that the request
/// has cost, as far as that is known.
pub(super) struct Held {
    tree: Arc<Tree>,
    lease: LeaseId,
    /// Output tokens that the request may have.
    pub(super) output: u64,
    /// What is booked in the end.
    books: Amount,
}

impl Purse {
    /// The account of the run that begins a tree, in a session that has spent so much before.
    pub(super) fn of_session(policy: &Policy, spent: NanoUsd, clock: Clock) -> Self {
        let enforced = !policy.observes();
        let money = policy.session_cost_limit_usd.filter(|_| enforced);
        let spent = Amount { money: spent, ..Amount::default() };
        let mut leases = Leases::new(Caps { money, ..Caps::default() }, spent);
        // An account that holds nothing back always fits.
        let account = leases
            .open(Leases::SESSION, terms(policy, Amount::default()), Millis(0))
            .unwrap_or(Leases::SESSION);
        let tree = Tree { leases: Mutex::new(leases), changed: Notify::new(), clock };
        Self { tree: Arc::new(tree), account, part: 1 }
    }

    /// The account of a sub-agent's run, one of so many that are called together, which holds back
    /// what handing back may cost; and since when it is open. Waits while other runs' requests hold
    /// that.
    pub(super) async fn child(
        &self,
        policy: &Policy,
        reserve: Amount,
        siblings: u64,
    ) -> Result<(Self, Millis), Short> {
        let terms = terms(policy, reserve);
        let opened = self.room(|leases| {
            let now = self.now();
            leases.open(self.account, terms, now).map(|account| (account, now))
        });
        let (account, now) = opened.await?;
        Ok((self.below(account, siblings), now))
    }

    /// The account of a sub-agent's run that had one from that time on.
    pub(super) fn child_again(
        &self,
        policy: &Policy,
        reserve: Amount,
        siblings: u64,
        then: Millis,
    ) -> Self {
        let account = self.tree.leases().open_again(self.account, terms(policy, reserve), then);
        self.below(account, siblings)
    }

    fn below(&self, account: AccountId, siblings: u64) -> Self {
        Self { tree: Arc::clone(&self.tree), account, part: self.part_of(siblings) }
    }

    /// Among how many the caps are divided one level further down.
    pub(super) fn part_of(&self, siblings: u64) -> u64 {
        self.part.saturating_mul(siblings.max(1))
    }

    /// Whether any cap counts for the run.
    pub(super) fn is_limited(&self) -> bool {
        self.tree.leases().standings(self.account).next().is_some()
    }

    /// The lowest caps on money and tokens that count for the run.
    pub(super) fn caps(&self) -> Caps {
        let leases = self.tree.leases();
        let least = |what: What| {
            let of = leases.standings(self.account).filter(|standing| standing.what == what);
            of.map(|standing| standing.cap).min()
        };
        let (money, tokens) = (least(What::Money).map(NanoUsd), least(What::Tokens));
        Caps { money, tokens, ..Caps::default() }
    }

    /// Holds back more for the answer, if there is room for it and for what `others` will hold
    /// back; else as much as before. Whether there was.
    pub(super) async fn hold_more(&self, more: Amount, others: Amount) -> bool {
        let held = self.room(|leases| {
            let reserve = leases.reserve(self.account).plus(more);
            leases.look(self.account, &Ask::exactly(others), reserve)?;
            leases.hold(self.account, reserve)
        });
        held.await.is_ok()
    }

    /// The same where it is known that there was room.
    pub(super) fn hold_more_again(&self, more: Amount) {
        let mut leases = self.tree.leases();
        let reserve = leases.reserve(self.account).plus(more);
        leases.hold_again(self.account, reserve);
    }

    /// Now, for a lease.
    pub(super) fn now(&self) -> Millis {
        self.tree.now()
    }

    /// Takes a lease for a request that explores, and holds back `reserve` for the answer.
    pub(super) fn explore(&self, ask: &Ask, reserve: Amount, now: Millis) -> Result<Held, Short> {
        let (lease, output) = self.tree.leases().explore(self.account, ask, reserve, now)?;
        Ok(self.held(lease, output, ask))
    }

    /// Takes a lease for the answer.
    pub(super) fn answer(&self, ask: &Ask, now: Millis) -> Result<Held, Short> {
        let (lease, output) = self.tree.leases().answer(self.account, ask, now)?;
        Ok(self.held(lease, output, ask))
    }

    /// Takes a lease that was granted before; `reserve` where it was one that explores.
    pub(super) fn again(&self, ask: &Ask, output: u64, reserve: Option<Amount>) -> Held {
        let lease = self.tree.leases().take_again(self.account, ask, output, reserve);
        self.held(lease, output, ask)
    }

    fn held(&self, lease: LeaseId, output: u64, ask: &Ask) -> Held {
        Held { tree: Arc::clone(&self.tree), lease, output, books: ask.base }
    }

    /// Waits while other runs' requests hold what this one needs; each of them ends.
    pub(super) async fn wait_for_room(&self, ask: &Ask, reserve: Amount) {
        let looked = self.room(|leases| leases.look(self.account, ask, reserve));
        // What there is then is looked at by whoever takes it.
        let _ = looked.await;
    }

    /// Tries to take something, again whenever something is given back that may be what it needs.
    async fn room<T>(
        &self,
        mut take: impl FnMut(&mut Leases) -> Result<T, Short>,
    ) -> Result<T, Short> {
        loop {
            let changed = self.tree.changed.notified();
            tokio::pin!(changed);
            // What is given back between the look and the wait is not missed.
            changed.as_mut().enable();
            let taken = take(&mut self.tree.leases());
            match taken {
                Err(short) if short.busy => changed.await,
                taken => return taken,
            }
        }
    }

    /// The same for an answer, which has its reserve as well.
    pub(super) async fn wait_for_answer(&self, ask: &Ask) {
        self.wait_for_room(ask, Amount::default()).await;
    }

    /// What was spent of all that counts for the run.
    pub(super) fn tell(&self, facts: &mut Facts) {
        let leases = self.tree.leases();
        let own = leases.spent(self.account);
        facts.tokens = own.tokens;
        facts.cost = own.money;
        facts.session_cost = leases.spent(Leases::SESSION).money;
        for standing in leases.standings(self.account) {
            let used = standing.gone();
            match (standing.what, standing.account) {
                (What::Money, account) if account == self.account => facts.cost = NanoUsd(used),
                (What::Money, Leases::SESSION) => facts.session_cost = NanoUsd(used),
                (What::Tokens, account) if account == self.account => facts.tokens = used,
                (What::Money, _) => {
                    let (used, limit) = (NanoUsd(used), NanoUsd(standing.cap));
                    let left = facts.cost_above.map(|above| above.limit.less(above.used));
                    if left.is_none_or(|left| limit.less(used) < left) {
                        facts.cost_above = Some(Above { used, limit });
                    }
                }
                (What::Tokens, _) => tighten(&mut facts.tokens_above, &standing),
                (What::Calls | What::Time, _) => {}
            }
        }
    }

    /// What the session has spent.
    pub(super) fn session_spent(&self) -> NanoUsd {
        self.tree.leases().spent(Leases::SESSION).money
    }

    /// When the run has to be at its end.
    pub(super) fn until(&self) -> Option<Instant> {
        self.tree.at(self.tree.leases().until(self.account))
    }

    /// When it has to begin with its answer.
    pub(super) fn exploring_until(&self) -> Option<Instant> {
        self.tree.at(self.tree.leases().exploring_until(self.account))
    }

    /// How long that is from now.
    pub(super) fn time_left(&self) -> Option<Millis> {
        let until = self.tree.leases().until(self.account)?;
        Some(Millis(until.0.saturating_sub(self.tree.now().0)))
    }
}

impl Drop for Purse {
    fn drop(&mut self) {
        self.tree.leases().close(self.account);
        self.tree.changed.notify_waiters();
    }
}

impl Held {
    /// At least so much was spent, should the request end here.
    pub(super) fn received(&mut self, amount: Amount) {
        self.books = amount;
    }

    /// Books what the request really cost.
    pub(super) fn settle(mut self, actual: Amount) {
        self.books = actual;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tree.leases().settle(self.lease, self.books);
        self.tree.changed.notify_waiters();
    }
}

impl Tree {
    /// It holds no code of others, so a panic cannot leave it halfway.
    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Millis {
        self.clock.elapsed()
    }

    fn at(&self, time: Option<Millis>) -> Option<Instant> {
        Some(self.clock.at(time?))
    }
}

/// The terms of a run's account. What is only observed is counted.
fn terms(policy: &Policy, reserve: Amount) -> Terms {
    let caps = Caps {
        money: policy.cost_limit_usd,
        tokens: policy.tokens_limit,
        // Calls are each run's own.
        calls: None,
        time: policy.time_limit,
    };
    let observed = Caps { time: policy.time_limit, ..Caps::default() };
    Terms {
        caps: if policy.observes() { observed } else { caps },
        reserve,
        reserve_time: policy.reserve_time,
        expires: None,
    }
}

fn tighten(above: &mut Option<Above<u64>>, standing: &Standing) {
    if above.is_none_or(|above| standing.left() < above.limit.saturating_sub(above.used)) {
        *above = Some(Above { used: standing.gone(), limit: standing.cap });
    }
}
