//! `cost_limit_usd` and `session_cost_limit_usd`: money. The price of one more request, at the
//! uncached input price and with `reserve_tokens` of output, is held back for the answer.

use crate::because::{Because, Quantity, Reason};
use crate::event::{BudgetShortage, Facts};
use crate::money::NanoUsd;
use crate::policy::Policy;

pub(crate) fn check_limit(facts: &Facts, policy: &Policy) -> Option<Because> {
    money_caps(facts, policy).find_map(|MoneyCap { reason, used, held, limit }| {
        let least = output_cost(policy.reserve_tokens.saturating_add(facts.thinking_budget), facts);
        let answer = facts.reserve_input_cost + output_cost(policy.reserve_tokens, facts);
        let needed = facts.next_input_cost + least + answer;
        (limit.saturating_sub(used).saturating_sub(held) < needed)
            .then(|| Because { needed: Some(needed), ..money_because(reason, used, limit) })
    })
}

/// Returns true if the run lands for lack of money before a request with these facts.
#[must_use]
pub fn is_short_of_money(facts: &Facts, policy: &Policy) -> bool {
    !policy.is_observing() && check_limit(facts, policy).is_some()
}

pub(crate) fn check_warning(facts: &Facts, policy: &Policy) -> Option<Because> {
    money_caps(facts, policy)
        .find(|cap| policy.warn_at.is_reached(cap.used.0, cap.limit.0))
        .map(|MoneyCap { reason, used, limit, .. }| money_because(reason, used, limit))
}

/// Returns the reason of a landing for want of room in a budget.
pub(crate) fn budget_because(short: &BudgetShortage) -> Because {
    let BudgetShortage { used, limit, needed } = *short;
    Because { needed, ..Because::new(Reason::Budget, used, limit) }
}

fn money_because(reason: Reason, used: NanoUsd, limit: NanoUsd) -> Because {
    Because::new(reason, Quantity::Money(used), Quantity::Money(limit))
}

/// Returns the output tokens that an exploring request may have.
pub(crate) fn exploring_room(facts: &Facts, policy: &Policy) -> Option<u64> {
    let answer = facts.reserve_input_cost + output_cost(policy.reserve_tokens, facts);
    least_room(facts, policy, facts.next_input_cost + answer)
}

/// Returns the output tokens that a landing request may have.
pub(crate) fn landing_room(facts: &Facts, policy: &Policy) -> Option<u64> {
    least_room(facts, policy, facts.next_input_cost)
}

fn least_room(facts: &Facts, policy: &Policy, before_output: NanoUsd) -> Option<u64> {
    money_caps(facts, policy)
        .map(|MoneyCap { used, held, limit, .. }| {
            let left =
                limit.saturating_sub(used).saturating_sub(held).saturating_sub(before_output);
            left.0.saturating_mul(1000).checked_div(facts.output_pico).unwrap_or(u64::MAX)
        })
        .min()
}

fn output_cost(tokens: u64, facts: &Facts) -> NanoUsd {
    NanoUsd(tokens.saturating_mul(facts.output_pico).div_ceil(1000))
}

/// A money limit, and the amounts that count against it.
struct MoneyCap {
    reason: Reason,
    used: NanoUsd,
    /// Held by requests under way. It is never shown as used.
    held: NanoUsd,
    limit: NanoUsd,
}

fn money_caps(facts: &Facts, policy: &Policy) -> impl Iterator<Item = MoneyCap> {
    let Facts { cost, cost_held, session_cost, session_cost_held, .. } = *facts;
    let cap = |reason, (used, held), limit| MoneyCap { reason, used, held, limit };
    let run = policy.cost_limit_usd.map(|limit| cap(Reason::Cost, (cost, cost_held), limit));
    let session = (session_cost.max(cost), session_cost_held);
    let session =
        policy.session_cost_limit_usd.map(|limit| cap(Reason::SessionCost, session, limit));
    let above = facts.cost_above;
    let above = above.map(|above| cap(Reason::Cost, (above.used, NanoUsd::ZERO), above.limit));
    run.into_iter().chain(session).chain(above)
}
