//! The open runs of a state in memory, and the ended ones that are remembered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use softland_session::core::{Digest, NanoUsd};

use crate::runs::{
    EndedRun, ObservedEnd, OpenedRun, RequestEnd, RunAfter, RunCancellation, RunInfo, RunList,
    RunOpening, RunPhase, RunProgress, RunSnapshot, RunTotals, RunsToEnd, SnapshotEnd,
};
use crate::store::IDLE_MS;

/// The number of runs that are tracked at once; beyond it, the ones idle longest are ended.
const MOST: usize = 50_000;
/// The number of ended runs that are remembered.
const PAST: usize = 500;
/// The number of cancelled runs that are remembered, since their clients may come back.
const CANCELLED: usize = 4096;

/// A cancelled run, with the history in which it was.
type CancelledRun = (Arc<str>, Option<Digest>);

/// An open run.
#[derive(Debug)]
struct RunEntry {
    totals: RunTotals,
    /// The version of its newest change.
    version: u64,
    info: Arc<RunInfo>,
    /// The newest turn that has begun.
    begun: u64,
    phase: RunPhase,
    /// The end that it would have had, if it is only observed.
    observed_end: Option<ObservedEnd>,
    /// The number of running requests; while there are any, the run is not idle.
    running: usize,
    /// The history of the run's newest request.
    here: Digest,
}

impl RunEntry {
    fn to_snapshot(&self, run: &Arc<str>, end: Option<SnapshotEnd>) -> RunSnapshot {
        RunSnapshot {
            run: Arc::clone(run),
            info: Arc::clone(&self.info),
            last: self.totals.last,
            phase: self.phase,
            is_busy: self.running > 0 && end.is_none(),
            turns: self.totals.turns.max(self.begun),
            calls: self.totals.calls,
            tokens: self.totals.tokens,
            cost: self.totals.cost,
            end,
        }
    }
}

/// The runs of a state in memory.
#[derive(Debug, Default)]
pub(super) struct RunBook {
    open: HashMap<Arc<str>, RunEntry, RandomState>,
    /// The ended runs, with the version of their newest change.
    past: VecDeque<(u64, RunSnapshot)>,
    cancelled: VecDeque<CancelledRun>,
    /// Counts the changes, so that a page has to read only what is new.
    version: u64,
}

impl RunBook {
    /// Counts a request that begins. Opens its run, if the run is not open.
    pub(super) fn open_request(&mut self, opening: RunOpening) -> OpenedRun {
        let RunOpening { run, info, at, here } = opening;
        let version = self.next_version();
        if let Some(entry) = self.open.get_mut(&run) {
            entry.totals.last = entry.totals.last.max(at);
            (entry.here, entry.version) = (here, version);
            entry.running += 1;
            return OpenedRun { begun: entry.begun, ..OpenedRun::default() };
        }
        let continues = info.continues.clone();
        let superseded = continues.and_then(|old| self.end_abandoned(&old, at));
        let cost = Some(NanoUsd::ZERO);
        let entry = RunEntry {
            totals: RunTotals { last: at, cost, ..RunTotals::default() },
            version,
            info: Arc::new(info),
            begun: 0,
            phase: RunPhase::Silent,
            observed_end: None,
            running: 1,
            here,
        };
        self.open.insert(run, entry);
        OpenedRun { is_new: true, begun: 0, superseded }
    }

    /// Notes the progress of an open run.
    pub(super) fn note_progress(&mut self, progress: &RunProgress) {
        let version = self.next_version();
        let Some(entry) = self.open.get_mut(&progress.run) else { return };
        if entry.begun == 0 {
            entry.totals.before = progress.before;
        }
        entry.begun = entry.begun.max(progress.turn);
        entry.totals.calls = entry.totals.calls.max(progress.calls);
        (entry.phase, entry.version) = (progress.phase, version);
    }

    /// Takes back a request that was given up before it was sent. A run that it had opened was
    /// never there.
    pub(super) fn withdraw_request(&mut self, run: &str) {
        let version = self.next_version();
        let Some(entry) = self.open.get_mut(run) else { return };
        entry.version = version;
        entry.running = entry.running.saturating_sub(1);
        if entry.running == 0 && entry.begun == 0 {
            self.open.remove(run);
        }
    }

    /// Counts a request that has ended, and ends its run if it ends with it.
    pub(super) fn end_request(&mut self, request: RequestEnd) -> RunAfter {
        let RequestEnd { run, totals, observed_end, end } = request;
        let version = self.next_version();
        let Some(entry) = self.open.get_mut(&run) else { return RunAfter::default() };
        entry.version = version;
        entry.running = entry.running.saturating_sub(1);
        entry.totals.add_request(&totals);
        let first_observed_end = observed_end.filter(|_| entry.observed_end.is_none());
        entry.observed_end = entry.observed_end.or(observed_end);
        let ended = end.and_then(|end| self.end_run(&run, end));
        RunAfter { ended: ended.map(|ended| ended.totals), first_observed_end }
    }

