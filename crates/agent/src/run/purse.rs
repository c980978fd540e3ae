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
        Self { tree: Arc::new(tree), account }
    }

    /// The account of a sub-agent's run, which holds back what handing back may cost.
    pub(super) fn child(
        &self,
        policy: &Policy,
        reserve: Amount,
        now: Millis,
    ) -> Result<Self, Short> {
        let account = self.tree.leases().open(self.account, terms(policy, reserve), now)?;
        Ok(Self { tree: Arc::clone(&self.tree), account })
    }

    /// The account of a sub-agent's run that had one from that time on.
    pub(super) fn child_again(&self, policy: &Policy, reserve: Amount, then: Millis) -> Self {
        let account = self.tree.leases().open_again(self.account, terms(policy, reserve), then);
        Self { tree: Arc::clone(&self.tree), account }
    }

    /// Whether any cap counts for the run.
    pub(super) fn is_limited(&self) -> bool {
        self.tree.leases().standings(self.account).next().is_some()
    }

    /// The lowest cap on tokens that counts for the run.
    pub(super) fn tokens_cap(&self) -> Option<u64> {
        let leases = self.tree.leases();
        let tokens = leases.standings(self.account).filter(|s| s.what == What::Tokens);
        tokens.map(|standing| standing.cap).min()
    }

    /// Holds back more for the answer, if there is room for it; else as much as before. Whether
    /// there was.
    pub(super) fn hold_more(&self, more: Amount) -> bool {
        let mut leases = self.tree.leases();
        let reserve = leases.reserve(self.account).plus(more);
        leases.hold(self.account, reserve).is_ok()
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
        loop {
            let changed = self.tree.changed.notified();
            tokio::pin!(changed);
            // What is given back between the look and the wait is not missed.
            changed.as_mut().enable();
            match self.tree.leases().look(self.account, ask, reserve) {
                Err(short) if short.busy => {}
                Ok(_) | Err(_) => return,
            }
            changed.await;
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
