//! The behaviours of `docs/behaviours.md`, each a test named after it. They drive the whole loop
//! against the simulator, or against replies written byte for byte, and look at what a user can
//! see: the requests on the wire, the events, the report, and what the tools did.

#![expect(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "helpers of tests")]

#[path = "behaviours/canned.rs"]
mod canned;
mod common;
#[path = "behaviours/countdown.rs"]
mod countdown;
#[path = "behaviours/landing.rs"]
mod landing;
#[path = "behaviours/loops.rs"]
mod loops;
#[path = "behaviours/map.rs"]
mod map;
#[path = "behaviours/outcomes.rs"]
mod outcomes;
#[path = "behaviours/provider.rs"]
mod provider;
#[path = "behaviours/rounds.rs"]
mod rounds;
#[path = "behaviours/rungs.rs"]
mod rungs;
#[path = "behaviours/silence.rs"]
mod silence;
#[path = "behaviours/streams.rs"]
mod streams;
#[path = "behaviours/support.rs"]
mod support;
