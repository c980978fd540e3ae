//! The thread that writes batches to the database, and then their lines to the event log.
//!
//! One batch at a time passes through both. If either fails, the batch is held and tried again,
//! while the queue fills up and finally loses new records. Only written records get numbers, so
//! that a fault leaves no gap in them.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::ErrorCode;

use crate::batch::{Batch, Part, Span};
use crate::book::{Book, Line, Row, Sink, Taken};
use crate::db::Db;
use crate::ledger::Clock;
use crate::log::Log;
use crate::options::Options;
use crate::queue::{Next, Queue};
use crate::record::Request;

/// The time between two log messages about the same fault, in milliseconds.
pub(crate) const SAY_EVERY_MS: u64 = 10_000;
/// The first pause between two attempts; each pause is twice the one before.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// The time between two searches for expired runs.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The time between two steps of one sweep.
const SWEEP_STEP: Duration = Duration::from_millis(200);

/// The state of the writer's thread.
pub(crate) struct Writer {
    options: Options,
    queue: Arc<Queue>,
    clock: Clock,
    db: Option<Db>,
    log: Option<Log>,
    /// True if no other process writes to the log, which may lack the last lines of a dead process.
    catch_up: bool,
    /// Open runs of a database that was moved away.
    left: Vec<Row>,
    /// The states of runs, used if there is no database.
    book: Book,
    /// A batch that is not in the database yet.
    held: Batch,
    /// The number of records to write at a time: 1 after a record that can never be written.
    stride: usize,
    /// Lines that are in the database and not in the log yet.
    text: Vec<u8>,
    /// The number of records to which these lines belong.
    unlogged: u64,
    trouble: Option<Trouble>,
    sweep_at: Instant,
}

/// A fault that has not passed yet.
struct Trouble {
    since: u64,
    said: u64,
    rest: Duration,
}

/// The cause of a failed write.
enum Fault {
    Db(rusqlite::Error),
    Other(String),
}

impl Writer {
    pub(crate) fn new(
        options: Options,
        queue: Arc<Queue>,
        clock: Clock,
        db: Option<Db>,
        log: Option<(Log, bool)>,
    ) -> Self {
        let (log, alone) = log.map_or((None, false), |(log, alone)| (Some(log), alone));
        let book = Book::new(options.full_contents);
        Self {
            options,
            queue,
            clock,
            db,
            log,
            catch_up: alone,
            left: Vec::new(),
            book,
            held: Batch::default(),
            stride: usize::MAX,
            text: Vec::new(),
            unlogged: 0,
            trouble: None,
            sweep_at: Instant::now(),
        }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _over = Over(Arc::clone(&self.queue));
        loop {
            if self.held.is_empty() && self.text.is_empty() && !self.catch_up {
                let patience = self.sweep_at.saturating_duration_since(Instant::now());
                match self.queue.next(&mut self.held, patience) {
                    Next::Over => break,
                    Next::Batch | Next::Idle => self.stride = usize::MAX,
                }
            }
            match self.write() {
                Ok(()) => {
                    self.sweep();
                    self.say_over();
                }
                Err(fault) => {
                    let rest = self.say(fault);
                    if !self.queue.rest(rest) {
                        break;
                    }
                }
            }
        }
        self.finish();
    }

    /// Writes the held batch to the database and the log.
    fn write(&mut self) -> Result<(), Fault> {
        self.reopen()?;
        self.catch_up()?;
        self.append()?;
        while !self.held.is_empty() {
            let size = self.stride.min(self.held.len());
            match self.db.as_mut() {
                Some(db) => {
                    match db.write(self.held.first(size), &mut self.text, self.log.is_some()) {
                        Ok(written) => self.queue.lose(written.misnamed),
                        Err(error) if !is_of_data(&error) => return Err(Fault::Db(error)),
                        Err(error) => {
                            self.skip(size, &error);
                            continue;
                        }
                    }
                }
                None => self.number(size),
            }
            self.held.done(size);
            self.unlogged += size as u64;
            self.append()?;
        }
        Ok(())
    }

    /// Opens the database if it is not open, or if its file was replaced.
    fn reopen(&mut self) -> Result<(), Fault> {
        let Some(path) = &self.options.path else { return Ok(()) };
        if let Some(old) = self.db.take_if(|db| db.is_replaced()) {
            tracing::error!(path = %path.display(), "the ledger was moved away; it is begun anew");
            self.left = old.open_runs();
        }
        if self.db.is_none() {
            let opened = Db::open(path, self.options.full_contents, self.options.max_bytes);
            let mut db = opened.map_err(|error| Fault::Other(error.to_string()))?;
            db.goes_on_with(std::mem::take(&mut self.left));
            self.db = Some(db);
        }
        Ok(())
    }

    /// Appends to the log the lines that a dead process left out. Without a database, reads the
    /// states of runs from the log.
    fn catch_up(&mut self) -> Result<(), Fault> {
        let Some(log) = self.log.as_mut().filter(|_| self.catch_up) else {
            self.catch_up = false;
            return Ok(());
        };
        let other = |error: &dyn Display| Fault::Other(error.to_string());
        match &self.db {
            Some(db) => {
                let missing = db.unlogged().map_err(Fault::Db)?;
                if !missing.is_empty() {
                    let there = log.recent().map_err(|error| other(&error))?;
                    let missing = missing.into_iter().filter(|(place, _)| !there.contains(place));
                    self.text.extend(missing.flat_map(|(_, text)| text));
                }
            }
            None => {
                let rows = log.standings().map_err(|error| other(&error))?;
                self.book.learn(rows);
            }
        }
        self.catch_up = false;
        Ok(())
    }

