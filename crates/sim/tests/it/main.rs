//! The integration tests of this crate in one binary: linking each file alone takes longer than
//! running it.

#[path = "../../../../tests/recordings_required.rs"]
mod recordings_required;

mod cache;
mod clients;
mod conformance;
mod garbage;
mod http;
mod nodelay;
mod open_conformance;
mod protocols;
mod reader;
mod rules;
mod scenarios;
mod scripts;
mod signatures;
mod support;
