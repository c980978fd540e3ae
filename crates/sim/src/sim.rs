//! The simulator: routes, checks, bills, plays, writes. It is pure but for its own memory: time
//! comes in with each request, delays go out with each piece.

use crate::bodies::{cut_whole, http_fault, model_list, whole};
use crate::cache::{Cache, Prefixes, Usage};
use crate::content;
use crate::digest::Digest;
use crate::error::{Checked, Refusal, bad, ensure};
use crate::json::{Json, map};
use crate::laws;
use crate::message::{Maker, Message};
use crate::models::{self, Model};
use crate::reply::{Body, Response};
use crate::request::{Prompt, Request, Role};
use crate::rules::{self, Endpoint, Issuer, Verified};
use crate::scenario::{Scenario, View, pose};
use crate::stats::{Charge, RefusalNote, Stats};
use crate::stream;
use crate::turn::{Fault, Stop, Turn};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Largest request body in bytes, as the provider's.
pub const MAX_BODY: usize = 32 * 1024 * 1024;

/// Runs whose request counts are kept; past it all are forgotten.
const MAX_RUNS: usize = 100_000;

/// Whether thinking is bound to the exact prefix of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// For the models that bind.
    #[default]
    ByModel,
    /// For every model.
    Always,
    /// For none, as for old accounts.
    Never,
}

/// How a simulator is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The behaviour where the request's model names none.
    pub scenario: Scenario,
    /// Takes thinking with signatures of others; its own are verified all the same.
    pub accept_foreign_signatures: bool,
    /// Binding of thinking.
    pub binding: Binding,
    /// Seeds ids and signatures.
    pub seed: u64,
    /// Cuts streams into pieces of that many bytes, wherever it falls.
    pub piece_bytes: Option<usize>,
    /// A smaller context window than the model's.
    pub context_window: Option<u64>,
    /// Ids that are served too, each with the listed id whose rules it has: for clients that must
    /// cope with a model they do not know.
    pub aliases: Vec<(String, String)>,
}

impl Config {
    /// A strict simulator with this scenario.
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
        }
    }
}

/// A simulated provider.
#[derive(Debug)]
pub struct Sim {
    config: Config,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    cache: Cache,
    stats: Stats,
    runs: BTreeMap<u128, Played>,
    played: usize,
}

/// What of a run was played.
#[derive(Clone, Copy, Debug, Default)]
struct Played {
    /// Requests.
    requests: u64,
    /// It has had an answer, so that its first request, asked again, begins another run.
    answered: bool,
}

