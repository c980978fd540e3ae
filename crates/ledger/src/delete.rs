//! Deletion of runs from a ledger, also while a gateway writes to it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use crate::db;
use crate::options::OpenError;
use crate::place::LedgerPlace;
use crate::read::ReadError;

/// The time to wait for a gateway's lock, which it holds for a few milliseconds at a time.
const BUSY: Duration = Duration::from_secs(5);

/// The runs to delete.
#[derive(Clone, Copy, Debug)]
pub enum DeleteTarget<'a> {
    /// The run with this id.
    Run(&'a str),
    /// The runs with no record since this time, in milliseconds since 1970, and requests of the
    /// same age that belong to no run.
    Before(u64),
    /// The runs of a session, of a key, or of both, and requests of theirs that belong to no run.
    Of {
        /// The session.
        session: Option<&'a str>,
        /// The name of the key.
        key: Option<&'a str>,
    },
}

/// Returns the ids of the runs that [`delete_runs`] would delete now.
///
/// # Errors
/// Returns an error if there is no ledger, or it cannot be read.
pub fn find_runs_to_delete(
    place: impl Into<LedgerPlace>,
    which: DeleteTarget<'_>,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let place = place.into();
    if matches!(which, DeleteTarget::Of { session: None, key: None }) {
        return Ok(Vec::new());
    }
    match &place {
        LedgerPlace::File(path) => find_in_file(path, which),
        #[cfg(feature = "postgres")]
        LedgerPlace::Postgres(postgres) => {
            let found = crate::postgres::find_runs_to_delete(postgres, which);
            Ok(found.map_err(|fault| ReadError::new(&place, &fault))?)
        }
    }
}

fn find_in_file(
    path: &Path,
    which: DeleteTarget<'_>,
) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let Some(connection) = open_ledger(path)? else { return Ok(Vec::new()) };
    let found = match which {
        DeleteTarget::Run(run) => db::find_run(&connection, run),
        DeleteTarget::Before(time) => db::find_old(&connection, time),
        DeleteTarget::Of { session, key } => db::find_of(&connection, (session, key)),
    };
    Ok(found.map_err(|error| ReadError::new(&path.into(), &error.into()))?)
}

/// Deletes runs with all their data, in small steps. Returns the number of deleted runs. In a file, the
/// deleted data is overwritten; a PostgreSQL does so when it is vacuumed. Event logs are not touched:
/// [`blank_log_lines`](crate::blank_log_lines) is for them.
///
/// # Errors
/// Returns an error if there is no ledger, or it cannot be written. Completed steps are not undone.
pub fn delete_runs(
    place: impl Into<LedgerPlace>,
    which: DeleteTarget<'_>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let place = place.into();
    // Nothing is named, so nothing is meant.
    if matches!(which, DeleteTarget::Of { session: None, key: None }) {
        return Ok(0);
    }
    match &place {
        LedgerPlace::File(path) => delete_from_file(path, which),
        #[cfg(feature = "postgres")]
        LedgerPlace::Postgres(postgres) => {
            let deleted = crate::postgres::delete_runs(postgres, which);
            Ok(deleted.map_err(|fault| ReadError::new(&place, &fault))?)
        }
    }
}

fn delete_from_file(
    path: &Path,
    which: DeleteTarget<'_>,
) -> Result<u64, Box<dyn std::error::Error>> {
    let Some(connection) = open_ledger(path)? else { return Ok(0) };
    let deleted = match which {
        DeleteTarget::Run(run) => delete_run(&connection, run),
        DeleteTarget::Before(time) => {
            delete_in_steps(&connection, |db| db::drop_old(db, time, db::STEP))
        }
        DeleteTarget::Of { session, key } => {
            delete_in_steps(&connection, |db| db::drop_named(db, (session, key), db::STEP))
        }
    };
    Ok(deleted.map_err(|error| ReadError::new(&path.into(), &error.into()))?)
}

/// Opens the ledger of a file; `None` if nothing was written to it.
fn open_ledger(path: &Path) -> Result<Option<Connection>, Box<dyn std::error::Error>> {
    OpenError::check_file(path)?;
    let connection =
        db::open_connection(path, BUSY).map_err(|error| OpenError::from_sqlite(path, error))?;
    let is_empty = db::check_version(&connection, path)? == 0;
    Ok(Some(connection).filter(|_| !is_empty))
}

fn delete_run(db: &Connection, run: &str) -> rusqlite::Result<u64> {
    db.pragma_update(None, "secure_delete", true)?;
    let found = db.query_row("SELECT id FROM runs WHERE run = ?1", [run], |row| row.get(0));
    let Some(id) = found.optional()? else { return Ok(0) };
    db::drop_run(db, id)?;
    truncate_wal(db)?;
    Ok(1)
}

/// Repeats a step until it deletes less than [`db::STEP`] rows. Returns the number of deleted runs.
fn delete_in_steps(
    db: &Connection,
    step: impl Fn(&Connection) -> rusqlite::Result<usize>,
) -> rusqlite::Result<u64> {
    db.pragma_update(None, "secure_delete", true)?;
    let count = || db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
    let all = count()?;
    loop {
        match step(db) {
            Ok(dropped) if dropped < db::STEP => break,
            Ok(_) => {}
            Err(error) if is_stale_snapshot(&error) => {
                std::thread::sleep(Duration::from_millis(20))
            }
            Err(error) => return Err(error),
        }
    }
    truncate_wal(db)?;
    Ok(u64::try_from(all - count()?).unwrap_or(0))
}

/// True if another process has written between the read and the deletion.
fn is_stale_snapshot(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT)
}

/// Moves the overwritten pages from the write-ahead log into the file, as far as readers allow it.
fn truncate_wal(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
