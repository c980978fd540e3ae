//! The budget of a run, shared with all runs of its tree: an account among the core's leases, with
//! the clock, the lock and the waiting that the core leaves to its callers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softland_session::core::lease::{
    AccountId, AccountTerms, Amount, CapUnit, CapUsage, Caps, LeaseId, LeaseRequest, Leases,
    Shortage,
};
use softland_session::core::policy::Policy;
use softland_session::core::{AccountAbove, Facts, Millis, NanoUsd};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::journal::RunClock;

/// A run's account, closed on drop.
pub(super) struct SpendingBudget {
    tree: Arc<SessionAccounts>,
    account: AccountId,
    /// The number of runs among which the session's caps are divided at this level: the siblings of
    /// the caller times the run's own.
    part: u64,
}

/// The accounts of a session.
struct SessionAccounts {
    leases: Mutex<Leases>,
    /// Notified when something was given back.
    changed: Notify,
    clock: RunClock,
}

/// A lease for one request. On drop without [`RequestLease::settle_cost`] it books the least that
/// the request has cost, as far as that is known.
pub(super) struct RequestLease {
    tree: Arc<SessionAccounts>,
    lease: LeaseId,
    /// The output tokens that the request may have.
    pub(super) output: u64,
    /// The amount that is booked on drop.
    booked_on_drop: Amount,
}

impl SpendingBudget {
    /// Opens the account of a tree's root run, in a session that has already spent `spent`.
    pub(super) fn for_session(policy: &Policy, spent: NanoUsd, clock: RunClock) -> Self {
        let enforced = !policy.is_observing();
        let money = policy.session_cost_limit_usd.filter(|_| enforced);
        let spent = Amount { money: spent, ..Amount::default() };
        let mut leases = Leases::new(Caps { money, ..Caps::default() }, spent);
        // An account without a reserve always fits.
        let account = leases
            .open_account(Leases::SESSION, account_terms(policy, Amount::default()), Millis(0))
            .unwrap_or(Leases::SESSION);
        let tree = SessionAccounts { leases: Mutex::new(leases), changed: Notify::new(), clock };
        Self { tree: Arc::new(tree), account, part: 1 }
    }

    /// Opens the account of a sub-agent's run, one of `siblings` that are called together. It holds
    /// back what its answer may cost. Waits while the requests of other runs hold that. Also
    /// returns the time of opening.
    pub(super) async fn open_child(
        &self,
        policy: &Policy,
        reserve: Amount,
        siblings: u64,
    ) -> Result<(Self, Millis), Shortage> {
        let terms = account_terms(policy, reserve);
        let opened = self.retry_until_free(|leases| {
            let now = self.now();
            leases.open_account(self.account, terms, now).map(|account| (account, now))
        });
        let (account, now) = opened.await?;
        Ok((self.child_budget(account, siblings), now))
    }

    /// Reopens the account of a sub-agent's run, which was first opened at `then`.
    pub(super) fn reopen_child(
        &self,
        policy: &Policy,
        reserve: Amount,
        siblings: u64,
        then: Millis,
    ) -> Self {
        let account = self.tree.lock_leases().reopen_account(
            self.account,
            account_terms(policy, reserve),
            then,
        );
        self.child_budget(account, siblings)
    }

    fn child_budget(&self, account: AccountId, siblings: u64) -> Self {
        Self { tree: Arc::clone(&self.tree), account, part: self.child_part(siblings) }
    }

    /// Returns the number of runs among which the caps are divided one level further down.
    pub(super) fn child_part(&self, siblings: u64) -> u64 {
        self.part.saturating_mul(siblings.max(1))
    }

    /// Returns true if any cap applies to the run.
    pub(super) fn is_limited(&self) -> bool {
        self.tree.lock_leases().cap_usages(self.account).next().is_some()
    }

