//! The handling of one chat request, from its body to its response.

use super::answer::{Answer, ResponseBuilder, finish_reason};
use super::request::{Prompt, Speaker};
use super::{bill, rules, stream, whole};
use crate::bodies::{cut_response, stream_response, whole_response as whole_body};
use crate::constraints::{self, ResponseBounds};
use crate::json::{Json, json_object};
use crate::models::open::Dialect;
use crate::openai::{
    self, ModelSelection, OpenAiRefusal, OpenAiResult, PromptLayout, Sealer, fault_response,
    in_dialect,
};
use crate::reply::Response;
use crate::request::Request;
use crate::sim::{Config, SimState};
use crate::stats::Charge;
use crate::turn::{Fault, Part, Stop, Turn};
use crate::usage::Usage;

/// Answers `POST /v1/chat/completions`.
///
/// # Errors
/// Returns the vendor's refusal.
pub(crate) fn serve_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    request: &Request<'_>,
) -> OpenAiResult<Response> {
    if request.method != "POST" {
        return Err(openai::wrong_method(request));
    }
    let body = openai::read_body(request)?;
    let asked = ModelSelection::from_body(config, &body)?;
    let dialect = asked.model.dialect;
    answer_request(config, state, now, &asked, &body)
        .map_err(|refusal| in_dialect(refusal, dialect))
}

fn answer_request(
    config: &Config,
    state: &mut SimState,
    now: u64,
    asked: &ModelSelection<'_>,
    body: &Json,
) -> OpenAiResult<Response> {
    let seal = Sealer { seed: config.seed };
    let prompt = rules::check_request(body, &asked.model, seal, config.accept_foreign_signatures)?;
    let layout = bill::lay_out_prompt(&prompt);
    let room = openai::output_tokens_left(config, &asked.model, layout.tokens())?;
    let turn = next_turn(state, asked, &prompt);
    let dialect = asked.model.dialect;
    if let Some(Fault::Http { status, retry_after }) = turn.fault {
        state.stats.faults += 1;
        return Ok(fault_response(status, retry_after, turn.first_delay_ms, dialect));
    }
    if turn.fault.is_some() && !prompt.stream {
        state.stats.faults += 1;
        if let Some(Fault::ErrorEvent { .. }) = turn.fault {
            return Ok(fault_response(500, None, turn.first_delay_ms, dialect));
        }
    }
    let job = Job { config, now, asked, prompt: &prompt, layout, room };
    let (answer, lawful) = build_answer(&job, state, &turn);
    Ok(match refused_call(&prompt, &lawful, &turn) {
        Some(call) => refuse_call(config, state, &answer, &prompt, &turn, call),
        None => write_response(config, &answer, &prompt, &turn),
    })
}

fn next_turn(state: &mut SimState, asked: &ModelSelection<'_>, prompt: &Prompt<'_>) -> Turn {
    // This is the documented cause of a Claude's empty turns, on every host.
    if prompt.model.claude && text_after_results(prompt) && !prompt.tools.choice.is_forced() {
        return Turn::default();
    }
    let mut history = prompt.to_history();
    openai::next_turn(&mut state.plays, &asked.scenario, &mut history, &prompt.head_texts())
}

fn text_after_results(prompt: &Prompt<'_>) -> bool {
    let mut last = prompt.messages.iter().rev().map(|m| m.speaker);
    last.next() == Some(Speaker::User) && last.find(|s| *s != Speaker::User) == Some(Speaker::Tool)
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
}

