//! Error answers of the API: JSON bodies, and the garbage that proxies put in their place.
//!
//! Says what failed, whose fault it is and whether the same request may succeed later; when, is
//! for the caller and the `retry-after` header. The API's `type` says little (a wrong key is an
//! `invalid_request_error`), so the `code` decides first, then the status. Sources: recorded
//! errors; the vendor's error codes page; its SDKs, which retry 408, 409, 429 and 5xx.

#[cfg(test)]
mod tests;

use std::fmt;

use super::response::Failure;
use crate::json::{Cursor, Error, Kind};

/// Longest message kept, in characters.
const MESSAGE_LIMIT: usize = 1000;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status; 200 for an error in a stream.
    pub status: u16,
    /// What kind of error.
    pub kind: ErrorKind,
    /// `type`; empty where absent.
    pub type_name: String,
    /// `code`; empty where absent.
    pub code: String,
    /// `param`: what of the request is wrong; empty where absent.
    pub param: String,
    /// The provider's words, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
}

/// What kind of error, by its code, its status and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong.
    InvalidRequest,
    /// `context_length_exceeded`: the history does not fit the model.
    ContextLength,
    /// `previous_response_not_found`: the history is not there any more.
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
    /// None of these.
    Other,
}

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request: it will fail again unless it is changed.
    Request,
    /// The key or the account behind it: a person must act.
    Account,
    /// The provider, or the way to it: waiting may help.
    Provider,
}

impl ApiError {
    /// Reads an error answer. Any body will do: what is not the API's JSON is quoted, shortened.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let found = Cursor::from_bytes(body).and_then(|mut cursor| Body::read(&mut cursor)).ok();
        match found {
            Some(Body { type_name, code, param, message: Some(message) }) => {
                Self::new(status, type_name, code, param, &message)
            }
            _ => {
                let none = String::new;
                Self::new(status, none(), none(), none(), &garbage(body))
            }
        }
    }

    /// The error that ended a stream, which came under status 200.
    #[must_use]
    pub fn from_failure(failure: &Failure) -> Self {
        let Failure { kind, code, message } = failure;
        Self::new(200, kind.clone(), code.clone(), String::new(), message)
    }

    /// Whose fault it is.
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

    /// Whether the same request may succeed later.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self.blame(), Blame::Provider)
    }

    fn new(status: u16, type_name: String, code: String, param: String, message: &str) -> Self {
        let kind = ErrorKind::of(status, &type_name, &code);
        Self {
            status,
            kind,
            type_name: bounded(&type_name),
            code: bounded(&code),
            param: bounded(&param),
            message: bounded(message),
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
    fn of(status: u16, type_name: &str, code: &str) -> Self {
        Self::of_name(code).or_else(|| Self::of_status(status)).unwrap_or_else(|| {
            let by_type = Self::of_name(type_name);
            by_type.unwrap_or(match status {
                400..=499 => Self::InvalidRequest,
                500..=599 => Self::Server,
                _ => Self::Other,
            })
        })
    }

    /// What a code or a type says by itself.
    fn of_name(name: &str) -> Option<Self> {
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

    /// What a status says by itself, apart from the plain 400 and 500.
    const fn of_status(status: u16) -> Option<Self> {
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
struct Body {
    type_name: String,
    code: String,
    param: String,
    message: Option<String>,
}

impl Body {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut body = Self::default();
        cursor.members(|cursor, member| {
            if member.key.eq_str("error") {
                body.read_error(cursor)?;
            }
            Ok::<_, Error>(())
        })?;
        cursor.end()?;
        Ok(body)
    }

    /// `error` is an object with type, code, param and message; some proxies send a bare string.
    fn read_error(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            self.message = text(cursor)?;
            return Ok(());
        }
        cursor.members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => self.type_name = text(cursor)?.unwrap_or_default(),
                "code" => self.code = code(cursor)?,
                "param" => self.param = text(cursor)?.unwrap_or_default(),
                "message" => self.message = text(cursor)?,
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

fn text(cursor: &mut Cursor<'_>) -> Result<Option<String>, Error> {
    Ok(cursor.string_or_skip()?.map(|(text, _)| text.unescape().into_owned()))
}

/// A code is a word; some dialects send a number.
fn code(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    if cursor.peek()? == Kind::Number {
        return Ok(cursor.skip_value()?.of(cursor.text()).to_owned());
    }
    Ok(text(cursor)?.unwrap_or_default())
}

/// What to say of a body that is not the API's JSON: its first words, with any markup left out.
fn garbage(body: &[u8]) -> String {
    let start = body.get(..body.len().min(4 * MESSAGE_LIMIT)).unwrap_or_default();
    let readable: String = start.utf8_chunks().map(|chunk| chunk.valid()).collect();
    let words = without_tags(&readable);
    if words.is_empty() {
        return "the answer has no readable body".to_owned();
    }
    let start: String = words.chars().take(200).collect();
    format!("not an answer of the API: {start}")
}

/// The text with `<…>` taken out and space collapsed.
fn without_tags(text: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for c in text.chars() {
        match c {
            '<' => in_tag = true,
            '>' if in_tag => {
                in_tag = false;
                out.push(' ');
            }
            _ if in_tag => {}
            _ => out.push(c),
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most [`MESSAGE_LIMIT`] characters, keys masked.
fn bounded(text: &str) -> String {
    masked(text).chars().take(MESSAGE_LIMIT).collect()
}

/// Masks what looks like an API key (`sk-…`): providers quote the key they refuse.
fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("sk-") {
        let (before, key) = rest.split_at(at);
        let end = key
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*' | '.')))
            .unwrap_or(key.len());
        let (key, after) = key.split_at(end);
        out.push_str(before);
        // Shorter words with these letters, such as "task-based", are no keys.
        let is_word = before.chars().next_back().is_some_and(char::is_alphanumeric);
        out.push_str(if key.len() > 8 && !is_word { "sk-[masked]" } else { key });
        rest = after;
    }
    out.push_str(rest);
    out
}
