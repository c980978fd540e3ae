//! Agent files: no panic, and every problem names a place that exists.
#![no_main]

#[path = "../../crates/agent/tests/it/fuzz_bodies/agent_file.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
