//! The head of a response: the upstream's headers, and softland's own.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};

use super::flow::GovernedRequest;
use crate::headers::{self, is_forwarded};
use crate::request::ClientRequest;

const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

const RUN: HeaderName = HeaderName::from_static("x-softland-run");
const PHASE: HeaderName = HeaderName::from_static("x-softland-phase");
const CALLS: HeaderName = HeaderName::from_static("x-softland-tool-calls");
const INTERVENTIONS: HeaderName = HeaderName::from_static("x-softland-interventions");

impl GovernedRequest {
    /// Returns the headers of a response whose body the session has written or passed on.
    pub(super) fn response_head(&self, upstream: &HeaderMap) -> HeaderMap {
        let mut headers = headers::to_client(upstream);
        let streams = self.exchange.is_streaming();
        // The session has read the body, so it was not compressed.
        headers.remove(CONTENT_ENCODING);
        if upstream.is_empty() {
            let kind =
                if streams { "text/event-stream; charset=utf-8" } else { "application/json" };
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        }
        if streams {
            disable_buffering(&self.opening.asked, &mut headers);
        }
        self.add_headers(&mut headers);
        headers
    }

    /// Adds softland's headers (`docs/reference/headers.md`) and counts the response's phase.
    /// Called once for each response.
    pub(super) fn add_headers(&self, headers: &mut HeaderMap) {
        // A request that is only metered belongs to no run.
        if !self.opening.metered
            && let Ok(run) = HeaderValue::from_str(&self.account.state.id)
        {
            headers.insert(RUN, run);
        }
        let run = self.exchange.run();
        let done = self.record.request_interventions();
        let counts = done.contains(&"countdown") || done.contains(&"warn");
        let phase = match run.phase() {
            // Whatever would have been said to the model was not said.
            _ if run.policy().is_observing() => "silent",
            phase if phase.is_told() => "landing",
            _ if counts => "countdown",
            _ => "silent",
        };
        headers.insert(PHASE, HeaderValue::from_static(phase));
        self.opening.asked.services.meter.count_phase(phase);
        if let Some(limit) = run.policy().tool_calls_limit {
            let mut calls = String::with_capacity(2 * 20 + 1);
            calls.push_str(itoa::Buffer::new().format(run.used().calls));
            calls.push('/');
            calls.push_str(itoa::Buffer::new().format(limit));
            if let Ok(calls) = HeaderValue::try_from(calls) {
                headers.insert(CALLS, calls);
            }
        }
        if done.is_empty() || run.policy().is_observing() {
            return;
        }
        if let Ok(done) = HeaderValue::try_from(done.join(", ")) {
            headers.insert(INTERVENTIONS, done);
        }
    }
}

/// Tells a proxy that has forwarded the request not to buffer the stream, as nginx would otherwise
/// do. A client without a proxy gets the provider's headers.
pub(super) fn disable_buffering(asked: &ClientRequest, headers: &mut HeaderMap) {
    if is_forwarded(&asked.parts.headers) {
        headers.insert(UNBUFFERED, HeaderValue::from_static("no"));
    }
}
