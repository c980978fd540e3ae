//! The thread that works for a shared store: its connections, and what is to be done regularly.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use softland_govern::Services;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The interval at which runs are ended that nobody continues.
const IDLE: Duration = Duration::from_secs(60);
/// The interval at which runs are looked for that were cancelled by another process.
const CANCELS: Duration = Duration::from_secs(1);
/// The interval at which leases of reservations are extended.
const LEASES: Duration = Duration::from_secs(15);

/// A thread with a runtime for sockets and timers. It ends with this value.
#[derive(Debug)]
pub(crate) struct Worker {
    runtime: Handle,
    over: CancellationToken,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// Returns the system's error if there is no thread, or no runtime.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (handle, over) = (runtime.handle().clone(), CancellationToken::new());
        let end = over.clone();
        let thread = std::thread::Builder::new().name("softland-shared".to_owned());
        thread.spawn(move || runtime.block_on(end.cancelled()))?;
        Ok(Self { runtime: handle, over })
    }

    /// Returns the thread's runtime.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Does regularly what a host has to do for a state that outlives it.
    pub(crate) fn maintain(&self, services: Weak<Services>) {
        self.runtime.spawn(async move {
            let mut idle = tokio::time::interval(IDLE);
            let mut cancels = tokio::time::interval(CANCELS);
            let mut leases = tokio::time::interval(LEASES);
            loop {
                let ticked = tokio::select! {
                    _ = idle.tick() => Tick::Idle,
                    _ = cancels.tick() => Tick::Cancels,
                    _ = leases.tick() => Tick::Leases,
                };
                let Some(services) = services.upgrade() else { return };
                match ticked {
                    Tick::Idle => services.end_idle().await,
                    Tick::Cancels => services.stop_cancelled().await,
                    Tick::Leases => {
                        services.renew_leases().await;
                        services.book_unheld_spend().await;
                    }
                }
            }
        });
    }
}

enum Tick {
    Idle,
    Cancels,
    Leases,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.over.cancel();
    }
}
