//! The state that the gateways of a fleet share, on Redis or Valkey.
//!
//! Each call is one round trip: one Lua script runs the call and all notes that wait before it. All
//! keys have one hash tag, so that one node of a cluster has them all, and everything expires.

#[cfg(feature = "client")]
mod connection;

#[cfg(feature = "client")]
pub use connection::{ConnectError, RedisStore};

/// The state of a fleet on Redis.
#[cfg(feature = "client")]
pub type RedisState = softland_remote::RemoteState<RedisStore>;

/// Prepares the state at this address. Has to be called within a runtime.
///
/// # Errors
/// Returns an error if the address cannot be used.
#[cfg(feature = "client")]
pub fn connect(url: &str) -> Result<RedisState, ConnectError> {
    RedisStore::open(url).map(RedisState::new)
}
