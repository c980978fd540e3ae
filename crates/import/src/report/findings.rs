//! The findings of a report, that is, all that stands out in its runs: each with its price, its evidence and an advice,
//! the dearest first. Findings overlap: a result is carried by a turn that was paid for once.

mod cache;
mod context;
mod signals;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use softland_session::core::{NanoUsd, SignalKind};

use super::full::format_price_entry;
use super::spending::{Grouping, format_time, group_runs};
use super::{Report, RunEnded, RunReport, sum_costs};

/// Pieces of evidence that a finding names.
const NAMED: usize = 5;

/// One finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind: a signal, `lost_` and a cause, or another word of `docs/audit.md`.
    pub kind: &'static str,
    /// The cost; `None` if no cost of it is known.
    pub usd: Option<NanoUsd>,
    /// The most that following the advice would have saved, if the recording can tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saves_at_most_usd: Option<NanoUsd>,
    /// The tokens.
    pub tokens: u64,
    /// The number of runs.
    pub runs: u64,
    /// The finding, as one sentence.
    pub what: String,
    /// Advice; empty where there is nothing to do.
    pub advice: String,
    /// The dearest places.
    pub evidence: Vec<FindingPlace>,
    /// The cost by run, as far as it is known.
    #[serde(skip)]
    pub parts: Vec<(String, NanoUsd)>,
}

/// A place in a recording by which a person can check a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FindingPlace {
    /// The run.
    pub run: String,
    /// The turn of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The time of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// The cost.
    pub usd: Option<NanoUsd>,
    /// The tokens.
    pub tokens: u64,
    /// A few words about the place.
    pub what: String,
}

impl Report {
    /// Lists what stands out, the dearest first.
    #[must_use]
    pub fn find(&self) -> Vec<Finding> {
        let mut found = cache::find_losses(self);
        found.extend(context::find_results(self));
        found.extend(context::find_tools(self));
        found.extend(context::find_system(self));
        found.extend(context::find_agents(self));
        found.extend(find_abandoned(self));
        found.retain(|one| one.kind == "oversized" || one.usd.is_some_and(|usd| usd.0 >= CENT));
        found.extend(SignalKind::ALL.iter().filter_map(|kind| find_signal(self, *kind)));
        found.extend(signals::find_signals(self));
        found.extend(find_unpriced(self));
        found.sort_by_key(|one| std::cmp::Reverse((one.usd, one.tokens)));
        found
    }
}

/// The least cost of a finding.
const CENT: u64 = 10_000_000;

/// The waste that one signal counts.
fn find_signal(report: &Report, kind: SignalKind) -> Option<Finding> {
    let of_kind = |run: &&RunReport| run.signals.iter().any(|listed| listed.signal == kind);
    let runs: Vec<&RunReport> = report.runs.iter().filter(of_kind).collect();
    let listed = || {
        runs.iter().flat_map(|run| {
            run.signals.iter().filter(|one| one.signal == kind).map(move |one| (*run, one))
        })
    };
    let turns: u64 = listed().map(|(_, one)| one.turns).sum();
    let usd = sum_costs(listed().map(|(_, one)| one.wasted_usd));
    let tokens = listed().filter_map(|(_, one)| one.wasted_tokens).sum();
    if runs.is_empty() || (tokens == 0 && usd.is_none_or(|usd| usd == NanoUsd::ZERO)) {
        return None;
    }
    let mut evidence: Vec<FindingPlace> = listed()
        .map(|(run, one)| FindingPlace {
            run: run.run.clone(),
            turn: Some(one.from_turn),
            usd: one.wasted_usd,
            tokens: one.wasted_tokens.unwrap_or(0),
            what: format!(
                "{}{}",
                count(one.turns, "turn"),
                one.evidence.call.as_ref().map(|call| format!(": {call}")).unwrap_or_default()
            ),
            ..FindingPlace::default()
        })
        .collect();
    let parts = sum_parts(&evidence);
    keep_dearest(&mut evidence);
    Some(Finding {
        kind: kind.word(),
        usd,
        saves_at_most_usd: usd,
        tokens,
        runs: runs.len() as u64,
        what: format!("{} came to nothing new ({})", count(turns, "turn"), kind.word()),
        advice: "Run the agent under softland: it tells the model once, and then lands the run."
            .to_owned(),
        evidence,
        parts,
    })
}

