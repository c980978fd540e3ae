//! Version 2 of the report as JSON: version 1, and where the money went.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use softland_session::core::{NanoUsd, Signal};

use super::carried::{CarriedResult, ToolLine, sum_tools};
use super::findings::Finding;
use super::spending::{Grouping, LossEvent, SpendBreakdown, SpendLine, format_time, group_runs};
use super::{
    ListedSignal, Report, RunEnded, RunReport, SourceLine, SuggestedPolicy, SuggestionEffect,
    Totals, UnreadableLine, UsageSum, WhatIf,
};

/// Version 2 of a report, to be written as JSON.
#[derive(Serialize)]
pub struct FullReport<'a> {
    v: u32,
    sources: &'a [SourceLine],
    unreadable: &'a [UnreadableLine],
    totals: FullTotals<'a>,
    days: Vec<DayLine>,
    projects: Vec<ProjectLine>,
    models: Vec<ModelLine>,
    agents: Vec<AgentLine>,
    tools: Vec<NamedTool>,
    findings: Vec<Finding>,
    runs: Vec<FullRun<'a>>,
    suggested_policy: FullSuggestion<'a>,
}

#[derive(Serialize)]
struct FullSuggestion<'a> {
    #[serde(flatten)]
    limits: &'a SuggestedPolicy,
    effect: SuggestionEffect,
    why: &'a [String],
    kinds: BTreeMap<&'a str, Self>,
}

impl<'a> FullSuggestion<'a> {
    fn from_policy(limits: &'a SuggestedPolicy) -> Self {
        let kinds = limits.kinds.iter();
        Self {
            limits,
            effect: limits.effect,
            why: &limits.why,
            kinds: kinds.map(|(name, own)| (name.as_str(), Self::from_policy(own))).collect(),
        }
    }
}

#[derive(Serialize)]
struct FullTotals<'a> {
    #[serde(flatten)]
    totals: &'a Totals,
    r#where: SpendBreakdown,
    beside: BesideClasses,
}

#[derive(Serialize)]
struct DayLine {
    day: Option<String>,
    #[serde(flatten)]
    line: SpendLine,
}

#[derive(Serialize)]
struct ProjectLine {
    project: Option<String>,
    #[serde(flatten)]
    line: SpendLine,
}

#[derive(Serialize)]
struct ModelLine {
    model: Option<String>,
    #[serde(flatten)]
    line: SpendLine,
    /// The entry to add to a config, if the model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    price_entry: Option<String>,
}

#[derive(Serialize)]
struct AgentLine {
    agent: Option<String>,
    #[serde(flatten)]
    line: SpendLine,
}

#[derive(Serialize)]
struct NamedTool {
    tool: Arc<str>,
    #[serde(flatten)]
    line: ToolLine,
}

/// The money by what it paid for, beside the classes: each is a part of all of them.
#[derive(Serialize)]
struct BesideClasses {
    /// Results of tools.
    results_usd: NanoUsd,
    /// The context before the first message: the system prompt and the tools.
    system_usd: NanoUsd,
    /// Sub-agents.
    agents_usd: NanoUsd,
}

impl BesideClasses {
    fn from_runs<'r>(runs: impl Iterator<Item = &'r RunReport> + Clone) -> Self {
        let tools = runs.clone().flat_map(|run| &run.spending.tools);
        let agents = runs.clone().filter(|run| run.agent.is_some());
        Self {
            results_usd: tools.map(|(_, line)| line.carried_usd).sum(),
            system_usd: runs.map(|run| run.spending.system_usd).sum(),
            agents_usd: agents.filter_map(|run| run.cost_usd).sum(),
        }
    }
}

