//! Open requests over HTTP. Of two requests with one id in one session, `rmcp` answers only one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::RequestId;

/// A session, and the id of a request in it.
type Key = (String, RequestId);

/// The open requests, with the number of guards of each.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenRequests(Arc<Mutex<HashMap<Key, usize>>>);

/// Keeps a request open until it is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard {
    open: OpenRequests,
    key: Key,
}

impl OpenRequests {
    /// Opens a request; `None` if a request with this id is open.
    pub(super) fn open_request(&self, key: Key) -> Option<RequestGuard> {
        self.hold_if(key, |holders| holders == 0)
    }

    /// Adds a guard for the work on a request.
    pub(super) fn join_request(&self, key: Key) -> Option<RequestGuard> {
        self.hold_if(key, |_| true)
    }

    fn hold_if(&self, key: Key, may: impl FnOnce(usize) -> bool) -> Option<RequestGuard> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let holders = open.get(&key).copied().unwrap_or(0);
        if !may(holders) {
            return None;
        }
        open.insert(key.clone(), holders + 1);
        drop(open);
        Some(RequestGuard { open: self.clone(), key })
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut open = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.key) {
            Some(holders) if *holders > 1 => *holders -= 1,
            _ => drop(open.remove(&self.key)),
        }
    }
}
