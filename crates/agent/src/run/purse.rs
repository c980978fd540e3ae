//! The budget of a run, shared with all runs of its tree: an account among the core's leases, with
//! the clock, the lock and the waiting that the core leaves to its callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softland_session::core::lease::{
    AccountId, Amount, Ask, Caps, LeaseId, Leases, Short, Standing, Terms, What,
};
use softland_session::core::policy::Policy;
use softland_session::core::{Above, Facts, Millis, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::journal::Clock;

/// A run's account, closed on drop.
pub(super) struct Purse {
    tree: Arc<Tree>,
    account: AccountId,
    /// The number of runs among which the session's caps are divided at this level: the siblings of
    /// the caller times the run's own.
    part: u64,
}

/// The accounts of a session.
struct Tree {
    leases: Mutex<Leases>,
    /// Notified when something was given back.
    changed: Notify,
    clock: Clock,
}

/// A lease for one request. On drop without [`RequestLease::settle_cost`] it books the least that
/// the request has cost, as far as that is known.
pub(super) struct Held {
    tree: Arc<Tree>,
    lease: LeaseId,
    /// The output tokens that the request may have.
    pub(super) output: u64,
    /// The amount that is booked on drop.
    books: Amount,
}

impl Purse {
    /// Opens the account of a tree's root run, in a session that has already spent `spent`.
    pub(super) fn of_session(policy: &Policy, spent: NanoUsd, clock: Clock) -> Self {
        let enforced = !policy.observes();
        let money = policy.session_cost_limit_usd.filter(|_| enforced);
        let spent = Amount { money: spent, ..Amount::default() };
        let mut leases = Leases::new(Caps { money, ..Caps::default() }, spent);
        // An account without a reserve always fits.
        let account = leases
            .open(Leases::SESSION, terms(policy, Amount::default()), Millis(0))
            .unwrap_or(Leases::SESSION);
        let tree = Tree { leases: Mutex::new(leases), changed: Notify::new(), clock };
        Self { tree: Arc::new(tree), account, part: 1 }
    }

    /// Opens the account of a sub-agent's run, one of `siblings` that are called together. It holds
    /// back what its answer may cost. Waits while the requests of other runs hold that. Also
    /// returns the time of opening.
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

    /// Reopens the account of a sub-agent's run, which was first opened at `then`.
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

    /// Returns the number of runs among which the caps are divided one level further down.
    pub(super) fn part_of(&self, siblings: u64) -> u64 {
        self.part.saturating_mul(siblings.max(1))
    }

    /// Returns true if any cap applies to the run.
    pub(super) fn is_limited(&self) -> bool {
        self.tree.leases().standings(self.account).next().is_some()
    }

    /// Returns the lowest caps on money and tokens that apply to the run.
    pub(super) fn caps(&self) -> Caps {
        let leases = self.tree.leases();
        let least = |what: What| {
            let of = leases.standings(self.account).filter(|standing| standing.what == what);
            of.map(|standing| standing.cap).min()
        };
        let (money, tokens) = (least(What::Money).map(NanoUsd), least(What::Tokens));
        Caps { money, tokens, ..Caps::default() }
    }

    /// Holds back more for the answer if there is enough for that and for what `others` will hold
    /// back. Otherwise the reserve stays as it was. Returns true if there was enough.
    pub(super) async fn hold_more(&self, more: Amount, others: Amount) -> bool {
        let held = self.room(|leases| {
            let reserve = leases.reserve(self.account).plus(more);
            leases.look(self.account, &Ask::exactly(others), reserve)?;
            leases.hold(self.account, reserve)
        });
        held.await.is_ok()
    }

    /// Holds back more for the answer, as a recorded run did.
    pub(super) fn hold_more_again(&self, more: Amount) {
        let mut leases = self.tree.leases();
        let reserve = leases.reserve(self.account).plus(more);
        leases.hold_again(self.account, reserve);
    }

    /// Returns the current time, for a lease.
    pub(super) fn now(&self) -> Millis {
        self.tree.now()
    }

    /// Takes a lease for a request that explores and holds back `reserve` for the answer.
    pub(super) fn explore(&self, ask: &Ask, reserve: Amount, now: Millis) -> Result<Held, Short> {
        let (lease, output) = self.tree.leases().explore(self.account, ask, reserve, now)?;
        Ok(self.held(lease, output, ask))
    }

    /// Takes a lease for the answer.
    pub(super) fn answer(&self, ask: &Ask, now: Millis) -> Result<Held, Short> {
        let (lease, output) = self.tree.leases().answer(self.account, ask, now)?;
        Ok(self.held(lease, output, ask))
    }

    /// Takes a recorded lease again. `reserve` is given for a request that explored.
    pub(super) fn again(&self, ask: &Ask, output: u64, reserve: Option<Amount>) -> Held {
        let lease = self.tree.leases().take_again(self.account, ask, output, reserve);
        self.held(lease, output, ask)
    }

    fn held(&self, lease: LeaseId, output: u64, ask: &Ask) -> Held {
        Held { tree: Arc::clone(&self.tree), lease, output, books: ask.base }
    }

    /// Waits while the requests of other runs hold what this one needs. Each of those requests
    /// ends.
    pub(super) async fn wait_for_room(&self, ask: &Ask, reserve: Amount) {
        let looked = self.room(|leases| leases.look(self.account, ask, reserve));
        // The caller looks again at what is left when it takes the lease.
        let _ = looked.await;
    }

    /// Tries to take something, and tries again whenever an amount that it may need is given back.
    async fn room<T>(
        &self,
        mut take: impl FnMut(&mut Leases) -> Result<T, Short>,
    ) -> Result<T, Short> {
        loop {
            let changed = self.tree.changed.notified();
            tokio::pin!(changed);
            // An amount that is given back between the look and the wait is not missed.
            changed.as_mut().enable();
            let taken = take(&mut self.tree.leases());
            match taken {
                Err(short) if short.busy => changed.await,
                taken => return taken,
            }
        }
    }

    /// Waits for a lease for the answer, which may use its reserve as well.
    pub(super) async fn wait_for_answer(&self, ask: &Ask) {
        self.wait_for_room(ask, Amount::default()).await;
    }

    /// Fills in what was spent of every cap that applies to the run.
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

    /// Returns what the session has spent.
    pub(super) fn session_spent(&self) -> NanoUsd {
        self.tree.leases().spent(Leases::SESSION).money
    }

    /// Returns the time at which the run must have ended.
    pub(super) fn until(&self) -> Option<Instant> {
        self.tree.at(self.tree.leases().until(self.account))
    }

    /// Returns the time at which the run must begin its answer.
    pub(super) fn exploring_until(&self) -> Option<Instant> {
        self.tree.at(self.tree.leases().exploring_until(self.account))
    }

    /// Returns the time left until the run must have ended.
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
    /// Notes that at least this amount was spent, in case the request ends here.
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
    /// Locks the leases. No foreign code runs under the lock, so a panic cannot leave them halfway.
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

/// Returns the terms of a run's account. A run that is only observed is counted without caps.
fn terms(policy: &Policy, reserve: Amount) -> Terms {
    let caps = Caps {
        money: policy.cost_limit_usd,
        tokens: policy.tokens_limit,
        // Calls are counted for each run apart.
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
