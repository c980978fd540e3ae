//! The ledger from outside: records are kept, numbers have no gaps, and faults of the disk are
//! counted and pass.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod crash;
mod faults;
mod keep;
mod many;
mod numbers;
mod spend;
mod support;
