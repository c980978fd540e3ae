//! The activity of a client's connection: what its timer waits for.

use std::sync::atomic::{AtomicU8, Ordering};

/// The states: no byte yet, a head arrives, a request is answered, nothing is asked.
pub(crate) const NEW: u8 = 0;
pub(crate) const HEAD: u8 = 1;
pub(crate) const BUSY: u8 = 2;
pub(crate) const IDLE: u8 = 3;

/// The activity of a connection, as set by the code that handles its requests.
#[derive(Debug, Default)]
pub(crate) struct ConnectionActivity(AtomicU8);

impl ConnectionActivity {
    /// Returns the present state.
    pub(crate) fn state(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    /// Marks that bytes of a request's head arrive.
    pub(crate) fn mark_head(&self) {
        self.0.store(HEAD, Ordering::Relaxed);
    }

    /// Marks that a request's head has arrived.
    pub(crate) fn mark_busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// Marks that a response has ended.
    pub(crate) fn mark_idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}
