//! What an audit says: the shape that programs read (contract, section 9), and beside it what only
//! the tables and charts need.

use serde::Serialize;
use softland_session::core::policy::Policy;
use softland_session::core::{Evidence, NanoUsd, SignalKind};

use crate::fold::Spend;

/// The whole of it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Version of the shape.
    pub v: u32,
    /// Every file looked at.
    pub sources: Vec<SourceLine>,
    /// What could not be read.
    pub unreadable: Vec<UnreadableLine>,
    /// All runs together.
    pub totals: Totals,
    /// The runs, in the order of their files.
    pub runs: Vec<RunReport>,
    /// Limits that fit these runs, by policy key.
    pub suggested_policy: Suggested,
}

/// One file.
#[derive(Debug, Serialize)]
pub struct SourceLine {
    /// As given, or as found below a folder that was given.
    pub path: String,
    /// What it is; `None` where nothing could tell.
    pub kind: Option<&'static str>,
    /// Runs in it.
    pub runs: u64,
    /// Its size on disk.
    pub bytes: u64,
}

/// One thing that could not be read.
#[derive(Debug, Serialize)]
pub struct UnreadableLine {
    /// The file.
    pub path: String,
    /// The line, where lines mean something.
    pub line: Option<u64>,
    /// Why.
    pub reason: String,
}

/// Sums over all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Turns.
    pub turns: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Tokens.
    pub usage: UsageSum,
    /// Money, of what has a price; `None` where nothing has.
    pub cost_usd: Option<NanoUsd>,
    /// Turns whose cost is not known.
    pub unpriced_turns: u64,
    /// Of the money, what simulated models are said to have cost: nobody paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_usd: Option<NanoUsd>,
    /// Money of the turns that signals count as waste; `None` where nothing is known of it.
    pub wasted_usd: Option<NanoUsd>,
    /// Their tokens; `None` where none are recorded.
    pub wasted_tokens: Option<u64>,
    /// How many they are.
    pub wasted_turns: u64,
}

/// Tokens, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageSum {
    /// Input neither read from nor written to a cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Input read from a cache.
    pub cache_read: u64,
    /// Input written to a cache.
    pub cache_write: u64,
    /// Output by content beyond the recorded; in no cost and no sum.
    pub estimated: u64,
}

impl UsageSum {
    /// Adds the other, saturating.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }

    /// All that was recorded.
    #[must_use]
    pub fn recorded(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// Its name here: begins with the session's.
    pub run: String,
    /// The recording's session, or the `id` of a message array, or the path.
    pub session: String,
    /// The sub-agent, where it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The file.
    pub source: String,
    /// Where it begins in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Whether it was made out and is not recorded as one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Turns of the model.
    pub turns: u64,
    /// Tool calls, those that the provider ran apart.
    pub tool_calls: u64,
    /// Tokens.
    pub usage: UsageSum,
    /// Money; `None` where no turn's cost is known.
    pub cost_usd: Option<NanoUsd>,
    /// Of the money, what simulated models are said to have cost: nobody paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_usd: Option<NanoUsd>,
    /// Money of the wasted turns.
    pub wasted_usd: Option<NanoUsd>,
    /// Their tokens; `None` where none are recorded.
    pub wasted_tokens: Option<u64>,
    /// What the detectors saw.
    pub signals: Vec<Listed>,
    /// What the policy would have done; `None` where nothing.
    pub what_if: Option<WhatIf>,
    /// How softland recorded its end, where it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnded>,
    /// What only tables, charts and sums need.
    #[serde(skip)]
    pub beside: Beside,
}

/// A signal whose limit was reached.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    /// What was seen.
    pub signal: SignalKind,
    /// The first member, 1-based.
    pub from_turn: u64,
    /// The last member.
    pub to_turn: u64,
    /// How many members there are.
    pub turns: u64,
    /// Money of the members that are waste.
    pub wasted_usd: Option<NanoUsd>,
    /// Their tokens; `None` where none are recorded.
    pub wasted_tokens: Option<u64>,
    /// What a person can check it by.
    pub evidence: Evidence,
    /// Whether softland recorded it at the time and the recording does not show it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// How a run is recorded to have ended, in the contract's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunEnded {
    /// `answered`, `landed`, `stopped`, `failed` or `cancelled`.
    pub outcome: String,
    /// Why.
    pub reason: String,
}

