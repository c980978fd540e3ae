//! Error responses of the API: JSON bodies, and the garbage that proxies send in their place.
//!
//! Each error states what failed, who is at fault, and whether the same request may succeed later.
//! The time of a retry is left to the caller and the `retry-after` header. The API's `type` is
//! unspecific (a wrong key is an `invalid_request_error`), so the `code` decides first, then the
//! status. Sources: recorded errors; the vendor's error codes page; its SDKs, which retry 408, 409,
//! 429 and 5xx.

#[cfg(test)]
mod tests;

use std::fmt;

use super::response::Failure;
use crate::blame::Blame;
use crate::error_text::{bound_message, describe_garbage};
use crate::json::{Cursor, Error, Kind, Str};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status, or 200 for an error in a stream.
    pub status: u16,
    /// The kind of error.
    pub kind: ErrorKind,
    /// `type`; empty where absent.
    pub type_name: String,
    /// `code`; empty where absent.
    pub code: String,
    /// `param`: the part of the request that is wrong; empty where absent.
    pub param: String,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
}

/// The kind of an error, by its code, its status and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong.
    InvalidRequest,
    /// `context_length_exceeded`: the history does not fit the model.
    ContextLength,
    /// `previous_response_not_found`: the history no longer exists.
    PreviousResponse,
    /// 401
    Authentication,
    /// 402, or `insufficient_quota` under 429: waiting does not help.
    Billing,
    /// 403
    Permission,
    /// 404
    NotFound,
    /// 413
    TooLarge,
    /// 429
    RateLimit,
    /// 408 and 504
    Timeout,
    /// 503 and 529
    Overloaded,
    /// Any other failure of the provider.
    Server,
    /// Any other error.
    Other,
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
            Some(ErrorBody { type_name, code, param, message: Some(message) }) => {
                Self::new(status, type_name, code, param, &message)
            }
            _ => {
                let none = String::new;
                Self::new(status, none(), none(), none(), &describe_garbage(body))
            }
        }
    }

    /// Converts the error that ended a stream, which came with status 200.
    #[must_use]
    pub fn from_failure(failure: &Failure) -> Self {
        let Failure { kind, code, message } = failure;
        Self::new(200, kind.clone(), code.clone(), String::new(), message)
    }

    /// Returns the party at fault.
    #[must_use]
    pub const fn blame(&self) -> Blame {
        match self.kind {
            ErrorKind::InvalidRequest
            | ErrorKind::ContextLength
            | ErrorKind::PreviousResponse
            | ErrorKind::NotFound
            | ErrorKind::TooLarge => Blame::Request,
            ErrorKind::Authentication | ErrorKind::Billing | ErrorKind::Permission => {
                Blame::Account
            }
            ErrorKind::RateLimit
            | ErrorKind::Timeout
            | ErrorKind::Overloaded
            | ErrorKind::Server => Blame::Provider,
            ErrorKind::Other => match self.status {
                409 => Blame::Provider,
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

    fn new(status: u16, type_name: String, code: String, param: String, message: &str) -> Self {
        let kind = ErrorKind::from_error(status, &type_name, &code);
        Self {
            status,
            kind,
            type_name: bound_message(&type_name),
            code: bound_message(&code),
            param: bound_message(&param),
            message: bound_message(message),
        }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = [&self.code, &self.type_name].into_iter().find(|name| !name.is_empty());
        match name {
            Some(name) => write!(f, "{name} (HTTP {}): {}", self.status, self.message)?,
            None => write!(f, "HTTP {}: {}", self.status, self.message)?,
        }
        if self.param.is_empty() { Ok(()) } else { write!(f, " [`{}`]", self.param) }
    }
}

impl std::error::Error for ApiError {}

impl ErrorKind {
    fn from_error(status: u16, type_name: &str, code: &str) -> Self {
        Self::from_name(code).or_else(|| Self::from_status(status)).unwrap_or_else(|| {
            let by_type = Self::from_name(type_name);
            by_type.unwrap_or(match status {
                400..=499 => Self::InvalidRequest,
                500..=599 => Self::Server,
                _ => Self::Other,
            })
        })
    }

    /// Returns the kind for a code or a type alone.
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "context_length_exceeded" => Self::ContextLength,
            "previous_response_not_found" => Self::PreviousResponse,
            "invalid_api_key" | "authentication_error" => Self::Authentication,
            "insufficient_quota" | "billing_hard_limit_reached" | "billing_not_active" => {
                Self::Billing
            }
            "permission_error" => Self::Permission,
            "model_not_found" | "not_found_error" => Self::NotFound,
            "rate_limit_exceeded" | "rate_limit_error" | "too_many_requests" => Self::RateLimit,
            "server_error" | "api_error" | "internal_error" => Self::Server,
            "server_is_overloaded" | "slow_down" | "overloaded_error" => Self::Overloaded,
            "timeout" | "timeout_error" => Self::Timeout,
            "invalid_request_error" | "invalid_prompt" => Self::InvalidRequest,
            _ => return None,
        })
    }

    /// Returns the kind for a status alone, except for the unspecific 400 and 500.
    const fn from_status(status: u16) -> Option<Self> {
        Some(match status {
            401 => Self::Authentication,
            402 => Self::Billing,
            403 => Self::Permission,
            404 => Self::NotFound,
            408 | 504 => Self::Timeout,
            413 => Self::TooLarge,
            429 => Self::RateLimit,
            503 | 529 => Self::Overloaded,
            409 => Self::Other,
            _ => return None,
        })
    }
}

/// The members of an error body.
#[derive(Default)]
struct ErrorBody {
    type_name: String,
    code: String,
    param: String,
    message: Option<String>,
}

impl ErrorBody {
    fn from_cursor(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut body = Self::default();
        cursor.read_members(|cursor, member| {
            if member.key.eq_str("error") {
                body.read_error(cursor)?;
            }
            Ok::<_, Error>(())
        })?;
        cursor.expect_end()?;
        Ok(body)
    }

    /// Reads `error`, an object with type, code, param and message. Some proxies send a bare
    /// string.
    fn read_error(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            self.message = cursor.read_text_or_skip()?.map(Str::into_string);
            return Ok(());
        }
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => {
                    self.type_name =
                        cursor.read_text_or_skip()?.map(Str::into_string).unwrap_or_default()
                }
                "code" => self.code = read_code(cursor)?,
                "param" => {
                    self.param =
                        cursor.read_text_or_skip()?.map(Str::into_string).unwrap_or_default()
                }
                "message" => self.message = cursor.read_text_or_skip()?.map(Str::into_string),
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

/// Reads a code, which is a word. Some dialects send a number.
fn read_code(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    if cursor.peek()? == Kind::Number {
        return Ok(cursor.skip_value()?.slice_of(cursor.text()).to_owned());
    }
    Ok(cursor.read_text_or_skip()?.map(Str::into_string).unwrap_or_default())
}