    /// Replaces the end of a run that has ended.
    pub(super) fn replace_end(&mut self, run: &str, end: SnapshotEnd) {
        let version = self.next_version();
        if let Some((at, row)) = self.past.iter_mut().rev().find(|(_, row)| *row.run == *run) {
            *at = version;
            row.end = Some(end);
        }
    }

    /// Ends the runs that nobody continues, or all.
    pub(super) fn end_runs(&mut self, which: RunsToEnd) -> Vec<EndedRun> {
        let (now, limit) = match which {
            RunsToEnd::Idle { now } if self.open.len() > MOST => (now, Some(IDLE_MS / 10)),
            RunsToEnd::Idle { now } => (now, Some(IDLE_MS)),
            RunsToEnd::Lost { now } => (now, None),
        };
        let is_over = |entry: &RunEntry| {
            limit.is_none_or(|limit| {
                entry.running == 0 && now.saturating_sub(entry.totals.last) > limit
            })
        };
        let over = self.open.iter().filter(|(_, entry)| is_over(entry));
        let over: Vec<Arc<str>> = over.map(|(run, _)| Arc::clone(run)).collect();
        over.iter().filter_map(|run| self.end_abandoned(run, now)).collect()
    }

    /// Cancels an open run and its open sub-agents. Those without a running request end.
    pub(super) fn cancel_run(&mut self, run: &str, now: u64) -> Option<RunCancellation> {
        let (run, _) = self.open.get_key_value(run)?;
        let family = self.find_family(Arc::clone(run));
        let mut ended = Vec::new();
        for member in &family {
            let Some(entry) = self.open.get(member) else { continue };
            let (here, is_running) = (entry.here, entry.running > 0);
            if self.cancelled.len() >= CANCELLED {
                self.cancelled.pop_front();
            }
            self.cancelled.push_back((Arc::clone(member), Some(here)));
            if !is_running {
                ended.extend(self.end_abandoned(member, now));
            }
        }
        Some(RunCancellation { family, ended })
    }

    /// Returns the run and its open sub-agents, the run first.
    fn find_family(&self, run: Arc<str>) -> Vec<Arc<str>> {
        let mut family = vec![run];
        let mut at = 0;
        while let Some(parent) = family.get(at).cloned() {
            let is_child = |entry: &RunEntry| entry.info.parent.as_ref() == Some(&parent);
            let children = self.open.iter().filter(|(_, entry)| is_child(entry));
            let mut children: Vec<Arc<str>> = children.map(|(name, _)| Arc::clone(name)).collect();
            children.retain(|child| !family.contains(child));
            family.append(&mut children);
            at += 1;
        }
        family
    }

    /// Returns the cancelled runs that `is_named` names.
    pub(super) fn find_cancelled(&self, is_named: impl Fn(&str) -> bool) -> Vec<CancelledRun> {
        self.cancelled.iter().filter(|(run, _)| is_named(run)).cloned().collect()
    }

    /// Returns the runs that have changed after `version`, open and recently ended.
    pub(super) fn list_runs(&self, version: u64) -> RunList {
        let past = self.past.iter().filter(|(at, _)| *at > version).map(|(_, row)| row.clone());
        let open = self.open.iter().filter(|(_, entry)| entry.begun > 0 && entry.version > version);
        let open = open.map(|(run, entry)| entry.to_snapshot(run, None));
        let mut runs: Vec<RunSnapshot> = past.chain(open).collect();
        runs.sort_by_key(|row| row.info.started);
        RunList { version: self.version, runs }
    }

    /// Returns one run, open or recently ended.
    pub(super) fn find_run(&self, run: &str) -> Option<RunSnapshot> {
        if let Some((run, entry)) = self.open.get_key_value(run) {
            return Some(entry.to_snapshot(run, None));
        }
        self.past.iter().rev().find(|(_, row)| *row.run == *run).map(|(_, row)| row.clone())
    }

    /// Ends a run that nobody continues, unless it has ended already.
    fn end_abandoned(&mut self, run: &str, now: u64) -> Option<EndedRun> {
        let ending = self.open.get(run)?.totals.abandoned_end();
        self.end_run(run, SnapshotEnd { at: now, ending, local: false })
    }

    /// Ends an open run, and remembers it.
    fn end_run(&mut self, run: &str, end: SnapshotEnd) -> Option<EndedRun> {
        let version = self.next_version();
        let (run, entry) = self.open.remove_entry(run)?;
        if self.past.len() >= PAST {
            self.past.pop_front();
        }
        self.past.push_back((version, entry.to_snapshot(&run, Some(end))));
        Some(EndedRun { run, info: entry.info, totals: entry.totals })
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }
}
