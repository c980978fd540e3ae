//! The handling of one Anthropic request, from its route to its response.

use super::bodies::{http_fault, model_list};
use super::cache::Prefixes;
use super::content;
use super::error::{AnthropicRefusal, AnthropicResult, ensure, refuse_with};
use super::history;
use super::message::{Message, ResponseBuilder};
use super::request::{Prompt, Thinking};
use super::rules::{self, Endpoint, Issuer, VerifiedThinking};
use super::stream;
use crate::bodies::{cut_response, stream_response, whole_response};
use crate::constraints::{self, AllowedTurn, ResponseBounds, ThinkingPresence};
use crate::digest::Digest;
use crate::history::Role;
use crate::json::{Json, json_object};
use crate::models::{self, Model};
use crate::reply::Response;
use crate::request::Request;
use crate::scenario::{Scenario, find_human_turn, parse_model_name};
use crate::sim::{Binding, Config, MAX_BODY, SimState};
use crate::stats::Charge;
use crate::tagged::TaggedConversation;
use crate::turn::{Fault, Stop, Turn};
use crate::usage::Usage;
use std::borrow::Cow;

/// True if the list of models is requested in Anthropic's form.
pub(crate) fn is_anthropic_form(request: &Request<'_>) -> bool {
    request.header("authorization").is_none()
        || request.header("x-api-key").is_some()
        || request.header("anthropic-version").is_some()
}

/// Answers a request for any path that is not another protocol's.
///
/// # Errors
/// Returns the provider's refusal.
pub(crate) fn serve_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    request: &Request<'_>,
) -> AnthropicResult<Response> {
    let endpoint = match (request.method, request.route()) {
        ("POST", "/v1/messages") => Endpoint::Messages,
        ("POST", "/v1/messages/count_tokens") => Endpoint::CountTokens,
        ("GET", "/v1/models") => {
            authenticate(request)?;
            return Ok(whole_response(200, 0, model_list()));
        }
        _ => return Err(AnthropicRefusal::new(404, "not_found_error", "Not found")),
    };
    if request.body.len() > MAX_BODY {
        let message = "Request exceeds the maximum size";
        return Err(AnthropicRefusal::new(413, "request_too_large", message));
    }
    authenticate(request)?;
    rules::check_version(request)?;
    let body = match Json::parse(request.body) {
        Ok(body) if body.is_map() => body,
        Ok(_) => return refuse_with("The request body should be a JSON object"),
        Err(error) => return refuse_with(format!("The request body is not valid JSON: {error}")),
    };
    answer_request(config, state, now, request, endpoint, &body)
}

fn answer_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    request: &Request<'_>,
    endpoint: Endpoint,
    body: &Json,
) -> AnthropicResult<Response> {
    let Some(asked) = body.str_at("model") else { return refuse_with("model: Field required") };
    let (scenario, id) = select_scenario(config, asked)?;
    let Some(model) = models::find_model(config.listed_id(id)) else {
        return Err(AnthropicRefusal::new(404, "not_found_error", format!("model: {id}")));
    };
    let prompt = rules::check_request(request, endpoint, body, model)?;
    let issuer = create_issuer(config, model);
    let verified = issuer.verify_prompt(&prompt, rules::wants_drop(body))?;
    let prefixes = Prefixes::from_prompt(&prompt, &verified.dropped);
    let window = config.context_window.unwrap_or(model.context_window);
    let tokens = prefixes.tokens();
    if endpoint == Endpoint::CountTokens {
        let count = json_object([("input_tokens", tokens.into())]);
        return Ok(whole_response(200, 0, count.to_text().into_bytes()));
    }
    ensure(tokens <= window, || format!("prompt is too long: {tokens} tokens > {window} maximum"))?;
    let room = window - tokens;
    let job = Job { now, id, scenario: scenario.as_ref(), issuer, verified, prefixes, room };
    Ok(run_job(config, state, job, &prompt))
}

/// Returns the scenario that the model's name selects, and the model's id.
fn select_scenario<'a>(
    config: &'a Config,
    asked: &'a str,
) -> AnthropicResult<(Cow<'a, Scenario>, &'a str)> {
    match parse_model_name(asked) {
        None => Ok((Cow::Borrowed(&config.scenario), asked)),
        Some((name, id)) => match Scenario::from_name(name) {
            Ok(scenario) => Ok((Cow::Owned(scenario), id)),
            Err(wrong) => {
                Err(AnthropicRefusal::new(404, "not_found_error", format!("model: {wrong}")))
            }
        },
    }
}

fn create_issuer(config: &Config, model: &'static Model) -> Issuer {
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
    verified: VerifiedThinking,
    prefixes: Prefixes,
    /// The tokens that the context window leaves for output.
    room: u64,
}

