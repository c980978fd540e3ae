//! Where the money went: by class, by cause of loss, by day, project, model and agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use softland_session::core::{LossCause, NanoUsd, Signal, SpendClasses};

use super::carried::{CarriedResult, ToolLine};
use super::{RunReport, UsageSum, sum_costs};

/// The money of some turns by class, and what of it was lost to the cache, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpendBreakdown {
    /// The money by class.
    pub classes: SpendClasses,
    /// The losses, in the order of [`LossCause::ALL`].
    pub lost: [NanoUsd; LossCause::ALL.len()],
    /// The part of the money whose recording does not tell its classes: it is split by usual
    /// prices.
    pub guessed: NanoUsd,
}

impl SpendBreakdown {
    /// Adds other amounts.
    pub fn add(&mut self, other: &Self) {
        self.classes.add(&other.classes);
        for (own, more) in self.lost.iter_mut().zip(other.lost) {
            *own += more;
        }
        self.guessed += other.guessed;
    }

    /// Adds what was lost for one cause.
    pub fn add_lost(&mut self, cause: LossCause, lost: NanoUsd) {
        if let Some(own) = self.lost.get_mut(cause as usize) {
            *own += lost;
        }
    }

    /// Returns what was lost for one cause.
    #[must_use]
    pub fn lost_to_cause(&self, cause: LossCause) -> NanoUsd {
        self.lost.get(cause as usize).copied().unwrap_or_default()
    }
}

impl Serialize for SpendBreakdown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let classes = &self.classes;
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("output_usd", &classes.output)?;
        map.serialize_entry("input_usd", &classes.input)?;
        map.serialize_entry("cache_read_usd", &classes.cache_read)?;
        map.serialize_entry("cache_write_usd", &classes.cache_write)?;
        map.serialize_entry("cache_rewrite_usd", &classes.cache_rewrite)?;
        map.serialize_entry("lost_usd", &classes.lost)?;
        let lost: BTreeMap<&str, NanoUsd> =
            LossCause::ALL.map(|cause| (cause.word(), self.lost_to_cause(cause))).into();
        map.serialize_entry("lost", &lost)?;
        if self.guessed > NanoUsd::ZERO {
            map.serialize_entry("guessed_usd", &self.guessed)?;
        }
        map.end()
    }
}

/// The turns and the money of a part of a run, or of many runs.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpendLine {
    /// The number of runs. Of a part of a run, the run counts once in each group.
    pub runs: u64,
    /// The number of turns.
    pub turns: u64,
    /// The tokens.
    pub usage: UsageSum,
    /// The cost of turns with a known price; `None` if no price is known.
    pub cost_usd: Option<NanoUsd>,
    /// Turns without a known cost.
    pub unpriced_turns: u64,
    /// Where the money went.
    pub r#where: SpendBreakdown,
}

impl SpendLine {
    /// Adds one turn.
    pub(crate) fn add_turn(
        &mut self,
        usage: &UsageSum,
        cost: Option<NanoUsd>,
        spent: &SpendBreakdown,
    ) {
        self.turns += 1;
        self.usage.add(usage);
        self.unpriced_turns += u64::from(cost.is_none());
        self.cost_usd = sum_known(self.cost_usd, cost);
        self.r#where.add(spent);
    }

    /// Adds other turns.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.turns += other.turns;
        self.usage.add(&other.usage);
        self.unpriced_turns += other.unpriced_turns;
        self.cost_usd = sum_known(self.cost_usd, other.cost_usd);
        self.r#where.add(&other.r#where);
    }
}

fn sum_known(a: Option<NanoUsd>, b: Option<NanoUsd>) -> Option<NanoUsd> {
    sum_costs([a, b]).filter(|_| a.is_some() || b.is_some())
}

/// The details of a run that version 2 of the report adds.
#[derive(Clone, Debug, Default)]
pub struct RunSpending {
    /// Where the money went.
    pub r#where: SpendBreakdown,
    /// Parts of the run by day: days since 1970, `None` for turns without a time.
    pub days: Vec<(Option<u64>, SpendLine)>,
    /// Parts of the run by model.
    pub models: Vec<(Option<Arc<str>>, SpendLine)>,
    /// The folder that the run worked in, if it is recorded.
    pub project: Option<Arc<str>>,
    /// The beginning of the message that the run answers, if it is recorded.
    pub title: Option<String>,
    /// Time of the newest turn in milliseconds since 1970.
    pub ended: Option<u64>,
    /// How often the context was compacted.
    pub compactions: u64,
    /// The losses, in the order of [`LossCause::ALL`].
    pub losses: [LossSum; LossCause::ALL.len()],
    /// The dearest losses.
    pub dearest_losses: Vec<LossEvent>,
    /// Signals about the context, which count as no waste.
    pub signals: Vec<Signal>,
    /// The tools, and what their results cost in the turns of this run.
    pub tools: Vec<(Arc<str>, ToolLine)>,
    /// The dearest results that the run was the first to read.
    pub results: Vec<CarriedResult>,
    /// The cost of the context before the first message: the system prompt and the tools.
    pub system_usd: NanoUsd,
    /// The tokens of that context.
    pub system_tokens: u64,
    /// The cost of first writes to a cache of five minutes.
    pub written_5m_usd: NanoUsd,
}

