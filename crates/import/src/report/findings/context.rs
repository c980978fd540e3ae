//! Findings about what is in the context: results, tools, the system prompt, sub-agents.

use std::collections::BTreeMap;

use softland_session::core::NanoUsd;

use super::cache::share;
use super::{
    Finding, FindingPlace, ToolName, count, digits, dollars, keep_dearest, parts_by, percent,
    sum_parts,
};
use crate::report::carried::{CarriedResult, OVERSIZED, sum_tools};
use crate::report::spending::format_time;
use crate::report::{Report, RunReport, sum_costs};

/// Tokens of the part of a large result that mostly is enough.
const ENOUGH: u64 = 2_000;
/// Tokens by which the context before the first message may well be shorter.
const LESS: u64 = 1_000;
/// The turns for which a large result has to stay, as the core's detector counts them.
const STAYED: u64 = 10;
/// The share of the bill in percent from which a part of it is named.
const NAMED: u64 = 5;

/// Results of more than 10,000 tokens that stayed for ten turns, by tool.
pub(super) fn find_results(report: &Report) -> Vec<Finding> {
    let mut tools: BTreeMap<&ToolName, Vec<(&RunReport, &CarriedResult)>> = BTreeMap::new();
    for run in &report.runs {
        let large = |one: &&CarriedResult| one.tokens > OVERSIZED && one.turns >= STAYED;
        for one in run.spending.results.iter().filter(large) {
            tools.entry(&one.tool).or_default().push((run, one));
        }
    }
    tools.into_iter().map(|(tool, results)| describe_results(tool, &results)).collect()
}

fn describe_results(tool: &ToolName, results: &[(&RunReport, &CarriedResult)]) -> Finding {
    let usd: NanoUsd = results.iter().map(|(_, one)| one.usd).sum();
    let tokens: u64 = results.iter().map(|(_, one)| one.tokens).sum();
    let turns: u64 = results.iter().map(|(_, one)| one.turns).sum();
    let saved: NanoUsd = results
        .iter()
        .map(|(_, one)| share(one.usd, one.tokens.saturating_sub(ENOUGH), one.tokens))
        .sum();
    let mut runs: Vec<&str> = results.iter().map(|(run, _)| run.run.as_str()).collect();
    runs.sort_unstable();
    runs.dedup();
    let mut evidence: Vec<FindingPlace> = results
        .iter()
        .map(|(run, one)| FindingPlace {
            run: run.run.clone(),
            turn: Some(one.turn),
            usd: Some(one.usd),
            tokens: one.tokens,
            what: format!("read again in {}", count(one.turns, "turn")),
            ..FindingPlace::default()
        })
        .collect();
    let parts = sum_parts(&evidence);
    keep_dearest(&mut evidence);
    let number = results.len() as u64;
    let were = if number == 1 { "was" } else { "were" };
    Finding {
        kind: "oversized",
        usd: Some(usd).filter(|usd| *usd > NanoUsd::ZERO),
        saves_at_most_usd: Some(saved).filter(|saved| *saved > NanoUsd::ZERO),
        tokens,
        runs: runs.len() as u64,
        what: format!(
            "{} of `{tool}` of more than 10,000 tokens {were} carried for {}{}",
            count(number, "result"),
            count(turns / number.max(1), "turn"),
            if number == 1 { "" } else { " on average" }
        ),
        advice: format!(
            "Ask `{tool}` for a part (a range, a filter, a limit): {} tokens each would have saved \
             at most {}.",
            digits(ENOUGH),
            dollars(saved)
        ),
        evidence,
        parts,
    }
}

/// The tools whose results cost most.
pub(super) fn find_tools(report: &Report) -> Vec<Finding> {
    let total = report.totals.cost_usd.unwrap_or_default();
    let dear = |line: NanoUsd| total.0 > 0 && line.0 >= total.0 / 100 * NAMED;
    let tools = sum_tools(&report.runs).into_iter().filter(|(_, line)| dear(line.carried_usd));
    tools
        .map(|(tool, line)| {
            let of_run = |run: &&RunReport| {
                run.spending.tools.iter().any(|(name, line)| *name == tool && line.calls > 0)
            };
            let each = line.tokens / line.results.max(1);
            Finding {
                kind: "tool",
                usd: Some(line.carried_usd),
                tokens: line.tokens,
                runs: report.runs.iter().filter(of_run).count() as u64,
                what: format!(
                    "{} of `{tool}` ({} tokens each on average), {} of the money: {} when they \
                     came, {} as every later turn read them again",
                    count(line.results, "result"),
                    digits(each),
                    percent(line.carried_usd, total),
                    dollars(line.first_usd),
                    dollars(line.carried_usd.saturating_sub(line.first_usd)),
                ),
                advice: "Shorter sessions, or a sub-agent that reads and answers in a few lines, \
                         keep them out of later turns."
                    .to_owned(),
                evidence: dearest_results(report, &tool),
                parts: parts_by(&report.runs, |run| {
                    let own = run.spending.tools.iter().filter(|(name, _)| *name == tool);
                    own.map(|(_, line)| line.carried_usd).sum()
                }),
                ..Finding::default()
            }
        })
        .collect()
}

