//! The client of a server at an address. It answers in place of a server whose answer holds half of
//! a character, which `rmcp` cannot read: its caller would wait, or be told the words of a parser.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use crate::mcp::odd;

type Failure = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// A client whose answers can be read.
#[derive(Clone)]
pub(super) struct AddressClient(pub(super) reqwest::Client);

impl StreamableHttpClient for AddressClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let id = match &message {
            JsonRpcMessage::Request(request) => serde_json::to_value(&request.id).ok(),
            _ => None,
        };
        let posted =
            self.0.post_message_with_response_limits(uri, message, session, auth, headers, limits);
        match (posted.await, id) {
            (Ok(StreamableHttpPostResponse::Sse(events, session)), _) => {
                Ok(StreamableHttpPostResponse::Sse(mend_events(events), session))
            }
            (Err(StreamableHttpError::UnexpectedServerResponse(why)), Some(id))
                if is_half(&why) =>
            {
                let answer = serde_json::from_value(odd::error_answer(&id, odd::HALF))?;
                Ok(StreamableHttpPostResponse::Json(answer, None))
            }
            (posted, _) => posted,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        self.0.delete_session(uri, session, auth, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Events, Failure> {
        Ok(mend_events(self.0.get_stream(uri, session, last, auth, headers).await?))
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        most: usize,
    ) -> Result<Events, Failure> {
        let opened =
            self.0.get_stream_with_max_sse_event_size(uri, session, last, auth, headers, most);
        Ok(mend_events(opened.await?))
    }
}

/// Puts an error in the place of each answer that holds half of a character.
fn mend_events(events: Events) -> Events {
    let mend = |event: Result<Sse, SseError>| {
        let mut event = event?;
        let data = event.data.as_deref().unwrap_or_default();
        if let Some(error) = odd::answer_half_a_character(data.as_bytes()) {
            event.data = Some(error.to_string());
        }
        Ok(event)
    };
    events.map(mend).boxed()
}

/// Returns true if a body could not be parsed for half of a character.
fn is_half(why: &str) -> bool {
    // The parser's words stand before the first bytes of the body.
    let words = why.split_once("ServerJsonRpcMessage: ").map_or(why, |(_, words)| words);
    ["lone leading surrogate", "unexpected end of hex escape"]
        .iter()
        .any(|of| words.starts_with(of))
}