    /// Returns the lowest caps on money and tokens that apply to the run.
    pub(super) fn lowest_caps(&self) -> Caps {
        let leases = self.tree.lock_leases();
        let least = |what: CapUnit| {
            let of = leases.cap_usages(self.account).filter(|standing| standing.what == what);
            of.map(|standing| standing.cap).min()
        };
        let (money, tokens) = (least(CapUnit::Money).map(NanoUsd), least(CapUnit::Tokens));
        Caps { money, tokens, ..Caps::default() }
    }

    /// Holds back more for the answer if there is enough for that and for what `others` will hold
    /// back. Otherwise the reserve stays as it was. Returns true if there was enough.
    pub(super) async fn hold_more(&self, more: Amount, others: Amount) -> bool {
        let held = self.retry_until_free(|leases| {
            let reserve = leases.reserve_of(self.account).saturating_add(more);
            leases.available_output(self.account, &LeaseRequest::from_amount(others), reserve)?;
            leases.hold_reserve(self.account, reserve)
        });
        held.await.is_ok()
    }

    /// Holds back more for the answer, as a recorded run did.
    pub(super) fn restore_hold(&self, more: Amount) {
        let mut leases = self.tree.lock_leases();
        let reserve = leases.reserve_of(self.account).saturating_add(more);
        leases.restore_reserve(self.account, reserve);
    }

    /// Returns the current time, for a lease.
    pub(super) fn now(&self) -> Millis {
        self.tree.now()
    }

    /// Takes a lease for a request that explores and holds back `reserve` for the answer.
    pub(super) fn lease_exploration(
        &self,
        ask: &LeaseRequest,
        reserve: Amount,
        now: Millis,
    ) -> Result<RequestLease, Shortage> {
        let (lease, output) =
            self.tree.lock_leases().lease_for_exploring(self.account, ask, reserve, now)?;
        Ok(self.new_lease(lease, output, ask))
    }

    /// Takes a lease for the answer.
    pub(super) fn lease_answer(
        &self,
        ask: &LeaseRequest,
        now: Millis,
    ) -> Result<RequestLease, Shortage> {
        let (lease, output) = self.tree.lock_leases().lease_for_answer(self.account, ask, now)?;
        Ok(self.new_lease(lease, output, ask))
    }

    /// Takes a recorded lease again. `reserve` is given for a request that explored.
    pub(super) fn restore_lease(
        &self,
        ask: &LeaseRequest,
        output: u64,
        reserve: Option<Amount>,
    ) -> RequestLease {
        let lease = self.tree.lock_leases().restore_lease(self.account, ask, output, reserve);
        self.new_lease(lease, output, ask)
    }

    fn new_lease(&self, lease: LeaseId, output: u64, ask: &LeaseRequest) -> RequestLease {
        RequestLease { tree: Arc::clone(&self.tree), lease, output, booked_on_drop: ask.base }
    }

    /// Waits while the requests of other runs hold what this one needs. Each of those requests
    /// ends.
    pub(super) async fn wait_for_lease(&self, ask: &LeaseRequest, reserve: Amount) {
        let looked =
            self.retry_until_free(|leases| leases.available_output(self.account, ask, reserve));
        // The caller looks again at what is left when it takes the lease.
        let _ = looked.await;
    }

    /// Tries to take something, and tries again whenever an amount that it may need is given back.
    async fn retry_until_free<T>(
        &self,
        mut take: impl FnMut(&mut Leases) -> Result<T, Shortage>,
    ) -> Result<T, Shortage> {
        loop {
            let changed = self.tree.changed.notified();
            tokio::pin!(changed);
            // An amount that is given back between the look and the wait is not missed.
            changed.as_mut().enable();
            let taken = take(&mut self.tree.lock_leases());
            match taken {
                Err(short) if short.busy => changed.await,
                taken => return taken,
            }
        }
    }

    /// Waits for a lease for the answer, which may use its reserve as well.
    pub(super) async fn wait_for_answer(&self, ask: &LeaseRequest) {
        self.wait_for_lease(ask, Amount::default()).await;
    }

