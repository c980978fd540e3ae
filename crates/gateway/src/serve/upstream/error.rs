//! The reasons why an upstream did not answer, sorted by what a client can do about them.
//!
//! Messages name the upstream and its origin; they contain no header and no body.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper_util::client::legacy::Error as ClientError;
use softland_govern::TransportError;

use super::Origin;
use super::connect::ConnectError;
use crate::serve::request_body::BodyError;

/// The error of a request without a complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamError {
    /// The upstream's name.
    pub(crate) name: Arc<str>,
    /// Its base URL, if the request never reached it.
    at: Option<String>,
    /// The kind of failure.
    pub(crate) kind: UpstreamErrorKind,
}

/// The wait that was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeoutPhase {
    /// For a connection, TLS included.
    Connect,
    /// For the head of a response.
    FirstByte,
}

/// The kind of an upstream's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpstreamErrorKind {
    /// There is no connection: refused, no such host, no TLS, no way through the proxy.
    Connect(String),
    /// A wait was too long.
    Timeout(TimeoutPhase, Duration),
    /// The connection broke, or the response is not HTTP.
    Broken(String),
    /// The client's body did not arrive: not the upstream's fault.
    Client(BodyError),
    /// The path cannot be joined with the base URL.
    Unusable,
}

impl UpstreamError {
    pub(super) fn from_client_error(to: &Origin, error: &ClientError) -> Self {
        // The HTTP client's own message adds nothing to the cause.
        let cause = || error.source().map_or_else(|| error.to_string(), join_causes);
        let kind = if let Some(ConnectError::Timeout(after)) = find_cause(error) {
            UpstreamErrorKind::Timeout(TimeoutPhase::Connect, *after)
        } else if error.is_connect() {
            UpstreamErrorKind::Connect(cause())
        } else if let Some(body) = find_cause::<BodyError>(error) {
            UpstreamErrorKind::Client(body.clone())
        } else {
            UpstreamErrorKind::Broken(cause())
        };
        Self::from_kind(to, kind)
    }

    pub(super) fn from_timeout(to: &Origin, phase: TimeoutPhase, after: Duration) -> Self {
        Self::from_kind(to, UpstreamErrorKind::Timeout(phase, after))
    }

    /// Creates the error of a status that answers no request, such as 101.
    pub(super) fn from_status(to: &Origin, status: StatusCode) -> Self {
        let cause = format!("it answered {status}, which is no answer to a request");
        Self::from_kind(to, UpstreamErrorKind::Broken(cause))
    }

    pub(super) fn unusable_path(to: &Origin) -> Self {
        Self::from_kind(to, UpstreamErrorKind::Unusable)
    }

    fn from_kind(to: &Origin, kind: UpstreamErrorKind) -> Self {
        // No library is known to put a header into an error. This makes sure that none does.
        let clean = |text: String| match &to.upstream.key {
            Some(key) => key.redact(&text),
            None => text,
        };
        let kind = match kind {
            UpstreamErrorKind::Connect(cause) => UpstreamErrorKind::Connect(clean(cause)),
            UpstreamErrorKind::Broken(cause) => UpstreamErrorKind::Broken(clean(cause)),
            other => other,
        };
        Self { name: Arc::clone(&to.name), at: Some(to.upstream.base_url.to_string()), kind }
    }

    /// Returns true if the provider has the whole request and did not answer in time: it may still
    /// process it, and bill it.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.kind, UpstreamErrorKind::Timeout(TimeoutPhase::FirstByte, _))
    }

    /// Returns the HTTP status that tells a client about this error.
    pub(crate) fn status(&self) -> StatusCode {
        match &self.kind {
            UpstreamErrorKind::Timeout(..) => StatusCode::GATEWAY_TIMEOUT,
            UpstreamErrorKind::Client(error) => error.status(),
            UpstreamErrorKind::Unusable => StatusCode::BAD_REQUEST,
            UpstreamErrorKind::Connect(_) | UpstreamErrorKind::Broken(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let UpstreamErrorKind::Client(error) = &self.kind {
            return write!(f, "{error}");
        }
        write!(f, "upstream {}", self.name)?;
        if let Some(at) = &self.at {
            write!(f, " ({at})")?;
        }
        match &self.kind {
            UpstreamErrorKind::Connect(cause) => write!(f, " cannot be reached: {cause}"),
            UpstreamErrorKind::Timeout(TimeoutPhase::Connect, after) => {
                write!(f, " did not connect within {after:?}")
            }
            UpstreamErrorKind::Timeout(TimeoutPhase::FirstByte, after) => {
                write!(f, " did not answer in {after:?}")
            }
            UpstreamErrorKind::Broken(cause) => write!(f, " broke off: {cause}"),
            UpstreamErrorKind::Unusable => write!(f, " has no address for this path"),
            UpstreamErrorKind::Client(_) => Ok(()),
        }
    }
}

impl Error for UpstreamError {}

impl From<UpstreamError> for TransportError {
    fn from(error: UpstreamError) -> Self {
        Self { message: error.to_string(), status: error.status(), is_late: error.is_late() }
    }
}

fn find_cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Joins the causes of an error, the outermost first, each once.
pub(super) fn join_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let cause = error.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
        next = error.source();
    }
    text
}
