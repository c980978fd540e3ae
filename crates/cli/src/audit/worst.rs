//! The selection of the worst runs, and the phrases that the table and the page use for them.

use std::collections::BTreeMap;

use softland_agent::core::NanoUsd;
use softland_import::report::findings::Finding;
use softland_import::report::{ListedSignal, Report, RunReport, WhatIf};

use crate::render::{format_count, group_digits};

/// Returns the runs that have signals, or that were ended or would have been ended by the policy,
/// the worst first.
pub(super) fn worst_runs(report: &Report) -> Vec<&RunReport> {
    let would_end =
        |run: &RunReport| run.what_if.as_ref().is_some_and(|w| w.ended_at_turn.is_some());
    let bad = |run: &&RunReport| !run.signals.is_empty() || would_end(run) || was_ended(run);
    let mut runs: Vec<&RunReport> = report.runs.iter().filter(bad).collect();
    let known = |money: Option<NanoUsd>| money.unwrap_or_default();
    let saved = |run: &RunReport| {
        run.what_if
            .as_ref()
            .map_or((NanoUsd::ZERO, 0), |w| (known(w.saved_usd), w.saved_tokens.unwrap_or(0)))
    };
    runs.sort_by_key(|run| {
        let waste =
            (known(run.wasted_usd), run.wasted_tokens.unwrap_or(0), run.beside.wasted_turns);
        std::cmp::Reverse((waste, saved(run), known(run.cost_usd), run.turns))
    });
    runs
}

/// Formats an amount, or `?` if it is unknown.
pub(super) fn format_money(amount: Option<NanoUsd>) -> String {
    match amount {
        None => "?".to_owned(),
        Some(NanoUsd::ZERO) => "$0".to_owned(),
        Some(amount) => crate::runs::format_dollars(amount),
    }
}

/// Formats an amount, with a `+` if a part of it is unknown.
pub(super) fn format_partial_money(amount: Option<NanoUsd>, unpriced: u64) -> String {
    let plus = if unpriced > 0 && amount.is_some() { "+" } else { "" };
    format_money(amount) + plus
}

/// Formats a number of tokens, or `?` if none is recorded.
pub(super) fn format_tokens(tokens: Option<u64>) -> String {
    tokens.map_or_else(|| "? tokens".to_owned(), |tokens| format_count(tokens, "token"))
}

/// Returns true if the recording says that softland landed or stopped the run.
pub(super) fn was_ended(run: &RunReport) -> bool {
    let by_softland = |outcome: &str| matches!(outcome, "landed" | "stopped");
    run.ended.as_ref().is_some_and(|ended| by_softland(&ended.outcome))
}