    /// Appends the lines to the log, and then counts their records as written.
    fn append(&mut self) -> Result<(), Fault> {
        match &mut self.log {
            Some(log) => {
                let failed = |error: std::io::Error| {
                    let path = self.options.events_path.as_deref().unwrap_or_else(|| "".as_ref());
                    Fault::Other(format!("{}: {error}", path.display()))
                };
                log.append(&mut self.text).map_err(failed)?;
            }
            None => self.text.clear(),
        }
        self.queue.settle(std::mem::take(&mut self.unlogged));
        Ok(())
    }

    /// Numbers records without a database.
    fn number(&mut self, size: usize) {
        let Part { records, texts } = self.held.first(size);
        for record in records {
            match self.book.take(record, texts, &mut Nowhere, Some(&mut self.text)) {
                Ok(Taken::Misnamed) => self.queue.lose(1),
                Ok(Taken::Line | Taken::NoLine | Taken::Known) => {}
                Err(never) => match never {},
            }
        }
        self.book.kept(true);
    }

    /// Handles a record that can never be written: alone it is lost, in a batch it is searched for.
    fn skip(&mut self, size: usize, error: &rusqlite::Error) {
        if size == 1 {
            self.held.done(1);
            self.queue.lose(1);
            self.queue.settle(1);
            tracing::error!(%error, "a ledger record cannot be written and is lost");
        } else {
            self.stride = 1;
        }
    }

    /// Deletes a few expired runs, if it is time.
    fn sweep(&mut self) {
        let now = Instant::now();
        if self.sweep_at > now {
            return;
        }
        self.sweep_at = now + SWEEP_EVERY;
        let (Some(db), Some(age)) = (&mut self.db, self.options.retention) else { return };
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        match db.sweep((self.clock)().saturating_sub(age)) {
            Ok(true) => self.sweep_at = now + SWEEP_STEP,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "old runs could not be deleted from the ledger"),
        }
    }

    /// Logs a fault, at most once every [`SAY_EVERY_MS`]. Returns the time to wait before a retry.
    fn say(&mut self, fault: Fault) -> Duration {
        let why = match fault {
            Fault::Other(why) => why,
            Fault::Db(error) => {
                if !is_lock_or_full(&error) {
                    self.db = None;
                }
                let path = self.options.path.as_deref().unwrap_or_else(|| "".as_ref());
                format!("{}: {error}", path.display())
            }
        };
        let now = (self.clock)();
        let (lost, waiting) = (self.queue.lost(), self.queue.waiting());
        let first = self.trouble.is_none();
        let trouble =
            self.trouble.get_or_insert(Trouble { since: now, said: now, rest: FIRST_REST });
        if first || now.saturating_sub(trouble.said) >= SAY_EVERY_MS {
            trouble.said = now;
            tracing::error!(lost, waiting, "the ledger cannot be written, records wait: {why}");
        }
        let rest = trouble.rest;
        trouble.rest = (rest * 2).min(LONGEST_REST);
        rest
    }

    /// Logs that a fault has passed.
    fn say_over(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            let millis = (self.clock)().saturating_sub(trouble.since);
            tracing::warn!(lost = self.queue.lost(), millis, "the ledger is written again");
        }
    }

    /// Counts the held records as lost, and marks the log as complete if no line is missing.
    fn finish(self) {
        let held = self.held.len() as u64 + if self.db.is_none() { self.unlogged } else { 0 };
        self.queue.lose(held);
        if let Some(db) = self.db.filter(|_| self.text.is_empty() && self.log.is_some()) {
            // If this fails, the lines are looked for at the next start.
            let _ = db.all_logged();
        }
        if held > 0 {
            tracing::error!(
                lost = self.queue.lost(),
                "the ledger is closed with records unwritten"
            );
        }
        self.queue.settle(self.held.len() as u64 + self.unlogged);
    }
}

/// Marks the writer as stopped when dropped, also after a panic.
struct Over(Arc<Queue>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.over();
    }
}

/// True for an error that is caused by the record rather than the disk.
fn is_of_data(error: &rusqlite::Error) -> bool {
    use ErrorCode::{ConstraintViolation, ParameterOutOfRange, TooBig, TypeMismatch};
    match error.sqlite_error_code() {
        Some(code) => {
            matches!(code, ConstraintViolation | ParameterOutOfRange | TooBig | TypeMismatch)
        }
        None => true,
    }
}

/// True for an error that leaves the open file usable.
fn is_lock_or_full(error: &rusqlite::Error) -> bool {
    use ErrorCode::{DatabaseBusy, DatabaseLocked, DiskFull};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | DiskFull))
}

/// A sink that keeps nothing, for use without a database.
struct Nowhere;

impl Sink<'_> for Nowhere {
    type Error = std::convert::Infallible;

    fn find(&mut self, _: &str) -> Result<Option<Row>, Self::Error> {
        Ok(None)
    }

    fn event(&mut self, _: Line<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn sent(&mut self, _: &Request<Span>) {}

    fn request(&mut self, _: i64, _: u64, _: &Request<Span>) -> Result<(), Self::Error> {
        Ok(())
    }
}
