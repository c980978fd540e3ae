//! The view of runs for the pages: open runs, recently ended ones, and their running requests,
//! which can be given up. No text is made here.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use softland_session::core::{Digest, NanoUsd, RunEnding};
use softland_session::wire::Tokens;
use tokio::task::AbortHandle;

use super::{OpenRun, Runs};
use crate::active::ActiveRequest;

/// The number of ended runs that are remembered, for a gateway without a ledger, too.
const PAST: usize = 500;

/// The constant properties of a run.
#[derive(Clone, Debug, Default)]
pub struct RunInfo {
    /// The time of its first request, in milliseconds since 1970.
    pub started: u64,
    /// The session, which shares money.
    pub session: Arc<str>,
    /// The client's name for the run.
    pub name: Option<Arc<str>>,
    /// The agent within the session.
    pub agent: Option<Arc<str>>,
    /// The parent run, if the run is a sub-agent's.
    pub parent: Option<Arc<str>>,
    /// The ended run that it continues.
    pub continues: Option<Arc<str>>,
    /// Its model.
    pub model: Arc<str>,
    /// The policy's name.
    pub policy: String,
    /// The client, as its `user-agent` names it.
    pub client: Option<String>,
    /// True if the run is only observed.
    pub observed: bool,
    /// The limit on tool calls.
    pub calls_limit: Option<u64>,
}

/// A running request, and the handle to give it up.
#[derive(Clone, Debug)]
pub struct RequestHandle {
    /// The request, while it runs.
    pub asked: Weak<ActiveRequest>,
    /// The task that relays its stream, if it streams.
    pub stream: Option<AbortHandle>,
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
    rows: VecDeque<(u64, RunSnapshot)>,
}

/// A run as it is now, or as it ended.
#[derive(Clone, Debug)]
pub struct RunSnapshot {
    /// The run.
    pub run: String,
    /// Its constant properties.
    pub info: Arc<RunInfo>,
    /// The end of its newest request, in milliseconds since 1970.
    pub last: u64,
    /// `silent`, `countdown` or `landing`.
    pub phase: &'static str,
    /// True if a request of the run is with the provider now.
    pub is_busy: bool,
    /// Its turns, with the one that has begun.
    pub turns: u64,
    /// Its tool calls.
    pub calls: u64,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its cost; `None` if it is not known.
    pub cost: Option<NanoUsd>,
    /// Its end, if it has ended.
    pub end: Option<SnapshotEnd>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct SnapshotEnd {
    /// The time of the end, in milliseconds since 1970.
    pub at: u64,
    /// The outcome and its reason.
    pub ending: RunEnding,
    /// True if the answer is softland's own.
    pub local: bool,
}

impl RunSnapshot {
    fn from_open(run: &str, open: &OpenRun) -> Self {
        Self {
            run: run.to_owned(),
            info: open.shown.face.clone().unwrap_or_default(),
            last: open.last,
            phase: open.shown.phase,
            is_busy: open.under_way > 0,
            turns: open.turns.max(open.begun),
            calls: open.calls,
            tokens: open.tokens,
            cost: open.cost,
            end: None,
        }
    }
}

impl Runs {
    /// Sets the constant properties of a run.
    pub fn set_info(&self, run: &str, face: RunInfo) {
        if let Some(open) = self.lock().get_mut(run) {
            open.shown.face = Some(Arc::new(face));
        }
    }

    /// Notes a request of the run that is about to be sent.
    pub fn add_request(
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
    pub fn set_stream_task(&self, run: &str, asked: &Arc<ActiveRequest>, task: AbortHandle) {
        if let Some(open) = self.lock().get_mut(run)
            && let Some(work) =
                open.shown.work.iter_mut().find(|work| work.asked.as_ptr() == Arc::as_ptr(asked))
        {
            work.stream = Some(task);
        }
    }

    /// Returns the running requests of a run; `None` if the run is not open.
    pub fn running_requests(&self, run: &str) -> Option<Vec<RequestHandle>> {
        let work = self.lock().get(run)?.shown.work.clone();
        Some(work.into_iter().filter(|work| work.asked.strong_count() > 0).collect())
    }

    /// Returns the run and its open sub-agents, the run first.
    pub fn find_family(&self, run: &str) -> Vec<String> {
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
    pub fn record_ended(
        &self,
        run: &str,
        open: &OpenRun,
        ended: &RunEnding,
        local: bool,
        now: u64,
    ) {
        let mut row = RunSnapshot::from_open(run, open);
        row.is_busy = false;
        row.end = Some(SnapshotEnd { at: now, ending: ended.clone(), local });
        let mut past = self.lock_past();
        if past.rows.len() >= PAST {
            past.rows.pop_front();
        }
        past.rows.push_back((self.next_version(), row));
    }

    /// Returns the context of the newest request of an open run.
    pub(crate) fn newest_context(&self, run: &str) -> Option<Digest> {
        self.lock().get(run).and_then(|open| open.shown.here)
    }

    /// Returns the newest turn of an open run.
    pub fn newest_turn(&self, run: &str) -> Option<u64> {
        self.lock().get(run).map(|open| open.begun)
    }

    /// Returns the version of the newest change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Returns the runs that have changed after `version`, open and recently ended.
    pub fn changed_rows(&self, version: u64) -> Vec<RunSnapshot> {
        let is_new = |run: &&OpenRun| run.shown.version > version && run.shown.face.is_some();
        let mut rows: Vec<RunSnapshot> = {
            let past = self.lock_past();
            past.rows.iter().filter(|(at, _)| *at > version).map(|(_, row)| row.clone()).collect()
        };
        let open = self.lock();
        rows.extend(
            open.iter()
                .filter(|(_, run)| is_new(run))
                .map(|(id, run)| RunSnapshot::from_open(id, run)),
        );
        drop(open);
        rows.sort_by_key(|row| row.info.started);
        rows
    }

    /// Returns one run, open or recently ended.
    pub fn find_row(&self, run: &str) -> Option<RunSnapshot> {
        let open = self.lock().get(run).map(|open| RunSnapshot::from_open(run, open));
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