#[derive(Serialize)]
struct FullRun<'a> {
    run: &'a str,
    session: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inferred: bool,
    project: Option<&'a str>,
    title: Option<&'a str>,
    models: Vec<&'a str>,
    began: Option<String>,
    ended: Option<String>,
    /// The end as softland recorded it, which version 1 has as `ended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'a RunEnded>,
    turns: u64,
    tool_calls: u64,
    compactions: u64,
    usage: UsageSum,
    cost_usd: Option<NanoUsd>,
    unpriced_turns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulated_usd: Option<NanoUsd>,
    r#where: &'a SpendBreakdown,
    beside: BesideClasses,
    losses: &'a [LossEvent],
    results: &'a [CarriedResult],
    context_signals: &'a [Signal],
    wasted_usd: Option<NanoUsd>,
    wasted_tokens: Option<u64>,
    signals: &'a [ListedSignal],
    what_if: Option<&'a WhatIf>,
}

impl<'a> FullRun<'a> {
    fn from_run(run: &'a RunReport) -> Self {
        let spending = &run.spending;
        Self {
            run: &run.run,
            session: &run.session,
            agent: run.agent.as_deref(),
            source: &run.source,
            line: run.line,
            inferred: run.inferred,
            project: spending.project.as_deref(),
            title: spending.title.as_deref(),
            models: spending.models.iter().filter_map(|(model, _)| model.as_deref()).collect(),
            began: run.beside.started.map(format_time),
            ended: spending.ended.map(format_time),
            end: run.ended.as_ref(),
            turns: run.turns,
            tool_calls: run.tool_calls,
            compactions: spending.compactions,
            usage: run.usage,
            cost_usd: run.cost_usd,
            unpriced_turns: run.beside.unpriced_turns,
            simulated_usd: run.simulated_usd,
            r#where: &spending.r#where,
            beside: BesideClasses::from_runs(std::iter::once(run)),
            losses: &spending.dearest_losses,
            results: &spending.results,
            context_signals: &spending.signals,
            wasted_usd: run.wasted_usd,
            wasted_tokens: run.wasted_tokens,
            signals: &run.signals,
            what_if: run.what_if.as_ref(),
        }
    }
}

impl Report {
    /// Returns version 2 of the report, to be written as JSON. The report itself is version 1.
    #[must_use]
    pub fn to_full(&self) -> FullReport<'_> {
        let group = |by| group_runs(&self.runs, by).into_iter();
        FullReport {
            v: 2,
            sources: &self.sources,
            unreadable: &self.unreadable,
            totals: FullTotals {
                totals: &self.totals,
                r#where: self.spent(),
                beside: BesideClasses::from_runs(self.runs.iter()),
            },
            days: group(Grouping::Day).map(|(day, line)| DayLine { day, line }).collect(),
            projects: group(Grouping::Project)
                .map(|(project, line)| ProjectLine { project, line })
                .collect(),
            models: group(Grouping::Model).map(ModelLine::from_group).collect(),
            agents: group(Grouping::Agent).map(|(agent, line)| AgentLine { agent, line }).collect(),
            tools: sum_tools(&self.runs)
                .into_iter()
                .map(|(tool, line)| NamedTool { tool, line })
                .collect(),
            findings: self.find(),
            runs: self.runs.iter().map(FullRun::from_run).collect(),
            suggested_policy: FullSuggestion::from_policy(&self.suggested_policy),
        }
    }

    /// Returns where the money of all runs went.
    #[must_use]
    pub fn spent(&self) -> SpendBreakdown {
        let mut all = SpendBreakdown::default();
        self.runs.iter().for_each(|run| all.add(&run.spending.r#where));
        all
    }
}

impl ModelLine {
    fn from_group((model, line): (Option<String>, SpendLine)) -> Self {
        let unpriced = line.unpriced_turns > 0 && line.cost_usd.is_none();
        let price_entry = model.as_deref().filter(|_| unpriced).map(format_price_entry);
        Self { model, line, price_entry }
    }
}

/// Formats the entry of a config by which a model gets a price, in dollars for a million tokens. The
/// amounts are left to fill in: a config refuses the entry as it is, since a price of 0 would make a
/// limit of money void.
#[must_use]
pub fn format_price_entry(model: &str) -> String {
    let mut name = Vec::new();
    softland_session::wire::json::write_str(&mut name, model);
    let name = String::from_utf8(name).unwrap_or_default();
    format!(
        "[[price]]\nmodel = {name}\ninput = \"?\"  # US dollars for a million tokens\noutput = \"?\"\n"
    )
}
