//! The thread that writes batches to the database, and then their lines to the event log.
//!
//! One batch at a time passes through both. If either fails, the batch is held and tried again,
//! while the queue fills up and finally loses new records. Only written records get numbers, so
//! that a fault leaves no gap in them.

use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batch::{Batch, BatchPart, TextSpan};
use crate::db::Database;
use crate::ledger::{Clock, LONG_GONE};
use crate::log::EventLog;
use crate::options::{OpenError, Options};
use crate::place::LedgerPlace;
use crate::queue::{NextBatch, Queue};
use crate::record::Request;
use crate::registry::{NumberedLine, Numbering, RecordSink, RunRegistry, RunRow};
use crate::store::{FaultKind, LedgerStore, StoreFault};

/// The time between two log messages about the same fault, in milliseconds.
pub(crate) const SAY_EVERY_MS: u64 = 10_000;
/// The first pause between two attempts; each pause is twice the one before.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// The time between two searches for expired runs.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The time between two searches for what dead processes left open in a shared database.
const END_EVERY: Duration = Duration::from_secs(60 * 60);
/// The time between two steps of one sweep.
const SWEEP_STEP: Duration = Duration::from_millis(200);

/// The state of the writer's thread.
pub(crate) struct Writer {
    options: Options,
    queue: Arc<Queue>,
    clock: Clock,
    db: Option<Box<dyn LedgerStore>>,
    log: Option<EventLog>,
    /// True if no other process writes to the log, which may lack the last lines of a dead process.
    catch_up: bool,
    /// Open runs of a database that was moved away.
    left: Vec<RunRow>,
    /// The states of runs, used if there is no database.
    registry: RunRegistry,
    /// A batch that is not in the database yet.
    held: Batch,
    /// The number of records to write at a time: 1 after a record that can never be written.
    stride: usize,
    /// Lines that are in the database and not in the log yet.
    text: Vec<u8>,
    /// The number of records to which these lines belong.
    unlogged: u64,
    trouble: Option<OngoingFault>,
    sweep_at: Instant,
    end_at: Instant,
}

/// A fault that has not passed yet.
struct OngoingFault {
    since: u64,
    said: u64,
    rest: Duration,
}

/// The cause of a failed write.
enum WriteFault {
    Db(StoreFault),
    Other(String),
}

impl Writer {
    pub(crate) fn new(
        options: Options,
        queue: Arc<Queue>,
        clock: Clock,
        db: Option<Box<dyn LedgerStore>>,
        log: Option<(EventLog, bool)>,
    ) -> Self {
        let (log, alone) = log.map_or((None, false), |(log, alone)| (Some(log), alone));
        let registry = RunRegistry::new(options.full_contents);
        Self {
            options,
            queue,
            clock,
            db,
            log,
            catch_up: alone,
            left: Vec::new(),
            registry,
            held: Batch::default(),
            stride: usize::MAX,
            text: Vec::new(),
            unlogged: 0,
            trouble: None,
            sweep_at: Instant::now(),
            end_at: Instant::now(),
        }
    }

    /// Writes until the queue is closed and empty.
    pub(crate) fn run_loop(mut self) {
        let _over = FinishGuard(Arc::clone(&self.queue));
        loop {
            if self.held.is_empty() && self.text.is_empty() && !self.catch_up {
                let patience = self.sweep_at.saturating_duration_since(Instant::now());
                match self.queue.next_batch(&mut self.held, patience) {
                    NextBatch::Over => break,
                    NextBatch::Batch | NextBatch::Idle => self.stride = usize::MAX,
                }
            }
            match self.write_held() {
                Ok(()) => {
                    self.sweep_old_runs();
                    self.end_abandoned();
                    self.report_recovery();
                }
                Err(fault) => {
                    let rest = self.report_fault(fault);
                    if !self.queue.wait_before_retry(rest) {
                        break;
                    }
                }
            }
        }
        self.finish_writing();
    }

