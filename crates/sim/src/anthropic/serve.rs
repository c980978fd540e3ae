//! The handling of one Anthropic request, from its route to its response.

use super::bodies::{http_fault, model_list};
use super::cache::Prefixes;
use super::content;
use super::error::{Checked, Refusal, bad, ensure};
use super::history;
use super::message::{Maker, Message};
use super::request::{Prompt, Thinking};
use super::rules::{self, Endpoint, Issuer, Verified};
use super::stream;
use crate::bodies::{cut_whole, event_stream, whole};
use crate::digest::Digest;
use crate::history::Role;
use crate::json::{Json, map};
use crate::laws::{self, Bounds, Lawful, Thinks};
use crate::models::{self, Model};
use crate::reply::Response;
use crate::request::Request;
use crate::scenario::{Scenario, human_at, pose};
use crate::sim::{Binding, Config, MAX_BODY, State};
use crate::stats::Charge;
use crate::tagged::Tagged;
use crate::turn::{Fault, Stop, Turn};
use crate::usage::Usage;
use std::borrow::Cow;

/// True if the list of models is requested in Anthropic's form.
pub(crate) fn is_mine(request: &Request<'_>) -> bool {
    request.header("authorization").is_none()
        || request.header("x-api-key").is_some()
        || request.header("anthropic-version").is_some()
}

/// Answers a request for any path that is not another protocol's.
///
/// # Errors
/// Returns the provider's refusal.
pub(crate) fn serve(
    config: &Config,
    state: &mut State,
    now: u64,
    request: &Request<'_>,
) -> Checked<Response> {
    let endpoint = match (request.method, request.route()) {
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
    answer(config, state, now, request, endpoint, &body)
}

fn answer(
    config: &Config,
    state: &mut State,
    now: u64,
    request: &Request<'_>,
    endpoint: Endpoint,
    body: &Json,
) -> Checked<Response> {
    let Some(asked) = body.str_at("model") else { return bad("model: Field required") };
    let (scenario, id) = scenario(config, asked)?;
    let Some(model) = models::find(config.listed(id)) else {
        return Err(Refusal::new(404, "not_found_error", format!("model: {id}")));
    };
    let prompt = rules::check(request, endpoint, body, model)?;
    let issuer = issuer(config, model);
    let verified = issuer.verify(&prompt, rules::wants_drop(body))?;
    let prefixes = Prefixes::of(&prompt, &verified.dropped);
    let window = config.context_window.unwrap_or(model.context_window);
    let tokens = prefixes.tokens();
    if endpoint == Endpoint::CountTokens {
        let count = map([("input_tokens", tokens.into())]);
        return Ok(whole(200, 0, count.text().into_bytes()));
    }
    ensure(tokens <= window, || format!("prompt is too long: {tokens} tokens > {window} maximum"))?;
    let room = window - tokens;
    let job = Job { now, id, scenario: scenario.as_ref(), issuer, verified, prefixes, room };
    Ok(play(config, state, job, &prompt))
}

/// Returns the scenario that the model's name selects, and the model's id.
fn scenario<'a>(config: &'a Config, asked: &'a str) -> Checked<(Cow<'a, Scenario>, &'a str)> {
    match pose(asked) {
        None => Ok((Cow::Borrowed(&config.scenario), asked)),
        Some((name, id)) => match Scenario::named(name) {
            Ok(scenario) => Ok((Cow::Owned(scenario), id)),
            Err(wrong) => Err(Refusal::new(404, "not_found_error", format!("model: {wrong}"))),
        },
    }
}

fn issuer(config: &Config, model: &'static Model) -> Issuer {
    let binds = match config.binding {
        Binding::ByModel => model.binds,
        Binding::Always => true,
        Binding::Never => false,
    };
    let accept_foreign = config.accept_foreign_signatures;
    Issuer { seed: config.seed, binds, accept_foreign, model }
}

/// A checked request that is to be answered.
struct Job<'a> {
    now: u64,
    id: &'a str,
    scenario: &'a Scenario,
    issuer: Issuer,
    verified: Verified,
    prefixes: Prefixes,
    /// The tokens that the context window leaves for output.
    room: u64,
}

fn play(config: &Config, state: &mut State, job: Job<'_>, prompt: &Prompt<'_>) -> Response {
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
    let lawful = laws::apply(&bounds(prompt, job.room), &turn);
    (usage.output, usage.thinking) = lawful.output_tokens();
    if warming {
        usage.output = 0;
    }
    state.stats.charge(charge(&job, usage, &lawful.stop));
    let number = (config.seed << 24) ^ state.stats.responses;
    let message = finish(job, prompt, &lawful, usage, number);
    write(config, &message, &turn, prompt.stream)
}

fn bounds<'a>(prompt: &Prompt<'a>, room: u64) -> Bounds<'a> {
    let stops = prompt.body.get("stop_sequences").map_or(&[][..], Json::items);
    let opens = !prompt.open_loop().iter().any(|t| t.role == Role::Assistant);
    Bounds {
        choice: prompt.choice,
        parallel: prompt.parallel,
        allowed: None,
        thinking: match prompt.thinking {
            Thinking::Off => Thinks::Off,
            // A turn that opens a tool loop starts with thinking.
            Thinking::Enabled if opens => Thinks::Opens,
            Thinking::Enabled | Thinking::Adaptive => Thinks::On,
        },
        max_tokens: prompt.max_tokens,
        room,
        stops: stops.iter().filter_map(Json::as_str).collect(),
    }
}

fn write(config: &Config, message: &Message, turn: &Turn, streams: bool) -> Response {
    if !streams {
        let body = message.json().text().into_bytes();
        return match turn.fault {
            Some(Fault::Cut { .. }) => cut_whole(body),
            _ => whole(200, turn.first_delay_ms, body),
        };
    }
    event_stream(stream::write(message, turn), config.piece_bytes)
}

fn turn_of(job: &Job<'_>, prompt: &Prompt<'_>, state: &mut State) -> Turn {
    if prompt.max_tokens == 0 {
        return Turn::default();
    }
    // This is the provider's documented cause of empty turns. Here it always has that effect,
    // unless a call is forced.
    if text_after_results(prompt) && !prompt.choice.is_forced() {
        return Turn::default();
    }
    let history = history::read(prompt);
    let head: Vec<&str> = prompt.system.iter().map(|block| block.text).collect();
    let tagged = Tagged::read(&history, &head);
    let history = if tagged.is_there() { tagged.apply(history) } else { history };
    let until = human_at(&history.turns).map_or(0, |at| at + 1);
    let key = run_key(job.scenario, prompt, until);
    tagged.write(state.plays.next(job.scenario, &history, key))
}

/// True if the request ends in text behind tool results.
fn text_after_results(prompt: &Prompt<'_>) -> bool {
    let last = prompt.last().filter(|t| t.role == Role::User);
    last.is_some_and(|turn| {
        let result = turn.blocks.iter().position(|b| b.is("tool_result"));
        result.is_some_and(|at| turn.blocks.iter().skip(at).any(|b| b.is("text")))
    })
}

/// Returns the key of a run: one human message, the last of the first `until` turns, under one
/// scenario.
fn run_key(scenario: &Scenario, prompt: &Prompt<'_>, until: usize) -> u128 {
    let mut digest = Digest::new(0);
    digest.field(scenario.name());
    for block in prompt.system.iter().chain(prompt.turns.iter().take(until).flat_map(|t| &t.blocks))
    {
        content::feed(&mut digest, block);
    }
    digest.finish()
}

fn finish(
    job: Job<'_>,
    prompt: &Prompt<'_>,
    lawful: &Lawful,
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
