//! Findings of the core's detectors about the context: compactions that follow each other, files read
//! again, floods of sub-agents, caches that the client broke.

use softland_session::core::{Evidence, LossCause, NanoUsd, Signal, SignalKind};

use super::cache::share;
use super::{Finding, FindingPlace, count, digits, keep_dearest, sum_parts};
use crate::report::{Report, RunReport};

/// Lists the signals, one finding for each kind. Results that are too large have findings of their
/// own, by tool.
pub(super) fn find_signals(report: &Report) -> Vec<Finding> {
    let kinds = [SignalKind::Compaction, SignalKind::Reread, SignalKind::Flood, SignalKind::Edited];
    kinds.into_iter().filter_map(|kind| find_kind(report, kind)).collect()
}

fn find_kind(report: &Report, kind: SignalKind) -> Option<Finding> {
    let of_run = |run: &RunReport| run.spending.signals.iter().any(|one| one.signal == kind);
    let runs: Vec<&RunReport> = report.runs.iter().filter(|run| of_run(run)).collect();
    if runs.is_empty() {
        return None;
    }
    let mut evidence: Vec<FindingPlace> = runs
        .iter()
        .flat_map(|run| run.spending.signals.iter().map(move |one| (*run, one)))
        .filter(|(_, one)| one.signal == kind)
        .map(|(run, one)| describe_place(run, one))
        .collect();
    let (number, tokens) = (evidence.len() as u64, evidence.iter().map(|place| place.tokens).sum());
    let usd: NanoUsd = evidence.iter().filter_map(|place| place.usd).sum();
    let parts = sum_parts(&evidence);
    keep_dearest(&mut evidence);
    let (what, advice) = describe_kind(kind, number, tokens, runs.len() as u64);
    Some(Finding {
        kind: kind.word(),
        usd: (usd > NanoUsd::ZERO).then_some(usd),
        tokens,
        runs: runs.len() as u64,
        what,
        advice: advice.to_owned(),
        evidence,
        parts,
        ..Finding::default()
    })
}

fn describe_kind(kind: SignalKind, number: u64, tokens: u64, runs: u64) -> (String, &'static str) {
    match kind {
        SignalKind::Compaction => (
            format!("{} compacted the context again and again", count(runs, "run")),
            "Split the task: one context cannot hold it. What a compaction leaves is too large, or \
             is read again at once.",
        ),
        SignalKind::Reread => (
            format!(
                "{} a file was read again that stood in the context unchanged ({} tokens)",
                count(number, "time"),
                digits(tokens)
            ),
            "Tell the agent in its instructions not to read what it has read and not changed.",
        ),
        SignalKind::Flood => (
            format!("{} started more than 20 sub-agents", count(runs, "run")),
            "A limit for the tool stops it: `softland` has --tool-limits Task=20.",
        ),
        _ => (
            format!("in {} the client broke its own cache three times or more", count(runs, "run")),
            "Look for a plug-in, a hook or a server that changes the system prompt, the tools or \
             earlier messages between turns.",
        ),
    }
}

fn describe_place(run: &RunReport, one: &Signal) -> FindingPlace {
    let Evidence { turns, call, text, tokens, .. } = &one.evidence;
    let usd = match one.signal {
        SignalKind::Reread => price_of_result(run, call.as_deref(), tokens.unwrap_or(0)),
        SignalKind::Edited => Some(run.spending.r#where.lost_to_cause(LossCause::Edited)),
        SignalKind::Compaction => Some(run.spending.r#where.lost_to_cause(LossCause::Compaction)),
        _ => None,
    };
    let what =
        [call.as_deref(), text.as_deref()].into_iter().flatten().collect::<Vec<_>>().join(", ");
    // The turns of a file are those that read it; the first of the context was no waste.
    let again = match one.signal {
        SignalKind::Reread => (turns.len() as u64).saturating_sub(1).max(1),
        _ => 1,
    };
    let times = |usd: NanoUsd| NanoUsd(usd.0.saturating_mul(again));
    FindingPlace {
        run: run.run.clone(),
        turn: turns.last().copied(),
        usd: usd.map(times).filter(|usd| *usd > NanoUsd::ZERO),
        tokens: tokens.unwrap_or(0).saturating_mul(again),
        what,
        ..FindingPlace::default()
    }
}

/// Returns what a result of this size of a call's tool cost on average in the run.
fn price_of_result(run: &RunReport, call: Option<&str>, tokens: u64) -> Option<NanoUsd> {
    let tool = call?.split(' ').next()?;
    let (_, line) = run.spending.tools.iter().find(|(name, _)| **name == *tool)?;
    (line.tokens > 0).then(|| share(line.carried_usd, tokens, line.tokens))
}
