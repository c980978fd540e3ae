//! The promises of runs that an engine keeps, with a mock of the engine: a run whose process is
//! killed anywhere ends with the same answer, runs nothing twice that may not run twice, and tells
//! each event once.

#![expect(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here fails the test")]

mod hostile;
pub(crate) mod hostile_run;
pub(crate) mod mock;
mod steps;
mod tree;
