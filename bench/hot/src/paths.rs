//! What is counted: reading a stream, relaying one of each API through an exchange, beginning an
//! exchange on a short and a longer history, a short one from its beginning to its end, and putting
//! lines into a body.

use std::hint::black_box;
use std::mem;

use softland_bench_texts::answers;
use softland_bench_texts::requests::{self, Kind, LONG_MODEL, Wire};
use softland_session::core::Role;
use softland_session::core::policy::Policy;
use softland_session::wire::sse::{DEFAULT_LIMIT, Decoder};
use softland_session::wire::{Api, Splice};
use softland_session::{Context, Exchange, Output, Step};

/// The most times a path is run. Its inputs are always made for all of them.
pub(crate) const MOST: usize = 16;
/// Bytes of a piece of a stream: what one TCP segment over Ethernet carries.
const PIECE: usize = 1460;
/// The model of the requests on OpenAI's protocols.
const OPENAI_MODEL: &str = "gpt-5-mini";
/// Turns of a history of about 100 KB.
const TURNS: usize = 40;

/// The paths by name, each with what it does.
pub(crate) const PATHS: [(&str, &str); 8] = [
    ("sse", "68 events of 15 KB cut into frames"),
    ("relay", "the same through an exchange to the client, to the end of the turn"),
    ("relay-chat", "as many events of Chat Completions"),
    ("relay-responses", "as many events of Responses"),
    ("begin-short", "a history of 1.5 KB, from its bytes to the body that goes upstream"),
    ("begin-long", "the same for 100 KB, 40 turns"),
    ("whole-short", "the short one and its whole answer, from its bytes to the end of the turn"),
    ("splice", "100 lines put into a body of 100 KB"),
];

/// Does the work of a path so many times.
pub(crate) fn run(name: &str, times: usize) -> Result<(), String> {
    if times > MOST {
        return Err(format!("{times} times are more than {MOST}"));
    }
    match name {
        "sse" => sse(times),
        "relay" => relay(times, Wire::Messages),
        "relay-chat" => relay(times, Wire::Chat),
        "relay-responses" => relay(times, Wire::Responses),
        "begin-short" => begin(times, requests::body(Wire::Messages, Kind::Short), 4),
        "begin-long" => begin(times, requests::history(TURNS), 60),
        "whole-short" => whole(times),
        "splice" => splice(times),
        _ => Err(format!("no path {name}")),
    }
}

fn sse(times: usize) -> Result<(), String> {
    let stream = stream(Wire::Messages);
    for _ in 0..times {
        let (mut decoder, mut frames) = (Decoder::new(DEFAULT_LIMIT), 0);
        for piece in stream.chunks(PIECE) {
            decoder.push(piece);
            while let Some(frame) = decoder.next() {
                black_box(frame.map_err(|error| error.to_string())?);
                frames += 1;
            }
        }
        is(frames, answers::EVENTS)?;
    }
    Ok(())
}

fn relay(times: usize, wire: Wire) -> Result<(), String> {
    let stream = stream(wire);
    let mut begun = Vec::new();
    for _ in 0..MOST {
        let (mut exchange, _) = exchange(wire, requests::body(wire, Kind::ShortStream), 4)?;
        let Step::Send(_) = exchange.next_step().map_err(|error| error.to_string())? else { return Err("nothing was sent".to_owned()) };
        begun.push(exchange);
    }
    for exchange in begun.iter_mut().take(times) {
        let mut shown = 0;
        for piece in stream.chunks(PIECE) {
            let mut out = Output::default();
            exchange.push_bytes(piece, &mut out).map_err(|error| error.to_string())?;
            shown += black_box(out).bytes.len();
        }
        let mut out = Output::default();
        exchange.finish_response(&mut out).map_err(|error| error.to_string())?;
        shown += out.bytes.len();
        let Step::Done(done) = exchange.next_step().map_err(|error| error.to_string())? else { return Err("not done".to_owned()) };
        is(done.calls.len(), 1)?;
        is(shown, stream.len())?;
    }
    mem::forget(begun);
    Ok(())
}

fn begin(times: usize, body: Vec<u8>, limit: u64) -> Result<(), String> {
    let length = body.len();
    let mut bodies = vec![body; MOST];
    for body in bodies.drain(MOST - times..) {
        let (mut exchange, _out) = exchange(Wire::Messages, body, limit)?;
        match exchange.next_step().map_err(|error| error.to_string())? {
            Step::Send(body) if body.len() > length => drop(black_box(body)),
            Step::Send(_) => return Err("no line was put in".to_owned()),
            Step::Done(_) => return Err("nothing was sent".to_owned()),
        }
    }
    mem::forget(bodies);
    Ok(())
}

fn whole(times: usize) -> Result<(), String> {
    let (body, answer) = (requests::body(Wire::Messages, Kind::Short), answers::message(false));
    let mut bodies = vec![body; MOST];
    for body in bodies.drain(MOST - times..) {
        let (mut exchange, begun) = exchange(Wire::Messages, body, 4)?;
        let Step::Send(body) = exchange.next_step().map_err(|error| error.to_string())? else { return Err("nothing was sent".to_owned()) };
        let mut out = Output::bytes_only();
        exchange.push_whole(&answer, &mut out).map_err(|error| error.to_string())?;
        is(out.bytes.len(), answer.len())?;
        let Step::Done(done) = exchange.next_step().map_err(|error| error.to_string())? else { return Err("not done".to_owned()) };
        is(done.calls.len(), 1)?;
        black_box((body, begun, out, done));
    }
    mem::forget(bodies);
    Ok(())
}

fn splice(times: usize) -> Result<(), String> {
    let body = requests::history(TURNS);
    let line = b"\\n\\n12 tool calls remaining";
    let mut lines = Splice::default();
    for n in 1..=100 {
        lines.insert(body.len() / 101 * n, line.as_slice());
    }
    for _ in 0..times {
        let spliced = lines.apply(&body).map_err(|error| error.to_string())?;
        is(black_box(spliced).len(), body.len() + 100 * line.len())?;
    }
    Ok(())
}

/// An exchange under limits, begun, with what it put out.
fn exchange(wire: Wire, body: Vec<u8>, limit: u64) -> Result<(Exchange, Output), String> {
    let policy = Policy { tool_calls_limit: Some(limit), ..Policy::default() };
    let (api, vendor, model) = match wire {
        Wire::Messages => (Api::Anthropic, "anthropic", LONG_MODEL),
        Wire::Chat => (Api::Chat, "openai", OPENAI_MODEL),
        Wire::Responses => (Api::Responses, "openai", OPENAI_MODEL),
    };
    let context = Context { api, ..Context::new(Role::Gateway, policy, Some(vendor), model) };
    let mut out = Output::default();
    let exchange = Exchange::from_request(body, context, &mut out).map_err(|error| error.to_string())?;
    Ok((exchange, out))
}

fn stream(wire: Wire) -> Vec<u8> {
    match wire {
        Wire::Messages => answers::message_events(false, 0).concat(),
        Wire::Chat => answers::completion_events(false, 0).concat(),
        Wire::Responses => answers::response_events(false, 0).concat(),
    }
}

fn is(found: usize, expected: usize) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found}, not {expected}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_does_its_work() {
        for (name, _) in PATHS {
            for times in [0, 1, MOST] {
                run(name, times).unwrap_or_else(|problem| panic!("{name}: {problem}"));
            }
        }
        assert!(run("none", 1).is_err() && run("sse", MOST + 1).is_err());
    }
}
