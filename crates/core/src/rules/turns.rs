//! `turns_limit`: turns per run. The last permitted turn is asked for the answer. 0 acts as 1.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::RunUsage;

pub(crate) fn check_limit(used: &RunUsage, policy: &Policy) -> Option<Because> {
    let limit = policy.turns_limit?.max(1);
    (used.turns + 1 >= limit).then(|| Because::from_counts(Reason::Turns, used.turns + 1, limit))
}

/// Returns the one warning: the share is used, and the next turn is not asked for the answer yet.
pub(crate) fn check_warning(used: &RunUsage, policy: &Policy) -> Option<Because> {
    let limit = policy.turns_limit?.max(1);
    (used.calls > 0 && policy.warn_at.is_reached(used.turns, limit))
        .then(|| Because::from_counts(Reason::Turns, used.turns, limit))
}
