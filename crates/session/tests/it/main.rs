//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

#[path = "../../../../tests/recordings_required.rs"]
#[expect(clippy::disallowed_methods, reason = "a test of what lies on the disk")]
mod recordings_required;

mod adversary;
mod answers;
mod beginnings;
mod common;
mod embedding;
mod ends;
mod failures;
mod gateway;
mod growth;
mod kept_ends;
mod landing_prices;
mod native_calls;
mod openai;
mod outline;
mod past;
mod protocols;
mod rooms;
mod tags;
mod tails;
