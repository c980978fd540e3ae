//! Requests to governed paths that are passed on unchanged, and responses that are passed back.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;

use crate::body::Body;
use crate::errors;
use crate::headers;
use crate::request::ClientRequest;
use crate::target::Target;
use crate::transport::{UpstreamRequest, UpstreamResponse, mark_failure};

/// Passes a request on as it came.
pub async fn pass_request(asked: &ClientRequest) -> http::Response<Body> {
    pass_with_body(asked, &asked.target, asked.active.body.clone()).await
}

/// Passes a request on with this body.
pub(crate) async fn pass_with_body(
    asked: &ClientRequest,
    target: &Target,
    body: Bytes,
) -> http::Response<Body> {
    asked.services.meter.observe_added_latency(target.began.elapsed());
    let sent = asked.transport.send(UpstreamRequest {
        upstream: &target.upstream,
        protocol: target.protocol,
        path: &target.path,
        headers: &asked.parts.headers,
        governed: false,
        deadline: None,
        body,
    });
    match sent.await {
        Ok(response) => respond_with_upstream(response),
        Err(error) => {
            tracing::warn!(id = %target.id, %error, "no response");
            let answer = errors::protocol_error(target.protocol, error.status, &error.to_string());
            mark_failure(answer)
        }
    }
}

/// Converts an upstream's response into the client's.
pub fn respond_with_upstream(upstream: UpstreamResponse) -> http::Response<Body> {
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