/// Runs whose recording shows no final answer.
fn find_abandoned(report: &Report) -> Option<Finding> {
    let open = |run: &&RunReport| {
        let ended = run.ended.as_ref().is_some_and(RunEnded::has_answer);
        !(run.beside.answered || ended || run.beside.rows) && run.agent.is_none()
    };
    let runs: Vec<&RunReport> = report.runs.iter().filter(open).collect();
    let usd = sum_costs(runs.iter().map(|run| run.cost_usd));
    let total = report.totals.cost_usd.unwrap_or_default();
    if usd.is_none_or(|usd| usd.0 < total.0 / 20) || runs.is_empty() {
        return None;
    }
    let mut evidence: Vec<FindingPlace> = runs
        .iter()
        .map(|run| FindingPlace {
            run: run.run.clone(),
            time: run.beside.started.map(format_time),
            usd: run.cost_usd,
            tokens: run.usage.recorded_tokens(),
            what: title_of(run),
            ..FindingPlace::default()
        })
        .collect();
    let parts = sum_parts(&evidence);
    keep_dearest(&mut evidence);
    Some(Finding {
        kind: "abandoned",
        usd,
        tokens: runs.iter().map(|run| run.usage.recorded_tokens()).sum(),
        runs: runs.len() as u64,
        what: format!(
            "{} without an answer in the recording",
            count_that(runs.len() as u64, "run", ["ends", "end"])
        ),
        advice: "Look at the dearest: interrupted in time, or paid for nothing? A limit of turns \
                 or money lands a run with an answer."
            .to_owned(),
        evidence,
        parts,
        ..Finding::default()
    })
}

/// Models without a price.
fn find_unpriced(report: &Report) -> Option<Finding> {
    let groups = group_runs(&report.runs, Grouping::Model);
    let unpriced: Vec<_> = groups
        .iter()
        .filter(|(_, line)| line.unpriced_turns > 0 && line.usage.recorded_tokens() > 0)
        .filter_map(|(model, line)| Some((model.as_deref()?, line)))
        .collect();
    if unpriced.is_empty() {
        return None;
    }
    let names: Vec<&str> = unpriced.iter().map(|(model, _)| *model).take(NAMED).collect();
    let turns: u64 = unpriced.iter().map(|(_, line)| line.unpriced_turns).sum();
    let entries: Vec<String> =
        unpriced.iter().take(NAMED).map(|(model, _)| format_price_entry(model)).collect();
    Some(Finding {
        kind: "unpriced",
        tokens: unpriced.iter().map(|(_, line)| line.usage.recorded_tokens()).sum(),
        runs: unpriced.iter().map(|(_, line)| line.runs).sum(),
        what: format!(
            "{} of models without a known price: {}",
            count(turns, "turn"),
            names.join(", ")
        ),
        advice: format!(
            "Give them one in a file for --policy, with your prices for each `?`:\n{}",
            entries.join("\n")
        ),
        ..Finding::default()
    })
}

/// Sums the known costs of places up, by run.
fn sum_parts(places: &[FindingPlace]) -> Vec<(String, NanoUsd)> {
    let mut parts: BTreeMap<&str, NanoUsd> = BTreeMap::new();
    for place in places {
        *parts.entry(&place.run).or_default() += place.usd.unwrap_or_default();
    }
    parts.into_iter().map(|(run, usd)| (run.to_owned(), usd)).collect()
}

/// Returns the parts of runs that cost something.
fn parts_by<'r>(
    runs: impl IntoIterator<Item = &'r RunReport>,
    usd: impl Fn(&RunReport) -> NanoUsd,
) -> Vec<(String, NanoUsd)> {
    let parts = runs.into_iter().map(|run| (run.run.clone(), usd(run)));
    parts.filter(|(_, usd)| *usd > NanoUsd::ZERO).collect()
}

/// Keeps the dearest places.
fn keep_dearest(places: &mut Vec<FindingPlace>) {
    places.sort_by_key(|place| std::cmp::Reverse((place.usd, place.tokens)));
    places.truncate(NAMED);
}

fn title_of(run: &RunReport) -> String {
    run.spending.title.clone().unwrap_or_default()
}

/// Returns `part` in percent of `whole`, with one decimal.
fn percent(part: NanoUsd, whole: NanoUsd) -> String {
    if whole.0 == 0 {
        return "0%".to_owned();
    }
    format!("{:.1}%", part.to_dollars() * 100.0 / whole.to_dollars())
}

/// Formats an amount to the cent, or to the hundredth of a cent below one dollar.
fn dollars(amount: NanoUsd) -> String {
    match amount.to_dollars() {
        _ if amount == NanoUsd::ZERO => "$0".to_owned(),
        usd if usd < 0.0001 => "<$0.0001".to_owned(),
        usd if usd < 1.0 => format!("${usd:.4}"),
        usd => format!("${usd:.2}"),
    }
}

/// Groups the digits of a number.
fn digits(number: u64) -> String {
    let plain = number.to_string();
    let mut text = String::new();
    for (at, digit) in plain.chars().enumerate() {
        if at > 0 && (plain.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of things. The word is regular.
fn count(number: u64, what: &str) -> String {
    format!("{} {what}{}", digits(number), if number == 1 { "" } else { "s" })
}

/// Formats a number of things and the verb that follows it, for one and for several.
fn count_that(number: u64, what: &str, [one, many]: [&str; 2]) -> String {
    format!("{} {}", count(number, what), if number == 1 { one } else { many })
}

/// Formats a time span, such as `47 minutes`.
fn span(millis: u64) -> String {
    let minutes = millis / 60_000;
    match minutes {
        0..=1 => count(millis / 1000, "second"),
        2..=119 => count(minutes, "minute"),
        120..=2879 => count(minutes / 60, "hour"),
        _ => count(minutes / 1440, "day"),
    }
}

/// A tool's name, as recordings write it.
type ToolName = Arc<str>;
