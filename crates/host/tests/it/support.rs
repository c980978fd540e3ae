//! A program with a governor, and a provider that is a function.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use softland_host::core::policy::PolicyValue;
use softland_host::govern::GovernSettings;
use softland_host::{
    Call, CallRequest, Governor, GovernorOptions, PolicySource, RunName, Step, find_endpoint,
    make_settings,
};
use softland_sim::{Body, Config, Request, Scenario, Sim};

/// A program that drives a governor by hand, and a provider that is a function.
pub(crate) struct Program {
    pub(crate) governor: Governor,
    pub(crate) settings: Arc<GovernSettings>,
    sim: Sim,
    pub(crate) sent: Vec<Value>,
}

/// The answer to one request of the program, and the exception it ends with.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    pub(crate) broken: bool,
    pub(crate) failed: bool,
}

impl Program {
    pub(crate) fn new(scenario: &str, keys: &[(&str, i128)]) -> Self {
        Self {
            governor: Governor::open(GovernorOptions {
                events: true,
                ..GovernorOptions::default()
            })
            .unwrap(),
            settings: settings_with(keys),
            sim: Sim::new(Config::new(Scenario::from_name(scenario).unwrap())),
            sent: Vec::new(),
        }
    }

    pub(crate) fn begin(&self, body: &Value, run: Option<&str>) -> Call {
        let named = |name: &str| RunName { name: name.into(), around: Vec::new() };
        self.begin_named(body, run.map(named))
    }

    pub(crate) fn begin_named(&self, body: &Value, run: Option<RunName>) -> Call {
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
    pub(crate) fn respond(&mut self, body: &Bytes) -> (StatusCode, HeaderMap, Vec<Bytes>) {
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
    pub(crate) fn carry_out(&mut self, mut call: Call, streams: bool, waits: bool) -> Answer {
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

pub(crate) fn question(streams: bool) -> Value {
    json!({"model": "claude-sonnet-5-5", "max_tokens": 1000, "stream": streams,
        "tools": [{"name": "read_file", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "How are the notes?"}]})
}

/// Adds a message of the model and the results of its calls. Returns true if it has calls.
pub(crate) fn add_round(asked: &mut Value, message: &Value) -> bool {
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

/// Settings with these keys.
pub(crate) fn settings_with(keys: &[(&str, i128)]) -> Arc<GovernSettings> {
    let keys = keys.iter().map(|(key, value)| ((*key).to_owned(), PolicyValue::Int(*value)));
    let source = PolicySource { keys: keys.collect(), ..PolicySource::default() };
    Arc::new(make_settings(&source).unwrap())
}
