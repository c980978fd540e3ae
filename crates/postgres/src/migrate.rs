//! The tables and functions of a database, made under a lock by the first process that needs them.

use tokio_postgres::Client;

use crate::database::DatabaseError;

/// The tables and functions that a database has to have.
#[derive(Debug)]
pub struct Tables {
    /// What the tables are of, for the log.
    pub name: &'static str,
    /// The table with the version.
    pub meta: &'static str,
    /// The lock that one process holds while it makes them.
    pub lock: i64,
    /// The changes of the tables from version to version. The first makes them.
    pub schemas: &'static [&'static str],
    /// The functions, in the order in which they need each other.
    pub functions: &'static [&'static str],
    /// True to use the tables of a newer release as they are, false to refuse them.
    pub takes_newer: bool,
}

/// Brings a database to this release's version. Tables of a newer release are left as they are.
///
/// # Errors
/// Returns the database's error, or that the tables are too new; nothing was changed then.
pub(crate) async fn migrate(client: &mut Client, tables: &Tables) -> Result<(), DatabaseError> {
    let Tables { name, meta, lock, schemas, functions, .. } = tables;
    let change = client.transaction().await?;
    change.execute("SELECT pg_advisory_xact_lock($1)", &[lock]).await?;
    change
        .batch_execute(&format!("CREATE TABLE IF NOT EXISTS {meta} (version integer NOT NULL)"))
        .await?;
    let row =
        change.query_one(&format!("SELECT coalesce(max(version), 0) FROM {meta}"), &[]).await?;
    let found = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0);
    tables.check_version(found)?;
    if let Some(missing @ [_, ..]) = schemas.get(found..) {
        for statements in missing.iter().chain(*functions) {
            change.batch_execute(statements).await?;
        }
        let version = schemas.len();
        change.batch_execute(&format!("INSERT INTO {meta} VALUES ({version})")).await?;
        tracing::info!(version, "the {name} database has its tables");
    }
    Ok(change.commit().await?)
}

/// Returns the version of the tables; 0 if there are none.
///
/// # Errors
/// Returns the database's error, or that the tables are too new.
pub(crate) async fn read_version(client: &Client, tables: &Tables) -> Result<usize, DatabaseError> {
    let there = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&tables.meta]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let sql = format!("SELECT coalesce(max(version), 0) FROM {}", tables.meta);
    let row = client.query_one(&sql, &[]).await?;
    let found = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0);
    tables.check_version(found).map(|()| found)
}

impl Tables {
    fn check_version(&self, found: usize) -> Result<(), DatabaseError> {
        let known = self.schemas.len();
        match found > known && !self.takes_newer {
            true => Err(DatabaseError::Newer { found, known }),
            false => Ok(()),
        }
    }
}
