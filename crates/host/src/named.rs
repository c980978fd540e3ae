//! Runs that a program has named: what is noted of each, and what is told of it.

use std::collections::HashMap;
use std::sync::Arc;

use softland_govern::records::{Record, RequestRow, RunEnd, RunStart};
use softland_govern::runs::RunSnapshot;
use softland_govern::store::IDLE_MS;
use softland_govern::{BudgetAround, GovernSettings};
use softland_session::core::{AccountAbove, Millis, NanoUsd, Outcome};

use crate::settings::enforced_policy;

#[cfg(test)]
mod tests;

/// The name of a run, and of the runs around it.
#[derive(Clone, Debug, Default)]
pub struct RunName {
    /// The name, which no other run of the process has.
    pub name: Arc<str>,
    /// The runs around it, the innermost first.
    pub around: Vec<RunAround>,
}

/// A run around another one.
#[derive(Clone, Debug)]
pub struct RunAround {
    /// Its name.
    pub name: Arc<str>,
    /// The settings of its requests; `None` if nobody has given it any.
    pub settings: Option<Arc<GovernSettings>>,
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

/// What was noted of the named runs that are open.
#[derive(Debug, Default)]
pub(crate) struct NamedRuns {
    by_name: HashMap<Arc<str>, NamedRun>,
    /// The name of each run of a conversation that has not ended.
    names: HashMap<Arc<str>, Arc<str>>,
}

/// What was noted of a named run.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedRun {
    /// The runs of its conversations, as they began.
    runs: Vec<Arc<str>>,
    /// Those of them that have not ended, each with the turns and calls of the runs that it
    /// continues.
    open: Vec<(Arc<str>, (u64, u64))>,
    /// Turns and calls of those that have ended.
    ended: (u64, u64),
    /// The end of the newest of them, if it has ended.
    end: Option<NamedEnd>,
    /// The runs around it, which share what it uses.
    around: Vec<Arc<str>>,
    /// The cost of its requests and of those within it.
    cost: NanoUsd,
    /// True if the cost of one of them is not known.
    is_unpriced: bool,
    usage: NamedUsage,
}

/// The end of the newest conversation of a named run.
#[derive(Clone, Debug)]
struct NamedEnd {
    outcome: Outcome,
    reason: String,
    local: bool,
}

/// The tokens and the time that a named run has used, with the runs within it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedUsage {
    /// All tokens.
    tokens: u64,
    /// The tokens of the runs within it.
    pub(crate) nested_tokens: u64,
    /// The tokens of its own newest request, which its next request has as its context.
    context: u64,
    /// Milliseconds of its time, up to `last`.
    active: u64,
    /// The beginning or the end of its newest request, in milliseconds since 1970.
    last: Option<u64>,
}

impl NamedRuns {
    /// Begins to note what belongs to a named run.
    pub(crate) fn add_name(&mut self, name: &RunName) {
        self.by_name.entry(Arc::clone(&name.name)).or_insert_with(|| NamedRun {
            around: name.around.iter().map(|around| Arc::clone(&around.name)).collect(),
            ..NamedRun::default()
        });
    }

    /// Returns what was noted of a named run.
    pub(crate) fn find_name(&self, name: &str) -> Option<&NamedRun> {
        self.by_name.get(name)
    }

    /// Forgets a named run.
    pub(crate) fn forget_name(&mut self, name: &str) {
        let Some(named) = self.by_name.remove(name) else { return };
        for (run, _) in &named.open {
            self.names.remove(run);
        }
    }

    /// Notes a record of a run or a request that belongs to a named run.
    pub(crate) fn note_record(&mut self, record: &Record<'_>) {
        match record {
            Record::RunStart(start) => self.begin_run(start),
            Record::Sent(row) => self.note_time(row, row.at),
            Record::Request(row) => {
                self.note_time(row, row.at.saturating_add(row.millis));
                self.note_usage(row);
            }
            Record::RunEnd(end) => self.end_run(end),
            Record::Event(_) => {}
        }
    }

    fn begin_run(&mut self, start: &RunStart) {
        let Some(name) = &start.name else { return };
        let Some(named) = self.by_name.get_mut(name) else { return };
        named.runs.push(Arc::clone(&start.run));
        named.open.push((Arc::clone(&start.run), start.before));
        named.end = None;
        self.names.insert(Arc::clone(&start.run), Arc::clone(name));
    }

    fn end_run(&mut self, end: &RunEnd) {
        let Some(name) = self.names.remove(&end.run) else { return };
        let Some(named) = self.by_name.get_mut(&name) else { return };
        named.open.retain(|(run, _)| *run != end.run);
        named.ended.0 += end.turns;
        named.ended.1 += end.tool_calls;
        if named.runs.last() == Some(&end.run) {
            let (outcome, reason) = (end.ended.outcome, end.ended.reason.to_string());
            named.end = Some(NamedEnd { outcome, reason, local: end.local });
        }
    }

