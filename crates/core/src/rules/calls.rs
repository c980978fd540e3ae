//! `tool_calls_limit`: tool calls per run.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::RunUsage;

pub(crate) fn check_limit(used: &RunUsage, policy: &Policy) -> Option<Because> {
    let limit = policy.tool_calls_limit?;
    (used.calls >= limit).then(|| Because::from_counts(Reason::ToolCalls, used.calls, limit))
}