impl Sim {
    /// A simulator with nothing cached.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, state: Mutex::default() }
    }

    /// Answers one request that arrives at `now_ms` (any clock that does not go back).
    #[must_use]
    pub fn respond(&self, now_ms: u64, request: &Request<'_>) -> Response {
        let mut state = self.lock();
        state.stats.requests += 1;
        let id = format!("req_sim{:08x}", state.stats.requests);
        let answer = self.route(now_ms, request, &mut state);
        let mut response = match answer {
            Ok(response) => response,
            Err(refusal) => {
                let body = refusal.body(&id);
                let Refusal { status, kind, message, .. } = refusal;
                state.stats.refuse(RefusalNote { status, kind, message });
                whole(status, 0, body)
            }
        };
        response.headers.push(("request-id".to_owned(), id));
        response
    }

    /// What was asked and billed so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.lock().stats.clone()
    }

    /// Rules refused that many requests so far; cheaper than [`Sim::stats`].
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.lock().stats.refused
    }

    /// A poisoned lock only means that a test panicked: counters are whole at every moment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn route(&self, now: u64, request: &Request<'_>, state: &mut State) -> Checked<Response> {
        let path = request.path.split('?').next().unwrap_or("");
        let endpoint = match (request.method, path) {
            ("POST", "/v1/messages") => Endpoint::Messages,
            ("POST", "/v1/messages/count_tokens") => Endpoint::CountTokens,
            ("GET", "/v1/models") => {
                authenticate(request)?;
                return Ok(whole(200, 0, model_list()));
            }
            _ => return Err(Refusal::new(404, "not_found_error", "Not found")),
        };
        if request.body.len() > MAX_BODY {
            let message = "Request exceeds the maximum size";
            return Err(Refusal::new(413, "request_too_large", message));
        }
        authenticate(request)?;
        ensure(request.header("anthropic-version").is_some(), || {
            "anthropic-version: header is required".to_owned()
        })?;
        let body = match Json::parse(request.body) {
            Ok(body) if body.is_map() => body,
            Ok(_) => return bad("The request body should be a JSON object"),
            Err(error) => return bad(format!("The request body is not valid JSON: {error}")),
        };
        self.answer(now, request, endpoint, &body, state)
    }

    fn answer(
        &self,
        now: u64,
        request: &Request<'_>,
        endpoint: Endpoint,
        body: &Json,
        state: &mut State,
    ) -> Checked<Response> {
        let Some(asked) = body.str_at("model") else { return bad("model: Field required") };
        let (scenario, id) = self.scenario(asked)?;
        let alias = self.config.aliases.iter().find(|(alias, _)| alias == id);
        let Some(model) = models::find(alias.map_or(id, |(_, listed)| listed)) else {
            return Err(Refusal::new(404, "not_found_error", format!("model: {id}")));
        };
        let prompt = rules::check(request, endpoint, body, model)?;
        let issuer = self.issuer(model);
        let verified = issuer.verify(&prompt, rules::wants_drop(body))?;
        let prefixes = Prefixes::of(&prompt, &verified.dropped);
        let window = self.config.context_window.unwrap_or(model.context_window);
        let tokens = prefixes.tokens();
        if endpoint == Endpoint::CountTokens {
            let count = map([("input_tokens", tokens.into())]);
            return Ok(whole(200, 0, count.text().into_bytes()));
        }
        ensure(tokens <= window, || {
            format!("prompt is too long: {tokens} tokens > {window} maximum")
        })?;
        let job = Job {
            now,
            id,
            scenario: scenario.as_ref(),
            issuer,
            verified,
            prefixes,
            room: window - tokens,
        };
        Ok(self.play(job, &prompt, state))
    }

    /// The scenario that the model's name asks for, and the model's id.
    fn scenario<'a>(
        &'a self,
        asked: &'a str,
    ) -> Checked<(std::borrow::Cow<'a, Scenario>, &'a str)> {
        match pose(asked) {
            None => Ok((std::borrow::Cow::Borrowed(&self.config.scenario), asked)),
            Some((name, id)) => match Scenario::named(name) {
                Ok(scenario) => Ok((std::borrow::Cow::Owned(scenario), id)),
                Err(wrong) => Err(Refusal::new(404, "not_found_error", format!("model: {wrong}"))),
            },
        }
    }

    fn issuer(&self, model: &'static Model) -> Issuer {
        let binds = match self.config.binding {
            Binding::ByModel => model.binds,
            Binding::Always => true,
            Binding::Never => false,
        };
        let accept_foreign = self.config.accept_foreign_signatures;
        Issuer { seed: self.config.seed, binds, accept_foreign, model }
    }

    fn play(&self, job: Job<'_>, prompt: &Prompt<'_>, state: &mut State) -> Response {
        let turn = turn_of(&job, prompt, state);
        if let Some(Fault::Http { status, retry_after }) = turn.fault {
            state.stats.faults += 1;
            return http_fault(status, retry_after, turn.first_delay_ms);
        }
        if turn.fault.is_some() && !prompt.stream {
            state.stats.faults += 1;
            if let Some(Fault::ErrorEvent { .. }) = turn.fault {
                return http_fault(529, None, turn.first_delay_ms);
            }
        }
        let started = job.now.saturating_add(turn.first_delay_ms);
        let mut usage = state.cache.bill(prompt, &job.prefixes, job.now, started);
        let warming = prompt.max_tokens == 0;
        let turn = if warming { Turn::default().stopping(Stop::MaxTokens) } else { turn };
        let lawful = laws::apply(prompt, &turn, job.room);
        (usage.output, usage.thinking) = laws::output_tokens(&lawful.parts);
        if warming {
            usage.output = 0;
        }
        state.stats.charge(charge(&job, usage, &lawful.stop));
        let number = (self.config.seed << 24) ^ state.stats.responses;
        let message = finish(job, prompt, &lawful, usage, number);
        self.write(&message, &turn, prompt.stream)
    }

    fn write(&self, message: &Message, turn: &Turn, streams: bool) -> Response {
        if !streams {
            let body = message.json().text().into_bytes();
            return match turn.fault {
                Some(Fault::Cut { .. }) => cut_whole(body),
                _ => whole(200, turn.first_delay_ms, body),
            };
        }
        let mut chunks = stream::write(message, turn);
        if let Some(size) = self.config.piece_bytes {
            chunks = stream::recut(chunks, size);
        }
        let headers = vec![
            ("content-type".to_owned(), "text/event-stream; charset=utf-8".to_owned()),
            ("cache-control".to_owned(), "no-cache".to_owned()),
        ];
        Response { status: 200, headers, body: Body::Stream(chunks) }
    }
}

