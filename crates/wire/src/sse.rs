//! Server-sent events: an incremental reader that keeps the original bytes, and a writer.
//!
//! The decoder splits a byte stream into [`Frame`]s, however the stream is chunked. The `raw` bytes
//! of all frames in sequence are exactly the input, including comments, `id:`, `retry:`, stray
//! blank lines, a byte order mark and every kind of line end. The decoder works in linear time and
//! bounds its buffer. It does not interpret data, does not reconnect, and holds back a line that
//! ends in a carriage return until it knows whether a line feed follows.
//!
//! Source of the format: the HTML standard, section "Server-sent events", except that a last frame
//! without its blank line is returned too, marked [`Frame::cut`], rather than dropped.

mod lines;
#[cfg(test)]
mod tests;
mod write;

use std::{borrow::Cow, fmt};

use lines::{LineEnd, find_line_end, split_field};
pub use write::{find_data_span, write_event, write_with_data};

/// The default limit for a frame, in bytes.
pub const DEFAULT_LIMIT: usize = 16 * 1024 * 1024;

/// A frame: everything up to and including a blank line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The value of the last `event:` line, or empty if there is none (which means `message`).
    pub event: &'a str,
    /// The values of the `data:` lines, joined by line feeds. Empty for frames without data, such
    /// as comments: these dispatch nothing.
    pub data: Cow<'a, str>,
    /// The frame's bytes as received, including its blank line.
    pub raw: &'a [u8],
    /// True if the input ended before the frame's blank line. Only the last frame can be cut.
    pub cut: bool,
    /// True if the stream began with an object without a field's name, which is the data.
    pub unframed: bool,
}

/// The reason a stream cannot be read further. The decoder stays in this state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SseError {
    /// A frame is longer than the limit.
    TooLong {
        /// The limit, in bytes.
        limit: usize,
    },
    /// The `event:` or `data:` value of a frame is not UTF-8.
    Utf8 {
        /// Offset of the frame in the whole stream, in bytes.
        at: u64,
    },
}

impl fmt::Display for SseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => {
                write!(f, "a server-sent event is longer than the {limit} bytes allowed")
            }
            Self::Utf8 { at } => {
                write!(f, "the server-sent event at byte {at} of the stream is not UTF-8")
            }
        }
    }
}

impl std::error::Error for SseError {}

/// An incremental decoder of server-sent events.
///
/// Feed it with [`push`](Self::push), then call [`next`](Self::next) until it returns `None`. At
/// the end of the input, call [`finish`](Self::finish) and drain it once more. It buffers at most
/// the limit plus one chunk.
///
/// ```
/// let mut decoder = softland_wire::sse::Decoder::new(1024);
/// decoder.push(b"event: ping\nda");
/// assert!(decoder.next().is_none());
/// decoder.push(b"ta: {}\n\n");
/// let frame = decoder.next().unwrap().unwrap();
/// assert_eq!((frame.event, &*frame.data), ("ping", "{}"));
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    buffer: Vec<u8>,
    limit: usize,
    /// Offset of the current frame in the buffer.
    start: usize,
    /// Offset of the current line.
    line: usize,
    /// Offset up to which the current line was searched for its end.
    searched: usize,
    fields: FrameFields,
    /// Bytes drained from the front of the buffer so far.
    drained: u64,
    at_end: bool,
    failed: Option<SseError>,
}

/// The fields of the current frame read so far: ranges relative to the frame's start.
#[derive(Clone, Copy, Debug, Default)]
struct FrameFields {
    event: (usize, usize),
    data: (usize, usize),
    data_lines: usize,
    /// True if the stream began with an object without a field's name, of which this is a line.
    unframed: bool,
}

impl Decoder {
    /// Creates a decoder that refuses frames of more than `limit_bytes`.
    #[must_use]
    pub const fn new(limit_bytes: usize) -> Self {
        Self {
            buffer: Vec::new(),
            limit: limit_bytes,
            start: 0,
            line: 0,
            searched: 0,
            fields: FrameFields { event: (0, 0), data: (0, 0), data_lines: 0, unframed: false },
            drained: 0,
            at_end: false,
            failed: None,
        }
    }

    /// Appends the next bytes. Ignored after an error or after [`finish`](Self::finish).
    pub fn push(&mut self, chunk: &[u8]) {
        if self.failed.is_some() || self.at_end {
            return;
        }
        // Only reached if the caller does not drain, or if a frame is beyond the limit.
        if self.buffer.len() - self.start > self.limit {
            self.failed = Some(SseError::TooLong { limit: self.limit });
            return;
        }
        self.compact_buffer();
        self.buffer.extend_from_slice(chunk);
    }

    /// Marks the end of the input: the remaining bytes become the last frame.
    pub const fn finish(&mut self) {
        self.at_end = true;
    }

