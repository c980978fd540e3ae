//! The body is a test of the crate too: see `crates/wire/tests/it/chat_properties.rs`.
#![no_main]

#[path = "../../crates/wire/tests/it/fuzz_bodies/chat_stream.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
