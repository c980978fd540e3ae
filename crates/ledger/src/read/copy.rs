//! Copies of a ledger, for programs that read files.

use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as SqlValue;

use super::{ReadError, Reader};
use crate::columns::{AnyRow, Columns as _};
use crate::db::{self, Database};
use crate::place::LedgerPlace;
use crate::sql::{Conditions, Dialect};
use crate::store::StoreFault;

/// The number of rows that are read at a time.
const PAGE: usize = 2000;

/// The columns of requests, with those that `db::REQUEST_COLUMNS` lacks.
const REQUESTS: &str = "run_id, seq, at, request, session, turn, upstream, path, model, rung, status, \
    input, output, cache_read, cache_write, cost, ms, remark, content_digest, content_bytes, key, \
    account";
const LINES: &str = "run_id, seq, at, turn, event, fields";
/// The columns with texts. All others are whole numbers.
const TEXTS: [&str; 21] = [
    "run",
    "session",
    "agent",
    "continues",
    "model",
    "policy",
    "client",
    "outcome",
    "reason",
    "ending",
    "name",
    "key",
    "account",
    "request",
    "upstream",
    "path",
    "rung",
    "remark",
    "content_digest",
    "event",
    "fields",
];

/// A table to be copied.
struct CopiedTable {
    from: &'static str,
    to: &'static str,
    columns: &'static str,
    /// The columns by which rows are ordered, which stand first.
    key: &'static [&'static str],
}

impl Reader {
    /// Copies runs, lines and requests into a new SQLite ledger, without the contents of requests.
    /// The file may exist if it is empty.
    ///
    /// # Errors
    /// Returns an error if the ledger cannot be read, or the file cannot be written.
    pub fn copy_to_file(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        drop(Database::open(path, false, None)?);
        let place = LedgerPlace::from(path);
        let written = |error: rusqlite::Error| ReadError::new(&place, &error.into());
        let connection = db::open_connection(path, std::time::Duration::ZERO).map_err(written)?;
        let change = connection.unchecked_transaction().map_err(written)?;
        let tables = self.dialect().tables();
        for table in [
            CopiedTable { from: tables.runs, to: "runs", columns: db::COLUMNS, key: &["id"] },
            CopiedTable {
                from: tables.lines,
                to: "events",
                columns: LINES,
                key: &["run_id", "seq"],
            },
            CopiedTable {
                from: tables.requests,
                to: "requests",
                columns: REQUESTS,
                key: &["run_id", "seq"],
            },
        ] {
            self.copy_table(&table, &change, &place)?;
        }
        change.commit().map_err(written)?;
        Ok(())
    }

    fn copy_table(
        &self,
        table: &CopiedTable,
        to: &Connection,
        place: &LedgerPlace,
    ) -> Result<(), ReadError> {
        let names: Vec<&str> = table.columns.split(", ").map(str::trim).collect();
        let holes = vec!["?"; names.len()].join(", ");
        let insert = format!("INSERT INTO {} ({}) VALUES ({holes})", table.to, names.join(", "));
        let written = |error: rusqlite::Error| ReadError::new(place, &error.into());
        let key = table.key.join(", ");
        let mut last: Option<Vec<i64>> = None;
        loop {
            let mut asked = Conditions::new(self.dialect());
            if let Some(last) = &last {
                let values: Vec<_> = last.iter().map(|key| asked.bind_key(*key)).collect();
                asked.add(format!("({key}) > ({})", values.join(", ")));
            }
            let sql = format!(
                "SELECT {} FROM {} WHERE {asked} ORDER BY {key} {}",
                table.columns,
                table.from,
                Dialect::limit(Some(PAGE))
            );
            let rows = self.list(&sql, &asked, |row| read_values(row, &names))?;
            let Some(newest) = rows.last() else { return Ok(()) };
            let keys = newest.iter().take(table.key.len());
            last = Some(keys.filter_map(to_int).collect());
            let mut statement = to.prepare_cached(&insert).map_err(written)?;
            for row in &rows {
                statement.execute(rusqlite::params_from_iter(row)).map_err(written)?;
            }
        }
    }
}

fn read_values(row: &AnyRow<'_>, names: &[&str]) -> Result<Vec<SqlValue>, StoreFault> {
    let value = |(at, name): (usize, &&str)| {
        let text = TEXTS.contains(name);
        let value = if text {
            row.optional_text(at)?.map(SqlValue::Text)
        } else {
            row.optional_int(at)?.map(SqlValue::Integer)
        };
        Ok(value.unwrap_or(SqlValue::Null))
    };
    names.iter().enumerate().map(value).collect()
}

fn to_int(value: &SqlValue) -> Option<i64> {
    match value {
        SqlValue::Integer(number) => Some(*number),
        _ => None,
    }
}
