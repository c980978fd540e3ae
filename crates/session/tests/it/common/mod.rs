//! What the tests of the session share.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "in test helpers to panic is to fail the test"
)]

pub(crate) mod case;
pub(crate) mod client;
pub(crate) mod history;
pub(crate) mod hostile;
pub(crate) mod native;
pub(crate) mod openai;
pub(crate) mod prefix;
pub(crate) mod reading;
pub(crate) mod seeds;
pub(crate) mod store;
