//! The requests that run in this process, by their runs: they can be looked at, and given up. That
//! a run was cancelled is known to the shared state.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::fast::RandomState;
use tokio::task::AbortHandle;

use crate::active::ActiveRequest;
use crate::signals::RequestSignal;

/// A running request, and the handle to give it up.
#[derive(Clone, Debug)]
struct RequestHandle {
    /// The turn that it asks for.
    turn: u64,
    /// The request, while it runs.
    asked: Weak<ActiveRequest>,
    /// The task that relays its stream, if it streams.
    stream: Option<AbortHandle>,
}

/// The requests that run in this process.
#[derive(Debug, Default)]
pub struct RunningRequests(Mutex<HashMap<Arc<str>, Vec<RequestHandle>, RandomState>>);

impl RunningRequests {
    /// Notes a request of the run that is about to be sent.
    pub(crate) fn add_request(&self, run: &Arc<str>, turn: u64, asked: &Arc<ActiveRequest>) {
        let handle = RequestHandle { turn, asked: Arc::downgrade(asked), stream: None };
        self.lock().entry(Arc::clone(run)).or_default().push(handle);
    }

    /// Notes the task that relays the stream of this request.
    pub(crate) fn set_stream_task(&self, run: &str, asked: &Arc<ActiveRequest>, task: AbortHandle) {
        if let Some(handles) = self.lock().get_mut(run)
            && let Some(handle) = handles.iter_mut().find(|handle| is_handle_of(handle, asked))
        {
            handle.stream = Some(task);
        }
    }

    /// Forgets a request that has ended.
    pub(crate) fn remove_request(&self, run: &str, asked: &Arc<ActiveRequest>) {
        let mut running = self.lock();
        if let Some(handles) = running.get_mut(run) {
            handles.retain(|handle| !is_handle_of(handle, asked));
            if handles.is_empty() {
                running.remove(run);
            }
        }
    }

    /// Returns the newest running request of a run, and the turn that it asks for.
    #[must_use]
    pub fn newest_request(&self, run: &str) -> Option<(u64, Arc<ActiveRequest>)> {
        let running = self.lock();
        let handle = running.get(run)?.last()?;
        Some((handle.turn, handle.asked.upgrade()?))
    }

    /// Gives up the running requests of a run. Each books what came of it.
    pub(crate) fn stop_run(&self, run: &str) {
        let handles = self.lock().get(run).cloned().unwrap_or_default();
        for handle in handles {
            if let Some(asked) = handle.asked.upgrade() {
                asked.signals.send_signal(RequestSignal::Stop);
            }
            if let Some(stream) = handle.stream {
                stream.abort();
            }
        }
    }

    /// Returns the runs that have a running request.
    pub(crate) fn list_runs(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Vec<RequestHandle>, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_handle_of(handle: &RequestHandle, asked: &Arc<ActiveRequest>) -> bool {
    handle.asked.as_ptr() == Arc::as_ptr(asked)
}
