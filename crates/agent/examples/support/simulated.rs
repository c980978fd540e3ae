//! The simulator in the place of a provider, for examples.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use softland_agent::http::{Request, Response, ResponseHead, Transport, TransportError};
use softland_sim::{Config, Scenario, Sim};

/// A transport that ends in this process.
pub(crate) struct Simulated(Sim);

impl Default for Simulated {
    fn default() -> Self {
        // Which scenario plays is in the model's name; this one is for names that are none.
        Self(Sim::new(Config::new(Scenario::Scripted(Vec::new()))))
    }
}

#[async_trait::async_trait]
impl Transport for Simulated {
    async fn send(&self, request: Request) -> Result<Response, TransportError> {
        let headers = [("x-api-key", "any"), ("anthropic-version", "2023-06-01")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let (path, body) = (request.path, &request.body);
        let asked = softland_sim::Request { method: "POST", path, headers: &headers, body };
        let answer = self.0.respond(0, &asked);
        let content_type = answer.header("content-type").map(str::to_owned);
        let bytes = Bytes::from(answer.collect_bytes().0);
        Ok(Response {
            status: answer.status,
            head: ResponseHead { content_type, ..ResponseHead::default() },
            body: stream::iter([Ok(bytes)]).boxed(),
        })
    }
}
