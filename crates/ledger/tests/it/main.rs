//! The ledger from outside: records are kept, numbers have no gaps, and faults of the disk are
//! counted and pass.

#![expect(clippy::unwrap_used, reason = "what goes wrong here fails the test")]

mod crash;
mod deleted_runs;
mod faults;
mod keep;
mod many;
mod numbers;
#[cfg(feature = "postgres")]
mod postgres;
mod spend;
mod support;

#[cfg(feature = "postgres")]
#[path = "../../../../tests/servers/required.rs"]
mod required;
#[cfg(feature = "postgres")]
#[path = "../../../../tests/servers/postgres.rs"]
mod server;

/// A server that a test ends and starts again.
#[cfg(feature = "postgres")]
mod outage {
    pub(crate) trait TestServer {
        /// Ends it, as a crash does.
        fn kill(&mut self);

        /// Starts it again, on its port and with what it has kept.
        fn restart(&mut self);
    }
}
