//! Requests step by step, against the simulator as a function.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use softland_host::core::NanoUsd;
use softland_host::core::policy::PolicyValue;
use softland_host::{
    Call, CallRequest, Endpoint, Governor, GovernorOptions, PolicySource, RunAround, RunName, Step,
    find_endpoint, make_settings,
};
use softland_sim::{Body, Config, Request, Scenario, Sim};

/// A program that drives a governor by hand, and a provider that is a function.
struct Program {
    governor: Governor,
    settings: Arc<softland_host::govern::GovernSettings>,
    sim: Sim,
    sent: Vec<Value>,
}

/// The answer to one request of the program, and the exception it ends with.
#[derive(Debug, Default)]
struct Answer {
    status: u16,
    body: Vec<u8>,
    broken: bool,
    failed: bool,
}

impl Program {
    fn new(scenario: &str, keys: &[(&str, i128)]) -> Self {
        let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), PolicyValue::Int(*value)));
        let source = PolicySource { keys: keys.collect(), ..PolicySource::default() };
        let settings = make_settings(&source).unwrap();
        Self {
            governor: Governor::open(GovernorOptions { events: true, ledger: None }).unwrap(),
            settings: Arc::new(settings),
            sim: Sim::new(Config::new(Scenario::from_name(scenario).unwrap())),
            sent: Vec::new(),
        }
    }

    fn begin(&self, body: &Value, run: Option<&str>) -> Call {
        let named = |name: &str| RunName { name: name.into(), around: Vec::new() };
        self.begin_named(body, run.map(named))
    }

    fn begin_named(&self, body: &Value, run: Option<RunName>) -> Call {
        let request = CallRequest {
            endpoint: find_endpoint("/v1/messages").unwrap(),
            host: "api.anthropic.com".into(),
            query: None,
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_string()),
            run,
        };
        assert_eq!(request.endpoint.path(), "/v1/messages");
        self.governor.begin_call(&self.settings, request).unwrap()
    }

    /// Asks the simulator. Returns the head, and the body in its pieces.
    fn respond(&mut self, body: &Bytes) -> (StatusCode, HeaderMap, Vec<Bytes>) {
        self.sent.push(serde_json::from_slice(body).unwrap());
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request { method: "POST", path: "/v1/messages", headers: &headers, body };
        let answer = self.sim.respond(0, &request);
        let pairs = answer.headers.iter().map(|(name, value)| {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let headers = pairs.collect();
        let pieces = match answer.body {
            Body::Whole { bytes, .. } => vec![Bytes::from(bytes)],
            Body::Stream(chunks) => chunks
                .into_iter()
                .map(|chunk| match chunk.piece {
                    softland_sim::Piece::Bytes(bytes) => Bytes::from(bytes),
                    softland_sim::Piece::Cut => panic!("no scenario here cuts"),
                })
                .collect(),
        };
        (StatusCode::from_u16(answer.status).unwrap(), headers, pieces)
    }

    /// Carries a request out. `waits` is how a program without an event loop does it.
    fn carry_out(&mut self, mut call: Call, streams: bool, waits: bool) -> Answer {
        let mut answer = Answer::default();
        let mut pieces = Vec::new().into_iter();
        let mut step = call.advance(waits);
        loop {
            step = match step {
                Step::Send(sent) => {
                    let (status, headers, body) = self.respond(&sent.body);
                    let whole = (!streams).then(|| Bytes::from(body.concat()));
                    pieces = body.into_iter();
                    call.respond(status, headers, whole, waits)
                }
                Step::Head(status, _) => {
                    answer.status = status.as_u16();
                    call.advance(waits)
                }
                Step::Read(bytes) => {
                    answer.body.extend_from_slice(&bytes);
                    match pieces.next() {
                        Some(piece) => call.push(piece, waits),
                        None => call.finish(waits),
                    }
                }
                Step::Give(bytes) => {
                    answer.body.extend_from_slice(&bytes);
                    call.advance(waits)
                }
                Step::Wait => call.advance(waits),
                Step::Answer { status, body, failed, .. } => {
                    (answer.status, answer.failed) = (status.as_u16(), failed);
                    answer.body = body.into();
                    return answer;
                }
                Step::End { bytes, broken } => {
                    answer.body.extend_from_slice(&bytes);
                    answer.broken = broken;
                    return answer;
                }
            };
        }
    }
}

fn question(streams: bool) -> Value {
    json!({"model": "claude-sonnet-5-5", "max_tokens": 1000, "stream": streams,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "How are the notes?"}]})
}

/// Adds a message of the model and the results of its calls. Returns true if it has calls.
fn add_round(asked: &mut Value, message: &Value) -> bool {
    let calls: Vec<&Value> = message["content"].as_array().unwrap().iter().collect();
    let results = calls.iter().filter(|block| block["type"] == "tool_use").map(
        |block| json!({"type": "tool_result", "tool_use_id": block["id"], "content": "a note"}),
    );
    let results: Vec<Value> = results.collect();
    let messages = asked["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": message["content"]}));
    messages.push(json!({"role": "user", "content": results}));
    !results.is_empty()
}

