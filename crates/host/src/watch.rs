//! Notes what happens: lines of events for the program, records for a ledger, sums of named runs.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use softland_govern::records::Record;
use softland_govern::{Meter, Watcher};
use softland_ledger::{self as ledger, Ledger};

use crate::named::{NamedRun, NamedRuns, NamedUsage, RunName};
use crate::records::ledger_record;

/// The number of lines that wait for the program at most. Older ones are dropped.
const WAITING: usize = 65_536;
/// The number of runs whose newest line number is remembered.
const NUMBERED: usize = 4096;

/// Notes what happens.
#[derive(Default)]
pub(crate) struct RunWatch {
    notes: Mutex<Notes>,
    ledger: Mutex<KeptLedger>,
    /// True if the program wants events.
    wants_events: AtomicBool,
    /// True if records are kept in a ledger.
    has_ledger: AtomicBool,
}

/// Where records are kept.
#[derive(Default)]
enum KeptLedger {
    /// Nowhere.
    #[default]
    None,
    Open(Ledger),
    /// Here, until the ledger is opened again.
    Paused(Vec<ledger::Record>),
}

#[derive(Default)]
struct Notes {
    lines: VecDeque<String>,
    /// The number of the next line of each run that is open.
    next: HashMap<Arc<str>, u64>,
    named: NamedRuns,
}

impl RunWatch {
    pub(crate) fn set_wants_events(&self, wanted: bool) {
        self.wants_events.store(wanted, Ordering::Release);
    }

    /// Keeps records in this ledger from now on, those that came during a pause, too.
    pub(crate) fn set_ledger(&self, ledger: Option<Ledger>) {
        self.has_ledger.store(ledger.is_some(), Ordering::Release);
        let mut kept = self.lock_ledger();
        if let (KeptLedger::Paused(waiting), Some(ledger)) = (&mut *kept, &ledger) {
            waiting.drain(..).for_each(|record| ledger.record(record));
        }
        *kept = ledger.map_or(KeptLedger::None, KeptLedger::Open);
    }

    /// Closes the ledger, and keeps records in memory until there is one again.
    pub(crate) fn pause_ledger(&self, timeout: Duration) {
        let mut kept = self.lock_ledger();
        if let KeptLedger::Open(ledger) = &*kept {
            close_ledger(ledger, timeout);
            *kept = KeptLedger::Paused(Vec::new());
        }
    }

    /// Closes the ledger for good.
    pub(crate) fn close_ledger(&self, timeout: Duration) {
        self.has_ledger.store(false, Ordering::Release);
        if let KeptLedger::Open(ledger) = std::mem::take(&mut *self.lock_ledger()) {
            close_ledger(&ledger, timeout);
        }
    }

    /// Returns the lines of events since the last time.
    pub(crate) fn take_lines(&self) -> VecDeque<String> {
        std::mem::take(&mut self.lock().lines)
    }

    /// Begins to note what belongs to a named run.
    pub(crate) fn add_name(&self, name: &RunName) {
        self.lock().named.add_name(name);
    }

    /// Returns what was noted of a named run.
    pub(crate) fn find_name(&self, name: &str) -> Option<NamedRun> {
        self.lock().named.find_name(name).cloned()
    }

    /// Returns what a named run has used; nothing if it is not known.
    pub(crate) fn find_usage(&self, name: &str) -> NamedUsage {
        self.lock().named.find_name(name).map(NamedRun::usage).unwrap_or_default()
    }

    /// Forgets a named run.
    pub(crate) fn forget_name(&self, name: &str) {
        self.lock().named.forget_name(name);
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_ledger(&self) -> MutexGuard<'_, KeptLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close_ledger(ledger: &Ledger, timeout: Duration) {
    if let Err(error) = ledger.close(timeout) {
        tracing::error!(%error, "the ledger lacks records");
    }
}

impl Notes {
    fn add_line(&mut self, record: &ledger::Record) {
        let Some((run, mut step)) = record.to_step(false) else { return };
        let run: Arc<str> = run.into();
        if matches!(record, ledger::Record::RunEnd(_)) {
            step.seq = self.next.remove(&run).unwrap_or_default();
        } else {
            if self.next.len() >= NUMBERED && !self.next.contains_key(&run) {
                self.next.clear();
            }
            let next = self.next.entry(Arc::clone(&run)).or_default();
            step.seq = *next;
            *next += 1;
        }
        if self.lines.len() >= WAITING {
            self.lines.pop_front();
        }
        self.lines.push_back(step.to_json(&run));
    }
}

impl Meter for RunWatch {}

impl Watcher for RunWatch {
    fn wants_records(&self) -> bool {
        true
    }

    fn keeps_contents(&self) -> bool {
        self.has_ledger.load(Ordering::Acquire)
    }

    fn write_record(&self, record: Record<'_>) {
        let mut notes = self.lock();
        notes.named.note_record(&record);
        let (told, kept) =
            (self.wants_events.load(Ordering::Acquire), self.has_ledger.load(Ordering::Acquire));
        if !told && !kept {
            return;
        }
        let record = ledger_record(record);
        if told {
            notes.add_line(&record);
        }
        drop(notes);
        match &mut *self.lock_ledger() {
            KeptLedger::Open(ledger) => ledger.record(record),
            // A pause is as long as a fork takes, but nothing here grows without a bound.
            KeptLedger::Paused(waiting) if waiting.len() < WAITING => waiting.push(record),
            KeptLedger::Paused(_) | KeptLedger::None => {}
        }
    }
}

impl fmt::Debug for RunWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWatch").finish_non_exhaustive()
    }
}
