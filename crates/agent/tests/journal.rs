//! What a journal promises: a run whose process is killed anywhere goes on without losing a result
//! and without running a finished tool again, and comes to every decision as it was recorded.

#![expect(clippy::panic, clippy::unwrap_used, reason = "what goes wrong here fails the test")]

#[path = "common/mod.rs"]
mod common;
#[path = "journal/errand.rs"]
mod errand;
#[path = "journal/faults.rs"]
mod faults;
#[cfg(unix)]
#[path = "journal/kill.rs"]
mod kill;
#[path = "journal/replay.rs"]
mod replay;
#[path = "journal/scenarios.rs"]
mod scenarios;
#[path = "journal/tree.rs"]
mod tree;
#[cfg(unix)]
#[path = "journal/tree_kill.rs"]
mod tree_kill;
#[path = "journal/tree_replay.rs"]
mod tree_replay;
