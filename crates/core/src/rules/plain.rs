//! The plain rule: a count that the transcript shows lands the run when it reaches its limit, and
//! there is one warning before. The rows of [`KEYS`](crate::policy::KEYS) say which limits it is
//! of.

use crate::because::{Because, Reason};
use crate::policy::{Measure, Policy, list_limits};
use crate::used::RunUsage;

/// Returns the first of these limits that is reached.
pub(crate) fn check_limit(used: &RunUsage, policy: &Policy) -> Option<Because> {
    plain_counts(used, policy)
        .find(|(_, count, limit)| count >= limit)
        .map(|(reason, count, limit)| Because::from_counts(reason.clone(), count, limit))
}

/// Returns the limits whose warning is due.
pub(crate) fn check_warnings(used: &RunUsage, policy: &Policy) -> impl Iterator<Item = Because> {
    plain_counts(used, policy)
        .filter(|(_, count, limit)| used.calls > 0 && policy.warn_at.is_reached(*count, *limit))
        .map(|(reason, count, limit)| Because::from_counts(reason.clone(), count, limit))
}

/// Returns the reason, the count and the value of each limit under the rule.
fn plain_counts(
    used: &RunUsage,
    policy: &Policy,
) -> impl Iterator<Item = (&'static Reason, u64, u64)> {
    list_limits().filter_map(|row| match row.measure {
        Measure::Plain { limit, used: count } => Some((&row.reason, count(used), limit(policy)?)),
        _ => None,
    })
}
