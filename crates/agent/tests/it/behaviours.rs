//! The behaviours of `docs/behaviours.md`, each a test named after it. They drive the whole loop
//! against the simulator, or against replies written byte for byte, and look at what a user can
//! see: the requests on the wire, the events, the report, and what the tools did.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

mod canned;
mod countdown;
mod landing;
mod loops;
mod map;
mod outcomes;
mod provider;
mod rounds;
mod rungs;
mod silence;
mod streams;
mod support;
