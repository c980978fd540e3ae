//! The promises of a journal: a run whose process is killed anywhere goes on without losing a
//! result and without running a finished tool again, and makes every decision as it was recorded.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

pub(crate) mod errand;
mod faults;
#[cfg(unix)]
mod kill;
mod replay;
mod scenarios;
pub(crate) mod tree;
#[cfg(unix)]
mod tree_kill;
mod tree_replay;
