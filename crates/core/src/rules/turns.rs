//! `turns_limit`: turns per run. The last permitted turn is asked for the answer. 0 acts as 1.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::Used;

pub(crate) fn reached(used: &Used, policy: &Policy) -> Option<Because> {
    let limit = policy.turns_limit?.max(1);
    (used.turns + 1 >= limit).then(|| Because::count(Reason::Turns, used.turns + 1, limit))
}

/// Returns the one warning: the share is used, and the next turn is not asked for the answer yet.
pub(crate) fn warned(used: &Used, policy: &Policy) -> Option<Because> {
    let limit = policy.turns_limit?.max(1);
    (used.calls > 0 && policy.warn_at.reached(used.turns, limit))
        .then(|| Because::count(Reason::Turns, used.turns, limit))
}
