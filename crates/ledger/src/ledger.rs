//! The face of the ledger to whoever records.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::db::Db;
use crate::log::Log;
use crate::options::{OpenError, OpenProblem, Options};
use crate::queue::{Limits, Queue};
use crate::record::Record;
use crate::writer::{SAY_EVERY_MS, Writer};

/// Tells the time in milliseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How long what waits may be tried when the last handle is dropped without a word.
const GRACE: Duration = Duration::from_secs(2);

/// A ledger that is being written. Handles are cheap to clone; with the last one it closes.
#[derive(Clone)]
pub struct Ledger {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<Queue>,
    clock: Clock,
    /// When a loss was last said aloud.
    said: AtomicU64,
}

impl Ledger {
    /// Opens or makes the files, and starts the thread that writes to them. A file that is locked
    /// or a disk that is full now is a fault like any later one: it is tried again.
    ///
    /// # Errors
    /// When a file can never be written: no such folder, no permission, another program's file, or
    /// one that a newer version has written.
    pub fn open(options: Options, clock: Clock) -> Result<Self, OpenError> {
        let db = match &options.path {
            None => None,
            Some(path) => match Db::open(path, options.full_contents, options.max_bytes) {
                Ok(db) => Some(db),
                Err(error) if error.passes() => {
                    tracing::error!(%error, "the ledger cannot be written yet; records wait");
                    None
                }
                Err(error) => return Err(error),
            },
        };
        let log = match &options.events_path {
            None => None,
            Some(path) => {
                let opened = Log::open(path, options.events_max_bytes, options.events_keep);
                Some(opened.map_err(|error| OpenError::new(path, OpenProblem::File(error)))?)
            }
        };
        let queue = Arc::new(Queue::new(Limits {
            records: options.queue_records,
            bytes: options.queue_bytes,
            gather: options.gather,
        }));
        let left = match &db {
            Some(db) if options.end_left_open => left_open(db, options.queue_records / 4),
            _ => Vec::new(),
        };
        for record in left {
            queue.push(record);
        }
        let path = options.path.clone().or_else(|| options.events_path.clone()).unwrap_or_default();
        let writer = Writer::new(options, Arc::clone(&queue), Arc::clone(&clock), db, log);
        std::thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| OpenError::new(&path, OpenProblem::File(error)))?;
        Ok(Self { inner: Arc::new(Inner { queue, clock, said: AtomicU64::new(0) }) })
    }

    /// Queues a record and returns at once, whatever the disk does. Where the queue is full the
    /// record is lost: that is counted ([`Ledger::lost`]) and said aloud.
    pub fn record(&self, record: Record) {
        if !self.inner.queue.push(record) {
            self.inner.say_loss();
        }
    }

    /// Records that were never written, since this ledger was opened.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.inner.queue.lost()
    }

    /// Records that wait to be written.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.inner.queue.waiting()
    }

    /// Has what waits written now rather than with more, and does not wait for it.
    pub fn flush(&self) {
        self.inner.queue.hurry();
    }

    /// Waits until every record so far is on disk or given up. Blocks: not for async tasks.
    ///
    /// # Errors
    /// When time is over first; they are tried on.
    pub fn drain(&self, timeout: Duration) -> Result<(), Undrained> {
        let upto = self.inner.queue.hurry();
        match self.inner.queue.settled(upto, timeout) {
            0 => Ok(()),
            left => Err(Undrained { left }),
        }
    }

    /// Writes what waits and closes the files, for this handle and all others; later records are
    /// lost. Blocks: not for async tasks.
    ///
    /// # Errors
    /// When not everything could be written in this time; the rest is lost, and counted.
    pub fn close(&self, timeout: Duration) -> Result<(), Undrained> {
        let queue = &self.inner.queue;
        let before = queue.lost();
        queue.close(timeout);
        // The writer keeps the time itself; it may hang in the file system only.
        if !queue.gone(timeout + Duration::from_secs(1)) {
            return Err(Undrained { left: queue.waiting() });
        }
        match queue.lost() - before {
            0 => Ok(()),
            left => Err(Undrained { left }),
        }
    }
}

/// What a process left open that is gone.
fn left_open(db: &Db, most: usize) -> Vec<Record> {
    match db.left_open(most) {
        Ok(left) => {
            if !left.is_empty() {
                tracing::warn!(records = left.len(), "what was left open is ended");
            }
            left
        }
        Err(error) => {
            tracing::warn!(%error, "runs that were left open stay so");
            Vec::new()
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("waiting", &self.waiting())
            .field("lost", &self.lost())
            .finish()
    }
}

impl Inner {
    /// Says aloud that records are lost, once in a while.
    fn say_loss(&self) {
        let now = (self.clock)();
        let said = self.said.load(Ordering::Relaxed);
        let due = said == 0 || now.saturating_sub(said) >= SAY_EVERY_MS;
        let mine =
            || self.said.compare_exchange(said, now.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if due && mine().is_ok() {
            let (lost, waiting) = (self.queue.lost(), self.queue.waiting());
            tracing::error!(lost, waiting, "the ledger loses records: its queue is full or closed");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close(GRACE);
    }
}

/// Records that were not written in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undrained {
    /// How many.
    pub left: u64,
}

impl fmt::Display for Undrained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ledger records could not be written in time", self.left)
    }
}

impl std::error::Error for Undrained {}
