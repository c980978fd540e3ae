//! Error responses of the API: JSON bodies, and the garbage that proxies send in their place.
//!
//! Whether and when to retry is left to the caller. Sources: recorded errors; the vendor's error
//! codes page.

#[cfg(test)]
mod tests;

use std::fmt;

use crate::error_text::{bound_message, describe_garbage, find_error_words};
use crate::json::{Cursor, Error, Kind, Str};

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// `type`; empty where absent.
    pub type_name: String,
    /// `code`; empty where absent.
    pub code: String,
    /// `param`: the part of the request that is wrong; empty where absent.
    pub param: String,
    /// The provider's message, cut at 1,000 characters, with anything that looks like a key masked.
    pub message: String,
}

impl ApiError {
    /// Reads an error response. Any body is accepted: one that is not the API's JSON is quoted,
    /// shortened.
    #[must_use]
    pub fn from_response(status: u16, body: &[u8]) -> Self {
        let found = Cursor::from_bytes(body)
            .and_then(|mut cursor| ErrorBody::from_cursor(&mut cursor))
            .ok();
        let read = found.filter(|body| body.message.is_some()).unwrap_or_default();
        let message = read.message.or_else(|| find_error_words(body));
        let message = message.unwrap_or_else(|| describe_garbage(body));
        Self {
            status,
            type_name: bound_message(&read.type_name),
            code: bound_message(&read.code),
            param: bound_message(&read.param),
            message: bound_message(&message),
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
