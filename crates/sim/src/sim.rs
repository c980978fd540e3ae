//! The simulator: selects the protocol of a request, and holds the memory that all protocols share.
//! It is pure apart from that memory: time comes in with each request, and delays are part of the
//! response.

use crate::bodies::whole_response;
use crate::reply::Response;
use crate::request::Request;
use crate::run_counters::RunCounters;
use crate::scenario::Scenario;
use crate::stats::{RefusalNote, Stats};
use crate::{anthropic, chat, openai, responses};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum size of a request body in bytes, as the provider has it.
pub const MAX_BODY: usize = 32 * 1024 * 1024;

/// The models whose thinking is bound to the exact prefix of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// The models that bind.
    #[default]
    ByModel,
    /// Every model.
    Always,
    /// No model, as for old accounts.
    Never,
}

/// The configuration of a simulator.
#[derive(Clone, Debug)]
pub struct Config {
    /// The scenario for requests whose model names none.
    pub scenario: Scenario,
    /// Accepts thinking with foreign signatures. The simulator's own are still verified.
    pub accept_foreign_signatures: bool,
    /// The binding of thinking on Anthropic's own API.
    pub binding: Binding,
    /// The seed of ids and signatures.
    pub seed: u64,
    /// Cuts streams into pieces of this many bytes, at any place.
    pub piece_bytes: Option<usize>,
    /// A context window smaller than the model's.
    pub context_window: Option<u64>,
    /// Additional ids, each with the listed id whose rules apply: for clients that must cope with a
    /// model they do not know.
    pub aliases: Vec<(String, String)>,
    /// Gives every event of a Responses stream another item id, as some proxies do.
    pub rotate_item_ids: bool,
}

impl Config {
    /// Creates the configuration of a strict simulator with this scenario.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            accept_foreign_signatures: false,
            binding: Binding::ByModel,
            seed: 0,
            piece_bytes: None,
            context_window: None,
            aliases: Vec::new(),
            rotate_item_ids: false,
        }
    }

    /// Returns the listed id whose rules apply to `id`.
    pub(crate) fn listed_id<'a>(&'a self, id: &'a str) -> &'a str {
        let alias = self.aliases.iter().find(|(alias, _)| alias == id);
        alias.map_or(id, |(_, listed)| listed)
    }
}

/// A simulated provider.
#[derive(Debug)]
pub struct Sim {
    config: Config,
    state: Mutex<SimState>,
}

/// The memory of a simulator.
#[derive(Debug, Default)]
pub(crate) struct SimState {
    pub(crate) cache: anthropic::AnthropicCache,
    pub(crate) prefixes: openai::OpenAiCache,
    pub(crate) stored: responses::Store,
    pub(crate) stats: Stats,
    pub(crate) plays: RunCounters,
}

impl Sim {
    /// Creates a simulator with an empty cache.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// Answers a request that arrives at `now_ms`, by any clock that does not go back.
    #[must_use]
    pub fn respond(&self, now_ms: u64, request: &Request<'_>) -> Response {
        let mut state = self.lock_state();
        state.stats.requests += 1;
        let id = format!("req_sim{:08x}", state.stats.requests);
        let (header, mut response) = match Protocol::from_request(request) {
            Protocol::Anthropic => {
                ("request-id", self.respond_anthropic(now_ms, request, &mut state, &id))
            }
            openai => ("x-request-id", self.respond_openai(openai, now_ms, request, &mut state)),
        };
        response.headers.push((header.to_owned(), id));
        response
    }

    /// Returns the counters, charges and refusals so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.lock_state().stats.clone()
    }

    /// Returns the number of requests that rules have refused; cheaper than [`Sim::stats`].
    #[must_use]
    pub fn refused_requests(&self) -> u64 {
        self.lock_state().stats.refused
    }

    /// Locks the state. A poisoned lock means that a test panicked; counters are always whole.
    fn lock_state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn respond_anthropic(
        &self,
        now: u64,
        request: &Request<'_>,
        state: &mut SimState,
        id: &str,
    ) -> Response {
        anthropic::serve_request(&self.config, state, now, request).unwrap_or_else(|refusal| {
            let body = refusal.to_body(id);
            let anthropic::AnthropicRefusal { status, kind, message, .. } = refusal;
            state.stats.add_refusal(RefusalNote { status, kind, message });
            whole_response(status, 0, body)
        })
    }

    fn respond_openai(
        &self,
        protocol: Protocol,
        now: u64,
        request: &Request<'_>,
        state: &mut SimState,
    ) -> Response {
        let answer = match protocol {
            Protocol::Chat => chat::serve_request(&self.config, state, now, request),
            Protocol::Responses => responses::serve_request(&self.config, state, now, request),
            Protocol::Anthropic | Protocol::Models => openai::list_models(request),
        };
        answer.unwrap_or_else(|refusal| {
            let (status, body) = (refusal.status, refusal.to_body());
            let (kind, message) = (refusal.kind, refusal.message);
            state.stats.add_refusal(RefusalNote { status, kind, message });
            whole_response(status, 0, body)
        })
    }
}

/// The protocol in whose form a request gets its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Anthropic,
    Chat,
    Responses,
    /// The list of models, in OpenAI's form.
    Models,
}

impl Protocol {
    /// Selects the protocol by path. Unknown paths are left for Anthropic's to refuse.
    fn from_request(request: &Request<'_>) -> Self {
        match request.route() {
            "/v1/chat/completions" => Self::Chat,
            "/v1/responses" => Self::Responses,
            path if path.starts_with("/v1/responses/") => Self::Responses,
            "/v1/models" if !anthropic::is_anthropic_form(request) => Self::Models,
            _ => Self::Anthropic,
        }
    }
}
