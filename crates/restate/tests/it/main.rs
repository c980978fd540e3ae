//! Runs on a real server of Restate, whose workers are killed. `tests/engine/run` starts the server and
//! names it in `SOFTLAND_RESTATE`, as `INGRESS ADMIN`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what goes wrong here fails the test"
)]

mod adversary;
mod agents;
#[allow(dead_code, clippy::allow_attributes, reason = "shared with the agent's tests")]
#[path = "../../../agent/tests/it/common/mod.rs"]
mod common;
mod durable;
mod hostile;
mod large;
mod runs;
mod workers;
