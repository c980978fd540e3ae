//! The handle through which programs record facts.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::log::EventLog;
use crate::options::{OpenError, OpenProblem, Options};
use crate::place::LedgerPlace;
use crate::queue::{Queue, QueueLimits};
use crate::record::Record;
use crate::store::LedgerStore;
use crate::writer::{SAY_EVERY_MS, Writer, open_store};

/// A clock: returns the time in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The time that waiting records get to be written after the last handle was dropped unclosed.
const GRACE: Duration = Duration::from_secs(2);

/// The time after which an open run without a new record is that of a dead process, in
/// milliseconds. Gateways end idle runs much earlier, and no request takes so long.
pub(crate) const LONG_GONE: u64 = 24 * 60 * 60 * 1000;

/// A ledger that is open for writing. Handles are cheap to clone; dropping the last one closes it.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<LedgerInner>,
}

struct LedgerInner {
    queue: Arc<Queue>,
    clock: Clock,
    /// The time at which a loss was last logged; 0 if never.
    said: AtomicU64,
}

impl Ledger {
    /// Opens or creates the files and starts the thread that writes to them. A locked file or a
    /// full disk counts as a passing fault, and so does a database that is away: opening is tried
    /// again later.
    ///
    /// # Errors
    /// Returns an error if a file can never be written: its folder is missing, permission is
    /// denied, it belongs to another program, or a newer version wrote it. The same goes for a
    /// database that refuses.
    pub fn open(options: Options, clock: Clock) -> Result<Self, OpenError> {
        let db = match &options.place {
            None => None,
            Some(place) => match open_store(place, &options) {
                Ok(db) => Some(db),
                Err(error) if error.is_transient() => {
                    tracing::error!(%error, "the ledger cannot be written yet; records wait");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let log = match &options.events_path {
            None => None,
            Some(path) => {
                let opened = EventLog::open(path, options.events_max_bytes, options.events_keep);
                Some(opened.map_err(|error| OpenError::new(path, OpenProblem::File(error)))?)
            }
        };
        let queue = Arc::new(Queue::new(QueueLimits {
            records: options.queue_records,
            bytes: options.queue_bytes,
            gather: options.gather,
        }));
        let left = match &db {
            Some(db) if options.end_left_open => {
                read_abandoned(&**db, options.queue_records / 4, clock().saturating_sub(LONG_GONE))
            }
            _ => Vec::new(),
        };
        for record in left {
            queue.push(record);
        }
        let events = options.events_path.clone().map(LedgerPlace::File);
        let place = options.place.clone().or(events).unwrap_or_else(|| PathBuf::new().into());
        let writer = Writer::new(options, Arc::clone(&queue), Arc::clone(&clock), db, log);
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run_loop())
            .map_err(|error| OpenError { place, problem: OpenProblem::File(error) })?;
        Ok(Self { inner: Arc::new(LedgerInner { queue, clock, said: AtomicU64::new(0) }) })
    }

    /// Queues a record and returns at once, whatever the disk does. If the queue is full, the
    /// record is lost; the loss is counted ([`Ledger::lost_records`]) and logged.
    pub fn record(&self, record: Record) {
        if !self.inner.queue.push(record) {
            self.inner.report_loss();
        }
    }

    /// Returns the number of records lost since this ledger was opened.
    #[must_use]
    pub fn lost_records(&self) -> u64 {
        self.inner.queue.lost_records()
    }

    /// Returns the last fault that kept records from being written, if there was one. It may have
    /// passed.
    #[must_use]
    pub fn last_fault(&self) -> Option<String> {
        self.inner.queue.last_fault()
    }

    /// Returns the number of records that wait to be written.
    #[must_use]
    pub fn waiting_records(&self) -> u64 {
        self.inner.queue.waiting_records()
    }

    /// Asks the writer to write the waiting records now. Does not wait for it.
    pub fn flush(&self) {
        self.inner.queue.request_flush();
    }

    /// Waits until every record so far is on disk or lost. Blocks: not for async tasks.
    ///
    /// # Errors
    /// Returns an error on timeout. The writer keeps trying to write the remaining records.
    pub fn drain(&self, timeout: Duration) -> Result<(), DrainError> {
        let upto = self.inner.queue.request_flush();
        match self.inner.queue.wait_settled(upto, timeout) {
            0 => Ok(()),
            left => Err(DrainError { left }),
        }
    }

    /// Writes the waiting records and closes the files, for this handle and all others. Later
    /// records are lost. Blocks: not for async tasks.
    ///
    /// # Errors
    /// Returns an error if the timeout passes first. The remaining records are lost, and counted.
    pub fn close(&self, timeout: Duration) -> Result<(), DrainError> {
        let queue = &self.inner.queue;
        let before = queue.lost_records();
        queue.close_queue(timeout);
        // The writer enforces the timeout itself; only the file system can delay it further.
        if !queue.wait_for_writer(timeout + Duration::from_secs(1)) {
            return Err(DrainError { left: queue.waiting_records() });
        }
        match queue.lost_records() - before {
            0 => Ok(()),
            left => Err(DrainError { left }),
        }
    }
}

/// Reads the records that a process which died left unfinished. A failure is logged.
fn read_abandoned(db: &dyn LedgerStore, most: usize, old: u64) -> Vec<Record> {
    match db.abandoned_records(most, old) {
        Ok(left) => {
            if !left.is_empty() {
                tracing::warn!(
                    records = left.len(),
                    "runs and requests of a process that died are ended"
                );
            }
            left
        }
        Err(error) => {
            tracing::warn!(%error, "runs of a process that died could not be ended");
            Vec::new()
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("waiting", &self.waiting_records())
            .field("lost", &self.lost_records())
            .finish()
    }
}

impl LedgerInner {
    /// Logs that records are lost, at most once every [`SAY_EVERY_MS`].
    fn report_loss(&self) {
        let now = (self.clock)();
        let said = self.said.load(Ordering::Relaxed);
        let due = said == 0 || now.saturating_sub(said) >= SAY_EVERY_MS;
        let mine =
            || self.said.compare_exchange(said, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if due && mine().is_ok() {
            let (lost, waiting) = (self.queue.lost_records(), self.queue.waiting_records());
            tracing::error!(lost, waiting, "the ledger loses records: its queue is full or closed");
        }
    }
}

impl Drop for LedgerInner {
    fn drop(&mut self) {
        self.queue.close_queue(GRACE);
    }
}

/// The error of [`Ledger::drain`] and [`Ledger::close`]: not every record was written in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainError {
    /// The number of records that were not written.
    pub left: u64,
}

impl fmt::Display for DrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ledger records could not be written in time", self.left)
    }
}

impl std::error::Error for DrainError {}
