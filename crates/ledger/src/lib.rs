//! What agent runs did and cost, kept on disk.
//!
//! Takes finished facts from whoever governs runs, and writes them; it decides nothing about a
//! run, and a disk that fails never stops anybody.

mod record;

pub use record::{Event, Record, Request, RunEnd, RunStart};
