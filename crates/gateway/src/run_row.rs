//! A run in the list of runs, as the pages and their API show it.

use std::sync::Arc;

use serde::Serialize;
use softland_govern::runs::{RunPhase, RunSnapshot};
use softland_session::core::{NanoUsd, RunEnding};

/// A run in the list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRow {
    v: u32,
    pub(crate) run: Arc<str>,
    session: Arc<str>,
    agent: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continues: Option<Arc<str>>,
    model: Arc<str>,
    policy: String,
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Arc<str>>,
    started: String,
    last: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(flatten)]
    end: Option<RunEnding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'static str>,
    /// `silent`, `countdown` or `landing`.
    phase: RunPhase,
    /// True if a request of the run is with the provider now.
    busy: bool,
    turns: u64,
    tool_calls: u64,
    tool_calls_limit: Option<u64>,
    usage: RowTokens,
    cost_usd: Option<NanoUsd>,
}

#[derive(Clone, Debug, Serialize)]
struct RowTokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl RunRow {
    /// Creates the row of a run.
    pub(crate) fn from_snapshot(shown: &RunSnapshot) -> Self {
        let (info, tokens) = (&*shown.info, shown.tokens);
        let end = shown.end.as_ref();
        let done = end.filter(|end| end.ending.outcome.is_done());
        Self {
            v: 1,
            run: shown.run.clone(),
            session: info.session.clone(),
            agent: info.agent.clone(),
            name: info.name.clone(),
            parent: info.parent.clone(),
            mode: info.observed.then_some("observe"),
            continues: info.continues.clone(),
            model: info.model.clone(),
            policy: info.policy.clone(),
            client: info.client.clone(),
            key: info.key.clone(),
            account: info.account.clone(),
            started: softland_ledger::format_timestamp(info.started),
            last: softland_ledger::format_timestamp(shown.last),
            ended: end.map(|end| softland_ledger::format_timestamp(end.at)),
            end: end.map(|end| end.ending.clone()),
            answered_by: done.map(|end| if end.local { "local" } else { "model" }),
            phase: shown.phase,
            busy: shown.is_busy,
            turns: shown.turns,
            tool_calls: shown.calls,
            tool_calls_limit: info.calls_limit,
            usage: RowTokens {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            },
            cost_usd: shown.cost,
        }
    }
}
