//! Deletion of runs, a few at a time.

use std::sync::Arc;
use std::time::Duration;

use softland_postgres::tokio_postgres::types::{FromSql, ToSql};
use softland_postgres::tokio_postgres::{Row, Transaction};
use softland_postgres::{BusyConnection, DatabaseError};

use super::client::Client;
use super::place::PostgresPlace;
use crate::db::STEP;
use crate::delete::DeleteTarget;
use crate::sql::to_sql_int;
use crate::store::{FaultKind, StoreFault};

/// The time that a step may take.
const ANSWER: Duration = Duration::from_secs(35);
/// The number of attempts at a step that the database ends because of another transaction.
const ATTEMPTS: usize = 8;

/// Deletes requests that belong to no run, and their contents.
const LOOSE: &str = "WITH old AS (SELECT seq FROM softland_ledger_requests WHERE run_id = 0 AND {}
      LIMIT 32 FOR UPDATE SKIP LOCKED),
    a AS (DELETE FROM softland_ledger_contents WHERE run_id = 0 AND seq IN (SELECT seq FROM old))
  DELETE FROM softland_ledger_requests WHERE run_id = 0 AND seq IN (SELECT seq FROM old)";

/// The rows that are deleted, as conditions.
struct Doomed {
    runs: String,
    /// With an order, if there is one; `None` for no request without a run.
    loose: Option<String>,
    /// Of requests that have not ended; `None` for none of them.
    open: Option<String>,
    /// The order in which runs are looked for, if there is one.
    order: &'static str,
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

/// Deletes runs with all their data. Waits for those that are being written. Returns the number of
/// deleted runs.
pub(crate) fn delete_runs(
    place: &PostgresPlace,
    which: DeleteTarget<'_>,
) -> Result<u64, StoreFault> {
    let client = connect(place)?;
    let doomed = Arc::new(Doomed::new(which));
    let (mut deleted, mut attempt) = (0, 0);
    loop {
        let (database, doomed) = (Arc::clone(&client.database), Arc::clone(&doomed));
        let step = client.ask(ANSWER, async move {
            if database.read_version().await? == 0 {
                return Ok(DeletionStep::default());
            }
            let mut client = database.get_as_is().await?;
            let done = delete_step(&mut client, &doomed, BusyRuns::WaitedFor).await;
            client.put_back();
            done
        });
        attempt += 1;
        match step {
            Ok(step) => {
                deleted += step.runs;
                attempt = 0;
                if step.is_last() {
                    return Ok(deleted);
                }
            }
            Err(error) if attempt < ATTEMPTS && error.is_conflict() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Deletes a few runs whose last record is older than `before`, and a few such requests. Returns true
/// if there may be more.
pub(super) async fn delete_old(
    client: &mut BusyConnection,
    before: u64,
) -> Result<bool, DatabaseError> {
    let doomed = Doomed::new(DeleteTarget::Before(before));
    Ok(!delete_step(client, &doomed, BusyRuns::Skipped).await?.is_last())
}

/// What a deletion does about runs that are being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BusyRuns {
    WaitedFor,
    Skipped,
}

/// What a step has done.
#[derive(Clone, Copy, Default)]
struct DeletionStep {
    /// The number of deleted runs.
    runs: u64,
    /// The number of runs, or of requests without a run, that it found. Others may have deleted some.
    found: usize,
}

impl DeletionStep {
    fn is_last(self) -> bool {
        self.found < STEP
    }
}

/// Deletes a few runs, and a few requests without a run.
async fn delete_step(
    client: &mut BusyConnection,
    doomed: &Doomed,
    busy: BusyRuns,
) -> Result<DeletionStep, DatabaseError> {
    let change = client.transaction().await?;
    let Doomed { runs, order, .. } = doomed;
    let values = as_parameters(&doomed.values);
    let sql = format!("SELECT id FROM softland_ledger_runs WHERE {runs} {order} LIMIT {STEP}");
    let ids = read_column::<i64>(&change.query(&sql, &values).await?)?;
    let mut step = DeletionStep { runs: 0, found: ids.len() };
    if !ids.is_empty() {
        let with_ids: Vec<_> = values.iter().copied().chain([&ids as _]).collect();
        step.runs = delete_with_rows(&change, runs, &with_ids, busy).await?;
    }
    if let Some(loose) = &doomed.loose {
        let deleted = change.execute(&LOOSE.replace("{}", loose), &values).await?;
        step.found = step.found.max(usize::try_from(deleted).unwrap_or(usize::MAX));
    }
    if let Some(open) = &doomed.open {
        let sql = format!("DELETE FROM softland_ledger_open_requests WHERE {open}");
        change.execute(&sql, &values).await?;
    }
    change.commit().await?;
    Ok(step)
}

/// Deletes runs with their rows. The last of the values are the ids of the runs.
///
/// A statement sees what was committed before it began. So the rows of runs are deleted by other
/// statements than the one that locks the runs: these see all that writers added before, and none can
/// add more.
async fn delete_with_rows(
    change: &Transaction<'_>,
    condition: &str,
    values: &[&(dyn ToSql + Sync)],
    busy: BusyRuns,
) -> Result<u64, DatabaseError> {
    let skip = if busy == BusyRuns::Skipped { " SKIP LOCKED" } else { "" };
    // Writers lock their runs in the same order.
    let sql = format!(
        "SELECT id, run FROM softland_ledger_runs WHERE {condition} AND id = ANY(${})
         ORDER BY run FOR UPDATE{skip}",
        values.len()
    );
    let rows = change.query(&sql, values).await?;
    let ids = read_column::<i64>(&rows)?;
    let names: Vec<&str> = rows.iter().map(|row| row.try_get(1)).collect::<Result<_, _>>()?;
    for table in ["lines", "requests", "contents"] {
        let sql = format!("DELETE FROM softland_ledger_{table} WHERE run_id = ANY($1)");
        change.execute(&sql, &[&ids]).await?;
    }
    let open = "DELETE FROM softland_ledger_open_requests WHERE run = ANY($1)";
    change.execute(open, &[&names]).await?;
    Ok(change.execute("DELETE FROM softland_ledger_runs WHERE id = ANY($1)", &[&ids]).await?)
}

fn read_column<'a, T: FromSql<'a>>(rows: &'a [Row]) -> Result<Vec<T>, DatabaseError> {
    Ok(rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?)
}

impl Doomed {
    fn new(which: DeleteTarget<'_>) -> Self {
        match which {
            DeleteTarget::Run(run) => Self {
                runs: "run = $1".to_owned(),
                loose: None,
                open: None,
                order: "",
                values: vec![Box::new(run.to_owned())],
            },
            DeleteTarget::Before(time) => Self {
                runs: "started < $1 AND last < $1".to_owned(),
                loose: Some("at < $1 ORDER BY at".to_owned()),
                open: None,
                order: "ORDER BY last",
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
                Self {
                    runs: named.clone(),
                    loose: Some(named.clone()),
                    open: Some(named),
                    order: "",
                    values,
                }
            }
        }
    }
}
