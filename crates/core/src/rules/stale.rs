//! `stale`: one context, answered again although every earlier answer was empty or trivial. Only
//! the program that stores the answers can count them, so the count comes in as a fact.

use crate::because::{Because, Reason};
use crate::event::Facts;
use crate::policy::Policy;

pub(crate) fn check_limit(facts: &Facts, policy: &Policy) -> Option<Because> {
    let limit = policy.stale_limit;
    (limit > 0 && facts.stale >= limit)
        .then(|| Because::from_counts(Reason::Stale, facts.stale, limit))
}
