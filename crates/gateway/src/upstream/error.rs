//! The reasons why an upstream did not answer, sorted by what a client can do about them.
//!
//! Messages name the upstream and its origin; they contain no header and no body.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use hyper_util::client::legacy::Error as ClientError;

use super::Origin;
use super::connect::ConnectError;
use crate::body::{BodyError, Cut};

/// The error of a request without a complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamError {
    /// The upstream's name.
    pub(crate) name: Arc<str>,
    /// Its base URL, if the request never reached it.
    at: Option<String>,
    /// The kind of failure.
    pub(crate) kind: Kind,
}

/// The wait that was too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// For a connection, TLS included.
    Connect,
    /// For the head of a response.
    FirstByte,
    /// For more of a body.
    Idle,
}

/// The kind of an upstream's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is no connection: refused, no such host, no TLS, no way through the proxy.
    Connect(String),
    /// A wait was too long.
    Timeout(Phase, Duration),
    /// The connection broke, or the response is not HTTP.
    Broken(String),
    /// The response exceeds the limit for a response in memory, in bytes.
    TooLarge(usize),
    /// The client's body did not arrive: not the upstream's fault.
    Client(BodyError),
    /// The path cannot be joined with the base URL.
    Unusable,
}

impl UpstreamError {
    pub(super) fn of(to: &Origin, error: &ClientError) -> Self {
        // The HTTP client's own message adds nothing to the cause.
        let cause = || error.source().map_or_else(|| error.to_string(), causes);
        let kind = if let Some(ConnectError::Timeout(after)) = find(error) {
            Kind::Timeout(Phase::Connect, *after)
        } else if error.is_connect() {
            Kind::Connect(cause())
        } else if let Some(body) = find::<BodyError>(error) {
            Kind::Client(body.clone())
        } else {
            Kind::Broken(cause())
        };
        Self::at(to, kind)
    }

    pub(super) fn timeout(to: &Origin, phase: Phase, after: Duration) -> Self {
        Self::at(to, Kind::Timeout(phase, after))
    }

    pub(super) fn unusable(to: &Origin) -> Self {
        Self::at(to, Kind::Unusable)
    }

    pub(super) fn cut(name: &Arc<str>, cut: Cut) -> Self {
        let kind = match cut {
            Cut::Idle(after) => Kind::Timeout(Phase::Idle, after),
            Cut::Upstream(cause) => Kind::Broken(cause),
            Cut::Aborted => Kind::Broken("given up".to_owned()),
        };
        Self { name: Arc::clone(name), at: None, kind }
    }

    pub(super) fn too_large(name: &Arc<str>, limit: usize) -> Self {
        Self { name: Arc::clone(name), at: None, kind: Kind::TooLarge(limit) }
    }

    fn at(to: &Origin, kind: Kind) -> Self {
        // No library is known to put a header into an error. This makes sure that none does.
        let clean = |text: String| match &to.upstream.key {
            Some(key) => key.redact(&text),
            None => text,
        };
        let kind = match kind {
            Kind::Connect(cause) => Kind::Connect(clean(cause)),
            Kind::Broken(cause) => Kind::Broken(clean(cause)),
            other => other,
        };
        Self { name: Arc::clone(&to.name), at: Some(to.upstream.base_url.to_string()), kind }
    }

    /// Returns true if the provider has the whole request and did not answer in time: it may still
    /// process it, and bill it.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.kind, Kind::Timeout(Phase::FirstByte | Phase::Idle, _))
    }

    /// Returns the HTTP status that tells a client about this error.
    pub(crate) fn status(&self) -> StatusCode {
        match &self.kind {
            Kind::Timeout(..) => StatusCode::GATEWAY_TIMEOUT,
            Kind::Client(error) => error.status(),
            Kind::Unusable => StatusCode::BAD_REQUEST,
            Kind::Connect(_) | Kind::Broken(_) | Kind::TooLarge(_) => StatusCode::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Kind::Client(error) = &self.kind {
            return write!(f, "{error}");
        }
        write!(f, "upstream {}", self.name)?;
        if let Some(at) = &self.at {
            write!(f, " ({at})")?;
        }
        match &self.kind {
            Kind::Connect(cause) => write!(f, " cannot be reached: {cause}"),
            Kind::Timeout(Phase::Connect, after) => write!(f, " was not connected in {after:?}"),
            Kind::Timeout(Phase::FirstByte, after) => write!(f, " did not answer in {after:?}"),
            Kind::Timeout(Phase::Idle, after) => write!(f, " went silent for {after:?}"),
            Kind::Broken(cause) => write!(f, " broke off: {cause}"),
            Kind::TooLarge(limit) => write!(f, " answered with more than {limit} bytes"),
            Kind::Unusable => write!(f, " has no address for this path"),
            Kind::Client(_) => Ok(()),
        }
    }
}

impl Error for UpstreamError {}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
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
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
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
