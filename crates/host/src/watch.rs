//! Notes what happens: lines of events for the program, records for a ledger, sums of named runs.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    ledger: Mutex<Option<Ledger>>,
    /// True if the program wants events.
    wants_events: AtomicBool,
    /// True if records are kept in a ledger.
    has_ledger: AtomicBool,
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

    pub(crate) fn set_ledger(&self, ledger: Option<Ledger>) {
        self.has_ledger.store(ledger.is_some(), Ordering::Release);
        *self.ledger.lock().unwrap_or_else(PoisonError::into_inner) = ledger;
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
        let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ledger) = &*ledger {
            ledger.record(record);
        }
    }
}

impl fmt::Debug for RunWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWatch").finish_non_exhaustive()
    }
}
