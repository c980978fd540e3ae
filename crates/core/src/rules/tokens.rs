//! `tokens_limit`: all input, cached or not, and output, per run. One more request and
//! `reserve_tokens` are held back for the answer.

use crate::because::{Because, Reason};
use crate::event::Facts;
use crate::policy::Policy;

pub(crate) fn reached(facts: &Facts, policy: &Policy) -> Option<Because> {
    let limit = policy.tokens_limit?;
    let room = room(facts, policy)?;
    (room < least_output(facts, policy, limit))
        .then(|| Because::count(Reason::Tokens, facts.tokens, limit))
}

pub(crate) fn warned(facts: &Facts, policy: &Policy) -> Option<Because> {
    let limit = policy.tokens_limit?;
    policy
        .warn_at
        .reached(facts.tokens, limit)
        .then(|| Because::count(Reason::Tokens, facts.tokens, limit))
}

/// Output tokens that an exploring request may have.
pub(crate) fn room(facts: &Facts, policy: &Policy) -> Option<u64> {
    let limit = policy.tokens_limit?;
    let answer = facts.next_input.saturating_add(reserve(policy, limit));
    Some(last_room(facts, policy)?.saturating_sub(answer))
}

/// Output tokens that a landing request may have.
pub(crate) fn last_room(facts: &Facts, policy: &Policy) -> Option<u64> {
    Some(policy.tokens_limit?.saturating_sub(facts.tokens).saturating_sub(facts.next_input))
}

/// A reserve larger than an eighth of the limit would land runs before they began.
fn reserve(policy: &Policy, limit: u64) -> u64 {
    policy.reserve_tokens.min(limit / 8)
}

fn least_output(facts: &Facts, policy: &Policy, limit: u64) -> u64 {
    reserve(policy, limit).max(1).saturating_add(facts.thinking_budget)
}
