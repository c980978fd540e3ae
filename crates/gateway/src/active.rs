//! The part of a running request that others may reach: what it asks, and the signals to it.

use bytes::Bytes;
use softland_session::wire::Api;

use crate::signals::RequestSignals;

/// A client's request while it is running.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    /// Its API.
    pub(crate) api: Api,
    /// Its body, as the client sent it.
    pub(crate) body: Bytes,
    /// The signals to it.
    pub(crate) signals: RequestSignals,
}

impl ActiveRequest {
    /// Creates a request to which no signal was sent.
    pub(crate) fn new(api: Api, body: Bytes) -> Self {
        Self { api, body, signals: RequestSignals::default() }
    }
}
