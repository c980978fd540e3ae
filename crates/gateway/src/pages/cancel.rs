//! Cancels a run and its sub-agents: their running requests are given up, the usage so far is
//! booked, and further requests of their clients are refused until a user message comes.

use std::sync::Arc;

use serde_json::{Value, json};
use softland_govern::store::StoreError;

use crate::state::GatewayState;

/// Cancels an open run; `None` if there is no open run of that name.
///
/// # Errors
/// Returns an error if the shared state cannot be reached.
pub(super) async fn cancel_run(
    gate: &Arc<GatewayState>,
    run: &str,
) -> Result<Option<Value>, StoreError> {
    let Some(family) = gate.services.cancel_run(run).await? else { return Ok(None) };
    tracing::warn!(run, others = family.len() - 1, "a run was cancelled from the pages");
    Ok(Some(json!({"v": 1, "cancelled": family})))
}
