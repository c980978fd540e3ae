//! `tool_calls_limit`: tool calls per run.

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::Used;

pub(crate) fn reached(used: &Used, policy: &Policy) -> Option<Because> {
    let limit = policy.tool_calls_limit?;
    (used.calls >= limit).then(|| Because::count(Reason::ToolCalls, used.calls, limit))
}
