//! The handling of one chat request, from its body to its response.

use super::answer::{Answer, Maker, finish};
use super::request::{Prompt, Speaker};
use super::{bill, rules, stream, whole};
use crate::bodies::{cut_whole, event_stream, whole as whole_body};
use crate::json::{Json, map};
use crate::laws::{self, Bounds};
use crate::models::open::Dialect;
use crate::openai::{self, Asked, Checked, Refusal, Ribbon, Seal, fault, in_dialect};
use crate::reply::Response;
use crate::request::Request;
use crate::sim::{Config, State};
use crate::stats::Charge;
use crate::turn::{Fault, Part, Stop, Turn};
use crate::usage::Usage;

/// Answers `POST /v1/chat/completions`.
///
/// # Errors
/// Returns the vendor's refusal.
pub(crate) fn serve(
    config: &Config,
    state: &mut State,
    now: u64,
    request: &Request<'_>,
) -> Checked<Response> {
    if request.method != "POST" {
        return Err(openai::wrong_method(request));
    }
    let body = openai::body(request)?;
    let asked = Asked::read(config, &body)?;
    let dialect = asked.model.dialect;
    answer(config, state, now, &asked, &body).map_err(|refusal| in_dialect(refusal, dialect))
}

fn answer(
    config: &Config,
    state: &mut State,
    now: u64,
    asked: &Asked<'_>,
    body: &Json,
) -> Checked<Response> {
    let seal = Seal { seed: config.seed };
    let prompt = rules::check(body, &asked.model, seal, config.accept_foreign_signatures)?;
    let ribbon = bill::ribbon(&prompt);
    let room = openai::room(config, &asked.model, ribbon.tokens())?;
    let turn = turn_of(state, asked, &prompt);
    let dialect = asked.model.dialect;
    if let Some(Fault::Http { status, retry_after }) = turn.fault {
        state.stats.faults += 1;
        return Ok(fault(status, retry_after, turn.first_delay_ms, dialect));
    }
    if turn.fault.is_some() && !prompt.stream {
        state.stats.faults += 1;
        if let Some(Fault::ErrorEvent { .. }) = turn.fault {
            return Ok(fault(500, None, turn.first_delay_ms, dialect));
        }
    }
    let job = Job { config, now, asked, prompt: &prompt, ribbon, room };
    let (answer, lawful) = finished(&job, state, &turn);
    Ok(match refused_call(&prompt, &lawful, &turn) {
        Some(call) => refuse_call(config, state, &answer, &prompt, &turn, call),
        None => write(config, &answer, &prompt, &turn),
    })
}

fn turn_of(state: &mut State, asked: &Asked<'_>, prompt: &Prompt<'_>) -> Turn {
    // This is the documented cause of a Claude's empty turns, on every host.
    if prompt.model.claude && text_after_results(prompt) && !prompt.tools.choice.is_forced() {
        return Turn::default();
    }
    let mut history = prompt.history();
    openai::next(&mut state.plays, &asked.scenario, &mut history, &prompt.head())
}

fn text_after_results(prompt: &Prompt<'_>) -> bool {
    let mut last = prompt.messages.iter().rev().map(|m| m.speaker);
    last.next() == Some(Speaker::User) && last.find(|s| *s != Speaker::User) == Some(Speaker::Tool)
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
}

fn finished(job: &Job<'_>, state: &mut State, turn: &Turn) -> (Answer, laws::Lawful) {
    let Job { config, now, asked, prompt, ribbon, room } = job;
    let model = asked.model;
    let started = now.saturating_add(turn.first_delay_ms);
    let explicit = bill::is_explicit(prompt.body);
    let billed = state.prefixes.bill(model.caching, ribbon, explicit, *now, started);
    let lawful = laws::apply(&bounds(prompt, *room), turn);
    let (output, thinking) = lawful.output_tokens();
    let usage = Usage {
        input: ribbon.tokens() - billed.read - billed.written,
        cache_read: billed.read,
        cache_write_5m: billed.written,
        output,
        thinking,
        ..Usage::default()
    };
    let cost_nano = model.cost_nano(&usage);
    state.stats.charge(Charge {
        at_ms: *now,
        model: model.id,
        scenario: asked.scenario.name().to_owned(),
        usage,
        cost_nano,
        stop: lawful.stop.name(),
    });
    let number = (config.seed << 24) ^ state.stats.responses;
    let maker = Maker { prompt, seal: Seal { seed: config.seed }, number };
    let finish = finish(prompt, &lawful);
    let prefix = match model.dialect {
        Dialect::OpenRouter => "gen",
        Dialect::AnthropicCompat => "msg",
        _ => "chatcmpl",
    };
    let answer = Answer {
        id: format!("{prefix}-sim{number:08x}"),
        created: openai::created(*now),
        name: asked.name().to_owned(),
        model,
        pieces: maker.pieces(&lawful),
        finish,
        native: if model.claude { lawful.stop.name() } else { finish },
        usage,
        cost_nano,
    };
    (answer, lawful)
}

fn bounds<'a>(prompt: &Prompt<'a>, room: u64) -> Bounds<'a> {
    let stops = match prompt.body.get("stop") {
        Some(Json::Str(one)) => vec![one.as_str()],
        Some(list) => list.items().iter().filter_map(Json::as_str).collect(),
        None => Vec::new(),
    };
    Bounds {
        choice: prompt.tools.choice,
        parallel: prompt.tools.parallel && prompt.model.parallel_switch,
        allowed: prompt.tools.allowed.clone(),
        thinking: prompt.thinking,
        max_tokens: prompt.max_tokens,
        room,
        stops: stops.into_iter().filter(|s| !s.is_empty()).collect(),
    }
}

fn write(config: &Config, answer: &Answer, prompt: &Prompt<'_>, turn: &Turn) -> Response {
    if prompt.stream {
        return event_stream(stream::write(answer, prompt, turn), config.piece_bytes);
    }
    let body = whole::body(answer);
    match turn.fault {
        Some(Fault::Cut { .. }) => cut_whole(body),
        _ => whole_body(200, turn.first_delay_ms, body),
    }
}

/// Returns the text of a call that Groq refuses: its input is not JSON, or its tool is unknown.
fn refused_call(prompt: &Prompt<'_>, lawful: &laws::Lawful, turn: &Turn) -> Option<String> {
    if prompt.model.dialect != Dialect::Groq || lawful.stop == Stop::MaxTokens || turn.lawless {
        return None;
    }
    let names: Vec<&str> = prompt.tools.names(openai::Form::Nested).collect();
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
    state: &mut State,
    answer: &Answer,
    prompt: &Prompt<'_>,
    turn: &Turn,
    call: String,
) -> Response {
    state.stats.faults += 1;
    let message = "Failed to call a function. Please adjust your prompt. See 'failed_generation' \
                   for more details.";
    let mut error = Refusal::bad(message).code("tool_use_failed").error();
    if let Json::Map(entries) = &mut error {
        entries.retain(|(key, _)| key != "param");
        entries.push(("failed_generation".to_owned(), call.into()));
        if prompt.stream {
            entries.push(("status_code".to_owned(), 400.into()));
        }
    }
    let error = map([("error", error)]);
    if prompt.stream {
        let chunks = stream::write_refused(answer, prompt, turn, error);
        return event_stream(chunks, config.piece_bytes);
    }
    whole_body(400, turn.first_delay_ms, error.text().into_bytes())
}
