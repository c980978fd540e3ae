//! The integration tests of this crate, in one binary: to link each file alone takes longer than to
//! run it.

mod behaviours;
mod context_watch;
mod lease;
mod pinned;
