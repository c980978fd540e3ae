//! The parts that OpenAI's two protocols share: errors, keys, ids and seals, the prompt cache,
//! faults. Their rules are in `chat` and `responses`.

mod cache;
mod error;
mod fields;
mod seal;

pub(crate) use cache::{OpenAiCache, PromptLayout};
pub(crate) use error::{
    OpenAiRefusal, OpenAiResult, ensure, fault_response, in_dialect, refuse_with,
};
pub(crate) use fields::{
    FieldType, ToolFormat, Tools, check_bounds, check_known, check_sampling, check_types,
    empty_array, missing_parameter, read_integer, wrong_type,
};
pub(crate) use seal::{IssuedId, SealStatus, Sealer};

use crate::bodies::whole_response;
use crate::constraints::ThinkingPresence;
use crate::digest::Digest;
use crate::history::History;
use crate::json::{Json, json_object};
use crate::models::open::{self, DEFAULT_OPEN_MODEL, Forcing, OpenModel, Reasoning};
use crate::reply::Response;
use crate::request::Request;
use crate::run_counters::RunCounters;
use crate::scenario::{Scenario, find_human_turn, parse_model_name_or};
use crate::sim::{Config, MAX_BODY};
use crate::tagged::TaggedConversation;
use crate::turn::{Stop, Turn};
use std::borrow::Cow;

/// The maximum number of requests that the provider makes for its server tools within one request.
const SERVER_LOOP: usize = 10;

/// The simulator's first millisecond, in seconds since 1970: just a plausible `created`.
const EPOCH: u64 = 1_795_300_000;

/// Returns the `created` of a response at `now` milliseconds.
pub(crate) fn created_at(now: u64) -> u64 {
    EPOCH + now / 1000
}

/// Reads a body: checks key and size, parses JSON.
///
/// # Errors
/// Refuses with 401, 413 or 400.
pub(crate) fn read_body(request: &Request<'_>) -> OpenAiResult<Json> {
    authenticate(request)?;
    if request.body.len() > MAX_BODY {
        return Err(OpenAiRefusal::new(413, "invalid_request_error", "The request is too large."));
    }
    match Json::parse(request.body) {
        Ok(body) if body.is_map() => Ok(body),
        _ => refuse_with(
            "We could not parse the JSON body of your request. (HINT: This likely means you \
             aren't using your HTTP library correctly. The OpenAI API expects a JSON payload, but \
             what was sent was not valid JSON.)",
        ),
    }
}

/// Checks the key of an OpenAI-like host: a bearer token, or Azure's own header.
pub(crate) fn authenticate(request: &Request<'_>) -> OpenAiResult {
    let bearer = request.header("authorization").and_then(|v| v.strip_prefix("Bearer "));
    match bearer.or_else(|| request.header("api-key")).map(str::trim) {
        Some("invalid") => Err(OpenAiRefusal::new(
            401,
            "invalid_request_error",
            "Incorrect API key provided: invalid. You can find your API key at \
             https://platform.openai.com/account/api-keys.",
        )
        .with_code("invalid_api_key")),
        Some(key) if !key.is_empty() => Ok(()),
        _ => Err(OpenAiRefusal::new(
            401,
            "invalid_request_error",
            "You didn't provide an API key. You need to provide your API key in an Authorization \
             header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )),
    }
}

/// Answers `GET /v1/models`.
///
/// # Errors
/// Refuses with 401.
pub(crate) fn list_models(request: &Request<'_>) -> OpenAiResult<Response> {
    authenticate(request)?;
    let row = |m: &OpenModel| {
        json_object([
            ("id", m.id.into()),
            ("object", "model".into()),
            ("created", EPOCH.into()),
            ("owned_by", "simulated".into()),
        ])
    };
    let data = Json::List(open::all_open_models().iter().map(row).collect());
    let list = json_object([("object", "list".into()), ("data", data)]);
    Ok(whole_response(200, 0, list.to_text().into_bytes()))
}

/// The requested model, and the scenario that plays it.
#[derive(Debug)]
pub(crate) struct ModelSelection<'a> {
    pub(crate) scenario: Cow<'a, Scenario>,
    pub(crate) id: &'a str,
    pub(crate) model: OpenModel,
}

impl<'a> ModelSelection<'a> {
    /// Reads the `model` of a body.
    ///
    /// # Errors
    /// Refuses with 400 if there is no model, and with 404 if it is not listed (400 for
    /// OpenRouter).
    pub(crate) fn from_body(config: &'a Config, body: &'a Json) -> OpenAiResult<Self> {
        let Some(asked) = body.str_at("model") else {
            return Err(OpenAiRefusal::bad_request("you must provide a model parameter"));
        };
        let (scenario, id) = match parse_model_name_or(asked, DEFAULT_OPEN_MODEL) {
            None => (Cow::Borrowed(&config.scenario), asked),
            Some((name, id)) => match Scenario::from_name(name) {
                Ok(scenario) => (Cow::Owned(scenario), id),
                Err(wrong) => return Err(OpenAiRefusal::unknown_scenario(wrong)),
            },
        };
        match open::find_open_model(config.listed_id(id)) {
            Some(model) => Ok(Self { scenario, id, model }),
            None => Err(OpenAiRefusal::unlisted_model(id)),
        }
    }

    /// Returns the model's name in the response.
    pub(crate) fn name(&self) -> &'a str {
        let own = self.id == self.model.id || self.model.aliases.contains(&self.id);
        if own && !self.model.answers_as.is_empty() { self.model.answers_as } else { self.id }
    }
}

