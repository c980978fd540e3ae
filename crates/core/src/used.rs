//! The usage of a run so far, as its transcript shows it.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::because::Quantity;
use crate::event::Facts;
use crate::money::NanoUsd;
use crate::outcome::Remaining;
use crate::policy::Policy;

/// The usage of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUsage {
    /// The number of tool calls that were admitted, without calls of answer tools and of tools that
    /// the provider runs.
    pub calls: u64,
    /// The number of calls by tool name.
    pub by_tool: BTreeMap<String, u64>,
    /// The number of turns of the model.
    pub turns: u64,
    /// The number of rounds that were answered.
    pub rounds: u64,
    /// The number of characters of tool results.
    pub result_chars: u64,
    /// The tool last refused by its own limit, and the number of all turns refused for such a
    /// limit.
    pub refused_tool: Option<(String, u64)>,
}

impl RunUsage {
    /// Returns the part of the usage that a history with the usage `shown` does not show. Rounds
    /// are not carried.
    #[must_use]
    pub fn not_shown_in(&self, shown: &Self) -> Self {
        let by_tool = self.by_tool.iter().filter_map(|(tool, used)| {
            let left = used.saturating_sub(shown.by_tool.get(tool).copied().unwrap_or(0));
            (left > 0).then(|| (tool.clone(), left))
        });
        let refused = self.refused_tool.as_ref().and_then(|(tool, refusals)| {
            let shown = shown.refused_tool.as_ref().map_or(0, |(_, refusals)| *refusals);
            Some((tool.clone(), refusals.checked_sub(shown).filter(|left| *left > 0)?))
        });
        Self {
            calls: self.calls.saturating_sub(shown.calls),
            by_tool: by_tool.collect(),
            turns: self.turns.saturating_sub(shown.turns),
            rounds: 0,
            result_chars: self.result_chars.saturating_sub(shown.result_chars),
            refused_tool: refused,
        }
    }

    /// Returns true if nothing was used.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds usage that a history does not show.
    pub(crate) fn add_usage(&mut self, used: &Self) {
        self.calls = self.calls.saturating_add(used.calls);
        for (tool, calls) in &used.by_tool {
            let count = self.by_tool.entry(tool.clone()).or_default();
            *count = count.saturating_add(*calls);
        }
        self.turns = self.turns.saturating_add(used.turns);
        self.result_chars = self.result_chars.saturating_add(used.result_chars);
        if let Some((tool, refusals)) = &used.refused_tool {
            let before = self.refused_tool.as_ref().map_or(0, |(_, refusals)| *refusals);
            self.refused_tool = Some((tool.clone(), before.saturating_add(*refusals)));
        }
    }

    /// Returns the rest of every limit that is set, by policy key (`tool_limits.NAME` for a
    /// tool's): counts, money in dollars, time in whole seconds.
    #[must_use]
    pub fn remaining_limits(&self, policy: &Policy, facts: &Facts) -> Remaining {
        let count =
            |limit: Option<u64>, used| limit.map(|l: u64| Quantity::Count(l.saturating_sub(used)));
        let money =
            |limit: Option<NanoUsd>, used| limit.map(|l| Quantity::Money(l.saturating_sub(used)));
        let seconds = |l: crate::time::Millis| l.0.saturating_sub(facts.elapsed.0) / 1000;
        let set = [
            ("tool_calls_limit", count(policy.tool_calls_limit, self.calls)),
            ("turns_limit", count(policy.turns_limit, self.turns)),
            ("result_chars_limit", count(policy.result_chars_limit, self.result_chars)),
            ("tokens_limit", count(policy.tokens_limit, facts.tokens)),
            ("cost_limit_usd", money(policy.cost_limit_usd, facts.cost)),
            ("session_cost_limit_usd", money(policy.session_cost_limit_usd, facts.session_cost)),
            ("time_limit", policy.time_limit.map(|l| Quantity::Count(seconds(l)))),
        ];
        let tools = policy.tool_limits.iter().map(|(tool, limit)| {
            let used = self.by_tool.get(tool).copied().unwrap_or(0);
            (
                Cow::Owned(alloc::format!("tool_limits.{tool}")),
                Quantity::Count(limit.saturating_sub(used)),
            )
        });
        let set = set.into_iter().filter_map(|(key, left)| Some((Cow::Borrowed(key), left?)));
        set.chain(tools).collect()
    }
}
