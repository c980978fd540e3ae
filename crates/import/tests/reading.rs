//! Recordings of every kind, whole and damaged, and what is read of them.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

#[path = "reading/bad_input.rs"]
mod bad_input;
#[path = "reading/common.rs"]
mod common;
#[path = "reading/first_lines.rs"]
mod first_lines;
#[path = "reading/kinds.rs"]
mod kinds;
#[path = "reading/opencode.rs"]
mod opencode;
#[path = "reading/openrouter.rs"]
mod openrouter;
#[path = "reading/softland.rs"]
mod softland;
