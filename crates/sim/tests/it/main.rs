//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

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