    /// Writes the held batch to the database and the log.
    fn write_held(&mut self) -> Result<(), WriteFault> {
        self.reopen_database()?;
        self.catch_up_log()?;
        self.append_lines()?;
        while !self.held.is_empty() {
            let size = self.stride.min(self.held.len());
            match self.db.as_mut() {
                Some(db) => {
                    match db.write_batch(
                        self.held.first_records(size),
                        &mut self.text,
                        self.log.is_some(),
                    ) {
                        Ok(written) => self.queue.count_lost(written.misnamed),
                        Err(fault) if fault.kind != FaultKind::Record => {
                            return Err(WriteFault::Db(fault));
                        }
                        Err(error) => {
                            self.skip_bad_record(size, &error);
                            continue;
                        }
                    }
                }
                None => self.number_held(size),
            }
            self.held.mark_done(size);
            self.unlogged += size as u64;
            self.append_lines()?;
        }
        Ok(())
    }

    /// Opens the database if it is not open, or if its file was replaced.
    fn reopen_database(&mut self) -> Result<(), WriteFault> {
        let Some(place) = &self.options.place else { return Ok(()) };
        if let Some(old) = self.db.take_if(|db| db.is_replaced()) {
            tracing::error!(path = %place, "the ledger's file was moved away; a new one is created");
            self.left = old.read_open_runs();
        }
        if self.db.is_none() {
            let opened = open_store(place, &self.options);
            let mut db = opened.map_err(|error| WriteFault::Other(error.to_string()))?;
            db.continue_runs(std::mem::take(&mut self.left));
            self.db = Some(db);
        }
        Ok(())
    }

    /// Appends to the log the lines that a dead process left out. Without a database, reads the
    /// states of runs from the log.
    fn catch_up_log(&mut self) -> Result<(), WriteFault> {
        let Some(log) = self.log.as_mut().filter(|_| self.catch_up) else {
            self.catch_up = false;
            return Ok(());
        };
        let other = |error: &dyn Display| WriteFault::Other(error.to_string());
        match &self.db {
            Some(db) => {
                let missing = db.unlogged_lines().map_err(WriteFault::Db)?;
                if !missing.is_empty() {
                    let there = log.read_recent_ids().map_err(|error| other(&error))?;
                    let missing = missing.into_iter().filter(|(place, _)| !there.contains(place));
                    self.text.extend(missing.flat_map(|(_, text)| text));
                }
            }
            None => {
                let rows = log.read_run_rows().map_err(|error| other(&error))?;
                self.registry.load_rows(rows);
            }
        }
        self.catch_up = false;
        Ok(())
    }

    /// Appends the lines to the log, and then counts their records as written.
    fn append_lines(&mut self) -> Result<(), WriteFault> {
        match &mut self.log {
            Some(log) => {
                let failed = |error: std::io::Error| {
                    let path = self.options.events_path.as_deref().unwrap_or_else(|| "".as_ref());
                    WriteFault::Other(format!("{}: {error}", path.display()))
                };
                log.append_lines(&mut self.text).map_err(failed)?;
            }
            None => self.text.clear(),
        }
        self.queue.settle_records(std::mem::take(&mut self.unlogged));
        Ok(())
    }

    /// Numbers records without a database.
    fn number_held(&mut self, size: usize) {
        let BatchPart { records, texts } = self.held.first_records(size);
        for record in records {
            match self.registry.number_record(record, texts, &mut NullSink, Some(&mut self.text)) {
                Ok(Numbering::Misnamed) => self.queue.count_lost(1),
                Ok(Numbering::Line | Numbering::NoLine | Numbering::Known) => {}
                Err(never) => match never {},
            }
        }
        self.registry.mark_stored(true);
    }

    /// Handles a record that can never be written: alone it is lost, in a batch it is searched for.
    fn skip_bad_record(&mut self, size: usize, error: &StoreFault) {
        if size == 1 {
            self.held.mark_done(1);
            self.queue.count_lost(1);
            self.queue.settle_records(1);
            tracing::error!(%error, "a ledger record cannot be written and is lost");
        } else {
            self.stride = 1;
        }
    }

