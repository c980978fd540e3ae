//! The log of a run that an engine keeps: records and events between two steps.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use tokio::sync::{Notify, RwLock};
use tokio_util::sync::CancellationToken;

use super::step::{STEP_BYTES, Step};
use super::whole_blocks::WholeBlocks;
use crate::event::Event;
use crate::journal::{EffectPermit, NewRecord, RecordKind, RecordLog, lock_unpoisoned};

/// The largest result of a call that an engine keeps, in bytes.
pub const RESULT_LIMIT: usize = 32 << 20;

/// Collects records and events until a step takes them.
#[derive(Debug)]
pub(super) struct StepLog {
    state: Mutex<LogState>,
    /// Notified when a step is due.
    due: Notify,
    /// Notified when a step was stored.
    stored: Notify,
    /// Read by each request and call that is under way, and written when none is.
    effects: Arc<RwLock<()>>,
    /// Cancelled when nothing more is to begin in this process.
    leave: CancellationToken,
}

#[derive(Debug)]
struct LogState {
    records: BytesMut,
    events: BytesMut,
    blocks: WholeBlocks,
    /// The events of responses that are being received, by run.
    held: BTreeMap<String, BytesMut>,
    /// True if what is here is to be stored now.
    is_due: bool,
    /// The number of records that were taken, that the steps so far hold, and that are stored.
    taken: u64,
    cut: u64,
    stored: u64,
}

impl StepLog {
    /// Creates the log of a run of which so many events of each of its runs are published. Once
    /// `leave` is cancelled, no request and no call begins.
    pub(super) fn new(published: BTreeMap<String, u64>, leave: CancellationToken) -> Self {
        let (records, events, held) = (BytesMut::new(), BytesMut::new(), BTreeMap::new());
        let blocks = WholeBlocks::new(published);
        let (is_due, taken, cut, stored) = (false, 0, 0, 0);
        let state = LogState { records, events, blocks, held, is_due, taken, cut, stored };
        let (due, stored, effects) = (Notify::new(), Notify::new(), Arc::default());
        Self { state: Mutex::new(state), due, stored, effects, leave }
    }

    /// Takes an event of the tree.
    pub(super) fn push_event(&self, event: &Event) {
        let mut state = lock_unpoisoned(&self.state);
        let LogState { blocks, held, events, .. } = &mut *state;
        let into = held.get_mut(&event.run).unwrap_or(events);
        for event in blocks.push_event(event) {
            // An event always has a form.
            into.extend_from_slice(&serde_json::to_vec(&event).unwrap_or_default());
            into.extend_from_slice(b"\n");
        }
    }

    /// Waits until something is to be stored.
    pub(super) async fn wait_until_due(&self) {
        loop {
            // A permit is kept if the notice comes first.
            if lock_unpoisoned(&self.state).is_due {
                return;
            }
            self.due.notified().await;
        }
    }

    /// Waits until this process is to leave the run and no request and no call is under way.
    pub(super) async fn wait_until_idle(&self) {
        self.leave.cancelled().await;
        drop(self.effects.write().await);
    }

    /// Cuts the next step: records first, and events when no record is left before them.
    pub(super) fn cut_step(&self) -> Step {
        let mut state = lock_unpoisoned(&self.state);
        let records = take_front(&mut state.records, STEP_BYTES);
        let room = STEP_BYTES - records.len();
        let mut events = Bytes::new();
        if state.records.is_empty() {
            state.cut = state.taken;
            events = take_front(&mut state.events, room);
        }
        state.is_due = !(state.records.is_empty() && state.events.is_empty());
        Step { records, events, ..Step::default() }
    }

    /// Notes that all steps so far are stored.
    pub(super) fn mark_stored(&self) {
        let mut state = lock_unpoisoned(&self.state);
        state.stored = state.cut;
        drop(state);
        self.stored.notify_waiters();
    }

    /// Releases all events of a run that has ended. Returns true if nothing is left to be stored.
    pub(super) fn is_drained(&self) -> bool {
        let mut state = lock_unpoisoned(&self.state);
        for (_, events) in std::mem::take(&mut state.held) {
            state.events.extend_from_slice(&events);
        }
        state.records.is_empty() && state.events.is_empty()
    }
}

fn take_front(from: &mut BytesMut, most: usize) -> Bytes {
    from.split_to(most.min(from.len())).freeze()
}

#[async_trait]
impl RecordLog for StepLog {
    fn append_record(&self, record: NewRecord<'_>) -> std::io::Result<()> {
        let mut state = lock_unpoisoned(&self.state);
        state.records.extend_from_slice(record.line);
        state.taken += 1;
        match record.kind {
            RecordKind::Request => {
                state.held.entry(record.run.to_owned()).or_default();
            }
            RecordKind::Response => {
                if let Some(events) = state.held.remove(record.run) {
                    state.events.extend_from_slice(&events);
                }
            }
            _ => {}
        }
        // What came from the world is stored at once.
        if matches!(record.kind, RecordKind::Response | RecordKind::Result) {
            state.is_due = true;
            drop(state);
            self.due.notify_one();
        }
        Ok(())
    }

    async fn begin_effect(&self) -> Option<EffectPermit> {
        let permit = Arc::clone(&self.effects).read_owned().await;
        if self.leave.is_cancelled() {
            drop(permit);
            return std::future::pending().await;
        }
        Some(permit)
    }

    async fn wait_until_stored(&self) {
        let wanted = {
            let mut state = lock_unpoisoned(&self.state);
            state.is_due |= state.stored < state.taken;
            state.taken
        };
        self.due.notify_one();
        loop {
            let stored = self.stored.notified();
            tokio::pin!(stored);
            // A step that is stored between the look and the wait is not missed.
            stored.as_mut().enable();
            if lock_unpoisoned(&self.state).stored >= wanted {
                return;
            }
            stored.await;
        }
    }

    fn result_limit(&self) -> Option<usize> {
        Some(RESULT_LIMIT)
    }

    fn is_resumable(&self) -> bool {
        false
    }
}
