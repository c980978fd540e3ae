//! The usage of a run so far, as its transcript shows it.

use alloc::collections::BTreeMap;
use alloc::string::String;

use serde::{Deserialize, Serialize};

/// The usage of a run. A record that was written before a member existed is read without it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
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
    pub fn usage_not_shown(&self, shown: &Self) -> Self {
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
        let Self { calls, by_tool, turns, rounds: _, result_chars, refused_tool } = used;
        self.calls = self.calls.saturating_add(*calls);
        for (tool, calls) in by_tool {
            let count = self.by_tool.entry(tool.clone()).or_default();
            *count = count.saturating_add(*calls);
        }
        self.turns = self.turns.saturating_add(*turns);
        self.result_chars = self.result_chars.saturating_add(*result_chars);
        if let Some((tool, refusals)) = refused_tool {
            let before = self.refused_tool.as_ref().map_or(0, |(_, refusals)| *refusals);
            self.refused_tool = Some((tool.clone(), before.saturating_add(*refusals)));
        }
    }
}
