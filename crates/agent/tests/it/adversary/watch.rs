//! A transport that records the provider's behaviour: the requests that it refuses, and the
//! responses.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use serde_json::Value;
use softland_agent::http::{Request, Response, Transport, TransportError};
use softland_sim::Config;

use crate::adversary::reading;
use crate::adversary::seeds::Met;
use crate::common::SimTransport;

/// The simulator, watched.
pub(crate) struct Watching {
    pub(crate) transport: Arc<SimTransport>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request's status and, as far as it was read, its response.
type Seen = (u16, Vec<u8>);

impl Watching {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self { transport: SimTransport::new(config), seen: Arc::default() })
    }

    /// The requests that were refused, by number, with their rungs.
    pub(crate) fn refused(&self) -> Vec<(usize, Option<String>)> {
        let seen = self.seen.lock().unwrap();
        let requests = self.transport.requests();
        let refused =
            requests.iter().zip(&*seen).enumerate().filter(|(_, (_, seen))| seen.0 == 400);
        refused.map(|(n, (request, _))| (n, rung(request))).collect()
    }

    /// The ways of being empty that were met.
    pub(crate) fn ways(&self) -> Met {
        let seen = self.seen.lock().unwrap();
        let responses = seen.iter().filter(|(status, _)| *status == 200);
        responses
            .filter_map(|(_, bytes)| reading::way_of_being_empty(bytes, true))
            .map(str::to_owned)
            .collect()
    }
}

/// Returns the landing rung of a request, read from its bytes. The asking and the refusing rung
/// both carry the note; the text before the note tells them apart.
fn rung(request: &Value) -> Option<String> {
    let choice = &request["tool_choice"];
    let choice = choice.as_str().or_else(|| choice["type"].as_str());
    let messages = request["messages"].as_array().or_else(|| request["input"].as_array())?;
    let noted = messages.last()?.to_string().contains("Answer now with what you have");
    match choice {
        Some(choice @ ("none" | "tool" | "function")) => Some(choice.to_owned()),
        _ if noted => Some(format!("ask, behind {} messages", messages.len())),
        _ => None,
    }
}

#[async_trait]
impl Transport for Watching {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let response = self.transport.send(request).await?;
        let n = {
            let mut seen = self.seen.lock().unwrap();
            seen.push((response.status, Vec::new()));
            seen.len() - 1
        };
        let seen = Arc::clone(&self.seen);
        let keep = move |piece: &Result<bytes::Bytes, TransportError>| {
            if let Ok(bytes) = piece {
                seen.lock().unwrap()[n].1.extend_from_slice(bytes);
            }
        };
        let body = response.body.inspect(keep).boxed();
        Ok(Response { status: response.status, head: response.head, body })
    }
}
