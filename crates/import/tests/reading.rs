//! Recordings of every kind, whole and damaged, and what is read of them.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "reading/bad_input.rs"]
mod bad_input;
#[path = "reading/common.rs"]
mod common;
#[path = "reading/kinds.rs"]
mod kinds;
#[path = "reading/openrouter.rs"]
mod openrouter;
