//! The way to the state that the gateways of a fleet share.

use std::sync::Arc;

use softland_gateway::{KeyStore, SharedState};

use crate::config::SharedUrl;
#[cfg(not(all(feature = "redis", feature = "postgres")))]
use crate::config::describe_missing_feature;
use crate::failure::Failure;

/// The state and the keys that the gateways of a fleet share.
#[derive(Debug)]
pub(crate) struct SharedStores {
    pub(crate) state: Arc<dyn SharedState>,
    /// The store of keys, if this store can have keys.
    pub(crate) keys: Option<Arc<dyn KeyStore>>,
}

/// Prepares the shared state; `None` for this process's memory. A store that is away is no failure:
/// the gateway starts, and a policy's `on_store_loss` says what it does meanwhile.
///
/// # Errors
/// Returns a failure if the address cannot be used.
pub(crate) fn connect(url: &SharedUrl) -> Result<Option<SharedStores>, Failure> {
    match url {
        SharedUrl::Memory => Ok(None),
        SharedUrl::Redis(url) => connect_redis(url).map(Some),
        SharedUrl::Postgres(url) => connect_postgres(url).map(Some),
    }
}

#[cfg(feature = "redis")]
fn connect_redis(url: &str) -> Result<SharedStores, Failure> {
    let state = softland_redis::connect(url);
    let state = state.map_err(|error| Failure::usage(format!("[shared]: {error}")))?;
    let state = Arc::new(state);
    Ok(SharedStores { keys: Some(Arc::clone(&state) as _), state })
}

#[cfg(not(feature = "redis"))]
fn connect_redis(_: &str) -> Result<SharedStores, Failure> {
    Err(Failure::usage(describe_missing_feature("[shared]", "redis")))
}

#[cfg(feature = "postgres")]
fn connect_postgres(url: &str) -> Result<SharedStores, Failure> {
    let state = softland_postgres::connect(url);
    let state = state.map_err(|error| Failure::usage(format!("[shared]: {error}")))?;
    let state = Arc::new(state);
    Ok(SharedStores { keys: Some(Arc::clone(&state) as _), state })
}

#[cfg(not(feature = "postgres"))]
fn connect_postgres(_: &str) -> Result<SharedStores, Failure> {
    Err(Failure::usage(describe_missing_feature("[shared]", "postgres")))
}
