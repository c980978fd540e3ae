//! `result_chars_limit`: characters of tool results per run, softland's own lines apart.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::Used;

pub(crate) fn reached(used: &Used, policy: &Policy) -> Option<Because> {
    let limit = policy.result_chars_limit?;
    (used.result_chars >= limit)
        .then(|| Because::count(Reason::ResultChars, used.result_chars, limit))
}

pub(crate) fn warned(used: &Used, policy: &Policy) -> Option<Because> {
    let limit = policy.result_chars_limit?;
    (used.calls > 0 && policy.warn_at.reached(used.result_chars, limit))
        .then(|| Because::count(Reason::ResultChars, used.result_chars, limit))
}
