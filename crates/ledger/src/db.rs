//! The SQLite file: opened for its owner only, migrated to the newest version, written in whole
//! batches.
//!
//! Several processes may write to one file. Every batch holds the write lock from its beginning,
//! and remembered runs are read again if another process has written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};

use crate::batch::BatchPart;
use crate::log::LineId;
use crate::options::{OpenError, OpenProblem};
use crate::platform::{self, FileIdentity, open_or_create};
use crate::record::{Record, Request};
use crate::registry::{Numbering, RunRegistry, RunRow};
use crate::store::{BatchReport, LedgerStore, StoreFault};

mod bind;
mod open_requests;
mod rows;
mod schema;
mod shared_rows;
mod sweep;
mod tables;

#[cfg(feature = "postgres")]
pub(crate) use open_requests::{OPEN_COLUMNS, read_open_request};
pub(crate) use rows::{COLUMNS, StoredLine, read_lines, read_run_row, run_sql};
#[cfg(feature = "postgres")]
pub(crate) use rows::{REQUEST_COLUMNS, read_request_line, read_stored_line};
pub(crate) use schema::{add_compat_views, check_version};
pub(crate) use sweep::{STEP, drop_named, drop_old, drop_run, find_of, find_old, find_run};

/// The time to wait for another process's lock before a batch counts as failed.
const BUSY: Duration = Duration::from_millis(250);
/// The size of the write-ahead log on disk after a checkpoint, in bytes.
const WAL_KEPT: i64 = 16 << 20;
/// SQLite's page size (its default since 3.12).
const PAGE: u64 = 4096;

/// An open ledger file.
#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
    path: PathBuf,
    identity: Option<FileIdentity>,
    book: RunRegistry,
    /// True if full contents are kept.
    full: bool,
    /// SQLite's number for the state of the file, which changes when another connection writes.
    others: i64,
    /// Open runs of the file that was here before this one.
    left: Vec<RunRow>,
}

impl Database {
    /// Opens or creates the file, and migrates it to the newest version.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or written, belongs to another program, or was
    /// written by a newer version.
    pub(crate) fn open(path: &Path, full: bool, max: Option<u64>) -> Result<Self, OpenError> {
        let fail = |problem| OpenError::new(path, problem);
        let sqlite = |error| fail(OpenProblem::Sqlite(error));
        create_file(path)?;
        let mut connection = open_connection(path, BUSY).map_err(sqlite)?;
        // This comes before the migration: every wait for the disk delays the first request.
        connection.pragma_update(None, "synchronous", "normal").map_err(sqlite)?;
        schema::migrate(&mut connection, path)?;
        connection.pragma_update(None, "journal_size_limit", WAL_KEPT).map_err(sqlite)?;
        if let Some(max) = max {
            let pages = i64::try_from(max / PAGE).unwrap_or(i64::MAX);
            let set = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
            connection
                .pragma_update_and_check(None, "max_page_count", pages, set)
                .map_err(sqlite)?;
        }
        let book = RunRegistry::new(full);
        let identity = FileIdentity::from_path(path);
        // SQLite never uses -1, so that the first batch reads the file.
        Ok(Self {
            connection,
            path: path.to_owned(),
            identity,
            book,
            full,
            others: -1,
            left: Vec::new(),
        })
    }

    /// Returns the records that complete what a dead process left open: its requests, at the most
    /// that they can have cost, and the ends of its runs. There are at most `most` of each. While
    /// another process has the file open, only what has no record since `old` counts as left open.
    fn find_abandoned(&self, most: usize, old: u64) -> rusqlite::Result<Vec<Record>> {
        let (runs, requests) = self.read_left_open(most)?;
        if runs.is_empty() && requests.is_empty() {
            return Ok(Vec::new());
        }
        let (runs, requests) = match self.read_alone(|| self.read_left_open(most))? {
            Some(all) => all,
            None => {
                let (path, open) = (self.path.display(), runs.len());
                tracing::info!(%path, open, "another process has the ledger open, too: runs stay open");
                let runs = runs.into_iter().filter(|row| row.last < old).collect();
                let requests = requests.into_iter().filter(|request| request.at < old).collect();
                (runs, requests)
            }
        };
        Ok(complete_records(runs, requests))
    }

    /// Reads the runs and the requests that have not ended, at most `most` of each.
    fn read_left_open(&self, most: usize) -> rusqlite::Result<(Vec<RunRow>, Vec<Request>)> {
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let sql = run_sql("SELECT ", " FROM runs WHERE ended IS NULL ORDER BY id LIMIT ?1");
        let mut open = self.connection.prepare(&sql)?;
        let runs = open.query_map([limit], |row| read_run_row(row))?.collect::<Result<_, _>>()?;
        Ok((runs, open_requests::read_oldest(&self.connection, limit)?))
    }

