//! A record of agent runs and their costs, kept on disk: in a SQLite file, as event lines, or both.
//!
//! The ledger takes finished facts from the program that governs runs, and writes them. It decides
//! nothing about a run, and a failing disk never stops a run: a record that cannot be written is
//! counted and logged. The ledger has no clock of its own: the time of a fact comes with it.
//!
//! - [`Ledger`] writes: [`Ledger::record`] queues a record and returns, one thread does the rest.
//! - [`Reader`] reads, also while a gateway writes.
//! - [`delete_runs`] deletes runs again.

mod batch;
mod db;
mod delete;
mod fields;
mod ledger;
mod log;
mod options;
mod platform;
mod queue;
mod read;
mod record;
mod registry;
mod writer;

pub use delete::{DeleteTarget, delete_runs};
pub use fields::{Fields, format_timestamp, parse_timestamp};
pub use ledger::{Clock, DrainError, Ledger};
pub use options::{OpenError, OpenProblem, Options};
pub use read::{
    AccountSpend, Query, ReadError, Reader, RecordedSignal, Run, RunLookup, Step, StoredContent,
    UnassignedTotals, Usage, UsageGroup, UsageQuery, UsageRow,
};
pub use record::{Event, Payer, Record, Request, RunEnd, RunStart};
