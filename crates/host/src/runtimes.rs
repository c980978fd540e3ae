//! Runtimes for timers and tasks of one request each. None has a thread: a request's own steps
//! drive it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::TaskTracker;

/// The number of idle runtimes that are kept for later requests.
const KEPT: usize = 32;
/// The time for what is left to do of a request that was given up.
const REST: Duration = Duration::from_secs(10);
/// The interval at which it is looked whether that is done.
const LOOK: Duration = Duration::from_millis(2);

/// Idle runtimes.
#[derive(Debug)]
pub(crate) struct Runtimes {
    idle: Mutex<Vec<Runtime>>,
    /// Where requests are booked that were given up, if their state does not answer at once.
    worker: Option<Handle>,
    /// Those that are being booked.
    booking: TaskTracker,
}

impl Runtimes {
    /// Creates an empty store of runtimes. Those with unfinished tasks are driven to their end by a
    /// thread of `worker`.
    pub(crate) fn new(worker: Option<Handle>) -> Self {
        Self { idle: Mutex::default(), worker, booking: TaskTracker::new() }
    }

    /// Returns an idle runtime, or a new one.
    ///
    /// # Errors
    /// Returns the system's error if no runtime can be made.
    pub(crate) fn take_idle(&self) -> io::Result<Runtime> {
        let idle = self.lock().pop();
        idle.map_or_else(|| Builder::new_current_thread().enable_time().build(), Ok)
    }

    /// Takes a runtime back. One with a task that is still there is dropped, and its task with it,
    /// unless a worker can drive it.
    pub(crate) fn give_back(&self, runtime: Runtime) {
        if runtime.metrics().num_alive_tasks() > 0 {
            if let Some(worker) = &self.worker {
                self.booking.spawn_blocking_on(move || finish_tasks(runtime), worker);
            }
            return;
        }
        let mut idle = self.lock();
        if idle.len() < KEPT {
            idle.push(runtime);
        }
    }

    /// Waits until all requests are booked that were given up.
    pub(crate) async fn wait_for_bookings(&self) {
        self.booking.close();
        self.booking.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Runtime>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives a runtime until it has no task any more.
fn finish_tasks(runtime: Runtime) {
    let tasks = runtime.metrics();
    let _ = runtime.block_on(tokio::time::timeout(REST, async {
        while tasks.num_alive_tasks() > 0 {
            tokio::time::sleep(LOOK).await;
        }
    }));
}
