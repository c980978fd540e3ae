//! Deletion of runs, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use softland_postgres::tokio_postgres::types::ToSql;
use softland_postgres::{BusyConnection, DatabaseError};

use super::client::Client;
use super::place::PostgresPlace;
use crate::db::STEP;
use crate::delete::DeleteTarget;
use crate::sql::to_sql_int;
use crate::store::{FaultKind, StoreFault};

/// The time that a step may take.
const ANSWER: Duration = Duration::from_secs(35);

/// Deletes rows of runs that are not being written, and all that belongs to them. `{}` stands for the
/// condition.
const RUNS: &str = "WITH old AS (SELECT id, run FROM softland_ledger_runs WHERE {} LIMIT 32 FOR UPDATE SKIP LOCKED),
    a AS (DELETE FROM softland_ledger_lines WHERE run_id IN (SELECT id FROM old)),
    b AS (DELETE FROM softland_ledger_requests WHERE run_id IN (SELECT id FROM old)),
    c AS (DELETE FROM softland_ledger_contents WHERE run_id IN (SELECT id FROM old)),
    d AS (DELETE FROM softland_ledger_open_requests WHERE run IN (SELECT run FROM old))
  DELETE FROM softland_ledger_runs WHERE id IN (SELECT id FROM old)";

/// Deletes requests that belong to no run, and their contents.
const LOOSE: &str = "WITH old AS (SELECT seq FROM softland_ledger_requests WHERE run_id = 0 AND {}
      LIMIT 32 FOR UPDATE SKIP LOCKED),
    a AS (DELETE FROM softland_ledger_contents WHERE run_id = 0 AND seq IN (SELECT seq FROM old))
  DELETE FROM softland_ledger_requests WHERE run_id = 0 AND seq IN (SELECT seq FROM old)";

/// The rows that are deleted, as conditions.
struct Doomed {
    runs: String,
    /// `None` for no request without a run.
    loose: Option<String>,
    /// Of requests that have not ended; `None` for none of them.
    open: Option<String>,
    values: Vec<Box<dyn ToSql + Send + Sync>>,
}

/// Returns the ids of the runs that [`delete_runs`] would delete now.
pub(crate) fn find_runs_to_delete(
    place: &PostgresPlace,
    which: DeleteTarget<'_>,
) -> Result<Vec<String>, StoreFault> {
    let client = connect(place)?;
    let Doomed { runs, values, .. } = Doomed::new(which);
    let database = Arc::clone(&client.database);
    let found = client.ask(ANSWER, async move {
        if database.read_version().await? == 0 {
            return Ok(Vec::new());
        }
        let client = database.get_as_is().await?;
        let sql = format!("SELECT run FROM softland_ledger_runs WHERE {runs}");
        let rows = client.query(&sql, &as_parameters(&values)).await;
        client.put_back();
        Ok(rows?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
    });
    Ok(found?)
}

fn connect(place: &PostgresPlace) -> Result<Arc<Client>, StoreFault> {
    place.client().map_err(|problem| {
        // The problem of an address that cannot be used has no place in it.
        StoreFault { kind: FaultKind::Broken, why: format!("{problem:?}") }
    })
}

fn as_parameters(values: &[Box<dyn ToSql + Send + Sync>]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| -> &(dyn ToSql + Sync) { &**value }).collect()
}

/// Deletes runs with all their data. Returns the number of deleted runs.
pub(crate) fn delete_runs(
    place: &PostgresPlace,
    which: DeleteTarget<'_>,
) -> Result<u64, StoreFault> {
    let client = connect(place)?;
    let doomed = Arc::new(Doomed::new(which));
    let mut deleted = 0;
    loop {
        let (database, doomed) = (Arc::clone(&client.database), Arc::clone(&doomed));
        let step = client.ask(ANSWER, async move {
            if database.read_version().await? == 0 {
                return Ok((0, 0));
            }
            let client = database.get_as_is().await?;
            let done = delete_step(&client, &doomed).await;
            client.put_back();
            done
        });
        let (runs, others) = step?;
        deleted += runs;
        if runs.max(others) < STEP as u64 {
            return Ok(deleted);
        }
    }
}

/// Deletes a few runs whose last record is older than `before`, and a few such requests. Returns true
/// if there may be more.
pub(super) async fn delete_old(
    client: &BusyConnection,
    before: u64,
) -> Result<bool, DatabaseError> {
    let (runs, others) = delete_step(client, &Doomed::new(DeleteTarget::Before(before))).await?;
    Ok(runs.max(others) >= STEP as u64)
}

/// Deletes a few runs, and a few requests without a run. Returns their numbers.
async fn delete_step(
    client: &BusyConnection,
    doomed: &Doomed,
) -> Result<(u64, u64), DatabaseError> {
    let values = as_parameters(&doomed.values);
    let runs = client.execute(&RUNS.replace("{}", &doomed.runs), &values).await?;
    let mut loose = 0;
    if let Some(condition) = &doomed.loose {
        loose = client.execute(&LOOSE.replace("{}", condition), &values).await?;
    }
    if let Some(condition) = &doomed.open {
        let sql = format!("DELETE FROM softland_ledger_open_requests WHERE {condition}");
        client.execute(&sql, &values).await?;
    }
    Ok((runs, loose))
}

impl Doomed {
    fn new(which: DeleteTarget<'_>) -> Self {
        match which {
            DeleteTarget::Run(run) => Self {
                runs: "run = $1".to_owned(),
                loose: None,
                open: None,
                values: vec![Box::new(run.to_owned())],
            },
            DeleteTarget::Before(time) => Self {
                runs: "started < $1 AND last < $1 ORDER BY last".to_owned(),
                loose: Some("at < $1 ORDER BY at".to_owned()),
                open: None,
                values: vec![Box::new(to_sql_int(time))],
            },
            DeleteTarget::Of { session, key } => {
                let mut values: Vec<Box<dyn ToSql + Send + Sync>> = Vec::new();
                let mut named = Vec::new();
                for (column, name) in [("session", session), ("key", key)] {
                    if let Some(name) = name {
                        values.push(Box::new(name.to_owned()));
                        named.push(format!("{column} = ${}", values.len()));
                    }
                }
                let named = named.join(" AND ");
                Self { runs: named.clone(), loose: Some(named.clone()), open: Some(named), values }
            }
        }
    }
}
