//! Error responses of the API: JSON bodies, and the garbage that proxies send in their place.
//!
//! Whether and when to retry is left to the caller. Source: the vendor's errors page (table of
//! statuses and types).

#[cfg(test)]
mod tests;

use std::fmt;

use crate::error_text::{bound_message, describe_garbage, find_error_words};
use crate::json::{Cursor, Error, Kind, Str};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, or 200 for an error event in a stream.
    pub status: u16,
    /// The error's `type`. If the body names none, it is derived from the status.
    pub kind: String,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
    /// The id to quote to the provider's support.
    pub request_id: Option<String>,
}

impl ApiError {
    /// Reads an error response. Any body is accepted: one that is not the API's JSON is quoted,
    /// shortened.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let found = Cursor::from_bytes(body)
            .and_then(|mut cursor| ErrorBody::from_cursor(&mut cursor))
            .ok();
        let Some(ErrorBody { kind, message: Some(message), request_id }) = found else {
            let message = find_error_words(body).unwrap_or_else(|| describe_garbage(body));
            let kind = kind_of_status(status).to_owned();
            return Self { status, kind, message, request_id: None };
        };
        let kind = kind.as_deref().unwrap_or_else(|| kind_of_status(status));
        let (kind, message) = (bound_message(kind), bound_message(&message));
        Self { status, kind, message, request_id }
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

/// Returns the API's `type` for a status.
fn kind_of_status(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500..=599 => "api_error",
        _ => "unexpected_answer",
    }
}

/// The members of an error body.
#[derive(Default)]
struct ErrorBody {
    kind: Option<String>,
    message: Option<String>,
    request_id: Option<String>,
}

impl ErrorBody {
    fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut body = Self::default();
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "error" => body.read_error(cursor)?,
                "request_id" => {
                    body.request_id =
                        cursor.read_text_or_skip()?.map(|id| bound_message(&id.unescape()))
                }
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        cursor.expect_end()?;
        Ok(body)
    }

    /// Reads `error`, an object with type and message. Some proxies send a bare string.
    fn read_error(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            self.message = cursor.read_text_or_skip()?.map(Str::into_string);
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => self.kind = cursor.read_text_or_skip()?.map(Str::into_string),
                "message" => self.message = cursor.read_text_or_skip()?.map(Str::into_string),
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}
