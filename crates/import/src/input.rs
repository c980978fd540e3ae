//! A file's bytes, decompressed, by lines or by JSON values. No more than one line or value is held
//! at a time.

mod open;
mod scan;

use std::borrow::Cow;
use std::io::Read;

pub(crate) use open::{GIVEN_UP, open_file};
pub(crate) use scan::Scan;

/// The longest line or value that is read, in bytes.
pub(crate) const LONGEST: usize = 64 << 20;
const CHUNK: usize = 256 << 10;

/// The reason why a JSON document cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonError {
    /// The document ends too early.
    Cut,
    /// The text is not JSON from here on.
    Malformed,
}

/// One line or one JSON value.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) line: u64,
    pub(crate) text: Cow<'a, str>,
    /// True if a line end follows. The last line of a file may be cut.
    pub(crate) whole: bool,
}

impl Piece<'_> {
    /// Returns true if bytes that are not UTF-8 were replaced.
    pub(crate) fn is_mended(&self) -> bool {
        matches!(self.text, Cow::Owned(_))
    }
}

pub(crate) struct Input<'r> {
    inner: Box<dyn Read + 'r>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    over: bool,
    line: u64,
    /// Bytes before `start`.
    passed: u64,
    /// The error that ended reading early.
    failed: Option<String>,
}

impl<'r> Input<'r> {
    pub(crate) fn new(inner: Box<dyn Read + 'r>) -> Self {
        let (start, end, passed) = (0, 0, 0);
        Self { inner, buffer: Vec::new(), start, end, over: false, line: 1, passed, failed: None }
    }

    /// Returns the error that ended reading early, if there was one.
    pub(crate) fn read_error(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    pub(crate) fn line_number(&self) -> u64 {
        self.line
    }

    /// Returns the number of bytes taken so far.
    pub(crate) fn position(&self) -> u64 {
        self.passed
    }

    /// Returns the next bytes: at least `bytes` of them, or all that are left.
    pub(crate) fn peek_bytes(&mut self, bytes: usize) -> &[u8] {
        while self.end - self.start < bytes && self.fill_buffer() {}
        self.rest()
    }

    /// Skips a byte order mark.
    pub(crate) fn skip_mark(&mut self) {
        if self.peek_bytes(3).starts_with(&[0xef, 0xbb, 0xbf]) {
            self.pass_bytes(3);
        }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Reads more bytes; returns false at the end.
    fn fill_buffer(&mut self) -> bool {
        if self.over {
            return false;
        }
        if self.start > 0 && (self.start == self.end || self.end + CHUNK > self.buffer.len()) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.buffer.len() > 4 * CHUNK && self.end < CHUNK {
                self.buffer.truncate(CHUNK);
                self.buffer.shrink_to_fit();
            }
        }
        if self.end + CHUNK / 2 > self.buffer.len() {
            // Double the buffer, but no further than the longest line needs.
            let length = self.buffer.len();
            let most = (LONGEST + 2 * CHUNK).saturating_sub(length);
            let more = length.min(most).max(CHUNK);
            self.buffer.reserve_exact(more);
            self.buffer.resize(length + more, 0);
        }
        loop {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.inner.read(room) {
                Ok(0) => self.over = true,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.failed = Some(error.to_string());
                    self.over = true;
                }
            }
            return !self.over;
        }
    }

    fn pass_bytes(&mut self, bytes: usize) {
        let bytes = bytes.min(self.end - self.start);
        let passed = self.buffer.get(self.start..self.start + bytes).unwrap_or_default();
        self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
        self.start += bytes;
        self.passed += bytes as u64;
    }

