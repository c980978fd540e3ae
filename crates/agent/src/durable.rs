//! Runs whose records an engine keeps, so that they outlive the machine.
//!
//! A durable execution engine journals the steps of a handler. After a crash it calls the handler
//! again, hands it the recorded steps one by one, and lets it go on behind them. [`StepEngine`] is
//! all that is asked of an engine; [`run_with_engine`] is the handler.
//!
//! A whole tree of runs is one handler. It runs as it does on one machine, with the same journal:
//! each step holds the records that the tree has written since the step before, and the events that
//! follow from them. So no rule, limit or account exists a second time for engines, and how an
//! engine groups records into steps decides nothing. Only one step is open at a time. Calls that
//! run side by side, and sub-agents, do so within the tree, and each result is a step as soon as it
//! is there.
//!
//! The interface below a run is `RecordLog` (`journal/log.rs`), which knows no engine: take a record,
//! wait until the records outlive this process, wait until a request or a call may begin. It has two
//! implementations. `FileLog` is the journal's file on one machine. `StepLog` (`step_log.rs`) collects
//! records until a step takes them. Parallel calls and sub-agents are the same code over both, and
//! signals (cancellation, a worker that leaves) are tokens beside it.
//!
//! What a step is made of:
//!
//! - A request to a model or a call of a tool begins when the engine has stored the record that
//!   announces it. Who finds the announcement without the result knows that another process had
//!   begun: it books the request whole, and does not run the call again unless it may be repeated.
//! - Events are those of any run, but each block as a whole: texts come as one delta. An event of a
//!   response is held back until the response is recorded, because a resumed run would not see it
//!   again. So every event is published once, in order.

mod ends;
mod event_reader;
mod handler;
mod live_run;
mod open_runs;
mod step;
mod step_log;
mod whole_blocks;

pub use event_reader::EventReader;
pub use handler::{DurableRun, EngineError, StepEngine, StepMaker, run_with_engine};
pub use live_run::{PreparedRun, RunSource, StepError};
pub use open_runs::OpenRuns;
pub use step::RunEnd;
pub use step_log::RESULT_LIMIT;
