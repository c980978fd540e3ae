//! The way of governed requests to the upstreams of one configuration.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::{Method, StatusCode};
use softland_govern::{Transport, TransportError, UpstreamRequest, UpstreamResponse};

use crate::serve::headers;
use crate::state::{GatewayState, LiveConfig};

/// The upstreams under the settings that hold for one request.
pub(crate) struct GatewayTransport {
    pub(crate) gate: Arc<GatewayState>,
    pub(crate) live: Arc<LiveConfig>,
}

#[async_trait]
impl Transport for GatewayTransport {
    async fn send(&self, request: UpstreamRequest<'_>) -> Result<UpstreamResponse, TransportError> {
        let UpstreamRequest { upstream, protocol, path, headers, governed, body, .. } = request;
        let Some(origin) = self.live.origins.get(&**upstream) else {
            let message = format!("upstream {upstream} is not configured");
            return Err(TransportError {
                message,
                status: StatusCode::BAD_GATEWAY,
                is_late: false,
            });
        };
        let to = (&**origin, protocol);
        let headers = headers::to_upstream(headers, &self.live.guard, to, governed);
        let sent = self.gate.upstreams.send_request(origin, Method::POST, path, headers, body);
        Ok(sent.await?)
    }
}

impl fmt::Debug for GatewayTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewayTransport")
    }
}