    /// Deletes a few expired runs, if it is time.
    fn sweep_old_runs(&mut self) {
        let now = Instant::now();
        if self.sweep_at > now {
            return;
        }
        self.sweep_at = now + SWEEP_EVERY;
        let (Some(db), Some(age)) = (&mut self.db, self.options.retention) else { return };
        let age = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        match db.sweep_old_runs((self.clock)().saturating_sub(age)) {
            Ok(true) => self.sweep_at = now + SWEEP_STEP,
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "old runs could not be deleted from the ledger"),
        }
    }

    /// Ends what dead processes left open in a shared database, if it is time.
    fn end_abandoned(&mut self) {
        let now = Instant::now();
        if self.end_at > now || !self.options.end_left_open {
            return;
        }
        self.end_at = now + END_EVERY;
        let Some(db) = &mut self.db else { return };
        let old = (self.clock)().saturating_sub(LONG_GONE);
        if let Err(error) = db.end_abandoned(old, &mut self.text, self.log.is_some()) {
            tracing::warn!(%error, "runs of a process that died could not be ended");
        }
    }

    /// Logs a fault, at most once every [`SAY_EVERY_MS`]. Returns the time to wait before a retry.
    fn report_fault(&mut self, fault: WriteFault) -> Duration {
        let why = match fault {
            WriteFault::Other(why) => why,
            WriteFault::Db(fault) => {
                if fault.kind != FaultKind::Passing {
                    self.db = None;
                }
                match &self.options.place {
                    Some(place) => format!("{place}: {fault}"),
                    None => fault.why,
                }
            }
        };
        self.queue.note_fault(&why);
        let now = (self.clock)();
        let (lost, waiting) = (self.queue.lost_records(), self.queue.waiting_records());
        let first = self.trouble.is_none();
        let trouble =
            self.trouble.get_or_insert(OngoingFault { since: now, said: now, rest: FIRST_REST });
        if first || now.saturating_sub(trouble.said) >= SAY_EVERY_MS {
            trouble.said = now;
            tracing::error!(lost, waiting, "the ledger cannot be written, records wait: {why}");
        }
        let rest = trouble.rest;
        trouble.rest = (rest * 2).min(LONGEST_REST);
        rest
    }

    /// Logs that a fault has passed.
    fn report_recovery(&mut self) {
        if let Some(trouble) = self.trouble.take() {
            let millis = (self.clock)().saturating_sub(trouble.since);
            tracing::warn!(lost = self.queue.lost_records(), millis, "the ledger is written again");
        }
    }

    /// Counts the held records as lost, and marks the log as complete if no line is missing.
    fn finish_writing(self) {
        let held = self.held.len() as u64 + if self.db.is_none() { self.unlogged } else { 0 };
        self.queue.count_lost(held);
        if let Some(db) = self.db.filter(|_| self.text.is_empty() && self.log.is_some()) {
            // If this fails, the lines are looked for at the next start.
            let _ = db.mark_all_logged();
        }
        if held > 0 {
            tracing::error!(
                lost = self.queue.lost_records(),
                "the ledger is closed with records unwritten"
            );
        }
        self.queue.settle_records(self.held.len() as u64 + self.unlogged);
    }
}

/// Marks the writer as stopped when dropped, also after a panic.
struct FinishGuard(Arc<Queue>);

impl Drop for FinishGuard {
    fn drop(&mut self) {
        self.0.mark_over();
    }
}

/// Opens or creates the database at a place.
pub(crate) fn open_store(
    place: &LedgerPlace,
    options: &Options,
) -> Result<Box<dyn LedgerStore>, OpenError> {
    match place {
        LedgerPlace::File(path) => {
            let file = Database::open(path, options.full_contents, options.max_bytes)?;
            Ok(Box::new(file))
        }
        #[cfg(feature = "postgres")]
        LedgerPlace::Postgres(postgres) => {
            let opened = crate::postgres::PostgresStore::open(postgres, options.full_contents);
            let opened = opened.map_err(|problem| OpenError { place: place.clone(), problem })?;
            Ok(Box::new(opened))
        }
    }
}

/// A sink that keeps nothing, for use without a database.
struct NullSink;

impl RecordSink<'_> for NullSink {
    type Error = std::convert::Infallible;

    fn find_run(&mut self, _: &str) -> Result<Option<RunRow>, Self::Error> {
        Ok(None)
    }

    fn add_event(&mut self, _: NumberedLine<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn add_sent(&mut self, _: &Request<TextSpan>) {}

    fn add_request(&mut self, _: i64, _: u64, _: &Request<TextSpan>) -> Result<(), Self::Error> {
        Ok(())
    }
}
