//! The handling of one Responses request, from its route to its response.

use super::output::{Maker, Output};
use super::request::{Prompt, input};
use super::store::Stored;
use super::{bill, rules, stream};
use crate::bodies::{cut_whole, event_stream, whole};
use crate::json::{Json, map};
use crate::laws::{self, Bounds, Lawful};
use crate::openai::{self, Asked, Checked, Refusal, Ribbon, Seal, fault, in_dialect};
use crate::reply::Response;
use crate::request::Request;
use crate::sim::{Config, State};
use crate::stats::Charge;
use crate::turn::{Fault, Stop, Turn};
use crate::usage::Usage;

/// Answers `/v1/responses` and the paths below it.
///
/// # Errors
/// Returns the vendor's refusal.
pub(crate) fn serve(
    config: &Config,
    state: &mut State,
    now: u64,
    request: &Request<'_>,
) -> Checked<Response> {
    let below = request.route().strip_prefix("/v1/responses/");
    match (request.method, below.map(|b| b.split_once('/').unwrap_or((b, "")))) {
        ("POST", None) => create(config, state, now, request),
        ("POST", Some(("input_tokens", ""))) => count(config, state, request),
        ("GET", Some((id, ""))) => {
            openai::authenticate(request)?;
            retrieve(state, now, id)
        }
        ("DELETE", Some((id, ""))) => {
            openai::authenticate(request)?;
            delete(state, id)
        }
        ("POST", Some((id, "cancel"))) => {
            openai::authenticate(request)?;
            cancel(state, now, id)
        }
        _ => Err(openai::wrong_method(request)),
    }
}

fn retrieve(state: &State, now: u64, id: &str) -> Checked<Response> {
    let stored = state.stored.get(id).ok_or_else(|| no_response(id))?;
    let pending = stored.pending.as_ref().filter(|_| now < stored.ready_at);
    Ok(whole(200, 0, pending.unwrap_or(&stored.body).text().into_bytes()))
}

fn delete(state: &mut State, id: &str) -> Checked<Response> {
    if !state.stored.forget(id) {
        return Err(no_response(id));
    }
    let gone =
        map([("id", id.into()), ("object", "response".into()), ("deleted", Json::Bool(true))]);
    Ok(whole(200, 0, gone.text().into_bytes()))
}

fn cancel(state: &mut State, now: u64, id: &str) -> Checked<Response> {
    let stored = state.stored.get_mut(id).ok_or_else(|| no_response(id))?;
    let Some(pending) = &stored.pending else {
        return Err(Refusal::bad("Cannot cancel a synchronous response."));
    };
    if now < stored.ready_at {
        let mut cancelled = pending.clone();
        set(&mut cancelled, "status", "cancelled".into());
        (stored.body, stored.ready_at) = (cancelled, now);
    }
    Ok(whole(200, 0, stored.body.text().into_bytes()))
}

fn set(json: &mut Json, key: &str, value: Json) {
    if let Json::Map(entries) = json
        && let Some((_, old)) = entries.iter_mut().find(|(k, _)| k == key)
    {
        *old = value;
    }
}

fn no_response(id: &str) -> Refusal {
    Refusal::new(404, "invalid_request_error", format!("Response with id '{id}' not found."))
}

fn create(
    config: &Config,
    state: &mut State,
    now: u64,
    request: &Request<'_>,
) -> Checked<Response> {
    let body = openai::body(request)?;
    let asked = Asked::read(config, &body)?;
    let dialect = asked.model.dialect;
    answer(config, state, now, &asked, &body).map_err(|refusal| in_dialect(refusal, dialect))
}

/// Answers the number of tokens that a request would have, without a charge.
fn count(config: &Config, state: &State, request: &Request<'_>) -> Checked<Response> {
    let body = openai::body(request)?;
    let asked = Asked::read(config, &body)?;
    rules::fields(&body, &asked.model)?;
    let mut items = kept(state, &body)?;
    items.extend(rules::resolve(input(&body), &state.stored)?);
    let (seal, foreign) = (Seal { seed: config.seed }, config.accept_foreign_signatures);
    let prompt = rules::check(&body, &asked.model, &items, &state.stored, seal, foreign)?;
    let tokens = bill::ribbon(&prompt).tokens();
    let counted =
        map([("object", "response.input_tokens".into()), ("input_tokens", tokens.into())]);
    Ok(whole(200, 0, counted.text().into_bytes()))
}

/// Returns the stored items that come before the request's own.
fn kept(state: &State, body: &Json) -> Checked<Vec<Json>> {
    let Some(previous) = body.str_at("previous_response_id") else { return Ok(Vec::new()) };
    state.stored.chain(previous).ok_or_else(|| {
        Refusal::bad(format!("Previous response with id '{previous}' not found."))
            .code("previous_response_not_found")
            .at("previous_response_id")
    })
}

