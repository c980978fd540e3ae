//! The behaviours of `docs/behaviours.md` that are numbers of the fold.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod answers;
mod detectors;
mod human;
mod limits;
mod support;