    /// Reads while no other process has the file open, and none can open it; `None` if another
    /// process has. Only a process that is alone can leave SQLite's write-ahead mode, and in the
    /// exclusive mode it then stays alone until that mode ends.
    fn read_alone<T>(
        &self,
        read: impl FnOnce() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Option<T>> {
        let set = |pragma: &str, mode: &str| {
            let value = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
            self.connection.pragma_update_and_check(None, pragma, mode, value)
        };
        set("locking_mode", "exclusive")?;
        let alone = set("journal_mode", "delete").is_ok_and(|mode| mode == "delete");
        let found = alone.then(read).transpose();
        set("locking_mode", "normal")?;
        // The next access gives the file free again.
        self.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        if let Err(error) = set("journal_mode", "wal") {
            tracing::warn!(%error, "the ledger is written without a write-ahead log for now");
        }
        found
    }

    fn write_transaction(
        &mut self,
        batch: BatchPart<'_>,
        text: &mut Vec<u8>,
        logged: bool,
    ) -> rusqlite::Result<BatchReport> {
        let Self { connection, book, others, full, left, .. } = self;
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        refresh_registry(&transaction, book, others)?;
        let mut written = BatchReport::default();
        let mut sink = tables::TableSink::new(&transaction, *full, batch.texts);
        for row in std::mem::take(left) {
            book.adopt_run(row, &mut sink)?;
        }
        for record in batch.records {
            let text = logged.then_some(&mut *text);
            if book.number_record(record, batch.texts, &mut sink, text)? == Numbering::Misnamed {
                written.misnamed += 1;
            }
        }
        sink.write_rows(book.changed_rows())?;
        if logged {
            rows::note_unlogged(&transaction, &sink.first)?;
        }
        drop(sink);
        transaction.commit()?;
        Ok(written)
    }
}

impl LedgerStore for Database {
    fn write_batch(
        &mut self,
        batch: BatchPart<'_>,
        text: &mut Vec<u8>,
        logged: bool,
    ) -> Result<BatchReport, StoreFault> {
        let before = text.len();
        let written = self.write_transaction(batch, text, logged);
        match &written {
            Ok(_) => self.book.mark_stored(false),
            Err(_) => {
                self.book.forget_runs();
                self.others = -1;
                text.truncate(before);
            }
        }
        Ok(written?)
    }

    fn sweep_old_runs(&mut self, before: u64) -> Result<bool, StoreFault> {
        let dropped = drop_old(&self.connection, before, STEP)?;
        if dropped > 0 {
            self.book.forget_runs();
        }
        Ok(dropped >= STEP)
    }

    fn abandoned_records(&self, most: usize, old: u64) -> Result<Vec<Record>, StoreFault> {
        Ok(self.find_abandoned(most, old)?)
    }

    fn unlogged_lines(&self) -> Result<Vec<(LineId, Vec<u8>)>, StoreFault> {
        Ok(rows::unlogged_lines(&self.connection)?)
    }

    fn mark_all_logged(&self) -> Result<(), StoreFault> {
        Ok(rows::note_unlogged(&self.connection, &BTreeMap::new())?)
    }

    fn is_replaced(&self) -> bool {
        FileIdentity::from_path(&self.path) != self.identity
    }

    /// This works on a deleted file, too, while it is held open here.
    fn read_open_runs(&self) -> Vec<RunRow> {
        let sql = run_sql("SELECT ", " FROM runs WHERE ended IS NULL ORDER BY id DESC LIMIT 4000");
        let read = || -> rusqlite::Result<Vec<RunRow>> {
            self.connection.prepare(&sql)?.query_map([], |row| read_run_row(row))?.collect()
        };
        read().unwrap_or_default()
    }

    fn continue_runs(&mut self, runs: Vec<RunRow>) {
        self.left = runs;
    }
}

/// Returns the records that complete requests and runs which a dead process left open: the requests
/// at the most that they can have cost, and then the ends of the runs.
pub(crate) fn complete_records(runs: Vec<RunRow>, requests: Vec<Request>) -> Vec<Record> {
    let mut runs: BTreeMap<_, _> = runs.into_iter().map(|row| (row.run.clone(), row)).collect();
    for request in &requests {
        let run = request.run.as_ref().and_then(|run| runs.get_mut(run));
        run.into_iter().for_each(|run| run.add_abandoned(request));
    }
    let ends = runs.into_values().map(|row| Record::RunEnd(row.into_abandoned_end()));
    requests.into_iter().map(Record::Request).chain(ends).collect()
}

/// Creates the file if it does not exist, and closes it to others if it is ours. The file is
/// checked over a separate connection: the files that SQLite puts beside it get the mode that it
/// has then.
fn create_file(path: &Path) -> Result<(), OpenError> {
    let fail = |error| OpenError::new(path, OpenProblem::File(error));
    let file = open_or_create(path, false).map_err(fail)?;
    if file.metadata().map_err(fail)?.len() > 0 {
        let sqlite = |error| OpenError::new(path, OpenProblem::Sqlite(error));
        check_version(&open_connection(path, BUSY).map_err(sqlite)?, path)?;
    }
    platform::restrict_to_owner(&file).map_err(fail)
}

/// Opens a connection that may write to an existing file.
pub(crate) fn open_connection(path: &Path, busy: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(busy)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Forgets all runs if another connection has written.
fn refresh_registry(
    db: &Connection,
    book: &mut RunRegistry,
    others: &mut i64,
) -> rusqlite::Result<()> {
    let version = db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
    if *others == version {
        return Ok(());
    }
    book.forget_runs();
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0));
    book.next_id = number("SELECT coalesce(max(id), 0) + 1 FROM runs")?;
    let loose = number("SELECT coalesce(max(seq) + 1, 0) FROM requests WHERE run_id = 0")?;
    book.next_runless = u64::try_from(loose).unwrap_or(0);
    *others = version;
    Ok(())
}
