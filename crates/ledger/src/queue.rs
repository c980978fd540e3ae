//! What waits to be written: bounded, with a short lock on the side of whoever records.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{BATCH, BATCH_BYTES, Batch};
use crate::record::Record;

/// Records on their way to the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    /// The writer waits here.
    work: Condvar,
    /// Whoever waits for the writer waits here.
    progress: Condvar,
    lost: AtomicU64,
    limits: Limits,
}

/// Bounds and pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) gather: Duration,
}

#[derive(Debug, Default)]
struct State {
    /// The oldest first; what comes goes into the newest.
    batches: VecDeque<Batch>,
    /// An empty one with room, for the next.
    spare: Batch,
    /// Records in all of them.
    records: usize,
    bytes: usize,
    /// Records that were let in.
    accepted: u64,
    /// Those of them that were taken out.
    taken: u64,
    /// Those of them that are on disk, or given up.
    settled: u64,
    /// Up to here nothing waits for company.
    hurry: u64,
    /// The writer waits for a first record.
    idle: bool,
    /// The writer waits for company of the first.
    gathering: bool,
    /// Counts what should wake a writer that rests after a fault.
    orders: u64,
    /// Nothing is let in, and after this time nothing is tried.
    closing: Option<Instant>,
    /// The writer has gone.
    over: bool,
}

/// What the writer is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is a batch.
    Batch,
    /// There was nothing for a while.
    Idle,
    /// Nothing more comes.
    Over,
}

impl Queue {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            lost: AtomicU64::new(0),
            limits,
        }
    }

    /// Lets a record in; whether there was room.
    pub(crate) fn push(&self, record: Record) -> bool {
        let size = record.bytes();
        // The frame of a run is let in where other records are not any more.
        let share = if record.is_frame() { 8 } else { 7 };
        let Limits { records, bytes, .. } = self.limits;
        let mut state = self.state();
        if state.closing.is_some()
            || state.records >= records.saturating_mul(share) / 8
            || state.bytes.saturating_add(size) > bytes.saturating_mul(share) / 8
        {
            drop(state);
            self.lose(1);
            return false;
        }
        state.add(record, size);
        let wake = state.idle || state.gathering && self.is_enough(&state);
        if wake {
            (state.idle, state.gathering) = (false, false);
        }
        drop(state);
        if wake {
            self.work.notify_one();
        }
        true
    }

    /// Counts records that will never be written.
    pub(crate) fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records that are let in and not on disk.
    pub(crate) fn waiting(&self) -> u64 {
        let state = self.state();
        state.accepted - state.settled
    }

    /// Waits for a batch, and then for company, or for `patience` to end.
    pub(crate) fn next(&self, batch: &mut Batch, patience: Duration) -> Next {
        let mut state = self.state();
        let until = Instant::now() + patience;
        while state.records == 0 {
            if state.closing.is_some() {
                return Next::Over;
            }
            let Some(left) = left(until) else {
                state.idle = false;
                return Next::Idle;
            };
            state.idle = true;
            state = self.wait(state, left);
        }
        state.idle = false;
        let until = Instant::now() + self.limits.gather;
        while !self.is_enough(&state) && state.hurry <= state.taken && state.closing.is_none() {
            let Some(left) = left(until) else { break };
            state.gathering = true;
            state = self.wait(state, left);
        }
        state.gathering = false;
        state.take(batch);
        Next::Batch
    }

    /// What waits is not to wait for more: a batch is full, or there is half as much as is let in.
    fn is_enough(&self, state: &State) -> bool {
        let Limits { records, bytes, .. } = self.limits;
        state.records >= BATCH.min(records / 2) || state.bytes >= BATCH_BYTES.min(bytes / 2)
    }

    /// These records are on disk, or given up.
    pub(crate) fn settle(&self, records: u64) {
        if records > 0 {
            self.state().settled += records;
            self.progress.notify_all();
        }
    }

    /// Waits until somebody is in a hurry, at most for this long; whether to go on trying.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let mut state = self.state();
        let (until, orders) = (Instant::now() + time, state.orders);
        loop {
            if state.closing.is_some_and(|deadline| deadline <= Instant::now()) {
                return false;
            }
            let until = state.closing.map_or(until, |deadline| deadline.min(until));
            match left(until) {
                Some(left) if state.orders == orders => state = self.wait(state, left),
                _ => return true,
            }
        }
    }

    /// Nothing that is in the queue now waits for company.
    pub(crate) fn hurry(&self) -> u64 {
        let mut state = self.state();
        state.hurry = state.accepted;
        state.orders += 1;
        let upto = state.accepted;
        drop(state);
        self.work.notify_one();
        upto
    }

    /// Waits until so many records are on disk or given up; how many are not.
    pub(crate) fn settled(&self, upto: u64, timeout: Duration) -> u64 {
        let until = Instant::now() + timeout;
        let mut state = self.state();
        while state.settled < upto && !state.over {
            let Some(left) = left(until) else { break };
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        upto.saturating_sub(state.settled)
    }

    /// Lets nothing in any more; what waits may be tried for so long.
    pub(crate) fn close(&self, grace: Duration) {
        let mut state = self.state();
        state.closing.get_or_insert_with(|| Instant::now() + grace);
        state.orders += 1;
        drop(state);
        self.work.notify_one();
    }

    /// Waits for the writer to go; whether it has.
    pub(crate) fn gone(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.state();
        while !state.over {
            let Some(left) = left(until) else { break };
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.over
    }

    /// The writer goes; what is left is lost.
    pub(crate) fn over(&self) {
        let mut state = self.state();
        let left = state.records as u64;
        state.batches.clear();
        state.records = 0;
        state.closing.get_or_insert_with(Instant::now);
        state.settled += left;
        state.over = true;
        drop(state);
        self.lose(left);
        self.progress.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, time: Duration) -> MutexGuard<'a, State> {
        self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// A panic elsewhere leaves the state whole: nothing is called while it is locked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

impl State {
    fn add(&mut self, record: Record, size: usize) {
        if !self.batches.back().is_some_and(|newest| newest.has_room(size)) {
            self.batches.push_back(std::mem::take(&mut self.spare));
        }
        if let Some(newest) = self.batches.back_mut() {
            newest.push(record);
        }
        self.records += 1;
        self.bytes += size;
        self.accepted += 1;
    }

    /// Takes the oldest out, in exchange for one that is done.
    fn take(&mut self, batch: &mut Batch) {
        let Some(oldest) = self.batches.pop_front() else { return };
        self.records -= oldest.len();
        self.bytes = self.bytes.saturating_sub(oldest.bytes());
        self.taken += oldest.len() as u64;
        self.spare = std::mem::replace(batch, oldest);
    }
}
