//! The limits of a parent run that also hold for its sub-agents: money, tokens and time
//! (`docs/governing.md` §5). Money is leased from accounts; the functions here need no account.

use std::sync::Arc;

use softland_session::core::policy::Policy;
use softland_session::core::{AccountAbove, Millis, NanoUsd, PinnedRecord};

use super::open::RequestSetup;
use super::scope::Conversation;
use crate::request::BudgetAround;
use crate::store::{CountedContext, RunState};

/// Returns the run that a sub-agent works for, with its pinned record.
fn find_parent(place: &Conversation) -> Option<(&RunState, &PinnedRecord)> {
    let (_, kept) = place.parent.as_ref()?;
    let newest = kept.newest?;
    Some((kept.runs.get(&newest)?, kept.pins.get(&newest)?))
}

/// Applies the parent's limits to a sub-agent that begins. Without a limit of money of its own it
/// has its parent's, and shares the parent's account. Time passes for both alike: the sub-agent has
/// at most what its parent has left, less what the parent holds back for its own answer.
pub(super) fn inherit_limits(policy: &mut Policy, place: &Conversation, now: u64) {
    if policy.cost_limit_usd.is_none() {
        policy.cost_limit_usd = parent_limit(place);
    }
    let Some((state, pinned)) =
        find_parent(place).filter(|(_, pinned)| !pinned.policy.is_observing())
    else {
        return;
    };
    if let Some(limit) = pinned.policy.time_limit {
        let held = pinned.policy.reserve_time.0.min(limit.0 / 2);
        let left = Millis(limit.0.saturating_sub(held).saturating_sub(state.active_at(now)));
        policy.time_limit = Some(policy.time_limit.map_or(left, |own| own.min(left)));
    }
}

/// Applies the limits of the runs around a run that begins: of money if it has none of its own, and
/// of time, which passes for all of them alike.
pub(super) fn inherit_from_around(policy: &mut Policy, around: &[BudgetAround]) {
    if policy.cost_limit_usd.is_none() {
        policy.cost_limit_usd = around.iter().filter_map(|around| around.cost_limit).min();
    }
    if let Some(left) = around.iter().filter_map(|around| around.time_left).min() {
        policy.time_limit = Some(policy.time_limit.map_or(left, |own| own.min(left)));
    }
}

/// Returns the money limit of a sub-agent's parent.
pub(super) fn parent_limit(place: &Conversation) -> Option<NanoUsd> {
    find_parent(place)?.1.policy.cost_limit_usd
}

/// Returns the token limit of a sub-agent's parent, and the tokens used of it: those of the parent
/// and all of its sub-agents, and those that the parent holds back for its answer.
fn parent_tokens(place: &Conversation) -> Option<AccountAbove<u64>> {
    let (state, pinned) = find_parent(place)?;
    let policy = &pinned.policy;
    let limit = policy.tokens_limit.filter(|_| !policy.is_observing())?;
    let context = state.known.map_or(0, |CountedContext { tokens, .. }| tokens);
    let held = context.saturating_add(policy.reserve_tokens.min(limit / 8));
    Some(AccountAbove { used: state.tokens.saturating_add(held), limit })
}

impl RequestSetup {
    /// Returns the tokens of the run above this request's run that has the fewest left; `None` for
    /// a request that is only metered.
    pub(super) fn tokens_above(&self) -> Option<AccountAbove<u64>> {
        let around = self.asked.around.iter().filter_map(|around| around.tokens);
        let left = |above: &AccountAbove<u64>| above.limit.saturating_sub(above.used);
        let above = parent_tokens(&self.place).into_iter().chain(around);
        above.min_by_key(left).filter(|_| !self.metered)
    }

    /// Returns the accounts of the runs around this request's run, their limits, and the amounts that
    /// they hold back for their own answers.
    pub(super) fn enclosing_run_limits(
        &self,
    ) -> impl Iterator<Item = (Arc<str>, NanoUsd, NanoUsd)> {
        let price = self.target.settings.prices.find_price(None, &self.model, 0);
        self.asked.around.iter().filter_map(move |around| {
            let account = self.scope_account("run:given:", &around.run);
            let held = price.map_or(NanoUsd::ZERO, |price| {
                NanoUsd::from_tokens(around.reserve_tokens, price.output)
            });
            Some((account, around.cost_limit?, held))
        })
    }

    /// Returns true if money, or the tokens of an account, are limited for this request, by its policy
    /// or above it.
    pub(super) fn limits_money(&self, policy: &Policy) -> bool {
        let budgeted = !self.target.settings.key_budgets(self.target.key.as_deref()).is_empty();
        !policy.is_observing() && (self.has_cost_limit(policy) || budgeted)
    }

    /// Returns the words for the limit because of which [`limits_money`](Self::limits_money) is true.
    pub(super) fn name_money_limit(&self, policy: &Policy) -> &'static str {
        if self.has_cost_limit(policy) { "the cost limit" } else { "the budget of its account" }
    }

    fn has_cost_limit(&self, policy: &Policy) -> bool {
        policy.limits_money()
            || parent_limit(&self.place).is_some()
            || self.asked.around.iter().any(|around| around.cost_limit.is_some())
    }
}
