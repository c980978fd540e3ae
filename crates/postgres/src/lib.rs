//! The state that the gateways of a fleet share, on PostgreSQL, and the connections for it and for
//! others.
//!
//! Each call is one statement and one transaction, which a function in the database runs. Calls that
//! change accounts share a transaction with all that wait beside them. The database gets its tables
//! and functions from the first gateway that reaches it.

#[cfg(feature = "client")]
mod batch;
#[cfg(feature = "client")]
mod connection;
#[cfg(feature = "pool")]
mod database;
#[cfg(feature = "pool")]
mod migrate;
#[cfg(feature = "pool")]
mod platform;
#[cfg(feature = "client")]
mod store;

#[cfg(feature = "pool")]
pub use database::{
    BusyConnection, ConnectError, Database, DatabaseError, DatabaseOptions, describe_address,
};
#[cfg(feature = "pool")]
pub use migrate::Tables;
#[cfg(feature = "client")]
pub use store::PostgresStore;
#[cfg(feature = "pool")]
pub use tokio_postgres;

/// The state of a fleet on PostgreSQL.
#[cfg(feature = "client")]
pub type PostgresState = softland_remote::RemoteState<PostgresStore>;

/// Prepares the state at this address. Has to be called within a runtime.
///
/// # Errors
/// Returns an error if the address cannot be used.
#[cfg(feature = "client")]
pub fn connect(url: &str) -> Result<PostgresState, ConnectError> {
    PostgresStore::open(url).map(PostgresState::new)
}