/// A checked request on its way to an answer.
struct Job<'a> {
    now: u64,
    id: &'a str,
    scenario: &'a Scenario,
    issuer: Issuer,
    verified: Verified,
    prefixes: Prefixes,
    /// Tokens that the context window leaves for output.
    room: u64,
}

fn turn_of(job: &Job<'_>, prompt: &Prompt<'_>, state: &mut State) -> Turn {
    if prompt.max_tokens == 0 {
        return Turn::default();
    }
    if text_after_results(prompt) {
        // The provider's documented cause of empty turns; here it always has that effect, unless
        // a call is forced.
        let forced =
            matches!(prompt.choice, crate::request::Choice::Any | crate::request::Choice::Tool(_));
        if !forced {
            return Turn::default();
        }
    }
    if state.runs.len() >= MAX_RUNS {
        state.runs.clear();
    }
    let run = state.runs.entry(run_key(job.scenario, prompt)).or_default();
    let first = is_first(prompt);
    if first && run.answered {
        *run = Played::default();
    }
    let view = View::of(prompt, run.requests, state.played);
    let turn = job.scenario.play(&view);
    run.requests += 1;
    // After a fault, an empty or a cut turn a client asks the same again and goes on with the run.
    let whole = !matches!(turn.stop, Some(Stop::MaxTokens | Stop::PauseTurn | Stop::ContextWindow));
    run.answered |= !first || (turn.fault.is_none() && whole && !turn.parts.is_empty());
    state.played += 1;
    turn
}

/// Whether the model has said nothing since the human message.
fn is_first(prompt: &Prompt<'_>) -> bool {
    let since = View::human_at(prompt).map_or(0, |at| at + 1);
    prompt.turns.iter().skip(since).all(|turn| turn.role != Role::Assistant)
}

/// Whether the request ends in text behind tool results.
fn text_after_results(prompt: &Prompt<'_>) -> bool {
    let last = prompt.last().filter(|t| t.role == Role::User);
    last.is_some_and(|turn| {
        let result = turn.blocks.iter().position(|b| b.is("tool_result"));
        result.is_some_and(|at| turn.blocks.iter().skip(at).any(|b| b.is("text")))
    })
}

/// A run is what follows one human message under one scenario.
fn run_key(scenario: &Scenario, prompt: &Prompt<'_>) -> u128 {
    let mut digest = Digest::new(0);
    digest.field(scenario.name());
    let until = View::human_at(prompt).map_or(0, |at| at + 1);
    for block in prompt.system.iter().chain(prompt.turns.iter().take(until).flat_map(|t| &t.blocks))
    {
        content::feed(&mut digest, block);
    }
    digest.finish()
}

fn finish(
    job: Job<'_>,
    prompt: &Prompt<'_>,
    lawful: &laws::Lawful,
    usage: Usage,
    number: u64,
) -> Message {
    let transformations = job
        .verified
        .dropped
        .iter()
        .map(|((message, block), reason)| {
            map([
                ("type", "thinking_dropped".into()),
                ("reason", (*reason).into()),
                ("path", format!("messages.{message}.content.{block}").into()),
            ])
        })
        .collect();
    let maker = Maker { prompt, issuer: job.issuer, verified: job.verified, number };
    Message {
        id: format!("msg_01Sim{number:012x}"),
        model: job.id.to_owned(),
        blocks: maker.blocks(lawful),
        stop: lawful.stop.clone(),
        usage,
        transformations,
    }
}

fn charge(job: &Job<'_>, usage: Usage, stop: &Stop) -> Charge {
    let model = job.issuer.model;
    Charge {
        at_ms: job.now,
        model: model.id,
        scenario: job.scenario.name().to_owned(),
        usage,
        cost_nano: usage.cost_nano(model),
        stop: stop.name(),
    }
}

fn authenticate(request: &Request<'_>) -> Checked {
    let bearer = request.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
    match request.header("x-api-key").or(bearer).map(str::trim) {
        Some("invalid") => Err(Refusal::new(401, "authentication_error", "API key is invalid.")),
        Some(key) if !key.is_empty() => Ok(()),
        _ => Err(Refusal::new(401, "authentication_error", "x-api-key header is required")),
    }
}
