//! Signals: Ctrl-C, a termination request, and the request to read a config again. This module only
//! listens; the caller decides on the effect.

use std::path::Path;
use std::sync::Arc;

use signal_hook::consts::SIGXFSZ;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Makes a write beyond the file size limit (`ulimit -f`) fail as on a full disk, instead of
/// killing the process. Programs that are started by this process keep the system's default.
pub(crate) fn let_long_writes_fail() {
    // On failure the system's default stays.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// A listener for SIGINT, SIGTERM and, if it ends the process too, SIGHUP.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// Begins to listen. From then on the signals no longer end the process by themselves.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: None,
        })
    }

    /// Begins to listen, including for the end of the terminal, unless the process was started to
    /// outlive its terminal (`nohup`).
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn with_hangup() -> std::io::Result<Self> {
        let hangup = match ignores_hangup() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        Ok(Self { hangup, ..Self::listen()? })
    }

    /// Waits for the next signal of any kind.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = wait_for_hangup(self.hangup.as_mut()) => {}
        }
    }
}

async fn wait_for_hangup(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns true if the process was started with SIGHUP ignored, as far as the system tells.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // SIGHUP is the first signal, and thus the lowest bit.
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// A listener for requests to read a config again: SIGHUP.
pub(crate) struct Reloads(Signal);

impl Reloads {
    /// Begins to listen. From then on the signal no longer ends the process by itself.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen.
    pub(crate) fn listen(_: Option<&Path>) -> std::io::Result<Self> {
        Ok(Self(signal(SignalKind::hangup())?))
    }

    /// Waits for the next SIGHUP. Cancel safe.
    pub(crate) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }
}