    /// Returns the next frame, or `None` if more input is needed.
    ///
    /// # Errors
    /// Returns [`SseError`], and again at every later call.
    #[expect(clippy::should_implement_trait, reason = "frames borrow from the reader")]
    pub fn next(&mut self) -> Option<Result<Frame<'_>, SseError>> {
        if let Some(error) = self.failed {
            return Some(Err(error));
        }
        let found = match self.read_frame() {
            Ok(None) => return None,
            Ok(Some(ended)) => ended.to_frame(&self.buffer, self.drained),
            Err(error) => Err(error),
        };
        self.failed = found.as_ref().err().copied();
        Some(found)
    }

    /// Moves the unread rest to the front once it is the smaller part, so that on average every
    /// byte is moved at most once.
    fn compact_buffer(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
        } else if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
        } else {
            return;
        }
        self.drained += self.start as u64;
        self.line -= self.start;
        self.searched -= self.start;
        self.start = 0;
    }

    /// Reads lines up to a blank line or the end. Returns a frame once it is complete.
    fn read_frame(&mut self) -> Result<Option<FrameRange>, SseError> {
        loop {
            let line = find_line_end(&self.buffer, self.line, self.searched, self.at_end);
            let LineEnd::Whole { text_end, end } = line else {
                return self.read_tail();
            };
            let blank = text_end == self.line;
            if end - self.start > self.limit {
                return Err(SseError::TooLong { limit: self.limit });
            }
            if blank {
                return Ok(Some(self.end_frame(end, false)));
            }
            self.read_line(text_end);
            self.line = end;
            self.searched = end;
        }
    }

    /// Handles a missing line end: waits for more input, or ends the last frame.
    fn read_tail(&mut self) -> Result<Option<FrameRange>, SseError> {
        let end = self.buffer.len();
        if end - self.start > self.limit {
            return Err(SseError::TooLong { limit: self.limit });
        }
        // A carriage return at the end is examined again.
        let undecided = self.buffer.last() == Some(&b'\r');
        self.searched = if undecided { end - 1 } else { end }.max(self.line);
        if !self.at_end || end == self.start {
            return Ok(None);
        }
        if self.line < end {
            self.read_line(end);
        }
        Ok(Some(self.end_frame(end, true)))
    }

    fn end_frame(&mut self, end: usize, cut: bool) -> FrameRange {
        let ended = FrameRange { start: self.start, end, fields: self.fields, cut };
        self.start = end;
        self.line = end;
        self.searched = end;
        self.fields = FrameFields::default();
        ended
    }

    /// Records the field in the line from `self.line` to `text_end`.
    fn read_line(&mut self, text_end: usize) {
        let first = self.drained == 0 && self.line == 0;
        let line = self.buffer.get(self.line..text_end).unwrap_or_default();
        let (name, value) = split_field(line, first);
        let range = (text_end - value.len() - self.start, text_end - self.start);
        if self.fields.unframed {
            // The data go on to the end of the frame, line ends among them.
            self.fields.data.1 = text_end - self.start;
        } else if first && name.starts_with(b"{") {
            // Some servers call an error a stream, and send it as plain JSON.
            let before = if line.starts_with(name) { 0 } else { lines::BOM.len() };
            self.fields.unframed = true;
            self.fields.data = (before, text_end - self.start);
            self.fields.data_lines = 1;
        } else if name == b"event" {
            self.fields.event = range;
        } else if name == b"data" {
            if self.fields.data_lines == 0 {
                self.fields.data = range;
            }
            self.fields.data_lines += 1;
        } else if name == b"error" && self.fields.data_lines == 0 && !value.is_empty() {
            // llama.cpp tells of an error in a field of that name. It is read as an event of that
            // name: the name in the line is the event's.
            let before = if line.starts_with(name) { 0 } else { lines::BOM.len() };
            let name_at = self.line - self.start + before;
            self.fields.event = (name_at, name_at + name.len());
            self.fields.data = range;
            self.fields.data_lines = 1;
        }
    }
}

/// A complete frame, as ranges of the buffer.
#[derive(Clone, Copy, Debug)]
struct FrameRange {
    start: usize,
    end: usize,
    fields: FrameFields,
    cut: bool,
}

impl FrameRange {
    fn to_frame(self, buffer: &[u8], drained: u64) -> Result<Frame<'_>, SseError> {
        let raw = buffer.get(self.start..self.end).unwrap_or_default();
        let at = drained + self.start as u64;
        let bad = |_| SseError::Utf8 { at };
        let text = |(start, end): (usize, usize)| {
            std::str::from_utf8(raw.get(start..end).unwrap_or_default()).map_err(bad)
        };
        let data = if self.fields.data_lines > 1 {
            Cow::Owned(lines::join_data_values(raw, at == 0).map_err(bad)?)
        } else {
            Cow::Borrowed(text(self.fields.data)?)
        };
        Ok(Frame {
            event: text(self.fields.event)?,
            data,
            raw,
            cut: self.cut,
            unframed: self.fields.unframed,
        })
    }
}
