//! Agent runs that outlive a machine, kept by [Restate](https://restate.dev).
//!
//! A `Worker` serves agents as a workflow of Restate: one invocation for each tree of runs, whose
//! steps are those of `softland_agent::durable`. An `EngineClient` starts such runs, follows them
//! from their beginning and cancels them, from any machine.
//!
//! No rule about runs is here: this crate carries steps to Restate, and events and cancellations
//! back. `docs/workers.md` is its page.
#![cfg(feature = "engine")]

mod build_id;
mod client;
#[cfg(test)]
mod fake;
mod follow;
mod query;
mod registration;
mod service;
mod status;
mod worker;

pub use client::{EngineClient, EngineFailure, show_address};
pub use follow::{FollowError, FollowNote, follow_run};
pub use service::{AgentLoader, CANCEL_GRACE, LoadedAgent, RunRequest};
pub use status::{EngineState, RunDeletion, RunOutcome, RunRow};
pub use worker::{Worker, WorkerError, WorkerSettings};

/// The name of the workflow under which Restate knows the runs.
pub const SERVICE: &str = "SoftlandRun";
