//! The report of an audit: the shape that programs read (`docs/reference/events.md`), and the
//! details that only tables and charts need.

pub mod carried;
pub mod filter;
pub mod findings;
pub mod full;
pub mod spending;

use serde::Serialize;
use softland_session::core::policy::Policy;
use softland_session::core::{Evidence, NanoUsd, Outcome, SignalKind};

use crate::export::RunTrajectory;
use crate::step::TurnUsage;
use spending::RunSpending;

/// A whole report.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Version of the shape.
    pub v: u32,
    /// All files looked at.
    pub sources: Vec<SourceLine>,
    /// Everything that could not be read.
    pub unreadable: Vec<UnreadableLine>,
    /// Totals of all runs.
    pub totals: Totals,
    /// The runs, in the order of their files.
    pub runs: Vec<RunReport>,
    /// Limits that fit these runs, by policy key.
    pub suggested_policy: SuggestedPolicy,
}

/// One file.
#[derive(Debug, Serialize)]
pub struct SourceLine {
    /// The path, as given or as found below a given folder.
    pub path: String,
    /// The kind of the recording; `None` for an unknown file.
    pub kind: Option<&'static str>,
    /// The number of runs in the file.
    pub runs: u64,
    /// Size on disk, in bytes.
    pub bytes: u64,
}

/// A file, or a part of a file, that could not be read.
#[derive(Debug, Serialize)]
pub struct UnreadableLine {
    /// The file.
    pub path: String,
    /// The line, if the file is read by lines.
    pub line: Option<u64>,
    /// The reason.
    pub reason: String,
}

/// Totals of all runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Totals {
    /// The number of runs.
    pub runs: u64,
    /// The number of turns.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The tokens.
    pub usage: UsageSum,
    /// The cost of turns with a known price; `None` if no price is known.
    pub cost_usd: Option<NanoUsd>,
    /// Turns without a known cost.
    pub unpriced_turns: u64,
    /// The part of the cost that simulated models report: nobody paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_usd: Option<NanoUsd>,
    /// The cost of the turns that signals count as waste; `None` if no cost of them is known.
    pub wasted_usd: Option<NanoUsd>,
    /// The tokens of the wasted turns; `None` if none are recorded.
    pub wasted_tokens: Option<u64>,
    /// The number of wasted turns.
    pub wasted_turns: u64,
}

/// Tokens, as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageSum {
    /// Input tokens neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens estimated from the content beyond the recorded ones; part of no cost and no
    /// sum.
    pub estimated: u64,
}

impl UsageSum {
    /// Returns the tokens of one turn.
    pub(crate) const fn from_turn(usage: &TurnUsage) -> Self {
        let tokens = usage.tokens;
        Self {
            input: tokens.input,
            output: tokens.output,
            cache_read: tokens.cache_read,
            cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            estimated: usage.estimated,
        }
    }

    /// Adds another sum, saturating.
    pub fn add(&mut self, other: &Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.estimated = self.estimated.saturating_add(other.estimated);
    }

    /// Returns the sum of all recorded tokens.
    #[must_use]
    pub fn recorded_tokens(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

/// The report of one run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunReport {
    /// The name of the run in this report. It begins with the session's name.
    pub run: String,
    /// The recording's session, or the `id` of a message array, or the path.
    pub session: String,
    /// The sub-agent, if the run is a sub-agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The file.
    pub source: String,
    /// The line of the file where the run begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// True if the run was inferred and is not recorded as one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inferred: bool,
    /// Turns of the model.
    pub turns: u64,
    /// Tool calls, without those that the provider ran.
    pub tool_calls: u64,
    /// The tokens.
    pub usage: UsageSum,
    /// The cost; `None` if no turn's cost is known.
    pub cost_usd: Option<NanoUsd>,
    /// The part of the cost that simulated models report: nobody paid it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_usd: Option<NanoUsd>,
    /// The cost of the wasted turns.
    pub wasted_usd: Option<NanoUsd>,
    /// The tokens of the wasted turns; `None` if none are recorded.
    pub wasted_tokens: Option<u64>,
    /// The signals that the detectors saw.
    pub signals: Vec<ListedSignal>,
    /// The effect that the policy would have had; `None` if it would have had none.
    pub what_if: Option<WhatIf>,
    /// The end of the run as softland recorded it, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnded>,
    /// Where the money of the run went; version 2 of the report has it.
    #[serde(skip)]
    pub spending: RunSpending,
    /// The details that only tables, charts and sums need.
    #[serde(skip)]
    pub beside: RunDetails,
}

/// A signal whose limit was reached.
#[derive(Clone, Debug, Serialize)]
pub struct ListedSignal {
    /// The signal.
    pub signal: SignalKind,
    /// The first member turn, from 1.
    pub from_turn: u64,
    /// The last member turn.
    pub to_turn: u64,
    /// The number of member turns.
    pub turns: u64,
    /// The cost of the member turns that are waste.
    pub wasted_usd: Option<NanoUsd>,
    /// The tokens of the wasted turns; `None` if none are recorded.
    pub wasted_tokens: Option<u64>,
    /// The evidence by which a person can check the signal.
    pub evidence: Evidence,
    /// True if softland recorded the signal at the time and the recording does not show it again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recorded: bool,
}

/// The recorded end of a run, in the words of `docs/reference/events.md`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunEnded {
    /// `answered`, `landed`, `stopped`, `failed` or `cancelled`.
    pub outcome: String,
    /// The reason; empty if only softland's own answer tells of the end and gives none.
    pub reason: String,
}

