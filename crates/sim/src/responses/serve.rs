//! The handling of one Responses request, from its route to its response.

use super::output::{Output, ResponseBuilder};
use super::request::{Prompt, input_items};
use super::store::StoredResponse;
use super::{bill, rules, stream};
use crate::bodies::{cut_response, stream_response, whole_response};
use crate::constraints::{self, AllowedTurn, ResponseBounds};
use crate::json::{Json, json_object};
use crate::openai::{
    self, ModelSelection, OpenAiRefusal, OpenAiResult, PromptLayout, Sealer, fault_response,
    in_dialect,
};
use crate::reply::Response;
use crate::request::Request;
use crate::sim::{Config, SimState};
use crate::stats::Charge;
use crate::turn::{Fault, Stop, Turn};
use crate::usage::Usage;

/// Answers `/v1/responses` and the paths below it.
///
/// # Errors
/// Returns the vendor's refusal.
pub(crate) fn serve_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    request: &Request<'_>,
) -> OpenAiResult<Response> {
    let below = request.route().strip_prefix("/v1/responses/");
    match (request.method, below.map(|b| b.split_once('/').unwrap_or((b, "")))) {
        ("POST", None) => create_response(config, state, now, request),
        ("POST", Some(("input_tokens", ""))) => count_tokens(config, state, request),
        ("GET", Some((id, ""))) => {
            openai::authenticate(request)?;
            retrieve_response(state, now, id)
        }
        ("DELETE", Some((id, ""))) => {
            openai::authenticate(request)?;
            delete_response(state, id)
        }
        ("POST", Some((id, "cancel"))) => {
            openai::authenticate(request)?;
            cancel_response(state, now, id)
        }
        _ => Err(openai::wrong_method(request)),
    }
}

fn retrieve_response(state: &SimState, now: u64, id: &str) -> OpenAiResult<Response> {
    let stored = state.stored.get(id).ok_or_else(|| no_response(id))?;
    let pending = stored.pending.as_ref().filter(|_| now < stored.ready_at);
    Ok(whole_response(200, 0, pending.unwrap_or(&stored.body).to_text().into_bytes()))
}

fn delete_response(state: &mut SimState, id: &str) -> OpenAiResult<Response> {
    if !state.stored.remove_response(id) {
        return Err(no_response(id));
    }
    let gone = json_object([
        ("id", id.into()),
        ("object", "response".into()),
        ("deleted", Json::Bool(true)),
    ]);
    Ok(whole_response(200, 0, gone.to_text().into_bytes()))
}

fn cancel_response(state: &mut SimState, now: u64, id: &str) -> OpenAiResult<Response> {
    let stored = state.stored.get_mut(id).ok_or_else(|| no_response(id))?;
    let Some(pending) = &stored.pending else {
        return Err(OpenAiRefusal::bad_request("Cannot cancel a synchronous response."));
    };
    if now < stored.ready_at {
        let mut cancelled = pending.clone();
        set_entry(&mut cancelled, "status", "cancelled".into());
        (stored.body, stored.ready_at) = (cancelled, now);
    }
    Ok(whole_response(200, 0, stored.body.to_text().into_bytes()))
}

fn set_entry(json: &mut Json, key: &str, value: Json) {
    if let Json::Map(entries) = json
        && let Some((_, old)) = entries.iter_mut().find(|(k, _)| k == key)
    {
        *old = value;
    }
}

fn no_response(id: &str) -> OpenAiRefusal {
    OpenAiRefusal::new(404, "invalid_request_error", format!("Response with id '{id}' not found."))
}

fn create_response(
    config: &Config,
    state: &mut SimState,
    now: u64,
    request: &Request<'_>,
) -> OpenAiResult<Response> {
    let body = openai::read_body(request)?;
    let asked = ModelSelection::from_body(config, &body)?;
    let dialect = asked.model.dialect;
    answer_request(config, state, now, &asked, &body)
        .map_err(|refusal| in_dialect(refusal, dialect))
}

/// Answers the number of tokens that a request would have, without a charge.
fn count_tokens(
    config: &Config,
    state: &SimState,
    request: &Request<'_>,
) -> OpenAiResult<Response> {
    let body = openai::read_body(request)?;
    let asked = ModelSelection::from_body(config, &body)?;
    rules::check_fields(&body, &asked.model)?;
    let mut items = stored_items(state, &body)?;
    items.extend(rules::resolve_references(input_items(&body), &state.stored)?);
    let (seal, foreign) = (Sealer { seed: config.seed }, config.accept_foreign_signatures);
    let prompt = rules::check_request(&body, &asked.model, &items, &state.stored, seal, foreign)?;
    let tokens = bill::lay_out_prompt(&prompt).tokens();
    let counted =
        json_object([("object", "response.input_tokens".into()), ("input_tokens", tokens.into())]);
    Ok(whole_response(200, 0, counted.to_text().into_bytes()))
}

/// Returns the stored items that come before the request's own.
fn stored_items(state: &SimState, body: &Json) -> OpenAiResult<Vec<Json>> {
    let Some(previous) = body.str_at("previous_response_id") else { return Ok(Vec::new()) };
    state.stored.chain_items(previous).ok_or_else(|| {
        OpenAiRefusal::bad_request(format!("Previous response with id '{previous}' not found."))
            .with_code("previous_response_not_found")
            .with_param("previous_response_id")
    })
}

