//! The destination of one request, with the settings that hold for it.

use std::sync::Arc;
use std::time::Instant;

use http::uri::PathAndQuery;

use crate::key::ClientKey;
use crate::request_id::RequestId;
use crate::settings::{GovernSettings, Protocol};

/// The path of a request that compacts a history into what only the provider can read. It is
/// metered, and the conversation is found again by what it brings.
const COMPACT: &str = "/v1/responses/compact";

/// The destination of one request at a provider, with the settings that hold for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The name of the upstream.
    pub upstream: Arc<str>,
    /// The protocol that gives errors their shape.
    pub protocol: Protocol,
    /// The path upstream, from `/v1/` on, with its query.
    pub path: PathAndQuery,
    /// True if the request's path names the upstream, so that no route changes it.
    pub direct: bool,
    /// The settings of this request, until it ends.
    pub settings: Arc<GovernSettings>,
    /// The key that asks; `None` if the host has no keys.
    pub key: Option<Arc<ClientKey>>,
    /// The host's name for the request.
    pub id: RequestId,
    /// The time at which the request's head was complete.
    pub began: Instant,
}

impl Target {
    /// Returns true if the request compacts a history.
    pub(crate) fn is_compaction_request(&self) -> bool {
        self.path.path() == COMPACT
    }
}
