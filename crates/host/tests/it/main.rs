//! The integration tests of this crate, in one binary.

mod named;
mod steps;
mod support;
