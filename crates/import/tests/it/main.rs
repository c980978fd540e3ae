//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

#[path = "../../../../tests/recordings_required.rs"]
mod recordings_required;

mod human;
mod long;
mod prices;
mod reading;
mod recorded;
mod repeated;

mod replay;
mod spending;
mod stale;
mod suggest;
mod support;
