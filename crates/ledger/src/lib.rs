//! What agent runs did and cost, kept on disk: in a SQLite file, as event lines, or both.
//!
//! Takes finished facts from whoever governs runs, and writes them; it decides nothing about a
//! run, and a disk that fails never stops anybody: what cannot be written is counted and said
//! aloud. It keeps no clock: the time of a fact comes with it.
//!
//! - [`Ledger`] writes: [`Ledger::record`] queues and returns, one thread does the rest.
//! - [`Reader`] reads, also while a gateway writes.
//! - [`delete`] takes runs out again.

mod batch;
mod book;
mod db;
mod delete;
mod fields;
mod file;
mod ledger;
mod log;
mod options;
mod queue;
mod read;
mod record;
mod writer;

pub use delete::{Which, delete};
pub use fields::{Fields, timestamp};
pub use ledger::{Clock, Ledger, Undrained};
pub use options::{OpenError, OpenProblem, Options};
pub use read::{Beside, Content, Found, Query, ReadError, Reader, Run, Signalled, Step, Usage};
pub use record::{Event, Record, Request, RunEnd, RunStart};
