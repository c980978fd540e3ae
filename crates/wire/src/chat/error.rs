//! Error responses of Chat Completions APIs: JSON bodies in every vendor's shape, and the garbage
//! that proxies send in their place.
//!
//! Each error states what failed, who is at fault, and whether the same request may succeed later.
//! The time of a retry is left to the caller and the `retry-after` header. Sources: OpenAI's error
//! guide and SDK (which retries 408, 409, 429 and 5xx), the vendors' error pages, and recordings.

mod body;
#[cfg(test)]
mod tests;

use std::fmt;

use super::chunk::StreamError;
use crate::blame::Blame;
use crate::error_text::{bound_message, describe_garbage};
use crate::json::Cursor;

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status. For an error with status 200, the status it states itself, otherwise 200.
    pub status: u16,
    /// The kind of error.
    pub kind: ErrorKind,
    /// `code` as the vendor states it, a word or digits.
    pub code: Option<String>,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
    /// The id to quote to the provider's support, if the body names one.
    pub request_id: Option<String>,
}

/// The kind of an error: by its `code`, otherwise its status, otherwise its `type`, because OpenAI
/// gives every refusal the type `invalid_request_error`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is malformed or asks for something impossible; 400, 422
    InvalidRequest,
    /// The input is longer than the model's context window.
    ContextLength,
    /// A filter refused the input or the output.
    ContentFilter,
    /// Groq: the model wrote a malformed call. A retry may succeed.
    ToolUseFailed,
    /// The key is missing or wrong; 401
    Authentication,
    /// The account has no money or quota left; 402, and OpenAI's 429 with `insufficient_quota`
    Billing,
    /// The key may not do this; 403
    Permission,
    /// No such model or path; 404
    NotFound,
    /// The body is too large; 413
    TooLarge,
    /// Too many requests or tokens within a time window; 429
    RateLimit,
    /// The provider failed; 500, 502
    Server,
    /// No response arrived in time; 408, 504
    Timeout,
    /// The provider is overloaded or down; 503, 529
    Overloaded,
    /// Any other, by its own name.
    Other(String),
}

impl ApiError {
    /// Reads an error response. Any body is accepted: one that is not an API's JSON is quoted,
    /// shortened.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let found = Cursor::from_bytes(body)
            .and_then(|mut cursor| StreamError::from_cursor(&mut cursor))
            .ok();
        match found {
            Some(body) if !body.message.is_empty() || !body.code.is_empty() => {
                Self::from_body(status, &body)
            }
            _ => Self {
                status,
                kind: ErrorKind::from_status(status)
                    .unwrap_or_else(|| ErrorKind::Other("unexpected_answer".to_owned())),
                code: None,
                message: describe_garbage(body),
                request_id: None,
            },
        }
    }

    /// Converts the error of a chunk, which came with status 200.
    #[must_use]
    pub fn from_chunk(error: &StreamError<'_>) -> Self {
        Self::from_body(200, error)
    }

    /// Creates the error of a response that ended with `finish_reason: "error"` without details.
    pub(super) fn new_unexplained() -> Self {
        Self {
            status: 200,
            kind: ErrorKind::Server,
            code: None,
            message: "the provider ended the response with finish_reason `error`".to_owned(),
            request_id: None,
        }
    }

    fn from_body(status: u16, body: &StreamError<'_>) -> Self {
        let named = body.status.filter(|_| status == 200);
        let status = named.unwrap_or(status);
        let (kind, code) = (body.kind.unescape(), body.code.unescape());
        let mut message = body.message.unescape().into_owned();
        if !body.detail.is_empty() && body.detail != body.message {
            message = format!("{message}: {}", body.detail);
        }
        if message.is_empty() {
            message = format!("error {code}");
        }
        Self {
            status,
            kind: ErrorKind::from_error(status, &kind, &code),
            code: Some(bound_message(&code)).filter(|code| !code.is_empty()),
            message: bound_message(&message),
            request_id: body.request_id.map(|id| bound_message(&id.unescape())),
        }
    }

    /// Returns the party at fault.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self.kind {
            ErrorKind::InvalidRequest
            | ErrorKind::ContextLength
            | ErrorKind::ContentFilter
            | ErrorKind::NotFound
            | ErrorKind::TooLarge => Blame::Request,
            ErrorKind::Authentication | ErrorKind::Billing | ErrorKind::Permission => {
                Blame::Account
            }
            ErrorKind::ToolUseFailed
            | ErrorKind::RateLimit
            | ErrorKind::Server
            | ErrorKind::Timeout
            | ErrorKind::Overloaded => Blame::Provider,
            ErrorKind::Other(_) => match self.status {
                409 => Blame::Provider,
                407 => Blame::Account,
                400..=499 => Blame::Request,
                _ => Blame::Provider,
            },
        }
    }

    /// Returns true if the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.blame(), Blame::Provider)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (HTTP {}): {}", self.kind, self.status, self.message)?;
        match &self.request_id {
            Some(id) => write!(f, " [request {id}]"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiError {}

impl ErrorKind {
    /// Returns the name of the kind: OpenAI's `type` or `code` for it, if it has one.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::ContextLength => "context_length_exceeded",
            Self::ContentFilter => "content_filter",
            Self::ToolUseFailed => "tool_use_failed",
            Self::Authentication => "authentication_error",
            Self::Billing => "insufficient_quota",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_exceeded",
            Self::Server => "server_error",
            Self::Timeout => "timeout_error",
            Self::Overloaded => "overloaded_error",
            Self::Other(name) => name,
        }
    }

    fn from_error(status: u16, kind: &str, code: &str) -> Self {
        let worded = || Self::from_name(code).or_else(|| Self::from_name(kind));
        let named = || [kind, code].into_iter().find(|name| !name.is_empty());
        worded()
            .or_else(|| Self::from_status(status))
            .or_else(|| (kind == "invalid_request_error").then_some(Self::InvalidRequest))
            .unwrap_or_else(|| Self::Other(bound_message(named().unwrap_or("unexpected_answer"))))
    }

    /// Returns the kind for a word that is more specific than a status.
    fn from_name(word: &str) -> Option<Self> {
        Some(match word {
            "context_length_exceeded" => Self::ContextLength,
            "content_filter" | "content_policy_violation" => Self::ContentFilter,
            "tool_use_failed" => Self::ToolUseFailed,
            "invalid_api_key" | "authentication_error" => Self::Authentication,
            "insufficient_quota" | "billing_hard_limit_reached" | "billing_error" => Self::Billing,
            "permission_error" => Self::Permission,
            "model_not_found" | "not_found_error" => Self::NotFound,
            "request_too_large" => Self::TooLarge,
            "rate_limit_exceeded" | "rate_limit_error" => Self::RateLimit,
            "server_error" | "api_error" | "internal_server_error" => Self::Server,
            "timeout_error" => Self::Timeout,
            "overloaded_error" => Self::Overloaded,
            _ => return None,
        })
    }

    fn from_status(status: u16) -> Option<Self> {
        Some(match status {
            400 | 422 => Self::InvalidRequest,
            401 => Self::Authentication,
            402 => Self::Billing,
            403 => Self::Permission,
            404 => Self::NotFound,
            408 | 504 => Self::Timeout,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            503 | 529 => Self::Overloaded,
            500..=599 => Self::Server,
            _ => return None,
        })
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
