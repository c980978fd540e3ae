//! The simulator as a transport, without a socket but with the same delays and cuts.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use softland_agent::core::find_nearest;
use softland_agent::http::{
    Api, ByteStream, Request, Response, ResponseHead, ServedModel, Transport, TransportError,
    TransportErrorKind,
};
use softland_sim::{
    Body, Chunk, Config, Piece, Scenario, Sim, parse_model_name, parse_posed_model,
};

use crate::failure::Failure;

/// The name of the simulator in errors.
const ORIGIN: &str = "the simulator";

/// The provider of simulated models, as it stands before the `/` of a model.
pub(crate) const SIMULATOR: &str = "sim";

/// Returns the name of a simulated model without `sim/`.
pub(crate) fn simulated_name(model: &str) -> Option<&str> {
    let (provider, name) = model.split_once('/')?;
    (provider == SIMULATOR && !name.is_empty()).then_some(name)
}

/// Returns the model that a simulated model poses as.
pub(crate) fn posed_model(api: Api, model: &str) -> Option<ServedModel> {
    let name = simulated_name(model)?;
    let (vendor, id) = parse_posed_model(api.path(), name);
    Some(ServedModel::new(vendor, id).with_request_name(name))
}

/// Returns the end of a message about an unknown scenario: the known one that is probably meant.
pub(super) fn suggest_scenario(name: &str) -> String {
    let near = find_nearest(name, Scenario::builtin_names().map(|(name, _)| name));
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

/// A simulator in this process.
pub(crate) struct InProcessSim {
    sim: Sim,
    began: Instant,
}

impl InProcessSim {
    /// Creates a simulator for `SCENARIO` or `SCENARIO@MODEL-ID`.
    ///
    /// # Errors
    /// Returns a failure if the scenario does not exist. The simulator itself refuses an unknown
    /// model id.
    pub(crate) fn new(model: &str) -> Result<Self, Failure> {
        let scenario = Self::find_scenario(model).map_err(Failure::usage)?;
        Ok(Self { sim: Sim::new(Config::new(scenario)), began: Instant::now() })
    }

    /// Returns the scenario that a model names.
    ///
    /// # Errors
    /// Returns a message if the scenario does not exist.
    pub(crate) fn find_scenario(model: &str) -> Result<Scenario, String> {
        let full = format!("sim/{model}");
        let scenario = parse_model_name(&full).map_or(model, |(scenario, _)| scenario);
        Scenario::from_name(scenario)
            .map_err(|wrong| format!("the model `{full}`: {wrong}{}", suggest_scenario(scenario)))
    }
}

#[async_trait]
impl Transport for InProcessSim {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let mut headers = request.headers;
        for (name, value) in required_headers(request.path) {
            headers.push(((*name).to_owned(), (*value).to_owned()));
        }
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let asked = softland_sim::Request {
            method: "POST",
            path: request.path,
            headers: &headers,
            body: &request.body,
        };
        let answer = self.sim.respond(now, &asked);
        let head = response_head(&answer);
        let body = match answer.body {
            Body::Whole { delay_ms, bytes } => {
                sleep_millis(delay_ms).await;
                vec![Chunk { delay_ms: 0, piece: Piece::Bytes(bytes) }]
            }
            Body::Stream(mut chunks) => {
                // A provider sends its headers with the first piece of the body.
                if let Some(first) = chunks.first_mut() {
                    sleep_millis(std::mem::take(&mut first.delay_ms)).await;
                }
                chunks
            }
        };
        Ok(Response { status: answer.status, head, body: stream_pieces(body) })
    }

    fn served_model(&self, api: Api, model: &str) -> Option<ServedModel> {
        posed_model(api, model)
    }
}

/// Returns the headers that a provider requires on each request. Any key is accepted.
fn required_headers(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "/v1/messages" => &[("x-api-key", "simulated"), ("anthropic-version", "2023-06-01")],
        _ => &[("authorization", "Bearer simulated")],
    }
}

fn response_head(answer: &softland_sim::Response) -> ResponseHead {
    ResponseHead {
        content_type: answer.header("content-type").map(str::to_owned),
        request_id: answer
            .header("request-id")
            .or_else(|| answer.header("x-request-id"))
            .map(str::to_owned),
        retry_after: answer
            .header("retry-after")
            .and_then(|seconds| seconds.parse().ok())
            .map(Duration::from_secs),
        should_retry: answer.header("x-should-retry").map(|value| value == "true"),
    }
}

fn stream_pieces(chunks: Vec<Chunk>) -> ByteStream {
    Box::pin(stream::unfold(chunks.into_iter(), |mut chunks| async move {
        let chunk = chunks.next()?;
        sleep_millis(chunk.delay_ms).await;
        let piece = match chunk.piece {
            Piece::Bytes(bytes) => Ok(Bytes::from(bytes)),
            Piece::Cut => {
                let detail = "the scenario cuts it here".to_owned();
                Err(TransportError::new(ORIGIN, TransportErrorKind::Broken { detail }))
            }
        };
        Some((piece, chunks))
    }))
}

async fn sleep_millis(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
