//! JSON strings: unescaped only on request, and written.

use std::{borrow::Cow, fmt};

use super::string_end::mark_equal_bytes;
use memchr::{memchr, memchr_iter, memmem};

/// A JSON string as written in the text: the bytes between the quotes, already checked.
///
/// Equality compares the unescaped strings.
#[derive(Clone, Copy, Default)]
pub struct Str<'a> {
    raw: &'a str,
    /// The number of escapes in `raw`. A whole word, because a `bool` leaves padding, and copies of
    /// padded values made decoding a third slower.
    escapes: usize,
}

impl<'a> Str<'a> {
    /// Creates a string. `raw` must be the inside of a checked JSON string with this many escapes.
    #[inline]
    pub(crate) const fn new(raw: &'a str, escapes: usize) -> Self {
        Self { raw, escapes }
    }

    /// Creates a string from text that needs no escaping. Returns `None` if it does.
    #[must_use]
    pub fn from_plain(text: &'a str) -> Option<Self> {
        let bad = |b: u8| b == b'"' || b == b'\\' || b < 0x20;
        (!text.bytes().any(bad)).then_some(Self { raw: text, escapes: 0 })
    }

    /// Returns the text between the quotes, with escapes as written.
    #[must_use]
    pub const fn raw(&self) -> &'a str {
        self.raw
    }

    /// Returns the number of escapes.
    pub(crate) const fn escape_count(&self) -> usize {
        self.escapes
    }

    /// Returns true if any character is written as an escape.
    #[must_use]
    pub const fn is_escaped(&self) -> bool {
        self.escapes > 0
    }

    /// Returns true if the string has no characters.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Returns the unescaped string, borrowed if it has no escapes. A lone surrogate, which no Rust
    /// string can hold, becomes U+FFFD.
    #[must_use]
    #[inline]
    pub fn unescape(&self) -> Cow<'a, str> {
        if self.is_escaped() { Cow::Owned(self.unescape_slow()) } else { Cow::Borrowed(self.raw) }
    }

    /// Appends the unescaped string to `out`.
    pub fn push_to(&self, out: &mut String) {
        if !self.is_escaped() {
            out.push_str(self.raw);
            return;
        }
        let mut rest = self.raw;
        while let Some(at) = memchr(b'\\', rest.as_bytes()) {
            let (plain, escape) = rest.split_at(at);
            out.push_str(plain);
            let (c, after) = read_escape(escape);
            out.push(c);
            rest = after;
        }
        out.push_str(rest);
    }

    /// Iterates over the unescaped characters, without allocating.
    #[must_use]
    pub const fn iter(&self) -> Chars<'a> {
        Chars { rest: self.raw }
    }

    /// Returns the number of Unicode scalar values of the unescaped string, without allocating.
    #[must_use]
    pub fn char_count(&self) -> usize {
        let written = self.raw.chars().count();
        // Every escape stands for one character, and all but `\u…` are two bytes long. A sequence
        // that only looks like one (`\\u`) merely leads to the slow count. A few escapes are
        // counted faster than a search for `\u` is set up.
        let many = self.escapes > 8 && memmem::find(self.raw.as_bytes(), b"\\u").is_none();
        if self.escapes == 0 || many {
            return written - self.escapes;
        }
        let mut saved = 0;
        let mut from = 0;
        for at in memchr_iter(b'\\', self.raw.as_bytes()) {
            // The second half of `\\` is not an escape, nor is that of a surrogate pair.
            if at < from {
                continue;
            }
            let escape = self.raw.get(at..).unwrap_or_default();
            let length = escape.len() - read_escape(escape).1.len();
            saved += length - 1;
            from = at + length;
        }
        written - saved
    }

    /// Unescapes the first `bytes` bytes of the string as written. An escape that begins within
    /// them is read whole. A character that they cut is left out.
    #[must_use]
    pub fn unescape_head(&self, bytes: usize) -> String {
        unescape_until(self.raw, self.raw.floor_char_boundary(bytes))
    }

    /// Unescapes the last `bytes` bytes of the string as written. If they begin within an escape,
    /// the rest of that escape stays as written.
    #[must_use]
    pub fn unescape_tail(&self, bytes: usize) -> String {
        let mut start = self.raw.len().saturating_sub(bytes);
        while !self.raw.is_char_boundary(start) {
            start += 1;
        }
        let before = self.raw.as_bytes().get(..start).unwrap_or_default();
        let slashes = before.iter().rev().take_while(|b| **b == b'\\').count();
        // An odd number of backslashes precedes it, so the first byte is escaped.
        if slashes % 2 == 1 {
            start -= 1;
        }
        let raw = self.raw.get(start..).unwrap_or_default();
        Self { raw, escapes: self.escapes }.unescape().into_owned()
    }

    /// Returns true if the string is empty or only whitespace.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.iter().all(char::is_whitespace)
    }

    /// Returns true if the unescaped string equals `text`.
    #[must_use]
    #[inline]
    pub fn eq_str(&self, text: &str) -> bool {
        if self.is_escaped() { self.iter().eq(text.chars()) } else { self.raw == text }
    }

    #[cold]
    fn unescape_slow(&self) -> String {
        unescape_until(self.raw, self.raw.len())
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.unescape(), f)
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.unescape(), f)
    }
}

