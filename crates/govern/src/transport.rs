//! The way to the upstreams, which the host provides: a request goes out as bytes, and a response
//! comes back as a stream of bytes.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::uri::PathAndQuery;
use http::{HeaderMap, StatusCode};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use tokio::time::timeout_at;

use crate::body::{Body, CutReason};
use crate::settings::Protocol;

mod peek;

use peek::PeekedBody;

/// The way to the upstreams. Dropping the future of [`send`](Self::send), or the response, cancels
/// the request.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends a POST request and waits for the head of its response.
    ///
    /// # Errors
    /// Returns an error if there is no response. It names the upstream, never a credential.
    async fn send(&self, request: UpstreamRequest<'_>) -> Result<UpstreamResponse, TransportError>;

    /// Returns true if whoever reads the response is told by other means why a request failed or a
    /// stream broke off. Then the stream ends without the protocol's error event.
    fn raises_failures(&self) -> bool {
        false
    }
}

/// A request to an upstream.
#[derive(Clone, Debug)]
pub struct UpstreamRequest<'a> {
    /// The upstream's name.
    pub upstream: &'a Arc<str>,
    /// The protocol of its path.
    pub protocol: Protocol,
    /// The path from `/v1/` on, with its query.
    pub path: &'a PathAndQuery,
    /// The client's headers. The transport decides which of them go upstream, and adds credentials.
    pub headers: &'a HeaderMap,
    /// True if the response must come uncompressed, to be read here.
    pub governed: bool,
    /// The time at which the response is given up.
    pub deadline: Option<Instant>,
    /// The body.
    pub body: Bytes,
}

/// The error of a request without a complete response. Its message names the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The message, without credentials.
    pub message: String,
    /// The HTTP status that tells a client about this error.
    pub status: StatusCode,
    /// True if the provider has the whole request and did not answer in time: it may still process
    /// it, and bill it.
    pub is_late: bool,
}

impl TransportError {
    fn from_cut(name: &str, cut: &CutReason) -> Self {
        let (status, what) = match cut {
            CutReason::Idle(after) => {
                (StatusCode::GATEWAY_TIMEOUT, format!("went silent for {after:?}"))
            }
            CutReason::Upstream(cause) => (StatusCode::BAD_GATEWAY, format!("broke off: {cause}")),
            CutReason::Aborted => (StatusCode::BAD_GATEWAY, "broke off: given up".to_owned()),
        };
        let is_late = matches!(cut, CutReason::Idle(_));
        Self { message: format!("upstream {name} {what}"), status, is_late }
    }

    fn too_large(name: &str, limit: usize) -> Self {
        let message = format!("upstream {name} answered with more than {limit} bytes");
        Self { message, status: StatusCode::BAD_GATEWAY, is_late: false }
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TransportError {}

/// The mark of a response that says only that the upstream did not answer.
#[derive(Clone, Copy, Debug)]
struct UpstreamFailure;

/// Returns the same response, marked as the report of a failed request.
pub(crate) fn mark_failure(mut response: http::Response<Body>) -> http::Response<Body> {
    response.extensions_mut().insert(UpstreamFailure);
    response
}

/// Returns true if a response with these extensions says only that the upstream did not answer.
#[must_use]
pub fn is_failure(extensions: &http::Extensions) -> bool {
    extensions.get::<UpstreamFailure>().is_some()
}

/// An upstream's response, whose body is still arriving.
pub struct UpstreamResponse {
    /// Any status, redirects too.
    pub status: StatusCode,
    /// The headers as received. They may be slices of a connection's buffer, so they must not be
    /// kept for the length of a stream.
    pub headers: HeaderMap,
    /// The time after which a response that brings nothing but signs of life has broken, if there
    /// is a limit.
    pub silence: Option<Duration>,
    /// The time since which the upstream has said nothing: that of the end of the request.
    pub silent_since: Instant,
    body: PeekedBody,
    /// Bytes of the body that have arrived.
    received: u64,
    name: Arc<str>,
}

impl UpstreamResponse {
    /// Creates the response of the upstream of this name.
    pub fn new(
        name: Arc<str>,
        status: StatusCode,
        headers: HeaderMap,
        body: impl HttpBody<Data = Bytes, Error = CutReason> + Send + 'static,
    ) -> Self {
        let (silence, silent_since) = (None, tokio::time::Instant::now().into_std());
        let body = PeekedBody::new(body);
        Self { status, headers, silence, silent_since, body, received: 0, name }
    }

    /// Returns the next bytes; `None` at the end.
    ///
    /// # Errors
    /// Returns an error if the connection breaks, or nothing arrives within the idle limit.
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, TransportError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(cut)) => return Err(TransportError::from_cut(&self.name, &cut)),
                Some(Ok(frame)) => {
                    // Nothing is read in trailers.
                    if let Ok(bytes) = frame.into_data() {
                        self.received = self.received.saturating_add(bytes.len() as u64);
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// Returns the next bytes like [`next_chunk`](Self::next_chunk), within the time that `silence`
    /// leaves. Blanks are signs of life: some providers send them until a JSON body is there.
    async fn next_in_time(&mut self) -> Result<Option<Bytes>, TransportError> {
        let due =
            self.silence.and_then(|limit| Some((limit, self.silent_since.checked_add(limit)?)));
        let chunk = match due {
            None => self.next_chunk().await?,
            Some((limit, due)) => match timeout_at(due.into(), self.next_chunk()).await {
                Ok(chunk) => chunk?,
                Err(_) => return Err(self.silence_error(limit)),
            },
        };
        if chunk.as_ref().is_some_and(|bytes| !bytes.trim_ascii().is_empty()) {
            self.silent_since = tokio::time::Instant::now().into_std();
        }
        Ok(chunk)
    }

    /// Reads the whole body.
    ///
    /// # Errors
    /// The same as those of [`next_chunk`](Self::next_chunk), an error if nothing but blanks comes
    /// for too long, and one if the body has more than `limit` bytes.
    pub async fn read_whole(&mut self, limit: usize) -> Result<Bytes, TransportError> {
        let Some(first) = self.next_in_time().await? else { return Ok(Bytes::new()) };
        let Some(second) = self.next_in_time().await? else { return self.check_size(first, limit) };
        let mut bytes = BytesMut::with_capacity(first.len() + second.len());
        bytes.extend_from_slice(&first);
        bytes.extend_from_slice(&second);
        while bytes.len() <= limit {
            let Some(next) = self.next_in_time().await? else { break };
            bytes.extend_from_slice(&next);
        }
        self.check_size(bytes.freeze(), limit)
    }

    /// Returns the error of a response that has brought nothing but signs of life for this time.
    #[must_use]
    pub(crate) fn silence_error(&self, after: Duration) -> TransportError {
        let name = &self.name;
        let message = format!("upstream {name} sent nothing but signs of life for {after:?}");
        TransportError { message, status: StatusCode::GATEWAY_TIMEOUT, is_late: true }
    }

    /// Returns the number of bytes of the body that have arrived.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.received
    }

    fn check_size(&self, bytes: Bytes, limit: usize) -> Result<Bytes, TransportError> {
        if bytes.len() > limit {
            return Err(TransportError::too_large(&self.name, limit));
        }
        Ok(bytes)
    }

    /// Returns the body, to be passed on as it arrives.
    #[must_use]
    pub fn into_body(self) -> Body {
        Body::from_relay(self.body)
    }
}

impl fmt::Debug for UpstreamResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamResponse").field("status", &self.status).finish_non_exhaustive()
    }
}
