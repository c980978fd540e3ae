//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

#[path = "../../../../tests/recordings_required.rs"]
#[expect(clippy::disallowed_methods, reason = "a test of what lies on the disk")]
mod recordings_required;

mod chat_properties;
mod chat_recordings;
mod fuzz_bodies;
mod fuzzing;
mod properties;
mod recordings;
mod responses_properties;
mod responses_recordings;
mod streams;
mod support;
mod tags;
