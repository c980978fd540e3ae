//! Ctrl-C and a polite kill. Only listens; what follows is the caller's.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, as they come.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Begins to listen. From here on the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// When the system does not let the process listen.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one of either.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
