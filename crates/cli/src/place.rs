//! Where a model is, and what a person can do about its provider's errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use async_trait::async_trait;
use softland_agent::core::Outcome;
use softland_agent::http::provider::{Endpoint, PROVIDERS};
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_agent::{Event, EventKind};

/// A provider as errors name it, and the status it last answered with.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    name: String,
    key_variables: String,
    /// A simulator that listens somewhere.
    simulator: bool,
    status: Arc<AtomicU16>,
}

impl Place {
    /// The simulator in this process.
    pub(crate) fn simulator() -> Self {
        Self {
            name: "the simulator".to_owned(),
            key_variables: String::new(),
            simulator: false,
            status: Arc::default(),
        }
    }

    /// A provider over HTTP.
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let provider = endpoint.provider();
        let listed = PROVIDERS.iter().find(|known| known.name == provider);
        let variables: Vec<&str> = listed
            .map(|listed| listed.keys.iter().map(|(name, _)| *name).collect())
            .unwrap_or_default();
        Self {
            name: format!("{provider} at {}", endpoint.origin()),
            key_variables: variables.join(" or "),
            simulator: provider == "sim",
            status: Arc::default(),
        }
    }

    /// The transport, with its responses' statuses noted here.
    pub(crate) fn watch(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(Watched { inner, keyless: self.simulator, status: Arc::clone(&self.status) })
    }

    /// A failed run's last event with the place and a hint in its message; any other unchanged.
    pub(crate) fn explain(&self, event: &Event) -> Option<Event> {
        let EventKind::Error { message, report } = &event.kind else { return None };
        let status = self.status.load(Ordering::Relaxed);
        if report.ended.outcome != Outcome::Failed || status == 0 {
            return None;
        }
        let message = format!("{}: {message}{}", self.name, self.hint(status));
        let kind = EventKind::Error { message, report: report.clone() };
        Some(Event { kind, ..event.clone() })
    }

    fn hint(&self, status: u16) -> String {
        let hint = match status {
            401 | 403 if self.key_variables.is_empty() => "is the key right?",
            401 | 403 => return format!("; is the key in {} right?", self.key_variables),
            402 => "the provider's account has no credit left",
            404 => "is the model's name right, and the base URL?",
            413 => {
                "the request is too large for the provider; a lower result_chars_limit keeps it \
                 small"
            }
            429 => "the account's rate limit; wait, or ask the provider for a higher one",
            500..=599 => "the provider has a problem of its own; try again later",
            _ => return String::new(),
        };
        format!("; {hint}")
    }
}

/// A transport whose responses' statuses are noted: 0 where the last request had no response, or
/// one that was no error.
struct Watched {
    inner: Arc<dyn Transport>,
    /// The transport has no key, and the other side wants one and takes any.
    keyless: bool,
    status: Arc<AtomicU16>,
}

#[async_trait]
impl Transport for Watched {
    async fn send(&self, mut request: Request) -> Result<Response, TransportError> {
        if self.keyless {
            request.headers.push(("x-api-key".to_owned(), "simulated".to_owned()));
        }
        let sent = self.inner.send(request).await;
        let status = sent.as_ref().map_or(0, |response| response.status);
        let error = if (200..300).contains(&status) { 0 } else { status };
        self.status.store(error, Ordering::Relaxed);
        sent
    }
}
