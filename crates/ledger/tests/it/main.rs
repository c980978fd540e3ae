//! The ledger from outside: what goes in comes out, numbers have no gaps, and faults of the disk
//! are counted and pass.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod crash;
mod faults;
mod keep;
mod numbers;
mod support;
