//! `tokens_limit`: all input, cached or not, and output, per run. One more request and
//! `reserve_tokens` are held back for the answer.

use crate::because::{Because, Reason};
use crate::event::Facts;
use crate::policy::Policy;

pub(crate) fn check_limit(facts: &Facts, policy: &Policy) -> Option<Because> {
    token_caps(facts, policy).find_map(|(used, limit)| {
        (exploring_room_under(facts, policy, (used, limit)) < least_output(facts, policy, limit))
            .then(|| Because::from_counts(Reason::Tokens, used, limit))
    })
}

pub(crate) fn check_warning(facts: &Facts, policy: &Policy) -> Option<Because> {
    token_caps(facts, policy)
        .find(|(used, limit)| policy.warn_at.is_reached(*used, *limit))
        .map(|(used, limit)| Because::from_counts(Reason::Tokens, used, limit))
}

/// Returns the output tokens that an exploring request may have.
pub(crate) fn exploring_room(facts: &Facts, policy: &Policy) -> Option<u64> {
    token_caps(facts, policy).map(|cap| exploring_room_under(facts, policy, cap)).min()
}

/// Returns the output tokens that a landing request may have.
pub(crate) fn landing_room(facts: &Facts, policy: &Policy) -> Option<u64> {
    token_caps(facts, policy).map(|cap| landing_room_under(facts, cap)).min()
}

fn exploring_room_under(facts: &Facts, policy: &Policy, (used, limit): (u64, u64)) -> u64 {
    let answer = facts.next_input.saturating_add(answer_reserve(policy, limit));
    landing_room_under(facts, (used, limit)).saturating_sub(answer)
}

fn landing_room_under(facts: &Facts, (used, limit): (u64, u64)) -> u64 {
    limit.saturating_sub(used).saturating_sub(facts.next_input)
}

/// Returns the used tokens and the limit, of the run itself and of a run above it.
fn token_caps(facts: &Facts, policy: &Policy) -> impl Iterator<Item = (u64, u64)> {
    let own = policy.tokens_limit.map(|limit| (facts.tokens, limit));
    own.into_iter().chain(facts.tokens_above.map(|above| (above.used, above.limit)))
}

/// Returns the reserve for the answer, at most an eighth of the limit. A larger reserve would land
/// runs before they began.
fn answer_reserve(policy: &Policy, limit: u64) -> u64 {
    policy.reserve_tokens.min(limit / 8)
}

fn least_output(facts: &Facts, policy: &Policy, limit: u64) -> u64 {
    answer_reserve(policy, limit).max(1).saturating_add(facts.thinking_budget)
}