fn answer_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    asked: &ModelSelection<'_>,
    body: &Json,
) -> OpenAiResult<Response> {
    rules::check_fields(body, &asked.model)?;
    let mut items = stored_items(state, body)?;
    let before = items.len();
    items.extend(rules::resolve_references(input_items(body), &state.stored)?);
    let seal = Sealer { seed: config.seed };
    let foreign = config.accept_foreign_signatures;
    let prompt = rules::check_request(body, &asked.model, &items, &state.stored, seal, foreign)?;
    let layout = bill::lay_out_prompt(&prompt);
    let room = openai::output_tokens_left(config, &asked.model, layout.tokens())?;
    let mut history = prompt.to_history();
    let turn =
        openai::next_turn(&mut state.plays, &asked.scenario, &mut history, &prompt.head_texts());
    let job = Job { config, now, asked, prompt: &prompt, layout, room, before };
    Ok(job.respond(state, &turn))
}

/// A checked request that is to be answered.
struct Job<'a> {
    config: &'a Config,
    now: u64,
    asked: &'a ModelSelection<'a>,
    prompt: &'a Prompt<'a>,
    layout: PromptLayout,
    /// The tokens that the context window leaves for output.
    room: u64,
    /// The number of items that came from the store.
    before: usize,
}

impl Job<'_> {
    fn respond(&self, state: &mut SimState, turn: &Turn) -> Response {
        let dialect = self.asked.model.dialect;
        let background = self.prompt.background;
        if let Some(Fault::Http { status, retry_after }) = turn.fault
            && !background
        {
            state.stats.faults += 1;
            return fault_response(status, retry_after, turn.first_delay_ms, dialect);
        }
        if turn.fault.is_some() && !self.prompt.stream {
            state.stats.faults += 1;
            if matches!(turn.fault, Some(Fault::ErrorEvent { .. })) && !background {
                return fault_response(500, None, turn.first_delay_ms, dialect);
            }
        }
        let output = self.build_output(state, turn);
        let fails = matches!(turn.fault, Some(Fault::Http { .. } | Fault::ErrorEvent { .. }));
        let body =
            if fails { output.failed_json(self.prompt) } else { output.to_json(self.prompt) };
        if self.prompt.store {
            self.store_response(state, &output, &body, turn);
        }
        if self.prompt.stream {
            let rotates = self.config.rotate_item_ids;
            let chunks = stream::write_stream(&output, self.prompt, turn, rotates);
            return stream_response(chunks, self.config.piece_bytes);
        }
        if background {
            let queued = output.pending_json(self.prompt, "queued");
            return whole_response(200, 0, queued.to_text().into_bytes());
        }
        let bytes = body.to_text().into_bytes();
        match turn.fault {
            Some(Fault::Cut { .. }) => cut_response(bytes),
            _ => whole_response(200, turn.first_delay_ms, bytes),
        }
    }

    fn build_output(&self, state: &mut SimState, turn: &Turn) -> Output {
        let model = self.asked.model;
        let started = self.now.saturating_add(turn.first_delay_ms);
        let explicit = bill::is_explicit(self.prompt.body);
        let billed =
            state.prefixes.bill_prompt(model.caching, &self.layout, explicit, self.now, started);
        let lawful = constraints::apply_bounds(&self.response_bounds(), turn);
        let (output, thinking) = lawful.output_tokens();
        let usage = Usage {
            input: self.layout.tokens() - billed.read - billed.written,
            cache_read: billed.read,
            cache_write_5m: billed.written,
            output,
            thinking,
            ..Usage::default()
        };
        state.stats.add_charge(Charge {
            at_ms: self.now,
            model: model.id,
            scenario: self.asked.scenario.name().to_owned(),
            usage,
            cost_nano: model.cost_nano(&usage),
            stop: lawful.stop.name(),
        });
        let number = (self.config.seed << 24) ^ state.stats.responses;
        let maker = ResponseBuilder {
            prompt: self.prompt,
            seal: Sealer { seed: self.config.seed },
            number,
        };
        Output {
            id: format!("resp_sim{number:08x}"),
            created: openai::created_at(self.now),
            name: self.asked.name().to_owned(),
            items: maker.build_items(&lawful),
            usage,
            incomplete: incomplete_reason(&lawful),
        }
    }

    fn response_bounds(&self) -> ResponseBounds<'_> {
        ResponseBounds {
            choice: self.prompt.tools.choice,
            parallel: self.prompt.tools.parallel && self.prompt.model.parallel_switch,
            allowed: self.prompt.tools.allowed.clone(),
            thinking: self.prompt.thinking,
            max_tokens: self.prompt.max_tokens,
            room: self.room,
            stops: Vec::new(),
        }
    }

    fn store_response(&self, state: &mut SimState, output: &Output, body: &Json, turn: &Turn) {
        let own = self.prompt.items.get(self.before..).unwrap_or(&[]);
        let mut items = own.to_vec();
        items.extend(body.get("output").map_or(&[][..], Json::items).iter().cloned());
        let previous = self.prompt.body.str_at("previous_response_id").map(str::to_owned);
        let pending =
            self.prompt.background.then(|| output.pending_json(self.prompt, "in_progress"));
        let ready_at = self.now.saturating_add(turn.first_delay_ms);
        let sizes = items.iter().chain([body, body]).map(|json| json.to_text().len());
        let bytes = sizes.sum();
        let body = body.clone();
        let stored = StoredResponse { previous, items, body, pending, ready_at, bytes, number: 0 };
        state.stored.insert_response(output.id.clone(), stored);
    }
}

/// Returns the reason why a response is incomplete, if it is.
fn incomplete_reason(lawful: &AllowedTurn) -> Option<&'static str> {
    match lawful.stop {
        Stop::MaxTokens | Stop::ContextWindow => Some("max_output_tokens"),
        Stop::Refusal if lawful.parts.is_empty() => Some("content_filter"),
        _ => None,
    }
}