fn answer(
    config: &Config,
    state: &mut State,
    now: u64,
    asked: &Asked<'_>,
    body: &Json,
) -> Checked<Response> {
    rules::fields(body, &asked.model)?;
    let mut items = kept(state, body)?;
    let before = items.len();
    items.extend(rules::resolve(input(body), &state.stored)?);
    let seal = Seal { seed: config.seed };
    let foreign = config.accept_foreign_signatures;
    let prompt = rules::check(body, &asked.model, &items, &state.stored, seal, foreign)?;
    let ribbon = bill::ribbon(&prompt);
    let room = openai::room(config, &asked.model, ribbon.tokens())?;
    let mut history = prompt.history();
    let turn = openai::next(&mut state.plays, &asked.scenario, &mut history, &prompt.head());
    let job = Job { config, now, asked, prompt: &prompt, ribbon, room, before };
    Ok(job.respond(state, &turn))
}

/// A checked request that is to be answered.
struct Job<'a> {
    config: &'a Config,
    now: u64,
    asked: &'a Asked<'a>,
    prompt: &'a Prompt<'a>,
    ribbon: Ribbon,
    /// The tokens that the context window leaves for output.
    room: u64,
    /// The number of items that came from the store.
    before: usize,
}

impl Job<'_> {
    fn respond(&self, state: &mut State, turn: &Turn) -> Response {
        let dialect = self.asked.model.dialect;
        let background = self.prompt.background;
        if let Some(Fault::Http { status, retry_after }) = turn.fault
            && !background
        {
            state.stats.faults += 1;
            return fault(status, retry_after, turn.first_delay_ms, dialect);
        }
        if turn.fault.is_some() && !self.prompt.stream {
            state.stats.faults += 1;
            if matches!(turn.fault, Some(Fault::ErrorEvent { .. })) && !background {
                return fault(500, None, turn.first_delay_ms, dialect);
            }
        }
        let output = self.output(state, turn);
        let fails = matches!(turn.fault, Some(Fault::Http { .. } | Fault::ErrorEvent { .. }));
        let body = if fails { output.failed(self.prompt) } else { output.json(self.prompt) };
        if self.prompt.store {
            self.keep(state, &output, &body, turn);
        }
        if self.prompt.stream {
            let rotates = self.config.rotate_item_ids;
            let chunks = stream::write(&output, self.prompt, turn, rotates);
            return event_stream(chunks, self.config.piece_bytes);
        }
        if background {
            let queued = output.pending(self.prompt, "queued");
            return whole(200, 0, queued.text().into_bytes());
        }
        let bytes = body.text().into_bytes();
        match turn.fault {
            Some(Fault::Cut { .. }) => cut_whole(bytes),
            _ => whole(200, turn.first_delay_ms, bytes),
        }
    }

    fn output(&self, state: &mut State, turn: &Turn) -> Output {
        let model = self.asked.model;
        let started = self.now.saturating_add(turn.first_delay_ms);
        let explicit = bill::is_explicit(self.prompt.body);
        let billed = state.prefixes.bill(model.caching, &self.ribbon, explicit, self.now, started);
        let lawful = laws::apply(&self.bounds(), turn);
        let (output, thinking) = lawful.output_tokens();
        let usage = Usage {
            input: self.ribbon.tokens() - billed.read - billed.written,
            cache_read: billed.read,
            cache_write_5m: billed.written,
            output,
            thinking,
            ..Usage::default()
        };
        state.stats.charge(Charge {
            at_ms: self.now,
            model: model.id,
            scenario: self.asked.scenario.name().to_owned(),
            usage,
            cost_nano: model.cost_nano(&usage),
            stop: lawful.stop.name(),
        });
        let number = (self.config.seed << 24) ^ state.stats.responses;
        let maker = Maker { prompt: self.prompt, seal: Seal { seed: self.config.seed }, number };
        Output {
            id: format!("resp_sim{number:08x}"),
            created: openai::created(self.now),
            name: self.asked.name().to_owned(),
            items: maker.items(&lawful),
            usage,
            incomplete: incomplete(&lawful),
        }
    }

    fn bounds(&self) -> Bounds<'_> {
        Bounds {
            choice: self.prompt.tools.choice,
            parallel: self.prompt.tools.parallel && self.prompt.model.parallel_switch,
            allowed: self.prompt.tools.allowed.clone(),
            thinking: self.prompt.thinking,
            max_tokens: self.prompt.max_tokens,
            room: self.room,
            stops: Vec::new(),
        }
    }

    fn keep(&self, state: &mut State, output: &Output, body: &Json, turn: &Turn) {
        let own = self.prompt.items.get(self.before..).unwrap_or(&[]);
        let mut items = own.to_vec();
        items.extend(body.get("output").map_or(&[][..], Json::items).iter().cloned());
        let previous = self.prompt.body.str_at("previous_response_id").map(str::to_owned);
        let pending = self.prompt.background.then(|| output.pending(self.prompt, "in_progress"));
        let ready_at = self.now.saturating_add(turn.first_delay_ms);
        let sizes = items.iter().chain([body, body]).map(|json| json.text().len());
        let bytes = sizes.sum();
        let body = body.clone();
        let stored = Stored { previous, items, body, pending, ready_at, bytes, number: 0 };
        state.stored.keep(output.id.clone(), stored);
    }
}

/// Returns the reason why a response is incomplete, if it is.
fn incomplete(lawful: &Lawful) -> Option<&'static str> {
    match lawful.stop {
        Stop::MaxTokens | Stop::ContextWindow => Some("max_output_tokens"),
        Stop::Refusal if lawful.parts.is_empty() => Some("content_filter"),
        _ => None,
    }
}
