//! Helpers of the tests of the loop: a simulator as a transport, and tools that count.
#![expect(clippy::unwrap_used, reason = "in test helpers to panic is to fail the test")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use softland_agent::http::{
    Api, Request, Response, ResponseHead, ServedModel, Transport, TransportError,
    TransportErrorKind,
};
use softland_agent::{Agent, Event, EventKind, Report, Tool, ToolContext, ToolDef, ToolOutput};
use softland_sim::{Body, Config, Piece, Scenario, Sim, Turn, parse_posed_model};

/// A simulator in the place of a provider. Its delays are awaited on the current tokio clock.
pub(crate) struct SimTransport {
    pub(crate) sim: Sim,
    now: AtomicU64,
    pub(crate) bodies: Mutex<Vec<Vec<u8>>>,
}

impl SimTransport {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { sim: Sim::new(config), now: AtomicU64::new(0), bodies: Mutex::default() })
    }

    pub(crate) fn named(scenario: &str) -> Arc<Self> {
        Self::new(Config::new(Scenario::from_name(scenario).unwrap()))
    }

    pub(crate) fn scripted(turns: Vec<Turn>) -> Arc<Self> {
        Self::new(Config::new(Scenario::Scripted(turns)))
    }

    pub(crate) fn requests(&self) -> Vec<Value> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().map(|body| serde_json::from_slice(body).unwrap()).collect()
    }
}

#[async_trait]
impl Transport for SimTransport {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let now = self.now.fetch_add(1000, Ordering::Relaxed);
        self.bodies.lock().unwrap().push(request.body.to_vec());
        let headers: &[(&str, &str)] = match request.path {
            "/v1/messages" => &[("x-api-key", "any"), ("anthropic-version", "2023-06-01")],
            _ => &[("authorization", "Bearer any")],
        };
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let response = self.sim.respond(
            now,
            &softland_sim::Request {
                method: "POST",
                path: request.path,
                headers: &headers,
                body: &request.body,
            },
        );
        let header = |name| response.header(name).map(str::to_owned);
        let head = ResponseHead {
            content_type: header("content-type"),
            request_id: header("request-id"),
            ..ResponseHead::default()
        };
        let broken =
            || Err(TransportError::new("sim", TransportErrorKind::Broken { detail: "cut".into() }));
        let pieces: Vec<_> = match response.body {
            Body::Whole { delay_ms, bytes } => vec![(delay_ms, Ok(bytes.into()))],
            Body::Stream(chunks) => chunks
                .into_iter()
                .map(|chunk| match chunk.piece {
                    Piece::Bytes(bytes) => (chunk.delay_ms, Ok(bytes.into())),
                    Piece::Cut => (chunk.delay_ms, broken()),
                })
                .collect(),
        };
        let body = futures_util::stream::iter(pieces)
            .then(|(delay, piece)| async move {
                if delay > 0 {
                    tokio::time::sleep(std::time::Duration::from_millis(delay)).await;
                }
                piece
            })
            .boxed();
        Ok(Response { status: response.status, head, body })
    }

    fn served_model(&self, api: Api, model: &str) -> Option<ServedModel> {
        let name = model.strip_prefix("sim/")?;
        let (vendor, id) = parse_posed_model(api.path(), name);
        Some(ServedModel::new(vendor, id).with_request_name(name))
    }
}

/// The behaviour of a tool, from the number of earlier calls and its input.
pub(crate) type Does = Box<dyn Fn(u64, &Value) -> ToolOutput + Send + Sync>;

/// A tool that runs a closure and counts its calls.
pub(crate) struct Counting {
    pub(crate) name: &'static str,
    pub(crate) calls: Arc<AtomicU64>,
    pub(crate) answer: Does,
}

#[async_trait]
impl Tool for Counting {
    fn def(&self) -> ToolDef {
        ToolDef {
            name: self.name.to_owned(),
            description: "does as the test says".to_owned(),
            input_schema: json!({"type": "object", "properties": {}}),
            reads: true,
            repeatable: true,
        }
    }

    async fn call(&self, input: Value, _cx: &ToolContext) -> ToolOutput {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        (self.answer)(n, &input)
    }
}

/// A tool that counts and answers with its number.
pub(crate) fn counting(name: &'static str) -> (Counting, Arc<AtomicU64>) {
    let calls = Arc::new(AtomicU64::new(0));
    let answer = Box::new(|n, _: &Value| ToolOutput::ok(format!("result {n}")));
    (Counting { name, calls: Arc::clone(&calls), answer }, calls)
}

/// An agent on this transport; retries do not wait.
pub(crate) fn agent(transport: &Arc<SimTransport>, model: &str) -> Agent {
    let transport: Arc<dyn Transport> = Arc::clone(transport) as Arc<dyn Transport>;
    let mut agent = Agent::new("test", model, transport);
    agent.options.retry.base = std::time::Duration::ZERO;
    agent.options.retry.max_retries = 2;
    agent
}

/// Runs one prompt and keeps its events.
pub(crate) async fn run(agent: &Agent, prompt: &str) -> (Report, Vec<Event>) {
    let mut events = Vec::new();
    let report = agent.run(prompt, &mut |event| events.push(event.clone())).await.unwrap();
    (report, events)
}

pub(crate) fn interventions(events: &[Event]) -> Vec<&'static str> {
    let of = |event: &Event| match &event.kind {
        EventKind::Intervention { intervention, .. } => Some(*intervention),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

pub(crate) fn signals(events: &[Event]) -> Vec<&'static str> {
    let of = |event: &Event| match &event.kind {
        EventKind::Signal { signal, .. } => Some(*signal),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}
