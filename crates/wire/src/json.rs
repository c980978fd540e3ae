//! A single-pass JSON scanner that yields spans of the original text.
//!
//! It exists for splicing: a [`Cursor`] walks a text once, checks its structure, and returns
//! [`Str`]s and [`Span`]s that point into it. It builds no tree and never recurses on its input, so
//! a text may be nested to any depth. Beyond 128 levels, each level takes one bit. Texts that are
//! parsed into trees have a separate bound, [`MAX_DEPTH`].
//!
//! The scanner accepts exactly what RFC 8259 allows, with one exception: control characters inside
//! strings pass, because they cannot affect the structure and the provider may judge them.
//! Duplicate keys are reported in order. Readers in this crate let the last one win, as the
//! providers' parsers do. The scanner converts only unsigned integers, and writes no JSON except
//! through [`write_str`].

mod cursor;
mod read;
mod strict;
mod string_end;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

pub use cursor::{Cursor, Kind, MemberKey};
pub(crate) use strict::is_strict_object;
pub use strict::nesting_depth;
pub(crate) use text::write_escaped;
pub use text::{Chars, Str, write_str};

/// Deepest nesting of objects and arrays in a call's arguments with which a tool is run. A text
/// that is only walked may be deeper. Arguments are parsed into trees, alone and within messages,
/// by recursive readers that accept 128 levels (`serde_json`). This limit leaves room for the
/// structure around them.
pub const MAX_DEPTH: usize = 100;

/// Deepest nesting of [`Cursor::read_members`] and [`Cursor::read_elements`] in a reader. Values
/// that are skipped are not limited.
const MAX_DESCENT: usize = 128;

/// A range of bytes in the scanned text: `start` inclusive, `end` exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Creates the span from `start` to `end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Returns the length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Returns true if the span is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns the text under the span, or an empty string if the span lies outside of `text`.
    #[must_use]
    pub fn slice_of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A JSON syntax error and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub kind: JsonErrorKind,
    /// Byte offset in the scanned text.
    pub at: usize,
}

/// A kind of JSON syntax error.
// A whole word, so that results have no padding: copies of padded values stall the scanner.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JsonErrorKind {
    /// The bytes are not UTF-8.
    Utf8,
    /// A value was expected: object, array, string, number, `true`, `false` or `null`.
    Value,
    /// A string was expected.
    String,
    /// An object was expected.
    Object,
    /// An array was expected.
    Array,
    /// A number was expected, or is malformed.
    Number,
    /// `true` or `false` was expected.
    Bool,
    /// A string does not end.
    UnclosedString,
    /// A backslash is not followed by one of `"\/bfnrtu`, or `\u` not by four hex digits.
    Escape,
    /// `:` was expected after a key.
    Colon,
    /// `,` or the closing bracket was expected.
    Comma,
    /// A reader descends too deep.
    TooDeep,
    /// Something follows the value.
    Trailing,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            JsonErrorKind::Utf8 => "not UTF-8",
            JsonErrorKind::Value => "expected a value",
            JsonErrorKind::String => "expected a string",
            JsonErrorKind::Object => "expected an object",
            JsonErrorKind::Array => "expected an array",
            JsonErrorKind::Number => "expected a number",
            JsonErrorKind::Bool => "expected `true` or `false`",
            JsonErrorKind::UnclosedString => "the string does not end",
            JsonErrorKind::Escape => "expected one of `\"\\/bfnrt` or `uXXXX` after a backslash",
            JsonErrorKind::Colon => "expected `:` after the key",
            JsonErrorKind::Comma => "expected `,` or the closing bracket",
            JsonErrorKind::TooDeep => {
                return write!(f, "nested deeper than {MAX_DESCENT} at byte {}", self.at);
            }
            JsonErrorKind::Trailing => "expected the end of the text",
        };
        write!(f, "invalid JSON: {what} at byte {}", self.at)
    }
}

impl std::error::Error for Error {}

/// Checks that `text` is a JSON value and returns the value's span without surrounding whitespace.
///
/// # Errors
/// Returns the first syntax error, with its byte offset.
pub fn check_text(text: &str) -> Result<Span, Error> {
    let mut cursor = Cursor::new(text);
    let span = cursor.skip_value()?;
    cursor.expect_end()?;
    Ok(span)
}