#[test]
fn a_run_lands_at_its_limit_whether_its_program_waits_or_not() {
    for waits in [true, false] {
        let mut program = Program::new("looper", &[("tool_calls_limit", 4), ("repeat_limit", 50)]);
        let mut asked = question(false);
        let mut calls = 0;
        let answer = loop {
            let call = program.begin(&asked, Some("job"));
            let answer = program.carry_out(call, false, waits);
            assert_eq!(answer.status, 200);
            let message: Value = serde_json::from_slice(&answer.body).unwrap();
            if !add_round(&mut asked, &message) {
                break message;
            }
            calls += 1;
        };
        assert_eq!((calls, program.sent.len()), (4, 5));
        assert!(!answer["content"][0]["text"].as_str().unwrap().is_empty());
        let last = program.sent.last().unwrap().to_string();
        assert!(last.contains("Tool call limit reached (4 of 4). Answer now"), "{last}");
        let report = program.governor.report_run("job").unwrap();
        assert_eq!(report.outcome.as_deref(), Some("landed"));
        assert_eq!(report.reason.as_deref(), Some("tool_calls"));
        assert_eq!((report.answered_by, report.tool_calls, report.turns), (Some("model"), 4, 5));
        assert!(report.cost.unwrap().0 > 0);
        let events = program.governor.take_events();
        assert!(events[0].contains("\"seq\":0,") && events[0].contains("\"event\":\"run_start\""));
        assert!(events.last().unwrap().contains("\"event\":\"done\""), "{events:?}");
        program.governor.close_run("job");
        assert_eq!(program.governor.report_run("job"), None);
    }
}

#[test]
fn a_stream_is_passed_on_piece_by_piece() {
    for waits in [true, false] {
        let mut program = Program::new("reader", &[]);
        let call = program.begin(&question(true), None);
        let (_, _, pieces) = program.respond(&Bytes::from(question(true).to_string()));
        let answer = program.carry_out(call, true, waits);
        assert_eq!((answer.status, answer.broken), (200, false));
        // Nothing is to be done: what the provider says is what the client gets, but for its ids.
        assert_eq!(answer.body.len(), pieces.concat().len());
    }
}

#[test]
fn a_request_that_fails_is_told_from_an_answer() {
    let mut program = Program::new("reader", &[]);
    let mut call = program.begin(&question(false), None);
    assert!(matches!(call.advance(true), Step::Send(_)));
    let Step::Answer { status, failed, .. } = call.fail("no route", false, true) else {
        panic!("it is answered");
    };
    assert_eq!((status, failed), (StatusCode::BAD_GATEWAY, true));

    let mut call = program.begin(&question(true), None);
    let Step::Send(sent) = call.advance(true) else { panic!("it is sent") };
    let (status, headers, pieces) = program.respond(&sent.body);
    assert!(matches!(call.respond(status, headers, None, true), Step::Head(..)));
    assert!(matches!(call.advance(true), Step::Read(_)));
    assert!(matches!(call.push(pieces[0].clone(), true), Step::Read(_)));
    let Step::End { broken, .. } = call.fail("reset", false, true) else { panic!("it ends") };
    assert!(broken, "what broke the stream off is raised, not written into it");
}

#[test]
fn a_request_that_is_given_up_is_booked() {
    let mut program = Program::new("reader", &[]);
    let mut call = program.begin(&question(true), Some("left"));
    let Step::Send(sent) = call.advance(false) else { panic!("it is sent") };
    let (status, headers, pieces) = program.respond(&sent.body);
    call.respond(status, headers, None, false);
    call.advance(false);
    call.push(pieces[0].clone(), false);
    drop(call);
    let report = program.governor.report_run("left").unwrap();
    assert!(report.cost.unwrap().0 > 0, "its input was read");
    let events = program.governor.take_events().join("\n");
    assert!(events.contains("the client left"), "{events}");
}

#[test]
fn what_is_not_metered_is_refused_under_a_limit_of_money() {
    let refuse = |program: &Program, path: &str| {
        let at = ("api.openai.com".into(), path);
        program.governor.refuse_unmetered(&program.settings, at, HeaderMap::new()).unwrap()
    };
    let limited = Program::new("reader", &[("cost_limit_usd", 1)]);
    let (status, ..) = refuse(&limited, "/v1/batches").expect("a refusal");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(refuse(&limited, "/v1/files").is_none());
    assert!(refuse(&Program::new("reader", &[]), "/v1/batches").is_none());
    assert!(Governor::limits_money(&limited.settings));
    assert_eq!(find_endpoint("/v1/batches"), None::<Endpoint>);
}

#[test]
fn a_run_within_a_run_spends_its_money_too() {
    let mut program = Program::new("reader", &[]);
    let around = |limit: u64| {
        let around = RunAround { name: "outer".into(), cost_limit: Some(NanoUsd(limit)) };
        RunName { name: "inner".into(), around: vec![around] }
    };
    let ask = |program: &mut Program, name: RunName| {
        let call = program.begin_named(&question(false), Some(name));
        program.carry_out(call, false, true)
    };
    program.governor.open_run(&RunName { name: "outer".into(), around: Vec::new() });
    assert_eq!(ask(&mut program, around(1_000_000_000)).status, 200);
    let (inner, outer) = ("inner", "outer");
    let cost = |program: &Program, name| program.governor.report_run(name).unwrap().cost.unwrap();
    assert!(cost(&program, inner) == cost(&program, outer) && cost(&program, inner).0 > 0);
    // Nothing is left: softland answers, and nothing is sent.
    let sent = program.sent.len();
    let answer = ask(&mut program, around(1));
    assert!(String::from_utf8_lossy(&answer.body).contains("[This answer is softland's"));
    assert_eq!(program.sent.len(), sent);
}
