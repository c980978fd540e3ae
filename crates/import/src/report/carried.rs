//! The cost of the results of tools, by tool and by result.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use softland_session::core::NanoUsd;

use super::RunReport;

/// Tokens of a result that is too large.
pub(crate) const OVERSIZED: u64 = 10_000;

/// The results of one tool, and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolLine {
    /// The number of calls.
    pub calls: u64,
    /// The number of results that a turn has read.
    pub results: u64,
    /// Their tokens, estimated from their characters.
    pub tokens: u64,
    /// The cost of the turns that read them first.
    pub first_usd: NanoUsd,
    /// The cost of all turns that read them, the first included.
    pub carried_usd: NanoUsd,
}

impl ToolLine {
    /// Adds other results.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.results += other.results;
        self.tokens += other.tokens;
        self.first_usd += other.first_usd;
        self.carried_usd += other.carried_usd;
    }
}

/// One large result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CarriedResult {
    /// The tool.
    pub tool: Arc<str>,
    /// The turn of its run that read it first.
    pub turn: u64,
    /// Its tokens, estimated from its characters.
    pub tokens: u64,
    /// The turns that read it again.
    pub turns: u64,
    /// The cost in all.
    pub usd: NanoUsd,
}

/// Sums the tools of all runs up, the dearest first.
#[must_use]
pub fn sum_tools(runs: &[RunReport]) -> Vec<(Arc<str>, ToolLine)> {
    let mut tools: BTreeMap<&Arc<str>, ToolLine> = BTreeMap::new();
    for (name, line) in runs.iter().flat_map(|run| &run.spending.tools) {
        tools.entry(name).or_default().add(line);
    }
    let mut tools: Vec<_> = tools.into_iter().map(|(name, line)| (name.clone(), line)).collect();
    tools.sort_by_key(|(_, line)| std::cmp::Reverse((line.carried_usd, line.tokens, line.calls)));
    tools
}
