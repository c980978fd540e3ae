//! The behaviours of `docs/behaviours.md` that are numbers of the fold.

#![expect(clippy::panic, reason = "helpers of tests")]

#[path = "behaviours/detectors.rs"]
mod detectors;
#[path = "behaviours/limits.rs"]
mod limits;
#[path = "behaviours/support.rs"]
mod support;
