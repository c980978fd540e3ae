//! The tables and functions of the database, made under a lock by the first gateway that needs them.

use tokio_postgres::{Client, Error};

/// The changes of the tables from version to version. The first makes them.
const SCHEMAS: [&str; 3] = [
    include_str!("sql/schema/1.sql"),
    include_str!("sql/schema/2.sql"),
    include_str!("sql/schema/3.sql"),
];
/// The version of the tables and functions here. A database of a newer release is left as it is.
const VERSION: usize = SCHEMAS.len();
/// The lock that one gateway holds while it makes them.
const LOCK: i64 = 4_850_180;

/// The functions, in the order in which they need each other.
const FUNCTIONS: [&str; 6] = [
    include_str!("sql/store.sql"),
    include_str!("sql/recall.sql"),
    include_str!("sql/runs.sql"),
    include_str!("sql/money.sql"),
    include_str!("sql/keys.sql"),
    include_str!("sql/main.sql"),
];

/// Brings a database to this release's version.
///
/// # Errors
/// Returns the database's error; nothing was changed then.
pub(crate) async fn migrate(client: &mut Client) -> Result<(), Error> {
    let change = client.transaction().await?;
    change.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
    change
        .batch_execute("CREATE TABLE IF NOT EXISTS softland_meta (version integer NOT NULL)")
        .await?;
    let row = change.query_one("SELECT coalesce(max(version), 0) FROM softland_meta", &[]).await?;
    let version = usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0);
    if let Some(schemas @ [_, ..]) = SCHEMAS.get(version..) {
        for statements in schemas.iter().chain(&FUNCTIONS) {
            change.batch_execute(statements).await?;
        }
        change.batch_execute(&format!("INSERT INTO softland_meta VALUES ({VERSION})")).await?;
        tracing::info!(version = VERSION, "the shared database has its tables");
    }
    change.commit().await
}