/// The losses of a run by one cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossSum {
    /// The number of turns that lost something.
    pub turns: u64,
    /// The tokens.
    pub tokens: u64,
}

/// A turn in which tokens were lost to the cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LossEvent {
    /// The turn of its run.
    pub turn: u64,
    /// The cause.
    #[serde(serialize_with = "serialize_cause")]
    pub cause: LossCause,
    /// The tokens that were written or sent again.
    pub tokens: u64,
    /// The tokens that were still read from the cache.
    pub still_read: u64,
    /// The loss.
    pub usd: NanoUsd,
    /// Time in milliseconds since 1970.
    #[serde(serialize_with = "serialize_time")]
    pub time: Option<u64>,
    /// Milliseconds since the turn before.
    pub pause_ms: Option<u64>,
    /// True if the turn begins with a new message, of a person or a program; `None` for a row, which
    /// does not tell.
    pub new_message: Option<bool>,
    /// Time to live of the cache, in milliseconds, if it is known.
    pub kept_ms: Option<u64>,
}

fn serialize_cause<S: Serializer>(cause: &LossCause, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(cause.word())
}

fn serialize_time<S: Serializer>(time: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
    time.map(format_time).serialize(to)
}

/// The parts of a report by which money is grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// By day, in UTC.
    Day,
    /// By the folder that runs worked in.
    Project,
    /// By model.
    Model,
    /// By sub-agent.
    Agent,
}

/// Groups the money of runs. The key is `None` where the recordings do not tell.
#[must_use]
pub fn group_runs(runs: &[RunReport], by: Grouping) -> Vec<(Option<String>, SpendLine)> {
    let mut groups: BTreeMap<Option<&str>, SpendLine> = BTreeMap::new();
    let mut days: BTreeMap<Option<u64>, SpendLine> = BTreeMap::new();
    for run in runs {
        let spending = &run.spending;
        match by {
            Grouping::Day => {
                for (day, part) in &spending.days {
                    days.entry(*day).or_default().add(part);
                }
            }
            Grouping::Model => {
                for (model, part) in &spending.models {
                    groups.entry(model.as_deref()).or_default().add(part);
                }
            }
            Grouping::Project => {
                groups.entry(spending.project.as_deref()).or_default().add(&run.to_line());
            }
            Grouping::Agent => groups.entry(run.agent.as_deref()).or_default().add(&run.to_line()),
        }
    }
    if by == Grouping::Day {
        return days.into_iter().map(|(day, line)| (day.map(format_day), line)).collect();
    }
    let mut groups: Vec<_> =
        groups.into_iter().map(|(key, line)| (key.map(str::to_owned), line)).collect();
    groups
        .sort_by_key(|(_, line)| std::cmp::Reverse((line.cost_usd, line.usage.recorded_tokens())));
    groups
}

impl RunReport {
    /// Returns the run's turns and money.
    #[must_use]
    pub fn to_line(&self) -> SpendLine {
        SpendLine {
            runs: 1,
            turns: self.turns,
            usage: self.usage,
            cost_usd: self.cost_usd,
            unpriced_turns: self.beside.unpriced_turns,
            r#where: self.spending.r#where,
        }
    }
}

/// Formats a day, given in days since 1970, as `2026-03-05`.
#[must_use]
pub fn format_day(day: u64) -> String {
    let millis = i64::try_from(day).unwrap_or(0).saturating_mul(DAY as i64);
    let moment = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    moment.strftime("%Y-%m-%d").to_string()
}

/// Formats a time, given in milliseconds since 1970, as `2026-03-05T12:00:00Z`.
#[must_use]
pub fn format_time(time: u64) -> String {
    let moment =
        i64::try_from(time).ok().and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    moment.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Milliseconds of a day.
pub(crate) const DAY: u64 = 86_400_000;
