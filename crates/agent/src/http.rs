//! The transport to a model: the trait, and the implementation that speaks HTTP.
//!
//! A [`Transport`] sends one request and returns the status, a few headers and the bytes as they
//! arrive. It does not read bodies, does not retry ([`retry`] decides whether and when to do so)
//! and knows no protocol but HTTP. With the feature `http`, `HttpTransport` sends requests over the
//! network, and `provider` knows which provider serves a model and where its key may go. Without
//! it, a program brings a transport of its own.

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

mod api;
#[cfg(feature = "http")]
mod classify;
#[cfg(feature = "http")]
mod client;
mod error;
#[cfg(feature = "http")]
pub mod provider;
pub mod retry;
#[cfg(feature = "http")]
mod secret;
mod served_model;
#[cfg(all(test, feature = "http"))]
mod tests;

pub use api::Api;
#[cfg(feature = "http")]
pub use client::{HttpTransport, Timeouts};
pub use error::{TimeoutPhase, TransportError, TransportErrorKind};
#[cfg(feature = "http")]
pub use secret::Secret;
pub use served_model::ServedModel;

/// The bytes of a response as they arrive. The stream ends after an error.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// One request to a model. It holds no credentials: the transport has them.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path after the base URL, such as `/v1/messages`.
    pub path: &'static str,
    /// Headers in addition to the transport's own: the credential, the user agent, the content type,
    /// and what the protocol asks of every request (`anthropic-version: 2023-06-01` for Messages).
    pub headers: Vec<(String, String)>,
    /// The body, a JSON text.
    pub body: Bytes,
}

/// The response to a request; its body is still arriving.
pub struct Response {
    /// The HTTP status. Redirects are errors and never get here.
    pub status: u16,
    /// The headers that matter to a caller.
    pub head: ResponseHead,
    /// The body, with the transport's timeouts on every chunk.
    pub body: ByteStream,
}

/// The headers of a response that matter to a caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// `content-type`, as sent.
    pub content_type: Option<String>,
    /// `request-id` or `x-request-id`, for the provider's support.
    pub request_id: Option<String>,
    /// `retry-after-ms` or `retry-after`: the delay before the next attempt.
    pub retry_after: Option<Duration>,
    /// `x-should-retry`: the server's advice on another attempt.
    pub should_retry: Option<bool>,
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("head", &self.head)
            .finish_non_exhaustive()
    }
}

impl Response {
    /// Reads the whole body, for errors and for responses that do not stream.
    ///
    /// # Errors
    /// Returns the transport's error, or [`TransportErrorKind::TooLarge`] beyond `max` bytes.
    pub async fn read_body(mut self, max: usize) -> Result<Bytes, TransportError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.body.next().await {
            let chunk = chunk?;
            if body.len() + chunk.len() > max {
                return Err(TransportError::new("", TransportErrorKind::TooLarge { max }));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }
}

/// Sends requests to the provider of one model.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` once. Any status is a response, except that a redirect is an error.
    ///
    /// # Errors
    /// Returns an error if there is no response; see [`TransportErrorKind`].
    async fn send(&self, request: Request) -> Result<Response, TransportError>;

    /// Returns the model that answers when an agent names `model` (`PROVIDER/MODEL`). `None`, the
    /// default, means that the name says it. A transport with names of its own, such as a simulator
    /// or a router, says here whose price and capabilities apply.
    fn served_model(&self, _api: Api, _model: &str) -> Option<ServedModel> {
        None
    }
}
