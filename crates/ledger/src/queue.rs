//! The queue of records that wait to be written. It is bounded, and a caller holds its lock only
//! briefly.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::batch::{BATCH, BATCH_BYTES, Batch};
use crate::record::Record;

/// The queue between the recording threads and the writer.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes the threads that wait for the writer.
    progress: Condvar,
    lost: AtomicU64,
    /// The last fault of the disk, for people.
    fault: Mutex<Option<String>>,
    limits: QueueLimits,
}

/// The bounds of the queue, and the time for which it gathers records.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueLimits {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    pub(crate) gather: Duration,
}

#[derive(Debug, Default)]
struct QueueState {
    /// The batches, oldest first. New records go into the last one.
    batches: VecDeque<Batch>,
    /// An empty batch with allocated memory, to be used next.
    spare: Batch,
    /// The number of records in all batches.
    records: usize,
    bytes: usize,
    /// The number of records that were accepted.
    accepted: u64,
    /// The number of accepted records that the writer has taken.
    taken: u64,
    /// The number of accepted records that are on disk or lost.
    settled: u64,
    /// The number of accepted records that are to be written without waiting for more.
    hurry: u64,
    /// True while the writer waits for a first record.
    idle: bool,
    /// True while the writer waits for more records after the first.
    gathering: bool,
    /// Counts the flushes and closes, each of which wakes a writer that rests after a fault.
    orders: u64,
    /// Set once the queue is closed: the time after which writing is not tried again.
    closing: Option<Instant>,
    /// True once the writer has stopped.
    over: bool,
}

/// The result of waiting for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextBatch {
    /// A batch was taken.
    Batch,
    /// No record came in time.
    Idle,
    /// The queue is closed and empty.
    Over,
}

impl Queue {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        Self {
            state: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
            lost: AtomicU64::new(0),
            fault: Mutex::new(None),
            limits,
        }
    }

    /// Accepts a record. Returns false if there was no room for it, or the queue is closed.
    pub(crate) fn push(&self, record: Record) -> bool {
        let size = record.memory_size();
        // The beginnings and ends of runs may fill the last eighth; other records may not.
        let share = if record.is_frame() { 8 } else { 7 };
        let QueueLimits { records, bytes, .. } = self.limits;
        let mut state = self.lock_state();
        if state.closing.is_some()
            || state.records >= records.saturating_mul(share) / 8
            || state.bytes.saturating_add(size) > bytes.saturating_mul(share) / 8
        {
            drop(state);
            self.count_lost(1);
            return false;
        }
        state.add_record(record, size);
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

    /// Counts records as lost.
    pub(crate) fn count_lost(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }

    pub(crate) fn lost_records(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Remembers a fault of the disk.
    pub(crate) fn note_fault(&self, why: &str) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }

    pub(crate) fn last_fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of accepted records that are neither on disk nor lost.
    pub(crate) fn waiting_records(&self) -> u64 {
        let state = self.lock_state();
        state.accepted - state.settled
    }

    /// Waits up to `patience` for a first record, gathers more, and takes the oldest batch.
    pub(crate) fn next_batch(&self, batch: &mut Batch, patience: Duration) -> NextBatch {
        let mut state = self.lock_state();
        let until = Instant::now() + patience;
        while state.records == 0 {
            if state.closing.is_some() {
                return NextBatch::Over;
            }
            let Some(left) = time_left(until) else {
                state.idle = false;
                return NextBatch::Idle;
            };
            state.idle = true;
            state = self.wait_for_work(state, left);
        }
        state.idle = false;
        let until = Instant::now() + self.limits.gather;
        while !self.is_enough(&state) && state.hurry <= state.taken && state.closing.is_none() {
            let Some(left) = time_left(until) else { break };
            state.gathering = true;
            state = self.wait_for_work(state, left);
        }
        state.gathering = false;
        state.take_batch(batch);
        NextBatch::Batch
    }

    /// True if the waiting records fill a batch, or half of what the queue may hold.
    fn is_enough(&self, state: &QueueState) -> bool {
        let QueueLimits { records, bytes, .. } = self.limits;
        state.records >= BATCH.min(records / 2) || state.bytes >= BATCH_BYTES.min(bytes / 2)
    }

    /// Counts records as on disk, or lost.
    pub(crate) fn settle_records(&self, records: u64) {
        if records > 0 {
            self.lock_state().settled += records;
            self.progress.notify_all();
        }
    }

    /// Waits for `time`, or until a flush or close. Returns false if writing is not to be tried
    /// again.
    pub(crate) fn wait_before_retry(&self, time: Duration) -> bool {
        let mut state = self.lock_state();
        let (until, orders) = (Instant::now() + time, state.orders);
        loop {
            if state.closing.is_some_and(|deadline| deadline <= Instant::now()) {
                return false;
            }
            let until = state.closing.map_or(until, |deadline| deadline.min(until));
            match time_left(until) {
                Some(left) if state.orders == orders => state = self.wait_for_work(state, left),
                _ => return true,
            }
        }
    }

    /// Asks the writer not to gather more records. Returns the number of records accepted so far.
    pub(crate) fn request_flush(&self) -> u64 {
        let mut state = self.lock_state();
        state.hurry = state.accepted;
        state.orders += 1;
        let upto = state.accepted;
        drop(state);
        self.work.notify_one();
        upto
    }

    /// Waits until the first `upto` records are on disk or lost. Returns the number that are not.
    pub(crate) fn wait_settled(&self, upto: u64, timeout: Duration) -> u64 {
        let until = Instant::now() + timeout;
        let mut state = self.lock_state();
        while state.settled < upto && !state.over {
            let Some(left) = time_left(until) else { break };
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        upto.saturating_sub(state.settled)
    }

    /// Closes the queue to new records. Waiting records may still be written during `grace`.
    pub(crate) fn close_queue(&self, grace: Duration) {
        let mut state = self.lock_state();
        state.closing.get_or_insert_with(|| Instant::now() + grace);
        state.orders += 1;
        drop(state);
        self.work.notify_one();
    }

    /// Waits for the writer to stop. Returns false on timeout.
    pub(crate) fn wait_for_writer(&self, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut state = self.lock_state();
        while !state.over {
            let Some(left) = time_left(until) else { break };
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.over
    }

    /// Marks the writer as stopped. The records still in the queue are lost.
    pub(crate) fn mark_over(&self) {
        let mut state = self.lock_state();
        let left = state.records as u64;
        state.batches.clear();
        state.records = 0;
        state.closing.get_or_insert_with(Instant::now);
        state.settled += left;
        state.over = true;
        drop(state);
        self.count_lost(left);
        self.progress.notify_all();
    }

    fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, QueueState>,
        time: Duration,
    ) -> MutexGuard<'a, QueueState> {
        self.work.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Locks the state. A panic elsewhere leaves it whole: nothing is called while it is locked.
    fn lock_state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn time_left(until: Instant) -> Option<Duration> {
    until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
}

impl QueueState {
    fn add_record(&mut self, record: Record, size: usize) {
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

    /// Takes the oldest batch out, in exchange for one that is done.
    fn take_batch(&mut self, batch: &mut Batch) {
        let Some(oldest) = self.batches.pop_front() else { return };
        self.records -= oldest.len();
        self.bytes = self.bytes.saturating_sub(oldest.memory_size());
        self.taken += oldest.len() as u64;
        self.spare = std::mem::replace(batch, oldest);
    }
}
