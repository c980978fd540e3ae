//! What a run has used so far, as its transcript shows it.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::because::Limit;
use crate::event::Facts;
use crate::money::NanoUsd;
use crate::outcome::Remaining;
use crate::policy::Policy;

/// What a run has used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Tool calls that were admitted; answer tools and provider-run tools apart.
    pub calls: u64,
    /// The same by tool name.
    pub by_tool: BTreeMap<String, u64>,
    /// Turns of the model.
    pub turns: u64,
    /// Rounds that were answered.
    pub rounds: u64,
    /// Characters of tool results.
    pub result_chars: u64,
    /// The tool last refused by its own limit, and how many turns were so refused in all.
    pub refused_tool: Option<(String, u64)>,
}

impl Used {
    /// What of it goes on counting after the history that showed it was compacted.
    #[must_use]
    pub fn carried(&self) -> Self {
        Self { rounds: 0, refused_tool: None, ..self.clone() }
    }

    /// What every set limit leaves, by policy key (`tool_limits.NAME` for a tool's): counts, money
    /// in dollars, time in whole seconds.
    #[must_use]
    pub fn remaining(&self, policy: &Policy, facts: &Facts) -> Remaining {
        let count =
            |limit: Option<u64>, used| limit.map(|l: u64| Limit::Count(l.saturating_sub(used)));
        let money = |limit: Option<NanoUsd>, used| limit.map(|l| Limit::Money(l.less(used)));
        let seconds = |l: crate::time::Millis| l.0.saturating_sub(facts.elapsed.0) / 1000;
        let set = [
            ("tool_calls_limit", count(policy.tool_calls_limit, self.calls)),
            ("turns_limit", count(policy.turns_limit, self.turns)),
            ("result_chars_limit", count(policy.result_chars_limit, self.result_chars)),
            ("tokens_limit", count(policy.tokens_limit, facts.tokens)),
            ("cost_limit_usd", money(policy.cost_limit_usd, facts.cost)),
            ("session_cost_limit_usd", money(policy.session_cost_limit_usd, facts.session_cost)),
            ("time_limit", policy.time_limit.map(|l| Limit::Count(seconds(l)))),
        ];
        let tools = policy.tool_limits.iter().map(|(tool, limit)| {
            let used = self.by_tool.get(tool).copied().unwrap_or(0);
            (
                Cow::Owned(alloc::format!("tool_limits.{tool}")),
                Limit::Count(limit.saturating_sub(used)),
            )
        });
        let set = set.into_iter().filter_map(|(key, left)| Some((Cow::Borrowed(key), left?)));
        set.chain(tools).collect()
    }
}
