//! `empty`: turns in a row with nothing to see and no tool call, ended naturally.

use crate::because::{Because, Reason};
use crate::policy::Policy;

/// The limit acts as 1 at least: the last empty turn of a row is answered by softland.
pub(crate) fn reached(count: u64, policy: &Policy) -> Option<Because> {
    let limit = policy.empty_limit.max(1);
    over(count, limit).then(|| Because::count(Reason::Empty, count, limit))
}

/// Whether a row is over.
pub(crate) fn over(count: u64, limit: u64) -> bool {
    count >= limit
}
