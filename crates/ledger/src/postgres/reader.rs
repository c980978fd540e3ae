//! The reading side.

use std::sync::Arc;
use std::time::Duration;

use softland_postgres::DatabaseError;
use softland_postgres::tokio_postgres::types::ToSql;
use softland_postgres::tokio_postgres::{IsolationLevel, Row};

use super::client::Client;
use super::place::PostgresPlace;
use super::to_problem;
use crate::db::{self, StoredLine};
use crate::options::OpenProblem;
use crate::registry::RunRow;
use crate::sql::{Dialect, Value};
use crate::store::StoreFault;

/// The time that a question may take. The database ends its statement a little earlier.
const ANSWER: Duration = Duration::from_secs(35);

/// A ledger that is open for reading.
#[derive(Debug)]
pub(crate) struct PostgresReader {
    client: Arc<Client>,
}

impl PostgresReader {
    /// Checks that there is a ledger. Changes nothing in the database.
    pub(crate) fn open(place: &PostgresPlace) -> Result<Self, OpenProblem> {
        let client = place.client()?;
        let database = Arc::clone(&client.database);
        let version = client.ask(ANSWER, async move { database.read_version().await });
        match version.map_err(to_problem)? {
            0 => Err(OpenProblem::Empty),
            _ => Ok(Self { client }),
        }
    }

    /// Asks a question, and returns all rows.
    pub(crate) fn query(&self, sql: &str, values: &[Value]) -> Result<Vec<Row>, StoreFault> {
        let (sql, values) = (sql.to_owned(), values.to_vec());
        let database = Arc::clone(&self.client.database);
        let rows = self.client.ask(ANSWER, async move {
            let client = database.get_as_is().await?;
            let rows = async {
                let statement = client.prepare_cached(&sql).await?;
                client.query(&statement, &to_parameters(&values)).await
            };
            let rows = rows.await;
            client.put_back();
            Ok(rows?)
        });
        Ok(rows?)
    }

    /// Reads a run and its lines as they are at one moment; `None` if there is no such run.
    pub(crate) fn read_lines(
        &self,
        run: &str,
    ) -> Result<Option<(RunRow, Vec<StoredLine>)>, StoreFault> {
        let run = run.to_owned();
        let database = Arc::clone(&self.client.database);
        let found = self.client.ask(ANSWER, async move {
            let tables = Dialect::Postgres.tables();
            let mut client = database.get_as_is().await?;
            let moment = client
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true);
            let moment = moment.start().await?;
            let sql = format!("SELECT {} FROM {} WHERE run = $1", db::COLUMNS, tables.runs);
            let row = match moment.query_opt(&sql, &[&run]).await? {
                Some(row) => db::read_run_row(&row)?,
                None => return Ok::<_, DatabaseError>(None),
            };
            let columns = "seq, at, turn, event, fields";
            let sql = format!("SELECT {columns} FROM {} WHERE run_id = $1", tables.lines);
            let lines = moment.query(&sql, &[&row.id]).await?;
            let lines = lines.iter().map(db::read_stored_line);
            let mut lines = lines.collect::<Result<Vec<_>, _>>()?;
            let columns = db::REQUEST_COLUMNS;
            let sql = format!("SELECT {columns} FROM {} WHERE run_id = $1", tables.requests);
            for request in moment.query(&sql, &[&row.id]).await? {
                lines.push(db::read_request_line(&request)?);
            }
            moment.commit().await?;
            client.put_back();
            lines.sort_by_key(|line| line.seq);
            Ok(Some((row, lines)))
        });
        Ok(found?)
    }
}

/// Returns the number of writers, and that of their batches; `None` if it cannot be read.
pub(crate) fn count_batches(place: &PostgresPlace) -> Option<(i64, i64)> {
    let sql = "SELECT count(*), coalesce(sum(batch), 0)::bigint FROM softland_ledger_writers";
    let rows = PostgresReader::open(place).ok()?.query(sql, &[]).ok()?;
    let row = rows.first()?;
    Some((row.try_get(0).ok()?, row.try_get(1).ok()?))
}

fn to_parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(Value::as_parameter).collect()
}

impl Value {
    fn as_parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(number) => number,
            Self::Text(text) => text,
        }
    }
}
