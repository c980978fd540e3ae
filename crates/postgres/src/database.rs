//! A pool of connections to a database, which has its tables before the first statement.

use std::error::Error as _;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::str::FromStr as _;
use std::time::Duration;

use crate::platform;
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
};
use rustls::ClientConfig;
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::sync::OnceCell;
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::migrate::{Tables, migrate, read_version};

/// The time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(2);
/// PostgreSQL's port.
const PORT: u16 = 5432;

/// The bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct DatabaseOptions {
    /// The number of connections.
    pub connections: usize,
    /// The time after which the database itself ends a statement.
    pub statement: Duration,
    /// The time after which data that the database does not acknowledge ends a connection, and the
    /// time to wait for a free connection.
    pub wait: Duration,
}

/// An address that cannot be used.
#[derive(Debug)]
pub struct ConnectError(String);

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConnectError {}

/// The error of a statement or a connection. Its text contains no password.
#[derive(Debug)]
#[non_exhaustive]
pub enum DatabaseError {
    /// A newer release has made the tables.
    Newer {
        /// The version of the tables.
        found: usize,
        /// The newest version that this program knows.
        known: usize,
    },
    /// The database, or the connection to it, reported an error.
    Database(tokio_postgres::Error),
    /// There is no connection.
    Other(String),
}

/// A pool of connections.
pub struct Database {
    pool: Pool,
    tables: &'static Tables,
    is_migrated: OnceCell<()>,
}

impl Database {
    /// Prepares connections to this address, which are made with the first statements.
    ///
    /// # Errors
    /// Returns an error if the address cannot be used.
    pub fn new(
        url: &str,
        options: DatabaseOptions,
        tables: &'static Tables,
    ) -> Result<Self, ConnectError> {
        let DatabaseOptions { connections, statement, wait } = options;
        let mut config = parse_address(url)?;
        config.connect_timeout(CONNECT).tcp_user_timeout(wait).application_name("softland");
        let tls = ClientConfig::with_platform_verifier();
        let tls = tls.map_err(|error| ConnectError(format!("TLS cannot be used: {error}")))?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, MakeRustlsConnect::new(tls), recycling);
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(wait))
            .create_timeout(Some(CONNECT))
            .recycle_timeout(Some(CONNECT))
            .post_create(Hook::async_fn(move |client, _| {
                Box::pin(async move {
                    let bound = format!("SET statement_timeout = {}", statement.as_millis());
                    client.batch_execute(&bound).await.map_err(HookError::Backend)
                })
            }))
            .build()
            .map_err(|error| ConnectError(error.to_string()))?;
        Ok(Self { pool, tables, is_migrated: OnceCell::new() })
    }

    /// Returns a connection to the database after it has got its tables.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or the tables cannot be made or are too new.
    pub async fn get(&self) -> Result<BusyConnection, DatabaseError> {
        let migrated = self.is_migrated.get_or_try_init(async || {
            let mut client = self.get_as_is().await?;
            let done = migrate(&mut client, self.tables).await;
            client.put_back();
            done
        });
        migrated.await?;
        self.get_as_is().await
    }

    /// Returns a connection to the database as it is, perhaps without tables.
    ///
    /// # Errors
    /// Returns an error if there is no connection.
    pub async fn get_as_is(&self) -> Result<BusyConnection, DatabaseError> {
        let object = self.pool.get().await.map_err(DatabaseError::from_pool)?;
        Ok(BusyConnection { object: Some(object) })
    }

    /// Returns the version of the tables; 0 if there are none. Changes nothing.
    ///
    /// # Errors
    /// Returns an error if there is no connection, or the tables are too new.
    pub async fn read_version(&self) -> Result<usize, DatabaseError> {
        let client = self.get_as_is().await?;
        let version = read_version(&client, self.tables).await;
        client.put_back();
        version
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

/// Parses an address. The error does not repeat a part of it.
fn parse_address(url: &str) -> Result<Config, ConnectError> {
    Config::from_str(url).map_err(|_| {
        ConnectError(
            "it is no address of PostgreSQL, such as postgres://HOST:5432/DATABASE".to_owned(),
        )
    })
}

/// Returns an address as it is shown to people: the hosts and the database, without user, password
/// and options.
///
/// # Errors
/// Returns an error if the text is no address.
pub fn describe_address(url: &str) -> Result<String, ConnectError> {
    let config = parse_address(url)?;
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    let hosts = hosts.iter().enumerate().map(|(at, host)| {
        let port = ports.get(at).or_else(|| ports.first()).copied().unwrap_or(PORT);
        format!("{}:{port}", platform::describe_host(host))
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    let name = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    Ok(format!("postgres://{hosts}/{name}"))
}

/// A connection with statements under way. If it is dropped before it was put back, it is closed and
/// leaves the pool: the next statement on it would wait for those of before.
pub struct BusyConnection {
    object: Option<Object>,
}

impl BusyConnection {
    /// Puts the connection back into the pool.
    pub fn put_back(mut self) {
        drop(self.object.take());
    }
}

impl Deref for BusyConnection {
    type Target = deadpool_postgres::ClientWrapper;

    #[expect(clippy::expect_used, reason = "it is taken out only where `self` ends")]
    fn deref(&self) -> &Self::Target {
        self.object.as_ref().expect("a connection")
    }
}

impl DerefMut for BusyConnection {
    #[expect(clippy::expect_used, reason = "it is taken out only where `self` ends")]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.object.as_mut().expect("a connection")
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        drop(self.object.take().map(Object::take));
    }
}

impl fmt::Debug for BusyConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BusyConnection").finish_non_exhaustive()
    }
}

impl DatabaseError {
    fn from_pool(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::Database(error)
            }
            PoolError::Timeout(_) => Self::Other("no connection in time".to_owned()),
            other => Self::Other(other.to_string()),
        }
    }

    /// Returns the database's code for the error, if the error is the database's.
    #[must_use]
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Database(error) => error.code(),
            Self::Newer { .. } | Self::Other(_) => None,
        }
    }

    /// Returns true if the same transaction can be made again: another one came in between.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        const CONFLICTS: [SqlState; 4] = [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
            SqlState::FOREIGN_KEY_VIOLATION,
        ];
        self.code().is_some_and(|code| CONFLICTS.contains(code))
    }
}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer { found, known } => write!(
                f,
                "its tables are of a newer softland (version {found}; this one knows up to {known})"
            ),
            // The database's own texts contain no password.
            Self::Database(error) => match (error.as_db_error(), error.source()) {
                (Some(error), _) => write!(f, "{} ({})", error.message(), error.code().code()),
                (None, Some(cause)) => write!(f, "{error}: {cause}"),
                (None, None) => write!(f, "{error}"),
            },
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for DatabaseError {}
