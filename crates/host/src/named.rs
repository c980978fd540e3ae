//! Runs that a program has named, and what is told of them.

use std::sync::Arc;

use softland_govern::runs::RunSnapshot;
use softland_session::core::{NanoUsd, Outcome};

/// The name of a run, and of the runs around it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunName {
    /// The name, which no other run of the process has.
    pub name: Arc<str>,
    /// The runs around it, the innermost first.
    pub around: Vec<RunAround>,
}

/// A run around another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunAround {
    /// Its name.
    pub name: Arc<str>,
    /// Its limit of money, if it has one.
    pub cost_limit: Option<NanoUsd>,
}

/// A named run, as far as it is known. A program may have had several conversations in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// The outcome of the newest conversation; `None` while it goes on.
    pub outcome: Option<String>,
    /// The reason of that outcome.
    pub reason: Option<String>,
    /// `model`, or `local` for softland; `None` without an answer.
    pub answered_by: Option<&'static str>,
    /// The cost of everything that was asked in the run; `None` if a part of it is not known.
    pub cost: Option<NanoUsd>,
    /// The tool calls.
    pub tool_calls: u64,
    /// The turns.
    pub turns: u64,
    /// softland's own names of its conversations' runs.
    pub runs: Vec<Arc<str>>,
}

/// What was noted of a named run.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRun {
    /// The runs of its conversations, as they began.
    pub(crate) runs: Vec<Arc<str>>,
    /// The runs around it, which share what it costs.
    pub(crate) around: Vec<Arc<str>>,
    /// What its requests have cost.
    pub(crate) cost: NanoUsd,
    /// True if the cost of one of them is not known.
    pub(crate) is_unpriced: bool,
}

impl NamedRun {
    /// Returns the report, with what the state knows of the runs.
    pub(crate) fn to_report(&self, known: &[RunSnapshot]) -> RunReport {
        let sum = |count: fn(&RunSnapshot) -> u64| known.iter().map(count).sum();
        let mut report = RunReport {
            cost: (!self.is_unpriced).then_some(self.cost),
            tool_calls: sum(|run| run.calls),
            turns: sum(|run| run.turns),
            runs: self.runs.clone(),
            ..RunReport::default()
        };
        if let Some(end) = known.last().and_then(|newest| newest.end.as_ref()) {
            let outcome = end.ending.outcome;
            report.outcome = Some(outcome.word().to_owned());
            report.reason = Some(end.ending.reason.to_string());
            report.answered_by = match outcome {
                Outcome::Failed | Outcome::Cancelled => None,
                _ if end.local => Some("local"),
                _ => Some("model"),
            };
        }
        report
    }
}
