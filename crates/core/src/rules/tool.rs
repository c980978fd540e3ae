//! `tool_limits`: a tool at its own limit is refused by name. Three refused turns land the run.

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString as _};

use crate::because::{Because, Reason};
use crate::policy::Policy;
use crate::used::RunUsage;

/// The number of refused turns that land the run.
pub(crate) const REFUSALS: u64 = 3;

/// Returns the limit for which one more call of `tool` is refused, after `used` admitted calls.
pub(crate) fn check_call(tool: &str, used: u64, policy: &Policy) -> Option<Because> {
    let limit = *policy.tool_limits.get(tool)?;
    (used >= limit).then(|| Because::from_counts(Reason::Tool(tool.to_string()), used, limit))
}

/// Returns the limit that is used up, if it is of a tool that the provider runs: nobody else can
/// refuse such a tool, so the run lands. `hosted` are the tools of this kind that the requests
/// declare.
pub(crate) fn check_hosted_limit(
    used: &RunUsage,
    hosted: &BTreeSet<String>,
    policy: &Policy,
) -> Option<Because> {
    let limits = policy.tool_limits.iter().filter(|(tool, _)| hosted.contains(*tool));
    let mut spent = limits.filter_map(|(tool, limit)| {
        let used = used.by_tool.get(tool).copied().unwrap_or(0);
        (used >= *limit).then(|| Because::from_counts(Reason::Tool(tool.clone()), used, *limit))
    });
    spent.next()
}

/// Returns true if the next refusal is the one that lands the run.
pub(crate) fn is_last_refusal(used: &RunUsage) -> bool {
    shown_refusals(used) + 1 >= REFUSALS
}

/// Returns the number of turns refused in this way that the transcript shows.
pub(crate) fn shown_refusals(used: &RunUsage) -> u64 {
    used.refused_tool.as_ref().map_or(0, |(_, refusals)| *refusals)
}

pub(crate) fn check_limit(
    used: &RunUsage,
    hidden_refusals: u64,
    policy: &Policy,
) -> Option<Because> {
    let (tool, refusals) = used.refused_tool.as_ref()?;
    let limit = *policy.tool_limits.get(tool)?;
    (refusals + hidden_refusals >= REFUSALS)
        .then(|| Because::from_counts(Reason::Tool(tool.clone()), limit, limit))
}
