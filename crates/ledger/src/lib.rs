//! A record of agent runs and their costs: in a SQLite file or a PostgreSQL, as event lines, or both.
//!
//! The ledger takes finished facts from the program that governs runs, and writes them. It decides
//! nothing about a run, and a failing disk or database never stops a run: a record that cannot be
//! written is counted and logged. The ledger has no clock of its own: the time of a fact comes with it.
//!
//! - [`Ledger`] writes: [`Ledger::record`] queues a record and returns, one thread does the rest.
//! - [`Reader`] reads, also while a gateway writes.
//! - [`delete_runs`] deletes runs again, and [`blank_log_lines`] their lines in event logs.

mod batch;
mod blank;
mod columns;
mod db;
mod delete;
mod fields;
mod ledger;
mod log;
mod mark;
mod options;
mod place;
mod platform;
#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod read;
mod record;
mod registry;
mod sql;
mod step;
mod store;
mod writer;

pub use blank::blank_log_lines;
pub use delete::{DeleteTarget, delete_runs, find_runs_to_delete};
pub use fields::{Fields, format_timestamp, parse_timestamp};
pub use ledger::{Clock, DrainError, Ledger};
pub use mark::LedgerMark;
pub use options::{OpenError, OpenProblem, Options};
pub use place::LedgerPlace;
#[cfg(feature = "postgres")]
pub use postgres::PostgresPlace;
pub use read::{
    AccountSpend, Query, ReadError, Reader, RecordedSignal, Run, RunLookup, StoredContent,
    UnassignedTotals, Usage, UsageGroup, UsageQuery, UsageRow,
};
pub use record::{Event, Payer, Record, Request, RunEnd, RunOwner, RunStart};
pub use step::Step;
