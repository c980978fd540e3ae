//! Lines and fields of a server-sent event.

use std::str::Utf8Error;

use memchr::memchr2;

/// The byte order mark that may open a stream.
pub(super) const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The result of a search for a line end.
pub(super) enum LineEnd {
    /// The line's text ends at `text_end`. The line itself, including its line end, ends at `end`.
    Whole { text_end: usize, end: usize },
    /// More input is needed.
    Partial,
}

/// Finds the line that begins at `start`. There is no line end before `searched`.
pub(super) fn find_line_end(buffer: &[u8], start: usize, searched: usize, at_end: bool) -> LineEnd {
    let from = searched.max(start);
    let rest = buffer.get(from..).unwrap_or_default();
    let Some(text_end) = memchr2(b'\n', b'\r', rest).map(|at| from + at) else {
        return LineEnd::Partial;
    };
    let crlf = buffer.get(text_end..text_end + 2);
    match crlf {
        Some(b"\r\n") => LineEnd::Whole { text_end, end: text_end + 2 },
        // The last byte is a carriage return: a line feed that belongs to it may still follow.
        None if buffer.get(text_end) == Some(&b'\r') && !at_end => LineEnd::Partial,
        _ => LineEnd::Whole { text_end, end: text_end + 1 },
    }
}

/// Splits a line into field name and value. A comment has an empty name. `first` is true for the
/// first line of the stream.
pub(super) fn split_field(line: &[u8], first: bool) -> (&[u8], &[u8]) {
    let line = if first { line.strip_prefix(BOM).unwrap_or(line) } else { line };
    let Some(colon) = line.iter().position(|&b| b == b':') else {
        return (line, &[]);
    };
    let (name, rest) = line.split_at(colon);
    let value = rest.strip_prefix(b":").unwrap_or(rest);
    (name, value.strip_prefix(b" ").unwrap_or(value))
}

/// Joins all data values of a frame with line feeds.
pub(super) fn join_data_values(raw: &[u8], first_frame: bool) -> Result<String, Utf8Error> {
    let mut out = Vec::with_capacity(raw.len());
    let mut lines = 0;
    for_each_line(raw, |start, text_end| {
        let line = raw.get(start..text_end).unwrap_or_default();
        if let (b"data", value) = split_field(line, first_frame && start == 0) {
            if lines > 0 {
                out.push(b'\n');
            }
            lines += 1;
            out.extend_from_slice(value);
        }
    });
    String::from_utf8(out).map_err(|error| error.utf8_error())
}

/// Calls `each` with the start of every line and the end of its text.
pub(super) fn for_each_line(raw: &[u8], mut each: impl FnMut(usize, usize)) {
    let mut start = 0;
    while let LineEnd::Whole { text_end, end } = find_line_end(raw, start, start, true) {
        each(start, text_end);
        start = end;
    }
    if start < raw.len() {
        each(start, raw.len());
    }
}
