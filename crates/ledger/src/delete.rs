//! Deleting runs from a ledger, also while a gateway writes to it.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _};

use crate::db;
use crate::options::{OpenError, OpenProblem};
use crate::read::ReadError;

/// How long a lock of a gateway is waited for; it holds one for a few milliseconds at a time.
const BUSY: Duration = Duration::from_secs(5);

/// Which runs to delete.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// The run with this id.
    Run(&'a str),
    /// Those last heard of before this time, in milliseconds since 1970, and as old requests of
    /// no run.
    Before(u64),
}

/// Deletes runs with all that belongs to them, in small steps; returns how many. What was deleted
/// is overwritten in the file. The event log is not touched.
///
/// # Errors
/// When there is no ledger, or it cannot be written; steps that were taken stay taken.
pub fn delete(path: &Path, which: Which<'_>) -> Result<u64, Box<dyn std::error::Error>> {
    let fail = |problem| OpenError::new(path, problem);
    if !path.exists() {
        return Err(fail(OpenProblem::Missing).into());
    }
    let connection = db::connect(path, BUSY).map_err(|error| fail(OpenProblem::Sqlite(error)))?;
    if db::check(&connection, path)? == 0 {
        return Ok(0);
    }
    let deleted = match which {
        Which::Run(run) => one(&connection, run),
        Which::Before(time) => old(&connection, time),
    };
    Ok(deleted.map_err(|error| ReadError::new(path, error))?)
}

fn one(db: &Connection, run: &str) -> rusqlite::Result<u64> {
    db.pragma_update(None, "secure_delete", true)?;
    let found = db.query_row("SELECT id FROM runs WHERE run = ?1", [run], |row| row.get(0));
    let Some(id) = found.optional()? else { return Ok(0) };
    db::drop_run(db, id)?;
    checkpoint(db)?;
    Ok(1)
}

fn old(db: &Connection, before: u64) -> rusqlite::Result<u64> {
    db.pragma_update(None, "secure_delete", true)?;
    let count = || db.query_row("SELECT count(*) FROM runs", [], |row| row.get::<_, i64>(0));
    let all = count()?;
    loop {
        match db::drop_old(db, before, db::STEP) {
            Ok(dropped) if dropped < db::STEP => break,
            Ok(_) => {}
            Err(error) if is_outdated(&error) => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error),
        }
    }
    checkpoint(db)?;
    Ok(u64::try_from(all - count()?).unwrap_or(0))
}

/// The gateway has written between the look and the deletion.
fn is_outdated(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    code == Some(rusqlite::ffi::SQLITE_BUSY_SNAPSHOT)
}

/// What was overwritten is so in the file itself, as far as readers let it.
fn checkpoint(db: &Connection) -> rusqlite::Result<()> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}
