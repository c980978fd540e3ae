//! Runs on a real server of Restate, whose workers are killed. `tests/engine` starts the server and
//! names it in `SOFTLAND_RESTATE`, as `INGRESS ADMIN`.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "what goes wrong here fails the test"
)]

mod agents;
mod runs;
mod workers;
