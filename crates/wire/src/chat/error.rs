//! Error responses of Chat Completions APIs: JSON bodies in every vendor's shape, and the garbage
//! that proxies send in their place.
//!
//! Whether and when to retry is left to the caller. Sources: OpenAI's error guide, the vendors'
//! error pages, and recordings.

mod body;
#[cfg(test)]
mod tests;

use std::fmt;

use super::chunk::StreamError;
use crate::error_text::{bound_message, describe_garbage};
use crate::json::Cursor;

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status. For an error with status 200, the status it states itself, otherwise 200.
    pub status: u16,
    /// The kind of error, in one word for all vendors: by its `code`, otherwise its status,
    /// otherwise its `type`, because OpenAI gives every refusal the type `invalid_request_error`.
    pub kind: String,
    /// `code` as the vendor states it, a word or digits.
    pub code: Option<String>,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
    /// The id to quote to the provider's support, if the body names one.
    pub request_id: Option<String>,
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
                kind: kind_of_status(status).unwrap_or(UNEXPECTED).to_owned(),
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
            kind: "server_error".to_owned(),
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
            kind: find_kind(status, &kind, &code),
            code: Some(bound_message(&code)).filter(|code| !code.is_empty()),
            message: bound_message(&message),
            request_id: body.request_id.map(|id| bound_message(&id.unescape())),
        }
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

/// The kind of an error that states none.
const UNEXPECTED: &str = "unexpected_answer";

fn find_kind(status: u16, kind: &str, code: &str) -> String {
    let worded = kind_of_word(code).or_else(|| kind_of_word(kind));
    let invalid = Some("invalid_request_error").filter(|word| kind == *word);
    if let Some(kind) = worded.or_else(|| kind_of_status(status)).or(invalid) {
        return kind.to_owned();
    }
    let named = [kind, code].into_iter().find(|name| !name.is_empty());
    bound_message(named.unwrap_or(UNEXPECTED))
}

/// Returns the kind for a word that is more specific than a status: OpenAI's `type` or `code` for
/// it, if it has one.
fn kind_of_word(word: &str) -> Option<&'static str> {
    Some(match word {
        "context_length_exceeded" => "context_length_exceeded",
        "content_filter" | "content_policy_violation" => "content_filter",
        "tool_use_failed" => "tool_use_failed",
        "invalid_api_key" | "authentication_error" => "authentication_error",
        "insufficient_quota" | "billing_hard_limit_reached" | "billing_error" => {
            "insufficient_quota"
        }
        "permission_error" => "permission_error",
        "model_not_found" | "not_found_error" => "not_found_error",
        "request_too_large" => "request_too_large",
        "rate_limit_exceeded" | "rate_limit_error" => "rate_limit_exceeded",
        "server_error" | "api_error" | "internal_server_error" => "server_error",
        "timeout_error" => "timeout_error",
        "overloaded_error" => "overloaded_error",
        _ => return None,
    })
}

fn kind_of_status(status: u16) -> Option<&'static str> {
    Some(match status {
        400 | 422 => "invalid_request_error",
        401 => "authentication_error",
        402 => "insufficient_quota",
        403 => "permission_error",
        404 => "not_found_error",
        408 | 504 => "timeout_error",
        413 => "request_too_large",
        429 => "rate_limit_exceeded",
        503 | 529 => "overloaded_error",
        500..=599 => "server_error",
        _ => return None,
    })
}
