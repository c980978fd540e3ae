//! `time_limit`: from the run's first request, without idle gaps. `reserve_time` is held back.

use crate::because::{Because, Quantity, Reason};
use crate::event::Facts;
use crate::policy::Policy;
use crate::time::Millis;

pub(crate) fn check_limit(facts: &Facts, policy: &Policy) -> Option<Because> {
    let limit = policy.time_limit?;
    (facts.elapsed >= exploring_until(policy)?).then_some(Because::new(
        Reason::Time,
        Quantity::Time(facts.elapsed),
        Quantity::Time(limit),
    ))
}

pub(crate) fn check_warning(facts: &Facts, policy: &Policy) -> Option<Because> {
    let limit = policy.time_limit?;
    policy.warn_at.is_reached(facts.elapsed.0, limit.0).then_some(Because::new(
        Reason::Time,
        Quantity::Time(facts.elapsed),
        Quantity::Time(limit),
    ))
}

/// Returns the time at which exploring ends. The reserve is at most half the limit, because a
/// larger one would land runs before they began.
pub(crate) fn exploring_until(policy: &Policy) -> Option<Millis> {
    let limit = policy.time_limit?;
    Some(Millis(limit.0 - policy.reserve_time.0.min(limit.0 / 2)))
}
