//! Error responses of the API: JSON bodies, and the garbage that proxies send in their place.
//!
//! Each error states what failed, who is at fault, and whether the same request may succeed later.
//! The time of a retry is left to the caller and the `retry-after` header. Sources: the vendor's
//! errors page (table of statuses and types); its SDKs, which retry 408, 409, 429 and 5xx.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::blame::Blame;
use crate::error_text::{bound_message, describe_garbage};
use crate::json::{Cursor, Error, Kind, Str};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, or 200 for an error event in a stream.
    pub status: u16,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
    /// The id to quote to the provider's support.
    pub request_id: Option<String>,
}

/// The error's `type`. If the body names none, the kind is derived from the status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// `invalid_request_error`, 400
    InvalidRequest,
    /// `authentication_error`, 401
    Authentication,
    /// `billing_error`, 402 or 403
    Billing,
    /// `permission_error`, 403
    Permission,
    /// `not_found_error`, 404
    NotFound,
    /// `request_too_large`, 413
    TooLarge,
    /// `rate_limit_error`, 429
    RateLimit,
    /// `api_error`, 500
    Api,
    /// `timeout_error`, 504
    Timeout,
    /// `overloaded_error`, 529
    Overloaded,
    /// Any other type or, if there is none, a description of the status.
    Other(String),
}

impl ApiError {
    /// Reads an error response. Any body is accepted: one that is not the API's JSON is quoted,
    /// shortened.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let found = Cursor::from_bytes(body)
            .and_then(|mut cursor| ErrorBody::from_cursor(&mut cursor))
            .ok();
        match found {
            Some(ErrorBody { kind, message: Some(message), request_id }) => Self {
                status,
                kind: kind
                    .map_or_else(|| ErrorKind::from_status(status), |k| ErrorKind::from_name(&k)),
                message: bound_message(&message),
                request_id,
            },
            _ => Self {
                status,
                kind: ErrorKind::from_status(status),
                message: describe_garbage(body),
                request_id: None,
            },
        }
    }

    /// Converts an `error` event of a stream, which came with status 200.
    #[must_use]
    pub fn from_event(kind: &str, message: &str) -> Self {
        Self {
            status: 200,
            kind: ErrorKind::from_name(kind),
            message: bound_message(message),
            request_id: None,
        }
    }

    /// Returns the party at fault.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self.kind {
            ErrorKind::InvalidRequest | ErrorKind::NotFound | ErrorKind::TooLarge => Blame::Request,
            ErrorKind::Authentication | ErrorKind::Billing | ErrorKind::Permission => {
                Blame::Account
            }
            ErrorKind::RateLimit | ErrorKind::Api | ErrorKind::Timeout | ErrorKind::Overloaded => {
                Blame::Provider
            }
            ErrorKind::Other(_) => match self.status {
                408 | 409 | 429 => Blame::Provider,
                401..=403 | 407 => Blame::Account,
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
    /// Returns the kind that the API calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "invalid_request_error" => Self::InvalidRequest,
            "authentication_error" => Self::Authentication,
            "billing_error" => Self::Billing,
            "permission_error" => Self::Permission,
            "not_found_error" => Self::NotFound,
            "request_too_large" => Self::TooLarge,
            "rate_limit_error" => Self::RateLimit,
            "api_error" => Self::Api,
            "timeout_error" => Self::Timeout,
            "overloaded_error" => Self::Overloaded,
            other => Self::Other(bound_message(other)),
        }
    }

    /// Returns the API's name for the kind.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Authentication => "authentication_error",
            Self::Billing => "billing_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::TooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_error",
            Self::Api => "api_error",
            Self::Timeout => "timeout_error",
            Self::Overloaded => "overloaded_error",
            Self::Other(name) => name,
        }
    }

    fn from_status(status: u16) -> Self {
        match status {
            400 => Self::InvalidRequest,
            401 => Self::Authentication,
            402 => Self::Billing,
            403 => Self::Permission,
            404 => Self::NotFound,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            504 => Self::Timeout,
            529 => Self::Overloaded,
            500..=599 => Self::Api,
            _ => Self::Other("unexpected_answer".to_owned()),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
