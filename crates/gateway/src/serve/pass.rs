//! Requests that softland does not govern: everything is passed on as it arrives, in both
//! directions.

use std::sync::Arc;

use http::request::Parts;
use hyper::body::Incoming;
use softland_govern::{Body, errors, respond_with_upstream};

use crate::serve::headers;
use crate::serve::request_body::OutgoingBody;
use crate::serve::route::RoutedRequest;
use crate::state::GatewayState;

/// Passes a request on while its body arrives.
pub(crate) async fn pass_stream(
    gate: &Arc<GatewayState>,
    target: &RoutedRequest,
    parts: Parts,
    body: Incoming,
) -> http::Response<Body> {
    let pause = target.live.settings.limits.body_time;
    let body = OutgoingBody::from_incoming(body, pause);
    let to = (&*target.origin, target.protocol);
    let headers = headers::to_upstream(&parts.headers, &target.live.guard, to, false);
    gate.watch.metrics.observe_added_latency(target.began.elapsed());
    let sent =
        gate.upstreams.send_request(&target.origin, parts.method, &target.path, headers, body);
    match sent.await {
        Ok(response) => respond_with_upstream(response),
        Err(error) => {
            tracing::warn!(id = %target.id, %error, "no response");
            errors::protocol_error(target.protocol, error.status(), &error.to_string())
        }
    }
}
