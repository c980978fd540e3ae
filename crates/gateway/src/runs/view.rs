//! The view of runs for the pages: open runs, recently ended ones, and their running requests,
//! which can be given up. No text is made here.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use serde::Serialize;
use softland_session::core::{Digest, NanoUsd, RunEnding};
use tokio::task::AbortHandle;

use super::{OpenRun, Runs};
use crate::active::ActiveRequest;

/// The number of ended runs that are remembered, for a gateway without a ledger, too.
const PAST: usize = 500;
/// The number of cancelled runs that are remembered, since their clients may come back.
const CANCELLED: usize = 4096;

/// The constant properties of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunInfo {
    pub(crate) started: u64,
    pub(crate) session: Arc<str>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) agent: Option<Arc<str>>,
    /// The parent run, if the run is a sub-agent's.
    pub(crate) parent: Option<Arc<str>>,
    pub(crate) continues: Option<Arc<str>>,
    pub(crate) model: Arc<str>,
    pub(crate) policy: String,
    pub(crate) client: Option<String>,
    pub(crate) observed: bool,
    pub(crate) calls_limit: Option<u64>,
}

/// A running request, and the handle to give it up.
#[derive(Clone, Debug)]
pub(crate) struct RequestHandle {
    pub(crate) asked: Weak<ActiveRequest>,
    /// The task that relays its stream, if it streams.
    pub(crate) stream: Option<AbortHandle>,
}

/// The view of an open run.
#[derive(Clone, Debug, Default)]
pub(super) struct RunView {
    pub(super) version: u64,
    face: Option<Arc<RunInfo>>,
    phase: &'static str,
    /// The context of the run's newest request.
    here: Option<Digest>,
    work: Vec<RequestHandle>,
}

impl RunView {
    pub(super) fn new(version: u64) -> Self {
        Self { version, ..Self::default() }
    }
}

/// The ended runs that are remembered.
#[derive(Debug, Default)]
pub(super) struct PastRuns {
    rows: VecDeque<(u64, RunRow)>,
    /// The cancelled runs, with the context in which each was.
    cancelled: VecDeque<(String, Option<Digest>)>,
}

/// A run in the list.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RunRow {
    v: u32,
    pub(crate) run: String,
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
    started: String,
    last: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    #[serde(flatten)]
    end: Option<RunEnding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answered_by: Option<&'static str>,
    /// `silent`, `countdown` or `landing`.
    phase: &'static str,
    /// True if a request of the run is with the provider now.
    busy: bool,
    turns: u64,
    tool_calls: u64,
    tool_calls_limit: Option<u64>,
    usage: RowTokens,
    cost_usd: Option<NanoUsd>,
    #[serde(skip)]
    pub(crate) observed_at: u64,
}

#[derive(Clone, Debug, Serialize)]
struct RowTokens {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

impl RunRow {
    fn from_open(run: &str, open: &OpenRun) -> Self {
        let face = open.shown.face.as_deref().cloned().unwrap_or_default();
        let tokens = open.tokens;
        Self {
            v: 1,
            run: run.to_owned(),
            session: face.session,
            agent: face.agent,
            name: face.name,
            parent: face.parent,
            mode: face.observed.then_some("observe"),
            continues: face.continues,
            model: face.model,
            policy: face.policy,
            client: face.client,
            started: softland_ledger::format_timestamp(face.started),
            last: softland_ledger::format_timestamp(open.last),
            ended: None,
            end: None,
            answered_by: None,
            phase: open.shown.phase,
            busy: open.under_way > 0,
            turns: open.turns.max(open.begun),
            tool_calls: open.calls,
            tool_calls_limit: face.calls_limit,
            usage: RowTokens {
                input: tokens.input,
                output: tokens.output,
                cache_read: tokens.cache_read,
                cache_write: tokens.cache_write_5m.saturating_add(tokens.cache_write_1h),
            },
            cost_usd: open.cost,
            observed_at: face.started,
        }
    }

    /// Returns true if the run has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns how the run ended.
    pub(crate) fn end(&self) -> Option<&RunEnding> {
        self.end.as_ref()
    }
}

impl Runs {
    /// Sets the constant properties of a run.
    pub(crate) fn set_info(&self, run: &str, face: RunInfo) {
        if let Some(open) = self.lock().get_mut(run) {
            open.shown.face = Some(Arc::new(face));
        }
    }

