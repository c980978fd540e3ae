//! Sorts the errors of the HTTP client by the side at fault.

use std::error::Error;
use std::io;
use std::time::Duration;

use super::{TimeoutPhase, TransportErrorKind};

/// Sorts an error of the HTTP client. `connect_after` is the client's connect timeout.
pub(super) fn classify_error(
    error: &reqwest::Error,
    connect_after: Duration,
) -> TransportErrorKind {
    if error.is_builder() {
        return TransportErrorKind::Unusable { detail: innermost_message(error) };
    }
    if error.is_dns() {
        return TransportErrorKind::Dns;
    }
    if let Some(tls) = find_source(error, tls_error) {
        return TransportErrorKind::Tls { detail: tls };
    }
    if error.is_connect() && error.is_timeout() {
        return TransportErrorKind::Timeout { phase: TimeoutPhase::Connect, after: connect_after };
    }
    match find_source(error, |e| e.downcast_ref::<io::Error>().map(io::Error::kind)) {
        Some(io::ErrorKind::ConnectionRefused) => TransportErrorKind::Refused,
        _ if error.is_connect() => TransportErrorKind::Connect { detail: innermost_message(error) },
        _ => TransportErrorKind::Broken { detail: innermost_message(error) },
    }
}

fn tls_error(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(match tls {
            rustls::Error::InvalidMessage(_) => format!(
                "the other side does not speak TLS there ({tls}); is it an http:// address?"
            ),
            other => other.to_string(),
        });
    }
    // An `io::Error` returns the error that it wraps from `get_ref`, not from `source`.
    let inner: &(dyn Error + 'static) = error.downcast_ref::<io::Error>()?.get_ref()?;
    tls_error(inner)
}

/// Returns the first result of `look` along the chain of sources.
fn find_source<T>(
    error: &(dyn Error + 'static),
    look: impl Fn(&(dyn Error + 'static)) -> Option<T>,
) -> Option<T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = look(error) {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Returns the last message of the chain. Messages before it may show the URL.
fn innermost_message(error: &reqwest::Error) -> String {
    let mut last: Option<&(dyn Error + 'static)> = error.source();
    while let Some(deeper) = last.and_then(Error::source) {
        last = Some(deeper);
    }
    last.map_or_else(|| "no details".to_owned(), ToString::to_string)
}
