//! The part of a running request that others may reach: what it asks, and the signals to it.

use bytes::Bytes;
use softland_session::wire::Api;

use crate::signals::RequestSignals;

/// A client's request while it is running.
#[derive(Debug)]
pub struct ActiveRequest {
    /// Its API.
    pub api: Api,
    /// Its body, as the client sent it.
    pub body: Bytes,
    /// The signals to it.
    pub signals: RequestSignals,
}

impl ActiveRequest {
    /// Creates a request to which no signal was sent.
    pub fn new(api: Api, body: Bytes) -> Self {
        Self { api, body, signals: RequestSignals::default() }
    }
}
