//! Runtimes for timers and tasks of one request each. None has a thread: a request's own steps
//! drive it.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Builder, Runtime};

/// The number of idle runtimes that are kept for later requests.
const KEPT: usize = 32;

/// Idle runtimes.
#[derive(Debug, Default)]
pub(crate) struct Runtimes(Mutex<Vec<Runtime>>);

impl Runtimes {
    /// Returns an idle runtime, or a new one.
    ///
    /// # Errors
    /// Returns the system's error if no runtime can be made.
    pub(crate) fn take_idle(&self) -> io::Result<Runtime> {
        let idle = self.lock().pop();
        idle.map_or_else(|| Builder::new_current_thread().enable_time().build(), Ok)
    }

    /// Takes a runtime back. One with a task that is still there is dropped, and its task with it.
    pub(crate) fn give_back(&self, runtime: Runtime) {
        if runtime.metrics().num_alive_tasks() > 0 {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < KEPT {
            idle.push(runtime);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Runtime>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
