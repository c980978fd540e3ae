//! The database behind a reader.

use std::path::Path;
use std::time::Duration;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, ToSql};

use crate::columns::AnyRow;
use crate::db::{self, StoredLine};
use crate::options::{OpenError, OpenProblem};
use crate::place::LedgerPlace;
#[cfg(feature = "postgres")]
use crate::postgres::PostgresReader;
use crate::registry::RunRow;
use crate::sql::{Dialect, Value};
use crate::store::StoreFault;

/// The time to wait for a lock.
const BUSY: Duration = Duration::from_secs(2);

/// A database that is open for reading.
#[derive(Debug)]
pub(super) enum Source {
    Sqlite(Connection),
    #[cfg(feature = "postgres")]
    Postgres(PostgresReader),
}

impl Source {
    /// Opens the database at this place.
    pub(super) fn open(place: &LedgerPlace) -> Result<Self, OpenError> {
        match place {
            LedgerPlace::File(path) => Self::open_file(path),
            #[cfg(feature = "postgres")]
            LedgerPlace::Postgres(postgres) => PostgresReader::open(postgres)
                .map(Self::Postgres)
                .map_err(|problem| OpenError { place: place.clone(), problem }),
        }
    }

    fn open_file(path: &Path) -> Result<Self, OpenError> {
        OpenError::check_file(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sqlite = |error| OpenError::from_sqlite(path, error);
        let connection = Connection::open_with_flags(path, flags).map_err(sqlite)?;
        connection.busy_timeout(BUSY).map_err(sqlite)?;
        if !db::add_compat_views(&connection, path)? {
            return Err(OpenError::new(path, OpenProblem::Empty));
        }
        Ok(Self::Sqlite(connection))
    }

    pub(super) const fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Asks a question, and shows each row to `visit`.
    pub(super) fn query(
        &self,
        sql: &str,
        values: &[Value],
        visit: &mut dyn FnMut(&AnyRow<'_>) -> Result<(), StoreFault>,
    ) -> Result<(), StoreFault> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while let Some(row) = rows.next()? {
                    visit(&AnyRow::Sqlite(row))?;
                }
                Ok(())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(reader) => {
                let rows = reader.query(sql, values)?;
                rows.iter().try_for_each(|row| visit(&AnyRow::Postgres(row)))
            }
        }
    }

    /// Reads a run and its lines as they are at one moment; `None` if there is no such run.
    pub(super) fn read_lines(
        &self,
        run: &str,
    ) -> Result<Option<(RunRow, Vec<StoredLine>)>, StoreFault> {
        match self {
            Self::Sqlite(connection) => {
                let moment = connection.unchecked_transaction()?;
                let sql = db::run_sql("SELECT ", " FROM runs WHERE run = ?1");
                let row = moment.query_row(&sql, [run], |row| db::read_run_row(row)).optional()?;
                let Some(row) = row else { return Ok(None) };
                let lines = db::read_lines(&moment, row.id, 0)?;
                Ok(Some((row, lines)))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(reader) => reader.read_lines(run),
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
