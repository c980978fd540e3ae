//! Cancels a run and its sub-agents: their running requests are given up, the usage so far is
//! booked, and further requests of their clients are refused until a user message comes.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::state::GatewayState;
use softland_govern::RequestSignal;

/// Cancels an open run; `None` if there is no open run of that name.
pub(super) fn cancel_run(gate: &Arc<GatewayState>, run: &str) -> Option<Value> {
    gate.services.runs.running_requests(run)?;
    let family = gate.services.runs.find_family(run);
    for member in &family {
        gate.services.mark_cancelled(member);
    }
    for member in &family {
        let mut under_way = false;
        for work in gate.services.runs.running_requests(member).unwrap_or_default() {
            under_way = true;
            if let Some(asked) = work.asked.upgrade() {
                asked.signals.send_signal(RequestSignal::Stop);
            }
            if let Some(stream) = work.stream {
                stream.abort();
            }
        }
        // A run with a running request ends when that request is booked.
        if !under_way {
            gate.services.end_superseded(member);
        }
    }
    tracing::warn!(run, others = family.len() - 1, "cancelled by whoever watches");
    Some(json!({"v": 1, "cancelled": family}))
}