impl RunEnded {
    /// Returns true if the run came to an answer, the model's or softland's own.
    #[must_use]
    pub fn has_answer(&self) -> bool {
        let answers = [Outcome::Answered, Outcome::Landed, Outcome::Stopped];
        answers.iter().any(|outcome| outcome.word() == self.outcome)
    }
}

/// The effect that a policy would have had on a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WhatIf {
    /// The first turn whose request would have carried a warning, or a note on a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warned_at_turn: Option<u64>,
    /// The first turn whose request would have carried the landing note, or the last turn before a
    /// stop. `None` if the run was only warned and ended by itself.
    pub ended_at_turn: Option<u64>,
    /// The cost of the turns after it: the most that could have been saved.
    pub saved_usd: Option<NanoUsd>,
    /// The number of turns after it.
    pub saved_turns: u64,
    /// The tokens of the turns after it; `None` if none are recorded.
    pub saved_tokens: Option<u64>,
    /// The limit or loop: a reason of `docs/reference/events.md`.
    pub reason: String,
}

/// The details of a run that are in no JSON.
#[derive(Clone, Debug, Default)]
pub struct RunDetails {
    /// The recording's own name of the run, if it has one.
    pub name: Option<String>,
    /// The recording's own name of the run that called this one, if it is recorded.
    pub caller: Option<String>,
    /// The cost of each turn, for runs that share a limit with this one. Empty if no such limit is
    /// set.
    pub spends: Vec<TurnSpend>,
    /// The number of wasted turns.
    pub wasted_turns: u64,
    /// The number of wasted turns without a known cost.
    pub wasted_unpriced: u64,
    /// The number of turns without a known cost.
    pub unpriced_turns: u64,
    /// True if the run ended in a final answer of the model, and softland did not end it.
    pub answered: bool,
    /// True if the run is made of rows, which say nothing about calls.
    pub rows: bool,
    /// Start time in milliseconds since 1970.
    pub started: Option<u64>,
    /// Hours since 1970, with the money spent and wasted in each.
    pub hours: Vec<(u64, NanoUsd, NanoUsd)>,
    /// The smallest `cost_limit_usd` under which the run would not have been landed, if it is
    /// known.
    pub cost_needed: Option<NanoUsd>,
    /// The steps of the run, if they were requested.
    pub steps: Vec<StepLine>,
    /// The number of steps that are left out because there are too many.
    pub steps_left_out: u64,
    /// The run as it is exported, if that was requested.
    pub trajectory: Option<RunTrajectory>,
}

/// The position of a turn among those of other runs: its time, and its line among equal times.
pub(crate) type Moment = (u64, u64);

/// One turn, as far as it concerns other runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnSpend {
    pub(crate) at: Moment,
    pub(crate) cost: NanoUsd,
    pub(crate) tokens: u64,
    /// Money and tokens that are held back for an answer after the turn.
    pub(crate) held: (NanoUsd, u64),
}

/// One turn of a run, for a person.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StepLine {
    /// The number of the turn.
    pub turn: u64,
    /// The class of the turn: `calls`, `answer`, `empty`, …
    pub what: &'static str,
    /// The calls, shortened, with the digests of their results.
    pub calls: Vec<String>,
    /// The tokens, if they are recorded.
    pub tokens: Option<u64>,
    /// The cost.
    pub cost_usd: Option<NanoUsd>,
    /// True if the turn is waste.
    pub wasted: bool,
}

/// Limits that fit the runs, with the reasons for them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SuggestedPolicy {
    /// Tool calls per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls_limit: Option<u64>,
    /// Turns per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns_limit: Option<u64>,
    /// Cost per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit_usd: Option<NanoUsd>,
    /// The explanation of the numbers, one line each.
    #[serde(skip)]
    pub why: Vec<String>,
    /// The effect that the limits would have had on the runs.
    #[serde(skip)]
    pub effect: SuggestionEffect,
    /// Limits for each kind of work, where the kinds clearly differ.
    #[serde(skip)]
    pub kinds: Vec<(String, Self)>,
}

/// The effect of limits on the runs that they are made from, by counts and costs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SuggestionEffect {
    /// Runs that were not good and would have been landed.
    pub landed: u64,
    /// The most that this would have saved.
    pub saved_usd: NanoUsd,
    /// Good runs that would have been cut.
    pub cut: u64,
}

impl SuggestedPolicy {
    /// Returns the policy: the default one with these limits.
    #[must_use]
    pub fn to_policy(&self) -> Policy {
        Policy {
            tool_calls_limit: self.tool_calls_limit,
            turns_limit: self.turns_limit,
            cost_limit_usd: self.cost_limit_usd,
            ..Policy::default()
        }
    }
}

/// Sums the known tokens; returns `None` if there are values and none of them is known.
#[must_use]
pub fn sum_tokens(tokens: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    let as_money = tokens.into_iter().map(|tokens| tokens.map(NanoUsd));
    sum_costs(as_money).map(|sum| sum.0)
}

/// Sums the known costs; returns `None` if there are values and none of them is known.
#[must_use]
pub fn sum_costs(costs: impl IntoIterator<Item = Option<NanoUsd>>) -> Option<NanoUsd> {
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
