//! A single-pass JSON scanner that yields spans of the original text.
//!
//! It exists for splicing: a [`Cursor`] walks a text once, checks its structure, and hands out
//! [`Str`]s and [`Span`]s that point into it. It builds no tree and never recurses on its input, so
//! that a text may be nested to any depth; beyond 128 levels it takes a bit for each. What is made
//! into a tree has a bound of its own, [`MAX_DEPTH`].
//!
//! It accepts exactly what RFC 8259 allows, with one leniency: control characters inside strings
//! pass, because they cannot move the frame and the provider may judge them. Duplicate keys are
//! reported in order; readers in this crate let the last one win, as the providers' parsers do.
//! It does not convert numbers beyond unsigned integers and does not write JSON, but for
//! [`write_str`].

mod cursor;
mod ends;
mod read;
mod strict;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;

pub use cursor::{Cursor, Kind, Member};
pub use strict::depth;
pub(crate) use strict::is_strict_object;
pub(crate) use text::write_inner;
pub use text::{Chars, Str, write_str};

/// Deepest nesting of objects and arrays in a call's arguments that a tool is run with. A text that
/// is only walked may be deeper. Arguments are made into trees, alone and within messages, by
/// readers that recurse and take 128 levels (`serde_json`): this leaves room for what stands around
/// them there.
pub const MAX_DEPTH: usize = 100;

/// How far a reader may descend by [`Cursor::members`] and [`Cursor::elements`], one within the
/// other. What it does not descend into has no such bound.
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
    /// The span from `start` to `end`.
    #[must_use]
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span holds no byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// The text under the span; empty if the span is not of `text`.
    #[must_use]
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// Why a text is not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What was wrong.
    pub kind: ErrorKind,
    /// Byte offset in the scanned text.
    pub at: usize,
}

/// What can be wrong with a JSON text.
// A whole word, so that results carry no padding: copies of padded values stall the scanner.
#[repr(usize)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
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
    /// A backslash is followed by none of `"\/bfnrtu`, or `\u` not by four hex digits.
    Escape,
    /// `:` was expected after a key.
    Colon,
    /// `,` or the closing bracket was expected.
    Comma,
    /// A reader descends further than it may.
    TooDeep,
    /// Something follows the value.
    Trailing,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::Utf8 => "not UTF-8",
            ErrorKind::Value => "expected a value",
            ErrorKind::String => "expected a string",
            ErrorKind::Object => "expected an object",
            ErrorKind::Array => "expected an array",
            ErrorKind::Number => "expected a number",
            ErrorKind::Bool => "expected `true` or `false`",
            ErrorKind::UnclosedString => "the string does not end",
            ErrorKind::Escape => "expected one of `\"\\/bfnrt` or `uXXXX` after a backslash",
            ErrorKind::Colon => "expected `:` after the key",
            ErrorKind::Comma => "expected `,` or the closing bracket",
            ErrorKind::TooDeep => {
                return write!(f, "nested deeper than {MAX_DESCENT} at byte {}", self.at);
            }
            ErrorKind::Trailing => "expected the end of the text",
        };
        write!(f, "invalid JSON: {what} at byte {}", self.at)
    }
}

impl std::error::Error for Error {}

/// Checks that `text` is one JSON value and returns the value's span without the space around it.
///
/// # Errors
/// The first thing that is wrong, with its byte offset.
pub fn check(text: &str) -> Result<Span, Error> {
    let mut cursor = Cursor::new(text);
    let span = cursor.skip_value()?;
    cursor.end()?;
    Ok(span)
}