fn run_job(config: &Config, state: &mut SimState, job: Job<'_>, prompt: &Prompt<'_>) -> Response {
    let turn = next_turn(&job, prompt, state);
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
    let mut usage = state.cache.bill_prompt(prompt, &job.prefixes, job.now, started);
    let warming = prompt.max_tokens == 0;
    let turn = if warming { Turn::default().with_stop(Stop::MaxTokens) } else { turn };
    let lawful = constraints::apply_bounds(&response_bounds(prompt, job.room), &turn);
    (usage.output, usage.thinking) = lawful.output_tokens();
    if warming {
        usage.output = 0;
    }
    state.stats.add_charge(new_charge(&job, usage, &lawful.stop));
    let number = (config.seed << 24) ^ state.stats.responses;
    let message = build_message(job, prompt, &lawful, usage, number);
    write_response(config, &message, &turn, prompt.stream)
}

fn response_bounds<'a>(prompt: &Prompt<'a>, room: u64) -> ResponseBounds<'a> {
    let stops = prompt.body.get("stop_sequences").map_or(&[][..], Json::items);
    let opens = !prompt.open_loop().iter().any(|t| t.role == Role::Assistant);
    ResponseBounds {
        choice: prompt.choice,
        parallel: prompt.parallel,
        allowed: None,
        thinking: match prompt.thinking {
            Thinking::Off => ThinkingPresence::Off,
            // A turn that opens a tool loop starts with thinking.
            Thinking::Enabled if opens => ThinkingPresence::Opens,
            Thinking::Enabled | Thinking::Adaptive => ThinkingPresence::On,
        },
        max_tokens: prompt.max_tokens,
        room,
        stops: stops.iter().filter_map(Json::as_str).collect(),
    }
}

fn write_response(config: &Config, message: &Message, turn: &Turn, streams: bool) -> Response {
    if !streams {
        let body = message.to_json().to_text().into_bytes();
        return match turn.fault {
            Some(Fault::Cut { .. }) => cut_response(body),
            _ => whole_response(200, turn.first_delay_ms, body),
        };
    }
    stream_response(stream::write_stream(message, turn), config.piece_bytes)
}

fn next_turn(job: &Job<'_>, prompt: &Prompt<'_>, state: &mut SimState) -> Turn {
    if prompt.max_tokens == 0 {
        return Turn::default();
    }
    // This is the provider's documented cause of empty turns. Here it always has that effect,
    // unless a call is forced.
    if text_after_results(prompt) && !prompt.choice.is_forced() {
        return Turn::default();
    }
    let history = history::read_history(prompt);
    let head: Vec<&str> = prompt.system.iter().map(|block| block.text).collect();
    let tagged = TaggedConversation::from_history(&history, &head);
    let history = if tagged.is_present() { tagged.apply_to(history) } else { history };
    let until = find_human_turn(&history.turns).map_or(0, |at| at + 1);
    let key = run_key(job.scenario, prompt, until);
    tagged.write_turn(state.plays.next_turn(job.scenario, &history, key))
}

/// True if the request ends in text behind tool results.
fn text_after_results(prompt: &Prompt<'_>) -> bool {
    let last = prompt.last_turn().filter(|t| t.role == Role::User);
    last.is_some_and(|turn| {
        let result = turn.blocks.iter().position(|b| b.is_kind("tool_result"));
        result.is_some_and(|at| turn.blocks.iter().skip(at).any(|b| b.is_kind("text")))
    })
}

/// Returns the key of a run: one human message, the last of the first `until` turns, under one
/// scenario.
fn run_key(scenario: &Scenario, prompt: &Prompt<'_>, until: usize) -> u128 {
    let mut digest = Digest::new(0);
    digest.add_field(scenario.name());
    for block in prompt.system.iter().chain(prompt.turns.iter().take(until).flat_map(|t| &t.blocks))
    {
        content::feed_block(&mut digest, block);
    }
    digest.finish()
}

fn build_message(
    job: Job<'_>,
    prompt: &Prompt<'_>,
    lawful: &AllowedTurn,
    usage: Usage,
    number: u64,
) -> Message {
    let transformations = job
        .verified
        .dropped
        .iter()
        .map(|((message, block), reason)| {
            json_object([
                ("type", "thinking_dropped".into()),
                ("reason", (*reason).into()),
                ("path", format!("messages.{message}.content.{block}").into()),
            ])
        })
        .collect();
    let maker = ResponseBuilder { prompt, issuer: job.issuer, verified: job.verified, number };
    Message {
        id: format!("msg_01Sim{number:012x}"),
        model: job.id.to_owned(),
        blocks: maker.build_blocks(lawful),
        stop: lawful.stop.clone(),
        usage,
        transformations,
    }
}

fn new_charge(job: &Job<'_>, usage: Usage, stop: &Stop) -> Charge {
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

fn authenticate(request: &Request<'_>) -> AnthropicResult {
    let bearer = request.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
    match request.header("x-api-key").or(bearer).map(str::trim) {
        Some("invalid") => {
            Err(AnthropicRefusal::new(401, "authentication_error", "API key is invalid."))
        }
        Some(key) if !key.is_empty() => Ok(()),
        _ => {
            Err(AnthropicRefusal::new(401, "authentication_error", "x-api-key header is required"))
        }
    }
}