    /// Calls `note` with the named run of a request, and then with each run around it.
    fn for_each_of(&mut self, row: &RequestRow, mut note: impl FnMut(&mut NamedRun, bool)) {
        let Some(named) = row.name.as_ref().and_then(|name| self.by_name.get_mut(name)) else {
            return;
        };
        note(named, true);
        for name in named.around.clone() {
            if let Some(around) = self.by_name.get_mut(&name) {
                note(around, false);
            }
        }
    }

    fn note_time(&mut self, row: &RequestRow, at: u64) {
        self.for_each_of(row, |named, _| named.usage.continue_at(at));
    }

    fn note_usage(&mut self, row: &RequestRow) {
        let tokens = [row.input, row.output, row.cache_read, row.cache_write];
        let tokens = tokens.into_iter().fold(0, u64::saturating_add);
        // A request that is only metered has a context of its own.
        let is_turn = row.run.is_some();
        self.for_each_of(row, |named, is_own| {
            named.cost += row.cost.unwrap_or_default();
            named.is_unpriced |= row.cost.is_none();
            let usage = &mut named.usage;
            usage.tokens = usage.tokens.saturating_add(tokens);
            if !is_own {
                usage.nested_tokens = usage.nested_tokens.saturating_add(tokens);
            } else if is_turn {
                usage.context = tokens;
            }
        });
    }
}

impl NamedRun {
    /// Returns the tokens and the time that it has used.
    pub(crate) fn usage(&self) -> NamedUsage {
        self.usage
    }

    /// Returns the runs of its conversations that have not ended.
    pub(crate) fn open_runs(&self) -> impl Iterator<Item = &Arc<str>> {
        self.open.iter().map(|(run, _)| run)
    }

    /// Returns the report, with what the state knows of the runs that have not ended.
    pub(crate) fn to_report(&self, known: &[RunSnapshot]) -> RunReport {
        let (mut turns, mut tool_calls) = self.ended;
        for (run, (turns_before, calls_before)) in &self.open {
            let Some(shown) = known.iter().find(|shown| shown.run == *run) else { continue };
            turns += shown.turns.saturating_sub(*turns_before);
            tool_calls += shown.calls.saturating_sub(*calls_before);
        }
        let end = self.end.as_ref();
        RunReport {
            outcome: end.map(|end| end.outcome.word().to_owned()),
            reason: end.map(|end| end.reason.clone()),
            answered_by: end.and_then(NamedEnd::answered_by),
            cost: (!self.is_unpriced).then_some(self.cost),
            tool_calls,
            turns,
            runs: self.runs.clone(),
        }
    }
}

impl NamedEnd {
    fn answered_by(&self) -> Option<&'static str> {
        match self.outcome {
            Outcome::Failed | Outcome::Cancelled => None,
            _ if self.local => Some("local"),
            _ => Some("model"),
        }
    }
}

impl NamedUsage {
    /// Returns the milliseconds that count against its time limit at this moment.
    fn active_at(&self, now: u64) -> u64 {
        let gap = self.last.map_or(0, |last| now.saturating_sub(last));
        self.active.saturating_add(if gap <= IDLE_MS { gap } else { 0 })
    }

    fn continue_at(&mut self, at: u64) {
        self.active = self.active_at(at);
        self.last = Some(self.last.map_or(at, |last| last.max(at)));
    }
}

/// Returns the limits of a run with these settings that hold for all of its conversations together,
/// after they have used this. Their money is shared by the run's account.
pub(crate) fn shared_limits(
    name: &Arc<str>,
    settings: &GovernSettings,
    usage: NamedUsage,
    now: u64,
) -> Option<BudgetAround> {
    let policy = enforced_policy(settings)?;
    let used = usage.tokens;
    let left = |limit: Millis| Millis(limit.0.saturating_sub(usage.active_at(now)));
    Some(BudgetAround {
        run: Arc::clone(name),
        tokens: policy.tokens_limit.map(|limit| AccountAbove { used, limit }),
        time_left: policy.time_limit.map(left),
        ..BudgetAround::default()
    })
}

impl RunAround {
    /// Returns the limits that hold for the runs within it, after it has used this.
    pub(crate) fn to_budget(&self, usage: NamedUsage, now: u64) -> Option<BudgetAround> {
        let policy = enforced_policy(self.settings.as_deref()?)?;
        let tokens = policy.tokens_limit.map(|limit| {
            let held = usage.context.saturating_add(policy.reserve_tokens.min(limit / 8));
            AccountAbove { used: usage.tokens.saturating_add(held), limit }
        });
        let time_left = policy.time_limit.map(|limit| {
            let held = policy.reserve_time.0.min(limit.0 / 2);
            Millis(limit.0.saturating_sub(held).saturating_sub(usage.active_at(now)))
        });
        Some(BudgetAround {
            run: Arc::clone(&self.name),
            cost_limit: policy.cost_limit_usd,
            reserve_tokens: policy.reserve_tokens,
            tokens,
            time_left,
        })
    }
}
