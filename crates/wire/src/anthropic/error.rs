//! Error answers of the API: JSON bodies, and the garbage that proxies put in their place.
//!
//! Says what failed, whose fault it is and whether the same request may succeed later; when, is
//! for the caller and the `retry-after` header. Sources: the vendor's errors page (status and
//! type table); its SDKs, which retry 408, 409, 429 and 5xx.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::json::{Cursor, Error, Kind};

/// Longest message kept, in characters.
const MESSAGE_LIMIT: usize = 1000;

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status; 200 for an error event in a stream.
    pub status: u16,
    /// What kind of error.
    pub kind: ErrorKind,
    /// The provider's words, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
    /// The id to give to the provider's support.
    pub request_id: Option<String>,
}

/// The error's `type`; where the body names none, what its status means.
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
    /// Any other type, or, where there is none, the status in words.
    Other(String),
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
            Some(Body { kind, message: Some(message), request_id }) => Self {
                status,
                kind: kind.map_or_else(|| ErrorKind::of_status(status), |k| ErrorKind::named(&k)),
                message: bounded(&message),
                request_id,
            },
            _ => Self {
                status,
                kind: ErrorKind::of_status(status),
                message: garbage(body),
                request_id: None,
            },
        }
    }

    /// The error of an `error` event in a stream, which came under status 200.
    #[must_use]
    pub fn from_event(kind: &str, message: &str) -> Self {
        Self {
            status: 200,
            kind: ErrorKind::named(kind),
            message: bounded(message),
            request_id: None,
        }
    }

    /// Whose fault it is.
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

    /// Whether the same request may succeed later.
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
    /// The kind that the API calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Self {
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
            other => Self::Other(bounded(other)),
        }
    }

    /// The API's name for the kind.
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

    fn of_status(status: u16) -> Self {
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
struct Body {
    kind: Option<String>,
    message: Option<String>,
    request_id: Option<String>,
}

impl Body {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mut body = Self::default();
        cursor.members(|cursor, member| {
            match &*member.key.unescape() {
                "error" => body.read_error(cursor)?,
                "request_id" => body.request_id = short(cursor)?,
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        cursor.end()?;
        Ok(body)
    }

    /// `error` is an object with type and message; some proxies send a bare string.
    fn read_error(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            self.message = text(cursor)?;
            return Ok(());
        }
        cursor.members(|cursor, member| {
            match &*member.key.unescape() {
                "type" => self.kind = text(cursor)?,
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

fn short(cursor: &mut Cursor<'_>) -> Result<Option<String>, Error> {
    Ok(text(cursor)?.map(|text| bounded(&text)))
}

/// What to say of a body that is not the API's JSON: its first words, with any markup left out.
fn garbage(body: &[u8]) -> String {
    let readable: String = body
        .utf8_chunks()
        .map(|chunk| chunk.valid())
        .take(16)
        .collect::<String>()
        .chars()
        .take(4 * MESSAGE_LIMIT)
        .collect();
    let words = without_tags(&readable);
    if words.is_empty() {
        return "the answer has no readable body".to_owned();
    }
    let start: String = words.chars().take(200).collect();
    bounded(&format!("not an answer of the API: {start}"))
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
