//! Ctrl-C, a polite kill, and the signal to read a config again. Only listens; what follows is the
//! caller's.

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

/// SIGHUP, as it comes.
pub(crate) struct Hangups(Signal);

impl Hangups {
    /// Begins to listen. From here on the signal no longer ends the process by itself.
    ///
    /// # Errors
    /// When the system does not let the process listen.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}
