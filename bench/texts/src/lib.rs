//! The requests and answers that are measured, made here from a seed: a short history, a coding
//! agent's long one, answers whole and streamed, in the words of two protocols.

pub mod answers;
pub mod requests;

/// Before the nanoseconds in the id of a head event.
pub const STAMP: &str = "bench_";
/// In the newest tool result of a run's last request: the answer to it is final.
pub const DONE: &str = "state: done";
