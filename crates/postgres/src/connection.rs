//! The connections, and the one statement that they run.

use std::error::Error as _;
use std::fmt;
use std::str::FromStr as _;
use std::time::Duration;

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::migrate::migrate;

/// The time that a call may take, also while a connection is made anew.
pub(crate) const CALL: Duration = Duration::from_secs(5);
/// The time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(2);
/// The time after which the database itself ends a statement.
const STATEMENT: Duration = Duration::from_millis(4500);
/// The number of connections of one gateway.
const CONNECTIONS: usize = 6;
/// The number of attempts at a transaction that the database ends because of another one.
const ATTEMPTS: usize = 8;

/// Runs operations. Text goes both ways: the operations come from it, and the answers are read from it.
const RUN: &str = "SELECT softland_run($1, $2::text::jsonb)::text";

/// An address that cannot be used.
#[derive(Debug)]
pub struct ConnectError(String);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {}

/// The connections to a database, and its migration before the first call.
pub(crate) struct Connections {
    pool: Pool,
    is_migrated: OnceCell<()>,
}

impl Connections {
    /// Prepares connections, which are made with the first calls.
    pub(crate) fn new(url: &str) -> Result<Self, ConnectError> {
        // The error of the address could repeat a part of it.
        let invalid = |_| ConnectError("it is no address of PostgreSQL".to_owned());
        let mut config = Config::from_str(url).map_err(invalid)?;
        config.connect_timeout(CONNECT).tcp_user_timeout(CALL).application_name("softland");
        let tls = ClientConfig::with_platform_verifier();
        let tls = tls.map_err(|error| ConnectError(format!("TLS cannot be used: {error}")))?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, MakeRustlsConnect::new(tls), recycling);
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(CALL))
            .create_timeout(Some(CONNECT))
            .recycle_timeout(Some(CONNECT))
            .post_create(Hook::async_fn(|client, _| {
                Box::pin(async move {
                    let bound = format!("SET statement_timeout = {}", STATEMENT.as_millis());
                    client.batch_execute(&bound).await.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| ConnectError(error.to_string()))?;
        Ok(Self { pool, is_migrated: OnceCell::new() })
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
            let client = BusyConnection(Some(self.get().await?));
            let answer = client.run(host, operations).await;
            client.put_back();
            match answer {
                Ok(answers) => return Ok(answers),
                Err(error) if attempt < ATTEMPTS && is_conflict(&error) => {}
                Err(error) => return Err(describe(&error)),
            }
        }
    }

    /// Returns a connection to a database that has its tables.
    async fn get(&self) -> Result<Object, String> {
        let connect = async || self.pool.get().await.map_err(|error| describe_pool(&error));
        let migrated = self.is_migrated.get_or_try_init(async || {
            migrate(&mut *connect().await?).await.map_err(|error| describe(&error))
        });
        migrated.await?;
        connect().await
    }

    /// Deletes a part of the rows that have not been used for long. Returns their number.
    pub(crate) async fn sweep(&self) -> Result<i64, String> {
        let client = self.get().await?;
        let row = client.query_one("SELECT softland_sweep()", &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| describe(&error))
    }
}

/// A connection with a statement under way. If it is dropped before it was put back, the connection is
/// closed and leaves the pool: the next statement on it would wait for this one.
struct BusyConnection(Option<Object>);

impl BusyConnection {
    async fn run(&self, host: &str, operations: &str) -> Result<String, tokio_postgres::Error> {
        let Some(client) = &self.0 else { return Ok("[]".to_owned()) };
        let statement = client.prepare_cached(RUN).await?;
        client.query_one(&statement, &[&host, &operations]).await?.try_get(0)
    }

    fn put_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        drop(self.0.take().map(Object::take));
    }
}

/// Returns true for a transaction that can be made again.
fn is_conflict(error: &tokio_postgres::Error) -> bool {
    const CONFLICTS: [SqlState; 4] = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::FOREIGN_KEY_VIOLATION,
    ];
    error.code().is_some_and(|code| CONFLICTS.contains(code))
}

/// Returns an error's text. The database's own texts contain no password.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => format!("{} ({})", error.message(), error.code().code()),
        None => match error.source() {
            Some(cause) => format!("{error}: {cause}"),
            None => error.to_string(),
        },
    }
}

fn describe_pool(error: &PoolError) -> String {
    match error {
        PoolError::Backend(error) => describe(error),
        PoolError::PostCreateHook(HookError::Backend(error)) => describe(error),
        PoolError::Timeout(_) => "no connection in time".to_owned(),
        other => other.to_string(),
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}
