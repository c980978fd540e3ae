//! Ctrl-C, a polite kill, and the signal to read a config again. Only listens; what follows is the
//! caller's.

use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// From here on a write beyond the most that a file may have (`ulimit -f`) fails as one on a full disk
/// does, and does not kill the process. Programs that are started from here have the system's way.
pub(crate) fn let_long_writes_fail() {
    // Where it cannot be had, the system's way holds here, too.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// SIGINT, SIGTERM and, where it ends the process too, SIGHUP, as they come.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
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
            hangup: None,
        })
    }

    /// The same, with the end of the terminal among them, unless whoever started the process
    /// wants it to live on without one (`nohup`).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_hangup() -> std::io::Result<Self> {
        let hangup = match ignores_hangup() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { hangup, ..Self::listen()? })
    }

    /// Waits for the next one of any.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = hung_up(self.hangup.as_mut()) => {}
        }
    }
}

async fn hung_up(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether the process was started with SIGHUP ignored, as far as the system tells.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // The first signal is the lowest bit.
    mask.is_some_and(|mask| mask & 1 == 1)
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