/// What a policy would have done to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhatIf {
    /// The first turn whose request would have carried a warning, or a note on a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warned_at_turn: Option<u64>,
    /// The first turn whose request would have carried the landing note, or the last before a
    /// stop; `None` where the run was warned and came to its end by itself.
    pub ended_at_turn: Option<u64>,
    /// Money of what came after it: the most that could have been saved.
    pub saved_usd: Option<NanoUsd>,
    /// Turns after it.
    pub saved_turns: u64,
    /// Tokens after it; `None` where none are recorded.
    pub saved_tokens: Option<u64>,
    /// The limit or loop, in the contract's words.
    pub reason: String,
}

/// What stands in no JSON.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The recording's own name of it, where it has one.
    pub name: Option<String>,
    /// The recording's own name of the run that called it, where that is recorded.
    pub caller: Option<String>,
    /// What each turn came to, for runs that share a limit with it; only where there is one.
    pub spends: Vec<Spend>,
    /// Turns that are waste.
    pub wasted_turns: u64,
    /// Turns that are waste and whose cost is not known.
    pub wasted_unpriced: u64,
    /// Turns whose cost is not known.
    pub unpriced_turns: u64,
    /// Whether it ended in a final answer.
    pub answered: bool,
    /// Whether it is made of rows that say nothing of calls.
    pub rows: bool,
    /// When it began, in milliseconds since 1970.
    pub started: Option<u64>,
    /// Hours since 1970, with what was spent and wasted in each.
    pub hours: Vec<(u64, NanoUsd, NanoUsd)>,
    /// The least `cost_limit_usd` under which it would not have been landed, where that is known.
    pub cost_needed: Option<NanoUsd>,
    /// What happened, where that was asked for.
    pub steps: Vec<StepLine>,
    /// Steps that are left out for their number.
    pub steps_left_out: u64,
}

/// One turn of a run, for a person.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepLine {
    /// The turn.
    pub turn: u64,
    /// What it was: `calls`, `answer`, `empty`, …
    pub what: &'static str,
    /// Its calls, shortened, with the digests of their results.
    pub calls: Vec<String>,
    /// Its tokens, where they are recorded.
    pub tokens: Option<u64>,
    /// Its cost.
    pub cost_usd: Option<NanoUsd>,
    /// Whether it is waste.
    pub wasted: bool,
}

/// Limits that fit the runs, with why.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Suggested {
    /// Calls per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls_limit: Option<u64>,
    /// Turns per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_limit: Option<u64>,
    /// Money per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit_usd: Option<NanoUsd>,
    /// How the numbers came about, one line each.
    #[serde(skip)]
    pub why: Vec<String>,
}

impl Suggested {
    /// The policy itself, over the default one.
    #[must_use]
    pub fn policy(&self) -> Policy {
        Policy {
            tool_calls_limit: self.tool_calls_limit,
            turns_limit: self.turns_limit,
            cost_limit_usd: self.cost_limit_usd,
            ..Policy::default()
        }
    }
}

/// The sum of the tokens that are known: `None` where there is something and nothing of it is known.
#[must_use]
pub fn sum_tokens(tokens: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let as_money = tokens.into_iter().map(|tokens| tokens.map(NanoUsd));
    sum(as_money).map(|sum| sum.0)
}

/// The sum of what is known: `None` where there is something and nothing of it is known.
#[must_use]
pub fn sum(costs: impl IntoIterator<Item = Option<NanoUsd>>) -> Option<NanoUsd> {
    let (mut known, mut unknown, mut any) = (NanoUsd::ZERO, false, false);
    for cost in costs {
        match cost {
            Some(cost) => {
                known += cost;
                any = true;
            }
            None => unknown = true,
        }
    }
    (any || !unknown).then_some(known)
}