fn build_answer(
    job: &Job<'_>,
    state: &mut SimState,
    turn: &Turn,
) -> (Answer, constraints::AllowedTurn) {
    let Job { config, now, asked, prompt, layout, room } = job;
    let model = asked.model;
    let started = now.saturating_add(turn.first_delay_ms);
    let explicit = bill::is_explicit(prompt.body);
    let billed = state.prefixes.bill_prompt(model.caching, layout, explicit, *now, started);
    let lawful = constraints::apply_bounds(&response_bounds(prompt, *room), turn);
    let (output, thinking) = lawful.output_tokens();
    let usage = Usage {
        input: layout.tokens() - billed.read - billed.written,
        cache_read: billed.read,
        cache_write_5m: billed.written,
        output,
        thinking,
        ..Usage::default()
    };
    let cost_nano = model.cost_nano(&usage);
    state.stats.add_charge(Charge {
        at_ms: *now,
        model: model.id,
        scenario: asked.scenario.name().to_owned(),
        usage,
        cost_nano,
        stop: lawful.stop.name(),
    });
    let number = (config.seed << 24) ^ state.stats.responses;
    let maker = ResponseBuilder { prompt, seal: Sealer { seed: config.seed }, number };
    let finish = finish_reason(prompt, &lawful);
    let prefix = match model.dialect {
        Dialect::OpenRouter => "gen",
        Dialect::AnthropicCompat => "msg",
        _ => "chatcmpl",
    };
    let answer = Answer {
        id: format!("{prefix}-sim{number:08x}"),
        created: openai::created_at(*now),
        name: asked.name().to_owned(),
        model,
        pieces: maker.build_pieces(&lawful),
        finish,
        native: if model.claude { lawful.stop.name() } else { finish },
        usage,
        cost_nano,
    };
    (answer, lawful)
}

fn response_bounds<'a>(prompt: &Prompt<'a>, room: u64) -> ResponseBounds<'a> {
    let stops = match prompt.body.get("stop") {
        Some(Json::Str(one)) => vec![one.as_str()],
        Some(list) => list.items().iter().filter_map(Json::as_str).collect(),
        None => Vec::new(),
    };
    ResponseBounds {
        choice: prompt.tools.choice,
        parallel: prompt.tools.parallel && prompt.model.parallel_switch,
        allowed: prompt.tools.allowed.clone(),
        thinking: prompt.thinking,
        max_tokens: prompt.max_tokens,
        room,
        stops: stops.into_iter().filter(|s| !s.is_empty()).collect(),
    }
}

fn write_response(config: &Config, answer: &Answer, prompt: &Prompt<'_>, turn: &Turn) -> Response {
    if prompt.stream {
        return stream_response(stream::write_stream(answer, prompt, turn), config.piece_bytes);
    }
    let body = whole::write_body(answer);
    match turn.fault {
        Some(Fault::Cut { .. }) => cut_response(body),
        _ => whole_body(200, turn.first_delay_ms, body),
    }
}

/// Returns the text of a call that Groq refuses: its input is not JSON, or its tool is unknown.
fn refused_call(
    prompt: &Prompt<'_>,
    lawful: &constraints::AllowedTurn,
    turn: &Turn,
) -> Option<String> {
    if prompt.model.dialect != Dialect::Groq || lawful.stop == Stop::MaxTokens || turn.lawless {
        return None;
    }
    let names: Vec<&str> = prompt.tools.client_names(openai::ToolFormat::Nested).collect();
    lawful.parts.iter().find_map(|part| match part {
        Part::Tool { name, input, .. } => {
            let bad = !names.contains(&name.as_str()) || Json::parse(input.as_bytes()).is_err();
            bad.then(|| format!("<function={name}>{input}</function>"))
        }
        _ => None,
    })
}

fn refuse_call(
    config: &Config,
    state: &mut SimState,
    answer: &Answer,
    prompt: &Prompt<'_>,
    turn: &Turn,
    call: String,
) -> Response {
    state.stats.faults += 1;
    let message = "Failed to call a function. Please adjust your prompt. See 'failed_generation' \
                   for more details.";
    let mut error = OpenAiRefusal::bad_request(message).with_code("tool_use_failed").error_json();
    if let Json::Map(entries) = &mut error {
        entries.retain(|(key, _)| key != "param");
        entries.push(("failed_generation".to_owned(), call.into()));
        if prompt.stream {
            entries.push(("status_code".to_owned(), 400.into()));
        }
    }
    let error = json_object([("error", error)]);
    if prompt.stream {
        let chunks = stream::write_refused(answer, prompt, turn, error);
        return stream_response(chunks, config.piece_bytes);
    }
    whole_body(400, turn.first_delay_ms, error.to_text().into_bytes())
}
