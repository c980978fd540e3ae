//! The way to a model: what a transport is, and the one that speaks HTTP.
//!
//! A [`Transport`] sends one request and hands back status, a few headers and the bytes as they
//! come. It does not look into bodies, does not retry ([`retry`] says whether and when one
//! should) and knows no protocol but HTTP: who a model's provider is and where its key may go
//! is in [`provider`].

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};

mod client;
mod error;
pub mod provider;
pub mod retry;
mod secret;
#[cfg(test)]
mod tests;

pub use client::{HttpTransport, Timeouts};
pub use error::{TimeoutPhase, TransportError, TransportErrorKind};
pub use secret::Secret;

/// Bytes of a response as they arrive. After an error it ends.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, TransportError>> + Send>>;

/// One request to a model. Credentials are not part of it: the transport has them.
#[derive(Clone, Debug)]
pub struct Request {
    /// The path after the base URL, such as `/v1/messages`.
    pub path: &'static str,
    /// Headers besides the transport's own (credential, user agent, content type).
    pub headers: Vec<(String, String)>,
    /// A JSON text.
    pub body: Bytes,
}

/// What came back; the body is still on its way.
pub struct Response {
    /// The HTTP status; redirects never get here.
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
    /// `request-id` or `x-request-id`, to quote to the provider's support.
    pub request_id: Option<String>,
    /// `retry-after-ms` or `retry-after`: how long to wait before asking again.
    pub retry_after: Option<Duration>,
    /// `x-should-retry`: what the server says about asking again.
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
    /// The whole body, for errors and responses that do not stream.
    ///
    /// # Errors
    /// What the transport reports, or [`TransportErrorKind::TooLarge`] beyond `max` bytes.
    pub async fn read(mut self, max: usize) -> Result<Bytes, TransportError> {
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

/// Sends requests to one model's provider.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Sends `request` once. Any status is a response; a redirect is an error.
    ///
    /// # Errors
    /// When there is no response: see [`TransportErrorKind`].
    async fn send(&self, request: Request) -> Result<Response, TransportError>;
}
