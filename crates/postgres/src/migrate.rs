//! The tables and functions of the database, made under a lock by the first gateway that needs them.

use tokio_postgres::{Client, Error};

/// The version of the tables and functions here. A database of a newer release is left as it is.
const VERSION: i32 = 1;
/// The lock that one gateway holds while it makes them.
const LOCK: i64 = 4_850_180;

const SCHEMA: &str = include_str!("sql/schema.sql");
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
    let row = change.query_opt("SELECT max(version) FROM softland_meta", &[]).await?;
    let version: Option<i32> = row.and_then(|row| row.get(0));
    if version.is_none_or(|version| version < VERSION) {
        if version.is_none() {
            change.batch_execute(SCHEMA).await?;
        }
        for functions in FUNCTIONS {
            change.batch_execute(functions).await?;
        }
        change.execute("INSERT INTO softland_meta VALUES ($1)", &[&VERSION]).await?;
        tracing::info!(version = VERSION, "the shared database has its tables");
    }
    change.commit().await
}
