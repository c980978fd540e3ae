//! The bodies of the fuzz targets: `fuzz/` runs them with libFuzzer, the tests run them over
//! generated input.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails the test"
)]

pub(crate) mod anthropic_stream;
pub(crate) mod chat_stream;
pub(crate) mod request_splice;
pub(crate) mod responses_stream;
pub(crate) mod sse;
pub(crate) mod tags;
