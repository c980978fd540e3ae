//! The behaviours of `docs/behaviours.md` that are numbers of the fold.

#[path = "behaviours/detectors.rs"]
mod detectors;
#[path = "behaviours/limits.rs"]
mod limits;
#[path = "behaviours/support.rs"]
mod support;
