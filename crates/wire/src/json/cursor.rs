//! The cursor: one pass over a JSON text that checks it on the way.

use super::string_end::find_string_end;
use super::{Error, JsonErrorKind, MAX_DESCENT, Span, Str};

/// A position in a JSON text.
///
/// Every reading method skips the whitespace before its value, consumes exactly one whole value and
/// leaves the cursor after it, so a caller cannot lose track of the structure. After an error the
/// position is unspecified.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    depth: usize,
}

/// The kind of the next value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// `null`
    Null,
}

/// The key of an object member, as passed to the callback of [`Cursor::read_members`].
#[derive(Clone, Copy, Debug)]
pub struct MemberKey<'a> {
    /// The key.
    pub key: Str<'a>,
    /// The key's span, including its quotes.
    pub span: Span,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `text`.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text, pos: 0, depth: 0 }
    }

    /// Creates a cursor over bytes that should be UTF-8.
    ///
    /// # Errors
    /// Returns [`JsonErrorKind::Utf8`] with the offset of the first invalid byte.
    pub fn from_bytes(bytes: &'a [u8]) -> Result<Self, Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(text)),
            Err(e) => Err(Error { kind: JsonErrorKind::Utf8, at: e.valid_up_to() }),
        }
    }

    /// Returns the whole text.
    #[must_use]
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// Returns the kind of the next value without reading it.
    ///
    /// # Errors
    /// Returns [`JsonErrorKind::Value`] if no value begins here.
    #[inline]
    pub fn peek(&mut self) -> Result<Kind, Error> {
        self.skip_space();
        match self.current_byte() {
            Some(b'"') => Ok(Kind::String),
            Some(b'{') => Ok(Kind::Object),
            Some(b'[') => Ok(Kind::Array),
            Some(b'-' | b'0'..=b'9') => Ok(Kind::Number),
            Some(b't' | b'f') => Ok(Kind::Bool),
            Some(b'n') => Ok(Kind::Null),
            _ => Err(self.error_here(JsonErrorKind::Value)),
        }
    }

    /// Reads a string. The span includes its quotes.
    ///
    /// # Errors
    /// Fails if the next value is not a string, or if it is malformed.
    #[inline]
    pub fn read_string(&mut self) -> Result<(Str<'a>, Span), Error> {
        self.skip_space();
        self.read_string_here()
    }

    /// Reads a string, or skips a value of another kind.
    ///
    /// # Errors
    /// Fails if the value is malformed.
    #[inline]
    pub fn read_string_or_skip(&mut self) -> Result<Option<(Str<'a>, Span)>, Error> {
        self.skip_space();
        if self.current_byte() == Some(b'"') {
            return self.read_string_here().map(Some);
        }
        self.skip_value()?;
        Ok(None)
    }

    /// Reads `true` or `false`, or skips a value of another kind.
    ///
    /// # Errors
    /// Fails if the value is malformed.
    pub fn read_bool_or_skip(&mut self) -> Result<Option<bool>, Error> {
        let kind = self.peek()?;
        let span = self.skip_value()?;
        Ok((kind == Kind::Bool).then(|| span.slice_of(self.text) == "true"))
    }

    /// Reads a whole, non-negative number that fits, or skips any other value. `3.0` and `3e0`
    /// count as whole.
    ///
    /// # Errors
    /// Fails if the value is malformed.
    pub fn read_uint_or_skip(&mut self) -> Result<Option<u64>, Error> {
        self.skip_space();
        let start = self.pos;
        // The usual case, a short run of digits, is read in place.
        let mut value: u64 = 0;
        while let Some(digit @ b'0'..=b'9') = self.current_byte() {
            if self.pos - start == 15 {
                break;
            }
            value = value * 10 + u64::from(digit - b'0');
            self.pos += 1;
        }
        let plain = self.pos > start
            && !matches!(self.current_byte(), Some(b'0'..=b'9' | b'.' | b'e' | b'E'))
            && (self.pos - start == 1 || self.text.as_bytes().get(start) != Some(&b'0'));
        if plain {
            return Ok(Some(value));
        }
        self.pos = start;
        let kind = self.peek()?;
        let span = self.skip_value()?;
        Ok(if kind == Kind::Number { parse_whole(span.slice_of(self.text)) } else { None })
    }

    /// Skips a value of any kind and checks it.
    ///
    /// # Errors
    /// Fails if the value is malformed.
    pub fn skip_value(&mut self) -> Result<Span, Error> {
        self.skip_space();
        let start = self.pos;
        match self.current_byte() {
            Some(b'{' | b'[') => self.skip_container()?,
            _ => self.skip_scalar()?,
        }
        Ok(Span::new(start, self.pos))
    }

    /// Reads an object and calls `each` at the value of every member. A value that `each` does not
    /// read is skipped. Returns the object's span.
    ///
    /// # Errors
    /// Fails if the next value is not an object or is malformed, or if `each` fails.
    #[inline]
    pub fn read_members<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(&mut Self, MemberKey<'a>) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.enter_container(b'{', JsonErrorKind::Object)?;
        self.skip_space();
        if self.current_byte() == Some(b'}') {
            return Ok(self.leave_container(start));
        }
        loop {
            let (key, span) = self.read_key()?;
            self.skip_space();
            let value = self.pos;
            each(self, MemberKey { key, span })?;
            if self.pos == value {
                self.skip_value()?;
            }
            self.skip_space();
            match self.current_byte() {
                Some(b',') => self.pos += 1,
                Some(b'}') => return Ok(self.leave_container(start)),
                _ => return Err(self.error_here(JsonErrorKind::Comma).into()),
            }
        }
    }

    /// Reads an array and calls `each` at every element. An element that `each` does not read is
    /// skipped. Returns the array's span.
    ///
    /// # Errors
    /// Fails if the next value is not an array or is malformed, or if `each` fails.
    #[inline]
    pub fn read_elements<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<Span, E> {
        let start = self.enter_container(b'[', JsonErrorKind::Array)?;
        self.skip_space();
        if self.current_byte() == Some(b']') {
            return Ok(self.leave_container(start));
        }
        loop {
            self.skip_space();
            let value = self.pos;
            each(self)?;
            if self.pos == value {
                self.skip_value()?;
            }
            self.skip_space();
            match self.current_byte() {
                Some(b',') => self.pos += 1,
                Some(b']') => return Ok(self.leave_container(start)),
                _ => return Err(self.error_here(JsonErrorKind::Comma).into()),
            }
        }
    }

    /// Checks that only whitespace follows.
    ///
    /// # Errors
    /// Returns [`JsonErrorKind::Trailing`] if something else follows.
    pub fn expect_end(&mut self) -> Result<(), Error> {
        self.skip_space();
        if self.pos < self.text.len() {
            Err(self.error_here(JsonErrorKind::Trailing))
        } else {
            Ok(())
        }
    }

    #[inline]
    fn current_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    #[inline]
    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.current_byte() {
            self.pos += 1;
        }
    }

    const fn error_here(&self, kind: JsonErrorKind) -> Error {
        Error { kind, at: self.pos }
    }

    #[inline]
    fn enter_container(&mut self, open: u8, kind: JsonErrorKind) -> Result<usize, Error> {
        self.skip_space();
        if self.current_byte() != Some(open) {
            return Err(self.error_here(kind));
        }
        if self.depth >= MAX_DESCENT {
            return Err(self.error_here(JsonErrorKind::TooDeep));
        }
        self.depth += 1;
        let start = self.pos;
        self.pos += 1;
        Ok(start)
    }

    #[inline]
    const fn leave_container(&mut self, start: usize) -> Span {
        self.depth -= 1;
        self.pos += 1;
        Span::new(start, self.pos)
    }

    #[inline]
    fn read_key(&mut self) -> Result<(Str<'a>, Span), Error> {
        self.skip_space();
        let key = self.read_string_here()?;
        self.skip_space();
        if self.current_byte() != Some(b':') {
            return Err(self.error_here(JsonErrorKind::Colon));
        }
        self.pos += 1;
        Ok(key)
    }

    #[inline]
    fn read_string_here(&mut self) -> Result<(Str<'a>, Span), Error> {
        let start = self.pos;
        if self.current_byte() != Some(b'"') {
            return Err(self.error_here(JsonErrorKind::String));
        }
        let (close, escapes) = find_string_end(self.text.as_bytes(), start + 1)?;
        self.pos = close + 1;
        let raw = self.text.get(start + 1..close).unwrap_or_default();
        Ok((Str::new(raw, escapes), Span::new(start, self.pos)))
    }

    fn skip_scalar(&mut self) -> Result<(), Error> {
        match self.current_byte() {
            Some(b'"') => self.read_string_here().map(|_| ()),
            Some(b'-' | b'0'..=b'9') => self.skip_number(),
            Some(b't') => self.skip_literal("true"),
            Some(b'f') => self.skip_literal("false"),
            Some(b'n') => self.skip_literal("null"),
            _ => Err(self.error_here(JsonErrorKind::Value)),
        }
    }

    fn skip_literal(&mut self, word: &str) -> Result<(), Error> {
        let end = self.pos + word.len();
        if self.text.as_bytes().get(self.pos..end) != Some(word.as_bytes()) {
            return Err(self.error_here(JsonErrorKind::Value));
        }
        self.pos = end;
        Ok(())
    }

    fn skip_number(&mut self) -> Result<(), Error> {
        if self.current_byte() == Some(b'-') {
            self.pos += 1;
        }
        match self.current_byte() {
            Some(b'0') => self.pos += 1,
            Some(b'1'..=b'9') => self.skip_digits()?,
            _ => return Err(self.error_here(JsonErrorKind::Number)),
        }
        if self.current_byte() == Some(b'.') {
            self.pos += 1;
            self.skip_digits()?;
        }
        if let Some(b'e' | b'E') = self.current_byte() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.current_byte() {
                self.pos += 1;
            }
            self.skip_digits()?;
        }
        Ok(())
    }

    fn skip_digits(&mut self) -> Result<(), Error> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.current_byte() {
            self.pos += 1;
        }
        if self.pos == start { Err(self.error_here(JsonErrorKind::Number)) } else { Ok(()) }
    }

    /// Skips an object or array of any depth, without recursion.
    fn skip_container(&mut self) -> Result<(), Error> {
        let mut open = Brackets::default();
        loop {
            self.skip_space();
            match self.current_byte() {
                Some(bracket @ (b'{' | b'[')) => {
                    let object = bracket == b'{';
                    open.push(object);
                    self.pos += 1;
                    self.skip_space();
                    let empty = self.current_byte() == Some(if object { b'}' } else { b']' });
                    if !empty {
                        if object {
                            self.read_key()?;
                        }
                        continue;
                    }
                }
                _ => self.skip_scalar()?,
            }
            if self.close_containers(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Closes the containers that end after a value, then steps over the comma. Returns true if all
    /// are closed.
    fn close_containers(&mut self, open: &mut Brackets) -> Result<bool, Error> {
        while open.depth > 0 {
            self.skip_space();
            let object = open.bits & 1 == 1;
            match self.current_byte() {
                Some(b',') => {
                    self.pos += 1;
                    if object {
                        self.read_key()?;
                    }
                    return Ok(false);
                }
                Some(b'}') if object => {}
                Some(b']') if !object => {}
                _ => return Err(self.error_here(JsonErrorKind::Comma)),
            }
            self.pos += 1;
            open.pop();
        }
        Ok(true)
    }
}

/// The open brackets, innermost last: one bit each, set for objects.
#[derive(Default)]
struct Brackets {
    /// The innermost brackets, at most 128.
    bits: u128,
    /// The brackets around them, 128 in each element. Empty unless a text is deep.
    around: Vec<u128>,
    depth: usize,
}

impl Brackets {
    #[inline]
    fn push(&mut self, object: bool) {
        if self.depth.is_multiple_of(128) && self.depth > 0 {
            self.around.push(self.bits);
        }
        self.bits = self.bits << 1 | u128::from(object);
        self.depth += 1;
    }

    #[inline]
    fn pop(&mut self) {
        self.bits >>= 1;
        self.depth -= 1;
        if self.depth.is_multiple_of(128) && self.depth > 0 {
            self.bits = self.around.pop().unwrap_or_default();
        }
    }
}

/// Parses a JSON number that is whole, non-negative and fits.
fn parse_whole(number: &str) -> Option<u64> {
    if let Ok(value) = number.parse::<u64>() {
        return Some(value);
    }
    let value = number.parse::<f64>().ok()?;
    // Up to 2^53 every whole f64 is exact, so the conversion is lossless.
    (value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value))
        .then_some(value as u64)
}
