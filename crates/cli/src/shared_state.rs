//! The way to the state that the gateways of a fleet share.

use softland_host::{SharedStores, SharedUrl, connect_shared};

use crate::failure::Failure;

/// Prepares the shared state; `None` for this process's memory. A store that is away is no failure:
/// the gateway starts, and a policy's `on_store_loss` says what it does meanwhile.
///
/// # Errors
/// Returns a failure if the address cannot be used.
pub(crate) fn connect(url: &SharedUrl) -> Result<Option<SharedStores>, Failure> {
    connect_shared(url).map_err(|error| Failure::usage(format!("[shared]: {error}")))
}
