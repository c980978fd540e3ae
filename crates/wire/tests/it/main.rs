//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

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