/// Describes the recorded runs that softland ended, by outcome and reason.
pub(super) fn describe_ended_runs(report: &Report) -> Option<String> {
    let mut kinds: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for ended in report.runs.iter().filter(|run| was_ended(run)).filter_map(|r| r.ended.as_ref()) {
        *kinds.entry((&ended.outcome, &ended.reason)).or_insert(0) += 1;
    }
    let each = kinds.into_iter().map(|((outcome, reason), runs)| {
        format!("{} {outcome}{}", group_digits(runs), bracket_reason(reason))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    (!each.is_empty()).then(|| format!("softland ended at the time: {each}"))
}

/// Describes the recorded end of a run that softland ended.
pub(super) fn describe_end(run: &RunReport) -> Option<String> {
    let ended = run.ended.as_ref().filter(|_| was_ended(run))?;
    Some(format!("was {} at the time{}", ended.outcome, bracket_reason(&ended.reason)))
}

/// Puts a reason into brackets, if there is one.
fn bracket_reason(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

/// Describes what was lost to the cache, if anything was.
pub(super) fn describe_lost(report: &Report) -> Option<String> {
    let lost = format_money(Some(report.spent().classes.lost));
    describe_lost_share(report).map(|share| format!("lost to the cache {lost} ({share})"))
}

/// Returns the share of the money that was lost to the cache, if anything was.
pub(super) fn describe_lost_share(report: &Report) -> Option<String> {
    let classes = report.spent().classes;
    let (lost, all) = (classes.lost.to_dollars(), classes.total().to_dollars());
    (lost > 0.0).then(|| format!("{:.1}%", lost * 100.0 / all.max(f64::MIN_POSITIVE)))
}

/// Describes the changes that would have saved most, in one sentence.
pub(super) fn describe_savings(found: &[Finding]) -> Option<String> {
    const NAMED: usize = 3;
    let mut saved: BTreeMap<&str, NanoUsd> = BTreeMap::new();
    for one in found {
        if let (Some(change), Some(usd)) = (name_change(one.kind), one.saves_at_most_usd) {
            *saved.entry(change).or_default() += usd;
        }
    }
    let mut saved: Vec<_> = saved.into_iter().filter(|(_, usd)| *usd > NanoUsd::ZERO).collect();
    saved.sort_by_key(|(_, usd)| std::cmp::Reverse(*usd));
    let each = saved.iter().take(NAMED);
    let each: Vec<String> = each
        .map(|(change, usd)| format!("{change} (at most {})", format_money(Some(*usd))))
        .collect();
    (!each.is_empty()).then(|| format!("What would have saved most: {}", each.join(" · ")))
}

/// Names the change that a finding advises.
fn name_change(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "lost_edited" => "a new session for each new task",
        "lost_idle" => "a compaction before long pauses",
        "lost_model" => "one model in a conversation",
        "system" => "1,000 tokens less before the first message",
        "oversized" => "parts of large results instead of all",
        "repeat" | "cycle" | "errors" | "empty" | "trivial" | "stale" | "truncated" => {
            "an end to loops and silence"
        }
        _ => return None,
    })
}

/// Describes the simulated part of an amount.
pub(super) fn describe_simulated(amount: Option<NanoUsd>) -> Option<String> {
    amount.map(|amount| format!("{} of it simulated", format_money(Some(amount))))
}

/// Describes a signal, such as `stale, 22 turns (1–22)`.
pub(super) fn describe_signal(listed: &ListedSignal) -> String {
    let place = if listed.from_turn == listed.to_turn {
        format!("{}", listed.from_turn)
    } else {
        format!("{}–{}", listed.from_turn, listed.to_turn)
    };
    let recorded = if listed.recorded { ", recorded at the time" } else { "" };
    format!("{} {} ({place}){recorded}", listed.signal.word(), format_count(listed.turns, "turn"))
}

/// Lists what the policy would have done to a run.
pub(super) fn describe_what_if(what_if: &WhatIf) -> Vec<String> {
    let mut items = Vec::new();
    if let Some(turn) = what_if.warned_at_turn {
        items.push(format!("would be warned at turn {turn}"));
    }
    match what_if.ended_at_turn {
        Some(turn) => {
            items.push(format!("would end at turn {turn} ({})", what_if.reason));
            if what_if.saved_turns > 0 {
                items.push(format!("saves at most {}", format_money(what_if.saved_usd)));
                items.push(format_count(what_if.saved_turns, "turn"));
                items.push(format_tokens(what_if.saved_tokens));
            }
        }
        None => items.push(format!("and come to its own end ({})", what_if.reason)),
    }
    items
}

/// Returns the file, and the line if known, where a run is recorded.
pub(super) fn source_position(run: &RunReport) -> String {
    match run.line {
        Some(line) => format!("{}:{line}", run.source),
        None => run.source.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d17_the_largest_saving_is_named_first() {
        let finding = |kind, nano| Finding {
            kind,
            saves_at_most_usd: Some(NanoUsd(nano)),
            ..Finding::default()
        };
        let found = [
            finding("repeat", 3_400_000),
            finding("errors", 600_000),
            finding("system", 27_300_000),
        ];
        assert_eq!(
            describe_savings(&found).as_deref(),
            Some(
                "What would have saved most: 1,000 tokens less before the first message (at most \
                 $0.0273) · an end to loops and silence (at most $0.0040)"
            )
        );
    }
}
