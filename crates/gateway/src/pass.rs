//! Requests that softland does not govern: everything is passed on as it arrives, in both
//! directions.

use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use hyper::body::Incoming;

use crate::body::{Body, OutgoingBody};
use crate::errors;
use crate::headers;
use crate::route::Target;
use crate::state::GatewayState;
use crate::upstream::UpstreamResponse;

mod unmetered;

pub(crate) use unmetered::{check_unmetered, is_unmetered, mark_unmetered, unmetered_refusal};

/// Passes a request on while its body arrives.
pub(crate) async fn pass_stream(
    gate: &Arc<GatewayState>,
    target: &Target,
    parts: Parts,
    body: Incoming,
) -> http::Response<Body> {
    let pause = target.live.settings.limits.body_time;
    send_upstream(gate, target, parts, OutgoingBody::from_incoming(body, pause)).await
}

/// Passes a request on whose body has been read.
pub(crate) async fn pass_whole(
    gate: &Arc<GatewayState>,
    target: &Target,
    parts: Parts,
    body: Bytes,
) -> http::Response<Body> {
    send_upstream(gate, target, parts, OutgoingBody::from(body)).await
}

async fn send_upstream(
    gate: &Arc<GatewayState>,
    target: &Target,
    parts: Parts,
    body: OutgoingBody,
) -> http::Response<Body> {
    let headers = headers::to_upstream(&parts.headers, target, false);
    gate.metrics.observe_added_latency(target.began.elapsed());
    let sent =
        gate.upstreams.send_request(&target.origin, parts.method, &target.path, headers, body);
    match sent.await {
        Ok(response) => pass_back(response),
        Err(error) => {
            tracing::warn!(id = %target.id, %error, "no response");
            errors::protocol_error(target.protocol, error.status(), &error.to_string())
        }
    }
}

/// Converts an upstream's response into the client's.
pub(crate) fn pass_back(upstream: UpstreamResponse) -> http::Response<Body> {
    let mut headers = headers::to_client(&upstream.headers);
    // The body is the upstream's own, and so is its length. For a response to HEAD, only this
    // header states the length.
    if let Some(length) = upstream.headers.get(CONTENT_LENGTH) {
        headers.insert(CONTENT_LENGTH, length.clone());
    }
    let status = upstream.status;
    let mut response = http::Response::new(upstream.into_body());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
