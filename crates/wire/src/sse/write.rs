//! Writing events, and locating the data in a received frame.

use super::Frame;
use super::lines::{for_each_line, split_field};
use crate::json::Span;

/// Appends an event and its blank line. Data of several lines becomes several `data:` lines. An
/// empty `event` writes no `event:` line. Line ends in `event` are left out.
pub fn write_event(out: &mut Vec<u8>, event: &str, data: &str) {
    if !event.is_empty() {
        out.extend_from_slice(b"event: ");
        out.extend(event.bytes().filter(|&b| b != b'\n' && b != b'\r'));
        out.push(b'\n');
    }
    let bytes = data.as_bytes();
    if bytes.is_empty() {
        out.extend_from_slice(b"data:\n");
    }
    let mut last_end = 0;
    for_each_line(bytes, |start, end| {
        write_data_line(out, bytes.get(start..end).unwrap_or_default());
        last_end = end;
    });
    // A line end at the very end opens another, empty line.
    if last_end < bytes.len() {
        write_data_line(out, b"");
    }
    out.push(b'\n');
}

fn write_data_line(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(line);
    out.push(b'\n');
}

/// Appends a frame with other data, of a single line. Its other bytes stay as they are where it has
/// one line of data and was not cut; otherwise it is written anew.
pub fn write_with_data(out: &mut Vec<u8>, frame: &Frame<'_>, data: &str) {
    match find_data_span(frame.raw).filter(|_| !frame.cut) {
        Some(span) => {
            out.extend_from_slice(frame.raw.get(..span.start).unwrap_or_default());
            out.extend_from_slice(data.as_bytes());
            out.extend_from_slice(frame.raw.get(span.end..).unwrap_or_default());
        }
        None => write_event(out, frame.event, data),
    }
}

/// Returns the span of the data in a frame's raw bytes if the frame has exactly one `data:` line.
#[must_use]
pub fn find_data_span(raw: &[u8]) -> Option<Span> {
    let mut found = None;
    let mut lines = 0;
    for_each_line(raw, |start, text_end| {
        let line = raw.get(start..text_end).unwrap_or_default();
        if let (b"data", value) = split_field(line, start == 0) {
            found = Some(Span::new(text_end - value.len(), text_end));
            lines += 1;
        }
    });
    found.filter(|_| lines == 1)
}