fn dearest_results(report: &Report, tool: &ToolName) -> Vec<FindingPlace> {
    let mut places: Vec<FindingPlace> = report
        .runs
        .iter()
        .flat_map(|run| run.spending.results.iter().map(move |one| (run, one)))
        .filter(|(_, one)| one.tool == *tool)
        .map(|(run, one)| FindingPlace {
            run: run.run.clone(),
            turn: Some(one.turn),
            usd: Some(one.usd),
            tokens: one.tokens,
            what: format!("read again in {}", count(one.turns, "turn")),
            ..FindingPlace::default()
        })
        .collect();
    keep_dearest(&mut places);
    places
}

/// The system prompt and the tools' definitions.
pub(super) fn find_system(report: &Report) -> Option<Finding> {
    let total = report.totals.cost_usd.unwrap_or_default();
    let usd: NanoUsd = report.runs.iter().map(|run| run.spending.system_usd).sum();
    if total.0 == 0 || usd.0 < total.0 / 100 * NAMED {
        return None;
    }
    let with: Vec<&RunReport> =
        report.runs.iter().filter(|run| run.spending.system_tokens > 0).collect();
    let mut sizes: Vec<u64> = with.iter().map(|run| run.spending.system_tokens).collect();
    sizes.sort_unstable();
    let middle = sizes.get(sizes.len() / 2).copied().unwrap_or(0);
    // A context of fewer tokens cannot lose as many.
    let less = |run: &&RunReport| {
        let tokens = run.spending.system_tokens;
        share(run.spending.system_usd, tokens.min(LESS), tokens)
    };
    let saved: NanoUsd = with.iter().map(less).sum();
    Some(Finding {
        kind: "system",
        usd: Some(usd),
        saves_at_most_usd: Some(saved).filter(|saved| *saved > NanoUsd::ZERO),
        tokens: middle,
        runs: with.len() as u64,
        what: format!(
            "What stands before the first message (system prompt, tools, memory files; mostly {} \
             tokens) is {} of the money",
            digits(middle),
            percent(usd, total)
        ),
        advice: format!(
            "Turn off servers and tools that are not used, and shorten memory files: {} tokens \
             less would have saved at most {}.",
            digits(LESS),
            dollars(saved)
        ),
        parts: parts_by(&report.runs, |run| run.spending.system_usd),
        ..Finding::default()
    })
}

/// Sub-agents.
pub(super) fn find_agents(report: &Report) -> Option<Finding> {
    let runs: Vec<&RunReport> = report.runs.iter().filter(|run| run.agent.is_some()).collect();
    let total = report.totals.cost_usd.unwrap_or_default();
    let usd = sum_costs(runs.iter().map(|run| run.cost_usd)).filter(|usd| usd.0 > 0)?;
    if usd.0 < total.0 / 100 * NAMED {
        return None;
    }
    let mut evidence: Vec<FindingPlace> = runs
        .iter()
        .map(|run| FindingPlace {
            run: run.run.clone(),
            time: run.beside.started.map(format_time),
            usd: run.cost_usd,
            tokens: run.usage.recorded_tokens(),
            what: run.spending.title.clone().unwrap_or_default(),
            ..FindingPlace::default()
        })
        .collect();
    let parts = sum_parts(&evidence);
    keep_dearest(&mut evidence);
    Some(Finding {
        kind: "agents",
        usd: Some(usd),
        tokens: runs.iter().map(|run| run.usage.recorded_tokens()).sum(),
        runs: runs.len() as u64,
        what: format!(
            "{} of sub-agents, {} of the money",
            count(runs.len() as u64, "run"),
            percent(usd, total)
        ),
        advice: "A cheaper model for sub-agents that only read is the usual saving.".to_owned(),
        evidence,
        parts,
        ..Finding::default()
    })
}
