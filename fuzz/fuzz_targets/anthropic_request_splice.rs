//! The body is a test of the crate too: see `crates/wire/tests/it/fuzzing.rs`.
#![no_main]

#[path = "../../crates/wire/tests/it/fuzz_bodies/request_splice.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(softland_wire::Api::Anthropic, data));