    /// Takes the next line; returns `Err` with the number of a line that is too long.
    pub(crate) fn take_line(&mut self) -> Option<Result<Piece<'_>, u64>> {
        let mut seen = 0;
        let length = loop {
            if let Some(at) = memchr::memchr(b'\n', self.rest().get(seen..).unwrap_or_default()) {
                break seen + at;
            }
            seen = self.end - self.start;
            if seen > LONGEST {
                return Some(Err(self.pass_line()));
            }
            if !self.fill_buffer() {
                break self.end - self.start;
            }
        };
        if length == 0 && self.start == self.end {
            return None;
        }
        let (line, from) = (self.line, self.start);
        let whole = from + length < self.end;
        self.start += length + usize::from(whole);
        self.passed += (length + usize::from(whole)) as u64;
        self.line += 1;
        let bytes = self.buffer.get(from..from + length).unwrap_or_default();
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        Some(Ok(Piece { line, text: decode_lossy(bytes), whole }))
    }

    /// Skips the rest of a line; returns the line's number.
    pub(crate) fn pass_line(&mut self) -> u64 {
        let line = self.line;
        loop {
            if let Some(at) = memchr::memchr(b'\n', self.rest()) {
                self.pass_bytes(at + 1);
                return line;
            }
            self.pass_bytes(self.end - self.start);
            if !self.fill_buffer() {
                return line;
            }
        }
    }

    /// Returns the next byte that is not white space, without taking it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let rest = self.rest();
            let space = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let next = rest.get(space).copied();
            self.pass_bytes(space);
            if next.is_some() || !self.fill_buffer() {
                return next;
            }
        }
    }

    fn expect_byte(&mut self, byte: u8) -> Result<(), JsonError> {
        match self.peek() {
            Some(next) if next == byte => {
                self.pass_bytes(1);
                Ok(())
            }
            Some(_) => Err(JsonError::Malformed),
            None => Err(JsonError::Cut),
        }
    }

    /// Takes an object. Calls `each` at every member's value, and skips values that `each` does not
    /// take.
    pub(crate) fn take_object(
        &mut self,
        each: &mut dyn FnMut(&mut Self, &str) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.expect_byte(b'{')?;
        if self.peek() == Some(b'}') {
            self.pass_bytes(1);
            return Ok(());
        }
        loop {
            if self.peek().ok_or(JsonError::Cut)? != b'"' {
                return Err(JsonError::Malformed);
            }
            let key = self.take_value()?.ok_or(JsonError::Malformed)?;
            let key = key.text.trim_matches('"').to_owned();
            self.expect_byte(b':')?;
            self.peek();
            let before = self.passed;
            each(self, &key)?;
            if self.passed == before {
                self.skip_value()?;
            }
            if self.take_separator(b'}')? {
                continue;
            }
            return Ok(());
        }
    }

    /// Takes an array. Calls `each` at every element, and skips elements that `each` does not take.
    pub(crate) fn take_array(
        &mut self,
        each: &mut dyn FnMut(&mut Self) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        self.expect_byte(b'[')?;
        if self.peek() == Some(b']') {
            self.pass_bytes(1);
            return Ok(());
        }
        loop {
            self.peek();
            let before = self.passed;
            each(self)?;
            if self.passed == before {
                self.skip_value()?;
            }
            if self.take_separator(b']')? {
                continue;
            }
            return Ok(());
        }
    }

    fn take_separator(&mut self, closing: u8) -> Result<bool, JsonError> {
        match self.peek() {
            Some(b',') => {
                self.pass_bytes(1);
                Ok(true)
            }
            Some(byte) if byte == closing => {
                self.pass_bytes(1);
                Ok(false)
            }
            Some(_) => Err(JsonError::Malformed),
            None => Err(JsonError::Cut),
        }
    }

    /// Takes one value. A value that is too long is skipped, and `None` is returned.
    pub(crate) fn take_value(&mut self) -> Result<Option<Piece<'_>>, JsonError> {
        self.peek().ok_or(JsonError::Cut)?;
        let (mut scan, mut seen) = (Scan::default(), 0);
        let length = loop {
            if let Some(end) = scan.find_end(self.rest(), seen)? {
                break end;
            }
            seen = self.end - self.start;
            if seen > LONGEST {
                self.skip_from(scan)?;
                return Ok(None);
            }
            if !self.fill_buffer() {
                break scan.at_end(seen)?;
            }
        };
        let (line, from) = (self.line, self.start);
        self.pass_bytes(length);
        let bytes = self.buffer.get(from..from + length).unwrap_or_default();
        Ok(Some(Piece { line, text: decode_lossy(bytes), whole: true }))
    }

    /// Skips one value of any length.
    pub(crate) fn skip_value(&mut self) -> Result<(), JsonError> {
        self.peek().ok_or(JsonError::Cut)?;
        self.skip_with(Scan::default())
    }

    /// Skips the rest of a value. Everything in the buffer belongs to it and was scanned.
    fn skip_from(&mut self, scan: Scan) -> Result<(), JsonError> {
        self.pass_bytes(self.end - self.start);
        if !self.fill_buffer() {
            return Err(JsonError::Cut);
        }
        self.skip_with(scan)
    }

    fn skip_with(&mut self, mut scan: Scan) -> Result<(), JsonError> {
        loop {
            if let Some(end) = scan.find_end(self.rest(), 0)? {
                self.pass_bytes(end);
                return Ok(());
            }
            self.pass_bytes(self.end - self.start);
            if !self.fill_buffer() {
                return scan.at_end(0).map(drop);
            }
        }
    }
}

fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
