//! The errors of requests without a complete response, sorted by the side at fault.
//!
//! Messages name the origin (scheme, host, port) and nothing else of a URL.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// A request without a complete response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportError {
    /// The origin of the request: `https://api.example.com`. Empty if it is unknown.
    pub origin: String,
    /// The kind of the error.
    pub kind: TransportErrorKind,
    /// The proxy that the environment names for such requests, and its variable: `http://host:port
    /// (HTTP_PROXY)`, without user name and password. The proxy may be what failed.
    pub proxy: Option<String>,
}

/// The wait that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimeoutPhase {
    /// There was no connection.
    Connect,
    /// The connection was made, but no byte of a body came.
    FirstByte,
    /// The body began, then nothing came.
    Idle,
}

/// The kind of a transport error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportErrorKind {
    /// Ours: the request or the settings of the client cannot be used.
    Unusable {
        /// The reason.
        detail: String,
    },
    /// Network: nothing listens at the address.
    Refused,
    /// Network: the host name has no address.
    Dns,
    /// Network: no connection, for another reason.
    Connect {
        /// The message of the system.
        detail: String,
    },
    /// Theirs or in between: no trusted encrypted connection.
    Tls {
        /// The message of the TLS library.
        detail: String,
    },
    /// Theirs or in between: nothing came for too long.
    Timeout {
        /// The wait that took too long.
        phase: TimeoutPhase,
        /// The duration of the wait.
        after: Duration,
    },
    /// Theirs: a redirect. It is not followed, so that no key goes elsewhere.
    Redirect {
        /// The HTTP status.
        status: u16,
        /// The origin that the redirect points to, if it is a valid URL.
        to: Option<String>,
    },
    /// Theirs or in between: the connection broke, or the response was not HTTP.
    Broken {
        /// The message of the HTTP library.
        detail: String,
    },
    /// Theirs: a body larger than the caller accepts.
    TooLarge {
        /// The limit in bytes.
        max: usize,
    },
}

impl TransportError {
    /// Creates an error of a request to `origin`. For other implementations of
    /// [`Transport`](super::Transport).
    pub fn new(origin: impl Into<String>, kind: TransportErrorKind) -> Self {
        Self { origin: origin.into(), kind, proxy: None }
    }

    /// Returns true if the request failed before it reached the provider, so perhaps at a proxy.
    fn is_before_provider(&self) -> bool {
        matches!(
            self.kind,
            TransportErrorKind::Refused
                | TransportErrorKind::Dns
                | TransportErrorKind::Connect { .. }
                | TransportErrorKind::Tls { .. }
                | TransportErrorKind::Timeout { phase: TimeoutPhase::Connect, .. }
        )
    }
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = if self.origin.is_empty() { "the server" } else { &self.origin };
        match &self.kind {
            TransportErrorKind::Unusable { detail } => {
                write!(f, "the request to {origin} cannot be sent: {detail}")
            }
            TransportErrorKind::Refused => write!(
                f,
                "{origin} refused the connection: nothing listens there (is the base URL right?)"
            ),
            TransportErrorKind::Dns => {
                write!(f, "{origin}: the host name has no address (is the base URL right?)")
            }
            TransportErrorKind::Connect { detail } => {
                write!(f, "no connection to {origin}: {detail}")
            }
            TransportErrorKind::Tls { detail } => {
                write!(f, "no secure connection to {origin}: {detail}")
            }
            TransportErrorKind::Timeout { phase, after } => {
                let (what, seconds) = (phase.description(), after.as_secs_f64());
                write!(f, "{origin} {what} within {seconds} s")
            }
            TransportErrorKind::Redirect { status, to } => {
                let to = to.as_deref().unwrap_or("an address that is not a URL");
                write!(
                    f,
                    "{origin} answered with a redirect (status {status}) to {to}; redirects are \
                     not followed: set the base URL to the final address"
                )
            }
            TransportErrorKind::Broken { detail } => {
                write!(f, "the connection to {origin} broke: {detail}")
            }
            TransportErrorKind::TooLarge { max } => {
                write!(f, "{origin} sent more than the {max} bytes that are taken")
            }
        }?;
        match self.proxy.as_ref().filter(|_| self.is_before_provider()) {
            Some(proxy) => write!(f, "; it may be the proxy from the environment: {proxy}"),
            None => Ok(()),
        }
    }
}

impl Error for TransportError {}

impl TimeoutPhase {
    fn description(self) -> &'static str {
        match self {
            Self::Connect => "accepted no connection",
            Self::FirstByte => "sent no byte of an answer",
            Self::Idle => "sent nothing more of the answer",
        }
    }
}