    /// Fills in what was spent of every cap that applies to the run.
    pub(super) fn fill_facts(&self, facts: &mut Facts) {
        let leases = self.tree.lock_leases();
        let own = leases.spent(self.account);
        facts.tokens = own.tokens;
        facts.cost = own.money;
        facts.session_cost = leases.spent(Leases::SESSION).money;
        for standing in leases.cap_usages(self.account) {
            let used = standing.committed();
            match (standing.what, standing.account) {
                (CapUnit::Money, account) if account == self.account => facts.cost = NanoUsd(used),
                (CapUnit::Money, Leases::SESSION) => facts.session_cost = NanoUsd(used),
                (CapUnit::Tokens, account) if account == self.account => facts.tokens = used,
                (CapUnit::Money, _) => {
                    let (used, limit) = (NanoUsd(used), NanoUsd(standing.cap));
                    let left = facts.cost_above.map(|above| above.limit.saturating_sub(above.used));
                    if left.is_none_or(|left| limit.saturating_sub(used) < left) {
                        facts.cost_above = Some(AccountAbove { used, limit });
                    }
                }
                (CapUnit::Tokens, _) => tighten_limit(&mut facts.tokens_above, &standing),
                (CapUnit::Time, _) => {}
            }
        }
    }

    /// Returns what the session has spent.
    pub(super) fn session_spent(&self) -> NanoUsd {
        self.tree.lock_leases().spent(Leases::SESSION).money
    }

    /// Returns the time at which the run must have ended.
    pub(super) fn end_deadline(&self) -> Option<Instant> {
        self.tree.instant_at(self.tree.lock_leases().ends_at(self.account))
    }

    /// Returns the time at which the run must begin its answer.
    pub(super) fn exploring_deadline(&self) -> Option<Instant> {
        self.tree.instant_at(self.tree.lock_leases().exploring_until(self.account))
    }

    /// Returns the time left until the run must have ended.
    pub(super) fn time_left(&self) -> Option<Millis> {
        let until = self.tree.lock_leases().ends_at(self.account)?;
        Some(Millis(until.0.saturating_sub(self.tree.now().0)))
    }
}

impl Drop for SpendingBudget {
    fn drop(&mut self) {
        self.tree.lock_leases().close_account(self.account);
        self.tree.changed.notify_waiters();
    }
}

impl RequestLease {
    /// Notes that at least this amount was spent, in case the request ends here.
    pub(super) fn note_received(&mut self, amount: Amount) {
        self.booked_on_drop = amount;
    }

    /// Books what the request really cost.
    pub(super) fn settle_cost(mut self, actual: Amount) {
        self.booked_on_drop = actual;
    }
}

impl Drop for RequestLease {
    fn drop(&mut self) {
        self.tree.lock_leases().settle_lease(self.lease, self.booked_on_drop);
        self.tree.changed.notify_waiters();
    }
}

impl SessionAccounts {
    /// Locks the leases. No foreign code runs under the lock, so a panic cannot leave them halfway.
    fn lock_leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Millis {
        self.clock.elapsed()
    }

    fn instant_at(&self, time: Option<Millis>) -> Option<Instant> {
        Some(self.clock.instant_at(time?))
    }
}

/// Returns the terms of a run's account. A run that is only observed is counted without caps.
fn account_terms(policy: &Policy, reserve: Amount) -> AccountTerms {
    let caps =
        Caps { money: policy.cost_limit_usd, tokens: policy.tokens_limit, time: policy.time_limit };
    let observed = Caps { time: policy.time_limit, ..Caps::default() };
    AccountTerms {
        caps: if policy.is_observing() { observed } else { caps },
        reserve,
        reserve_time: policy.reserve_time,
    }
}

fn tighten_limit(above: &mut Option<AccountAbove<u64>>, standing: &CapUsage) {
    if above.is_none_or(|above| standing.left() < above.limit.saturating_sub(above.used)) {
        *above = Some(AccountAbove { used: standing.committed(), limit: standing.cap });
    }
}
