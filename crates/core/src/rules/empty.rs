//! `empty`: turns in a row with nothing to see and no tool call, ended naturally.

use crate::because::{Because, Reason};
use crate::policy::Policy;

/// Returns the limit if a row of empty turns reaches it. The limit acts as at least 1: softland
/// answers the last empty turn of a row.
pub(crate) fn check_limit(count: u64, policy: &Policy) -> Option<Because> {
    let limit = policy.empty_limit.max(1);
    is_over(count, limit).then(|| Because::from_counts(Reason::Empty, count, limit))
}

/// Returns true if a row of empty turns is over.
pub(crate) fn is_over(count: u64, limit: u64) -> bool {
    count >= limit
}