/// Decides on the presence of thinking. `wish` is the request's own setting, if any.
///
/// # Errors
/// Refuses with 400 if the model does not allow a forced choice.
pub(crate) fn decide_thinking(
    model: &OpenModel,
    wish: Option<bool>,
    forced: bool,
) -> OpenAiResult<ThinkingPresence> {
    let on = match model.reasoning {
        Reasoning::Never => false,
        Reasoning::Always => true,
        Reasoning::ByDefault => wish != Some(false),
        Reasoning::OnRequest => wish == Some(true),
    };
    if forced {
        match model.forcing {
            Forcing::Free => {}
            Forcing::DropsReasoning => return Ok(ThinkingPresence::Off),
            Forcing::NotWhileReasoning if !on => {}
            Forcing::NotWhileReasoning => {
                return refuse_with("Thinking mode does not support this tool_choice");
            }
            Forcing::Never if model.claude => {
                return Err(OpenAiRefusal::from_upstream(
                    "tool_choice: type \"tool\" and \"any\" are not supported for this model.",
                ));
            }
            Forcing::Never => {
                return refuse_with("tool_choice: only \"auto\" and \"none\" are supported.");
            }
        }
    }
    Ok(if on { ThinkingPresence::Opens } else { ThinkingPresence::Off })
}

/// Returns the next turn of a run. If the model pauses for a tool of the provider's, the provider
/// continues by itself.
pub(crate) fn next_turn(
    plays: &mut RunCounters,
    scenario: &Scenario,
    history: &mut History<'_>,
    head: &[&str],
) -> Turn {
    let tagged = TaggedConversation::from_history(history, head);
    if tagged.is_present() {
        let mut history = tagged.apply_to(history.clone());
        return tagged.write_turn(play_turns(plays, scenario, &mut history, head));
    }
    play_turns(plays, scenario, history, head)
}

fn play_turns(
    plays: &mut RunCounters,
    scenario: &Scenario,
    history: &mut History<'_>,
    head: &[&str],
) -> Turn {
    let key = run_key(scenario, history, head);
    let mut parts = Vec::new();
    for _ in 0..SERVER_LOOP {
        let mut turn = plays.next_turn(scenario, history, key);
        if turn.stop != Some(Stop::PauseTurn) || turn.fault.is_some() {
            parts.append(&mut turn.parts);
            return Turn { parts, ..turn };
        }
        history.paused += turn.parts.iter().filter(|p| p.is_server_call()).count();
        parts.append(&mut turn.parts);
    }
    Turn::from_parts(parts)
}

/// Returns the key of a run: one human message under one scenario and one system prompt.
fn run_key(scenario: &Scenario, history: &History<'_>, head: &[&str]) -> u128 {
    let mut digest = Digest::new(1);
    digest.add_field(scenario.name());
    for text in head {
        digest.add_field(text);
    }
    let until = find_human_turn(&history.turns).map_or(0, |at| at + 1);
    for turn in history.turns.iter().take(until) {
        digest.add_field(turn.role.name());
        let calls = turn.calls.iter().map(|c| c.name);
        let results = turn.results.iter().map(|r| r.text.as_ref());
        for text in turn.texts.iter().map(AsRef::as_ref).chain(calls).chain(results) {
            digest.add_field(text);
        }
    }
    digest.finish()
}

/// True if a result says that its call failed: these protocols have no field for it.
pub(crate) fn is_failure(text: &str) -> bool {
    let head: String = text.trim_start().chars().take(5).flat_map(char::to_lowercase).collect();
    if head == "error" {
        return true;
    }
    let json = text.trim_start().starts_with('{').then(|| Json::parse(text.as_bytes()).ok());
    json.flatten().is_some_and(|json| {
        let error = json.get("error").is_some_and(|e| !matches!(e, Json::Null | Json::Bool(false)));
        error || json.get("isError").and_then(Json::as_bool) == Some(true)
    })
}

/// Returns the tokens that the context window leaves for output.
///
/// # Errors
/// Refuses with 400 if the prompt does not fit.
pub(crate) fn output_tokens_left(
    config: &Config,
    model: &OpenModel,
    tokens: u64,
) -> OpenAiResult<u64> {
    let window = config.context_window.unwrap_or(model.context_window);
    window.checked_sub(tokens).ok_or_else(|| {
        let message = format!(
            "This model's maximum context length is {window} tokens. However, your messages \
             resulted in {tokens} tokens. Please reduce the length of the messages."
        );
        OpenAiRefusal::bad_request(message)
            .with_code("context_length_exceeded")
            .with_param("messages")
    })
}

/// Creates the refusal of a method that a path does not have.
pub(crate) fn wrong_method(request: &Request<'_>) -> OpenAiRefusal {
    let message = format!("Not allowed to {} on {}.", request.method, request.route());
    OpenAiRefusal::new(405, "invalid_request_error", message).with_code("method_not_supported")
}