impl PartialEq for Str<'_> {
    fn eq(&self, other: &Self) -> bool {
        if self.is_escaped() || other.is_escaped() {
            self.iter().eq(other.iter())
        } else {
            self.raw == other.raw
        }
    }
}

impl Eq for Str<'_> {}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.eq_str(other)
    }
}

impl PartialEq<&str> for Str<'_> {
    fn eq(&self, other: &&str) -> bool {
        self.eq_str(other)
    }
}

/// An iterator over the unescaped characters of a [`Str`].
#[derive(Clone, Debug)]
pub struct Chars<'a> {
    rest: &'a str,
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        if first != '\\' {
            self.rest = self.rest.get(first.len_utf8()..).unwrap_or_default();
            return Some(first);
        }
        let (c, rest) = read_escape(self.rest);
        self.rest = rest;
        Some(c)
    }
}

/// Unescapes `raw` up to the boundary `until`, and to the end of an escape that the boundary cuts.
/// It copies eight bytes at a time, because escapes come in clusters (source text, JSON within
/// JSON), where calling the vectorised search and then a copy costs more than the few bytes between
/// escapes.
fn unescape_until(raw: &str, until: usize) -> String {
    let mut out = Vec::with_capacity(until);
    let bytes = raw.as_bytes();
    let mut at = 0;
    while at < until {
        let rest = bytes.get(at..until).unwrap_or_default();
        let plain = if let Some(word) = rest.first_chunk::<8>() {
            out.extend_from_slice(word);
            let hits = mark_equal_bytes(u64::from_le_bytes(*word), b'\\');
            let plain = if hits == 0 { 8 } else { hits.trailing_zeros() as usize / 8 };
            out.truncate(out.len() - (8 - plain));
            plain
        } else {
            let plain = rest.iter().position(|&byte| byte == b'\\').unwrap_or(rest.len());
            out.extend_from_slice(rest.get(..plain).unwrap_or_default());
            plain
        };
        at += plain;
        if at < until && bytes.get(at) == Some(&b'\\') {
            at += push_escape(raw, at, &mut out);
        }
    }
    // Only whole characters were copied, so the slow path is never taken.
    String::from_utf8(out).unwrap_or_else(|_| Chars { rest: raw }.collect())
}

/// Appends the character of the escape at `at`. Returns the length of the escape as written.
#[inline]
fn push_escape(raw: &str, at: usize, out: &mut Vec<u8>) -> usize {
    let simple = match raw.as_bytes().get(at + 1) {
        Some(b'n') => b'\n',
        Some(quoted @ (b'"' | b'\\' | b'/')) => *quoted,
        Some(b't') => b'\t',
        _ => {
            let escape = raw.get(at..).unwrap_or_default();
            let (c, after) = read_escape(escape);
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return escape.len() - after.len();
        }
    };
    out.push(simple);
    2
}

/// Reads the escape at the start of `text`, which begins with a backslash and was checked.
fn read_escape(text: &str) -> (char, &str) {
    let after = |n| text.get(n..).unwrap_or_default();
    let simple = match text.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return read_unicode_escape(text),
        Some(&other) => char::from(other),
        None => return (char::REPLACEMENT_CHARACTER, ""),
    };
    (simple, after(2))
}

fn read_unicode_escape(text: &str) -> (char, &str) {
    let after = |n| text.get(n..).unwrap_or_default();
    let high = parse_hex4(text.get(2..6));
    if let 0xD800..=0xDBFF = high
        && text.get(6..8) == Some("\\u")
        && let low @ 0xDC00..=0xDFFF = parse_hex4(text.get(8..12))
    {
        let scalar = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
        return (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), after(12));
    }
    (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), after(6))
}

/// Parses four hex digits. Returns the value of a lone surrogate, which no character has, for
/// anything else.
fn parse_hex4(digits: Option<&str>) -> u32 {
    digits.and_then(|d| u32::from_str_radix(d, 16).ok()).unwrap_or(0xDFFF)
}

/// Appends `text` as a JSON string, including quotes. Escapes only what must be escaped.
pub fn write_str(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Appends `text`, escaped for the inside of a JSON string.
pub(crate) fn write_escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\') {
        let (plain, special) = rest.split_at(at);
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else { break };
        write_escape(out, byte);
        rest = after;
    }
    out.extend_from_slice(rest);
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            let hex = |n: u8| if n < 10 { b'0' + n } else { b'a' + n - 10 };
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[hex(byte >> 4), hex(byte & 0xf)]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
