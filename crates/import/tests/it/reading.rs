//! Recordings of every kind, whole and damaged, and what is read of them.
#![expect(clippy::unwrap_used, reason = "a helper that fails is a test that fails")]

mod bad_input;
mod common;
mod first_lines;
mod kinds;
mod opencode;
mod openrouter;
mod others;
mod softland;
