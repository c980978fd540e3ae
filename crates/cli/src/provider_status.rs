//! The providers of a run's models, and hints for a person about their errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use async_trait::async_trait;
use softland_agent::core::{Outcome, Reason};
use softland_agent::http::provider::{Endpoint, PROVIDERS};
use softland_agent::http::{Api, Request, Response, ServedModel, Transport, TransportError};
use softland_agent::{Event, EventKind, Report, UsageTotal};

use crate::sim::{SIMULATOR, posed_model};

/// A provider, as error messages name it, and the status of its last response.
#[derive(Clone, Debug)]
pub(crate) struct ProviderStatus {
    name: String,
    /// The provider's origin; `None` for the simulator in this process.
    origin: Option<String>,
    key_hint: String,
    /// True for a simulator that is reached over HTTP.
    simulator: bool,
    status: Arc<AtomicU16>,
}

impl ProviderStatus {
    /// Creates the entry for the simulator in this process.
    pub(crate) fn for_simulator() -> Self {
        Self {
            name: "the simulator".to_owned(),
            origin: None,
            key_hint: String::new(),
            simulator: false,
            status: Arc::default(),
        }
    }

    /// Creates the entry for a provider over HTTP; `key_variable` is the variable that a config
    /// names for its key.
    pub(crate) fn from_endpoint(endpoint: &Endpoint, key_variable: Option<&str>) -> Self {
        let provider = endpoint.provider();
        let listed = PROVIDERS.iter().find(|known| known.name == provider);
        let variables: Vec<&str> = match (key_variable, listed) {
            (Some(variable), _) => vec![variable],
            (None, Some(listed)) => listed.keys.iter().map(|(name, _)| *name).collect(),
            (None, None) => Vec::new(),
        };
        let key_hint = match variables.as_slice() {
            [] => "; is the key right?".to_owned(),
            variables => format!("; is the key in {} right?", variables.join(" or ")),
        };
        Self {
            name: format!("{provider} at {}", endpoint.origin()),
            origin: Some(endpoint.origin()),
            key_hint,
            simulator: provider == SIMULATOR,
            status: Arc::default(),
        }
    }

    /// Wraps a transport so that the statuses of its responses are recorded.
    pub(crate) fn watch_transport(&self, inner: Arc<dyn Transport>) -> Arc<dyn Transport> {
        Arc::new(WatchedTransport {
            inner,
            keyless: self.simulator,
            status: Arc::clone(&self.status),
        })
    }

    /// Returns the last event of a failed run of `model` with the provider and a hint in its
    /// message. Returns `None` if the event needs no explanation.
    pub(crate) fn explain_error(&self, event: &Event, model: &str) -> Option<Event> {
        let EventKind::Error { message, report } = &event.kind else { return None };
        // A journal that cannot be written is not the provider's fault.
        if report.ended.outcome != Outcome::Failed || report.ended.reason == Reason::Journal {
            return None;
        }
        let hint = match self.status.load(Ordering::Relaxed) {
            NOT_ASKED => return None,
            NO_RESPONSE => self.unreached_hint(message),
            status if is_success(status) => self.unread_hint(message, report),
            404 => &self.missing_hint(model),
            // A gateway of softland says itself which budget refuses.
            402 if message.contains("softland: ") => "",
            status => self.status_hint(status),
        };
        let message = match &self.origin {
            // The transport names the address itself.
            Some(origin) if message.contains(origin.as_str()) => format!("{message}{hint}"),
            _ => format!("{}: {message}{hint}", self.name),
        };
        let kind = EventKind::Error { message, report: report.clone() };
        Some(Event { kind, ..event.clone() })
    }

    /// Returns the hint for a request without a response.
    fn unreached_hint(&self, message: &str) -> &'static str {
        match self.origin {
            Some(_) if !message.contains("base URL") => "; is the base URL right?",
            _ => "",
        }
    }

    /// Returns the hint for a response without a complete answer.
    fn unread_hint(&self, message: &str, report: &Report) -> &'static str {
        match self.origin {
            None => "",
            // Some usage was read, so the address is right.
            Some(_) if report.usage != UsageTotal::default() => "; try again later",
            Some(_) if message.contains("base URL") => "",
            Some(_) => "; is the base URL right, and does it speak the API that was asked?",
        }
    }

    /// Returns the hint for a model or a path that the provider does not have.
    fn missing_hint(&self, model: &str) -> String {
        let name = model.split_once('/').map_or(model, |(_, name)| name);
        format!("; is the model's name right ({name}), and the base URL?")
    }

    fn status_hint(&self, status: u16) -> &str {
        match status {
            401 | 403 => &self.key_hint,
            402 => "; the provider's account has no credit left",
            413 => {
                "; the request is too large for the provider; a lower result_chars_limit keeps \
                 it small"
            }
            429 => "; the account's rate limit; wait, or ask the provider for a higher one",
            500..=599 => "; the provider has a problem of its own; try again later",
            _ => "",
        }
    }
}

/// The providers of the models of a run and its sub-agents.
pub(crate) struct ProviderStatuses {
    of_model: BTreeMap<String, ProviderStatus>,
    /// The models of the runs that are under way, by the run's id.
    models: BTreeMap<String, String>,
}

impl ProviderStatuses {
    /// Creates the collection from providers by model.
    pub(crate) fn new(of_model: BTreeMap<String, ProviderStatus>) -> Self {
        Self { of_model, models: BTreeMap::new() }
    }

    /// Explains a failed run's last event by the provider of that run's model.
    pub(crate) fn explain_error(&mut self, event: &Event) -> Option<Event> {
        if let EventKind::RunStart { model, .. } = &event.kind {
            self.models.insert(event.run.clone(), model.clone());
        }
        if !event.kind.is_terminal() {
            return None;
        }
        let model = self.models.remove(&event.run)?;
        self.of_model.get(&model)?.explain_error(event, &model)
    }
}

/// No request was sent yet: the failure is in softland itself.
const NOT_ASKED: u16 = 0;
/// The last request had no response.
const NO_RESPONSE: u16 = 1;

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// A transport that records the status of its last response.
struct WatchedTransport {
    inner: Arc<dyn Transport>,
    /// True if the transport has no key and the provider requires one but accepts any.
    keyless: bool,
    status: Arc<AtomicU16>,
}

#[async_trait]
impl Transport for WatchedTransport {
    async fn send(&self, mut request: Request) -> Result<Response, TransportError> {
        if self.keyless {
            let (name, value) = match request.path {
                "/v1/messages" => ("x-api-key", "simulated"),
                _ => ("authorization", "Bearer simulated"),
            };
            request.headers.push((name.to_owned(), value.to_owned()));
        }
        let sent = self.inner.send(request).await;
        let status = sent.as_ref().map_or(NO_RESPONSE, |response| response.status);
        self.status.store(status, Ordering::Relaxed);
        sent
    }

    fn served_model(&self, api: Api, model: &str) -> Option<ServedModel> {
        // A simulator over HTTP poses as the same models.
        let posed = || if self.keyless { posed_model(api, model) } else { None };
        self.inner.served_model(api, model).or_else(posed)
    }
}