    /// Notes a request of the run that is about to be sent.
    pub(crate) fn add_request(
        &self,
        run: &str,
        (calls, phase): (u64, &'static str),
        here: Digest,
        asked: &Arc<ActiveRequest>,
    ) {
        if let Some(open) = self.lock().get_mut(run) {
            open.shown.here = Some(here);
            open.calls = open.calls.max(calls);
            open.shown.phase = phase;
            open.shown.work.retain(|work| work.asked.strong_count() > 0);
            open.shown.work.push(RequestHandle { asked: Arc::downgrade(asked), stream: None });
        }
    }

    /// Notes the task that relays the stream of this request.
    pub(crate) fn set_stream_task(&self, run: &str, asked: &Arc<ActiveRequest>, task: AbortHandle) {
        if let Some(open) = self.lock().get_mut(run)
            && let Some(work) =
                open.shown.work.iter_mut().find(|work| work.asked.as_ptr() == Arc::as_ptr(asked))
        {
            work.stream = Some(task);
        }
    }

    /// Returns the running requests of a run; `None` if the run is not open.
    pub(crate) fn running_requests(&self, run: &str) -> Option<Vec<RequestHandle>> {
        let work = self.lock().get(run)?.shown.work.clone();
        Some(work.into_iter().filter(|work| work.asked.strong_count() > 0).collect())
    }

    /// Returns the run and its open sub-agents, the run first.
    pub(crate) fn find_family(&self, run: &str) -> Vec<String> {
        let open = self.lock();
        let mut family = vec![run.to_owned()];
        let mut at = 0;
        while let Some(parent) = family.get(at).cloned() {
            let is_child = |shown: &RunView| {
                shown
                    .face
                    .as_ref()
                    .is_some_and(|face| face.parent.as_deref() == Some(parent.as_str()))
            };
            let children = open.iter().filter(|(_, run)| is_child(&run.shown));
            let children: Vec<String> = children.map(|(name, _)| name.clone()).collect();
            family.extend(
                children.into_iter().filter(|child| !family.contains(child)).collect::<Vec<_>>(),
            );
            at += 1;
        }
        family
    }

    /// Remembers a run that has ended.
    pub(crate) fn record_ended(
        &self,
        run: &str,
        open: &OpenRun,
        ended: &RunEnding,
        local: bool,
        now: u64,
    ) {
        let mut row = RunRow::from_open(run, open);
        row.ended = Some(softland_ledger::format_timestamp(now));
        row.busy = false;
        let answered_by = if local { "local" } else { "model" };
        row.answered_by = ended.outcome.is_done().then_some(answered_by);
        row.end = Some(ended.clone());
        let mut past = self.lock_past();
        if past.rows.len() >= PAST {
            past.rows.pop_front();
        }
        past.rows.push_back((self.next_version(), row));
    }

    /// Marks a run as cancelled, so that it cannot continue.
    pub(crate) fn mark_cancelled(&self, run: &str) {
        let here = self.lock().get(run).and_then(|open| open.shown.here);
        let mut past = self.lock_past();
        if past.cancelled.len() >= CANCELLED {
            past.cancelled.pop_front();
        }
        past.cancelled.push_back((run.to_owned(), here));
    }

    /// Returns the context in which the run was cancelled, if it was cancelled.
    pub(crate) fn find_cancelled(&self, run: &str) -> Option<Option<Digest>> {
        let past = self.lock_past();
        let found = past.cancelled.iter().find(|(cancelled, _)| cancelled == run);
        found.map(|(_, here)| *here)
    }

    /// Returns the newest turn of an open run.
    pub(crate) fn newest_turn(&self, run: &str) -> Option<u64> {
        self.lock().get(run).map(|open| open.begun)
    }

    /// Returns the version of the newest change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the runs that have changed after `version`, open and recently ended.
    pub(crate) fn changed_rows(&self, version: u64) -> Vec<RunRow> {
        let is_new = |run: &&OpenRun| run.shown.version > version && run.shown.face.is_some();
        let mut rows: Vec<RunRow> = {
            let past = self.lock_past();
            past.rows.iter().filter(|(at, _)| *at > version).map(|(_, row)| row.clone()).collect()
        };
        let open = self.lock();
        rows.extend(
            open.iter().filter(|(_, run)| is_new(run)).map(|(id, run)| RunRow::from_open(id, run)),
        );
        drop(open);
        rows.sort_by_key(|row| row.observed_at);
        rows
    }

    /// Returns one run, open or recently ended.
    pub(crate) fn find_row(&self, run: &str) -> Option<RunRow> {
        let open = self.lock().get(run).map(|open| RunRow::from_open(run, open));
        let past = || {
            let past = self.lock_past();
            past.rows.iter().rev().find(|(_, row)| row.run == run).map(|(_, row)| row.clone())
        };
        open.or_else(past)
    }

    fn lock_past(&self) -> std::sync::MutexGuard<'_, PastRuns> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
