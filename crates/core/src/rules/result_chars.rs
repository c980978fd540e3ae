//! `result_chars_limit`: characters of tool results per run, softland's own lines apart.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::RunUsage;

pub(crate) fn check_limit(used: &RunUsage, policy: &Policy) -> Option<Because> {
    let limit = policy.result_chars_limit?;
    (used.result_chars >= limit)
        .then(|| Because::from_counts(Reason::ResultChars, used.result_chars, limit))
}

pub(crate) fn check_warning(used: &RunUsage, policy: &Policy) -> Option<Because> {
    let limit = policy.result_chars_limit?;
    (used.calls > 0 && policy.warn_at.is_reached(used.result_chars, limit))
        .then(|| Because::from_counts(Reason::ResultChars, used.result_chars, limit))
}
