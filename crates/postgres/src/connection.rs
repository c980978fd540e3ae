//! The connections, and the one statement that they run.

use std::fmt;
use std::time::Duration;

use tokio::time::timeout;

use crate::database::{ConnectError, Database, DatabaseError, DatabaseOptions};
use crate::migrate::Tables;

/// The time that a call may take, also while a connection is made anew.
pub(crate) const CALL: Duration = Duration::from_secs(5);
/// The bounds of one gateway's connections.
const OPTIONS: DatabaseOptions =
    DatabaseOptions { connections: 6, statement: Duration::from_millis(4500), wait: CALL };
/// The number of attempts at a transaction that the database ends because of another one.
const ATTEMPTS: usize = 8;

/// The tables of the shared state.
static TABLES: Tables = Tables {
    name: "shared",
    meta: "softland_meta",
    lock: 4_850_180,
    schemas: &[
        include_str!("sql/schema/1.sql"),
        include_str!("sql/schema/2.sql"),
        include_str!("sql/schema/3.sql"),
        include_str!("sql/schema/4.sql"),
    ],
    functions: &[
        include_str!("sql/store.sql"),
        include_str!("sql/recall.sql"),
        include_str!("sql/runs.sql"),
        include_str!("sql/money.sql"),
        include_str!("sql/keys.sql"),
        include_str!("sql/content.sql"),
        include_str!("sql/main.sql"),
    ],
    takes_newer: true,
};

/// Runs operations. Text goes both ways: the operations come from it, and the answers are read from it.
const RUN: &str = "SELECT softland_run($1, $2::text::jsonb)::text";

/// The connections to a database, and its migration before the first call.
pub(crate) struct Connections {
    database: Database,
}

impl Connections {
    /// Prepares connections, which are made with the first calls.
    pub(crate) fn new(url: &str) -> Result<Self, ConnectError> {
        Ok(Self { database: Database::new(url, OPTIONS, &TABLES)? })
    }

    /// Runs operations, in JSON, in one transaction. Returns their answers, in JSON.
    pub(crate) async fn run(&self, host: &str, operations: &str) -> Result<String, String> {
        let answers = timeout(CALL, self.try_to_run(host, operations)).await;
        answers.unwrap_or_else(|_| Err(format!("no answer within {CALL:?}")))
    }

    async fn try_to_run(&self, host: &str, operations: &str) -> Result<String, String> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.run_once(host, operations).await {
                Ok(answers) => return Ok(answers),
                Err(error) if attempt < ATTEMPTS && error.is_conflict() => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn run_once(&self, host: &str, operations: &str) -> Result<String, DatabaseError> {
        let client = self.database.get().await?;
        let answer = async {
            let statement = client.prepare_cached(RUN).await?;
            client.query_one(&statement, &[&host, &operations]).await?.try_get(0)
        };
        let answer: Result<String, _> = answer.await;
        client.put_back();
        Ok(answer?)
    }

    /// Deletes a part of the rows that have not been used for long. Returns their number.
    pub(crate) async fn sweep(&self) -> Result<i64, String> {
        let client = self.database.get().await.map_err(|error| error.to_string())?;
        let row = client.query_one("SELECT softland_sweep()", &[]).await;
        client.put_back();
        row.and_then(|row| row.try_get(0)).map_err(|error| DatabaseError::from(error).to_string())
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}
