//! The tables, and the migrations from one version to the next.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::options::{OpenError, OpenProblem};

/// "soft", in the field by which SQLite tells applications apart.
const APPLICATION: i64 = 0x736f_6674;

/// One migration per version; the first starts from an empty file. Released ones never change.
const STEPS: &[&str] = &[
    include_str!("1.sql"),
    include_str!("2.sql"),
    include_str!("3.sql"),
    include_str!("4.sql"),
    include_str!("5.sql"),
];

/// The newest version.
pub(crate) const VERSION: i64 = STEPS.len() as i64;

/// For each older version, the views that show a reader the newest tables.
const VIEWS: &[&str] = &[
    "CREATE TEMP VIEW runs AS SELECT *, NULL AS name, 0 AS observed, NULL AS key, NULL AS account
         FROM main.runs;
     CREATE TEMP VIEW requests AS SELECT *, NULL AS key, NULL AS account FROM main.requests;
     CREATE TEMP VIEW lines AS SELECT *, seq AS row FROM main.events",
    "CREATE TEMP VIEW runs AS SELECT *, NULL AS key, NULL AS account FROM main.runs;
     CREATE TEMP VIEW requests AS SELECT *, NULL AS key, NULL AS account FROM main.requests;
     CREATE TEMP VIEW lines AS SELECT *, seq AS row FROM main.events",
    WITHOUT_KEYS,
    WITHOUT_KEYS,
];

/// The views for files of the versions 3 and 4, which know no keys.
const WITHOUT_KEYS: &str =
    "CREATE TEMP VIEW runs AS SELECT *, NULL AS key, NULL AS account FROM main.runs;
     CREATE TEMP VIEW requests AS SELECT *, NULL AS key, NULL AS account FROM main.requests";

/// Makes an older file look like one of the newest version, without writing to it. Returns false if
/// the file has no tables yet.
///
/// # Errors
/// As for [`check_version`].
pub(crate) fn add_compat_views(connection: &Connection, path: &Path) -> Result<bool, OpenError> {
    let version = check_version(connection, path)?;
    let view = usize::try_from(version - 1).ok().and_then(|at| VIEWS.get(at));
    let made = view.map_or(Ok(()), |view| connection.execute_batch(view));
    made.map_err(|error| OpenError::new(path, to_problem(error)))?;
    Ok(version > 0)
}

/// Migrates a file to the newest version, in one transaction.
///
/// # Errors
/// Returns an error if the file belongs to another program, was written by a newer version, or
/// cannot be written.
pub(crate) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let fail = |error| OpenError::new(path, to_problem(error));
    if read_version(connection, path)? < VERSION {
        // Setting this mode locks the file for a moment. The file stays in this mode.
        let mode = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        connection.pragma_update_and_check(None, "journal_mode", "wal", mode).map_err(fail)?;
        run_migrations(connection, STEPS).map_err(fail)?;
    }
    // A process that ended at a bad moment, or that was not alone, may have left another mode.
    let found = connection.query_row("PRAGMA journal_mode", [], |row| row.get::<_, String>(0));
    if found.map_err(fail)? != "wal" {
        let mode = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        // A file that others use at the moment stays in its mode, in which it can be written, too.
        if let Err(error) = connection.pragma_update_and_check(None, "journal_mode", "wal", mode) {
            tracing::warn!(%error, "the ledger is written without a write-ahead log for now");
        }
    }
    // Another process may have migrated the file first, perhaps to a later version.
    read_version(connection, path).map(drop)
}

/// Returns the version of a ledger file; 0 if it is empty.
///
/// # Errors
/// Returns an error if the file belongs to another program, was written by a newer version, or
/// cannot be read.
pub(crate) fn check_version(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    read_version(connection, path)
}

fn read_version(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let fail = |problem| Err(OpenError::new(path, problem));
    let read = || {
        // Read at one moment: another process may be making the tables.
        let moment = connection.unchecked_transaction()?;
        let number = |sql: &str| moment.query_row(sql, [], |row| row.get::<_, i64>(0));
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
            number("SELECT count(*) FROM sqlite_schema")?,
        ))
    };
    match read() {
        Err(error) => fail(to_problem(error)),
        Ok((APPLICATION, found, _)) if found > VERSION => {
            fail(OpenProblem::Newer { found, known: VERSION })
        }
        Ok((APPLICATION, found, _)) => Ok(found),
        Ok((0, 0, 0)) => Ok(0),
        Ok(_) => fail(OpenProblem::NotALedger),
    }
}

fn to_problem(error: rusqlite::Error) -> OpenProblem {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenProblem::NotALedger,
        _ => OpenProblem::Sqlite(error),
    }
}

/// Runs the migrations that the file has not had yet: all of them or none.
fn run_migrations(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    let seen: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let seen = usize::try_from(seen).unwrap_or(usize::MAX);
    for step in steps.iter().skip(seen) {
        transaction.execute_batch(step)?;
    }
    if seen < steps.len() {
        transaction.pragma_update(None, "user_version", steps.len() as i64)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
    }
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(connection: &Connection) -> i64 {
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn steps_are_taken_once_and_in_order() {
        let mut db = Connection::open_in_memory().unwrap();
        let first = "CREATE TABLE a (x); INSERT INTO a VALUES (1);";
        run_migrations(&mut db, &[first]).unwrap();
        assert_eq!(version(&db), 1);
        let second = "ALTER TABLE a ADD COLUMN y DEFAULT 7; UPDATE a SET x = x + 1;";
        for _ in 0..2 {
            run_migrations(&mut db, &[first, second]).unwrap();
            let row = db.query_row("SELECT x, y FROM a", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            });
            assert_eq!((version(&db), row.unwrap()), (2, (2, 7)));
        }
        run_migrations(&mut db, &[first]).unwrap();
        assert_eq!(version(&db), 2, "an older program takes nothing back");
    }

    #[test]
    fn a_step_that_fails_leaves_the_file_as_it_was() {
        let mut db = Connection::open_in_memory().unwrap();
        run_migrations(&mut db, &["CREATE TABLE a (x)"]).unwrap();
        run_migrations(&mut db, &["", "CREATE TABLE b (x)", "CREATE TABLE a (x)"]).unwrap_err();
        let tables: i64 =
            db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).unwrap();
        assert_eq!((version(&db), tables), (1, 1));
    }
}
