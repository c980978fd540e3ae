//! Writing responses: the events of a stream, whole messages, and received events renumbered.
//!
//! The writers append to a buffer and keep no state. The caller ensures that a stream is valid (one
//! start, blocks in order, one stop). Values given as JSON are written as they are.

mod end;
#[cfg(test)]
mod tests;

pub use end::{EndChanges, write_changed_delta, write_changed_message};

use super::{
    message::{ResponseBlock, ResponseMessage, Stop},
    usage::Usage,
};
use crate::{
    json::{Cursor, Error, Span, write_str},
    sse::{find_data_span, write_event},
};

/// Writes a `message_start` for a message without content so far.
pub fn write_message_start(out: &mut Vec<u8>, id: &str, model: &str, usage: &Usage) {
    let mut data = br#"{"type":"message_start","message":"#.to_vec();
    write_head(&mut data, id, model);
    data.extend_from_slice(br#""content":[],"stop_reason":null,"stop_sequence":null,"usage":"#);
    usage.write_json(&mut data);
    data.extend_from_slice(b"}}");
    write_data(out, "message_start", &data);
}

/// Writes a `content_block_start` with a block given as JSON.
pub fn write_block_start(out: &mut Vec<u8>, index: u32, block_json: &str) {
    let data =
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block_json}}}"#);
    write_event(out, "content_block_start", &data);
}

/// Writes the `content_block_start` of an empty text block.
pub fn write_text_start(out: &mut Vec<u8>, index: u32) {
    write_block_start(out, index, r#"{"type":"text","text":""}"#);
}

/// Writes a `text_delta`.
pub fn write_text_delta(out: &mut Vec<u8>, index: u32, text: &str) {
    write_string_delta(out, index, "text_delta", "text", text);
}

/// Writes an `input_json_delta`: a piece of a call's input.
pub fn write_input_json_delta(out: &mut Vec<u8>, index: u32, partial_json: &str) {
    write_string_delta(out, index, "input_json_delta", "partial_json", partial_json);
}

/// Writes a `content_block_stop`.
pub fn write_block_stop(out: &mut Vec<u8>, index: u32) {
    let data = format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    write_event(out, "content_block_stop", &data);
}

/// Writes a whole text block: start, one delta, stop.
pub fn write_text_block(out: &mut Vec<u8>, index: u32, text: &str) {
    write_text_start(out, index);
    write_text_delta(out, index, text);
    write_block_stop(out, index);
}

/// Writes a `message_delta` with the stop reason and the usage. `stop_details` is a JSON object.
pub fn write_message_delta(
    out: &mut Vec<u8>,
    stop: &Stop,
    stop_sequence: Option<&str>,
    stop_details: Option<&str>,
    usage: &Usage,
) {
    let mut data = br#"{"type":"message_delta","delta":{"#.to_vec();
    write_stop(&mut data, Some(stop), stop_sequence, stop_details);
    data.extend_from_slice(br#"},"usage":"#);
    usage.write_json(&mut data);
    data.push(b'}');
    write_data(out, "message_delta", &data);
}

/// Writes a `message_stop`.
pub fn write_message_stop(out: &mut Vec<u8>) {
    write_event(out, "message_stop", r#"{"type":"message_stop"}"#);
}

/// Writes a `ping`.
pub fn write_ping(out: &mut Vec<u8>) {
    write_event(out, "ping", r#"{"type": "ping"}"#);
}

/// Writes an `error` event, the last of its stream.
pub fn write_error(out: &mut Vec<u8>, kind: &str, message: &str) {
    write_data(out, "error", &error_body(kind, message, None));
}

/// Returns an error body for a response with an HTTP error status.
#[must_use]
pub fn error_body(kind: &str, message: &str, request_id: Option<&str>) -> Vec<u8> {
    let mut out = br#"{"type":"error","error":{"type":"#.to_vec();
    write_str(&mut out, kind);
    out.extend_from_slice(br#","message":"#);
    write_str(&mut out, message);
    out.push(b'}');
    if let Some(id) = request_id {
        out.extend_from_slice(br#","request_id":"#);
        write_str(&mut out, id);
    }
    out.push(b'}');
    out
}

/// Writes a whole, non-streamed response.
pub fn write_message(out: &mut Vec<u8>, message: &ResponseMessage) {
    write_head(out, &message.id, &message.model);
    out.extend_from_slice(br#""content":"#);
    write_blocks(out, &message.blocks);
    out.push(b',');
    let (sequence, details) = (message.stop_sequence.as_deref(), message.stop_details.as_deref());
    write_stop(out, message.stop.as_ref(), sequence, details);
    out.extend_from_slice(br#","usage":"#);
    message.usage.write_json(out);
    out.push(b'}');
}

/// Writes a list of blocks, as in `content`.
pub fn write_blocks(out: &mut Vec<u8>, blocks: &[ResponseBlock]) {
    out.push(b'[');
    for (n, block) in blocks.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        block.write_json(out);
    }
    out.push(b']');
}

/// Appends a received event with another block index. All other bytes stay as they are. An event
/// without an index is appended unchanged. `raw` is the frame as received. It is rewritten only if
/// its data spans several lines.
///
/// # Errors
/// Fails if the frame's data is not a JSON object.
pub fn write_reindexed(out: &mut Vec<u8>, raw: &[u8], index: u32) -> Result<(), Error> {
    match find_data_span(raw) {
        Some(data) => {
            let bytes = raw.get(data.start..data.end).unwrap_or_default();
            let Some(digits) = find_index_span(bytes)? else {
                out.extend_from_slice(raw);
                return Ok(());
            };
            let (start, end) = (data.start + digits.start, data.start + digits.end);
            write_with_index(out, raw, Span::new(start, end), index);
        }
        None => write_reindexed_lines(out, raw, index)?,
    }
    Ok(())
}

/// Handles a frame with several `data:` lines, or none.
fn write_reindexed_lines(out: &mut Vec<u8>, raw: &[u8], index: u32) -> Result<(), Error> {
    let mut decoder = crate::sse::Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let Some(Ok(frame)) = decoder.next() else {
        out.extend_from_slice(raw);
        return Ok(());
    };
    let digits = if frame.data.is_empty() { None } else { find_index_span(frame.data.as_bytes())? };
    let Some(digits) = digits else {
        out.extend_from_slice(raw);
        return Ok(());
    };
    let mut data = Vec::with_capacity(frame.data.len() + 8);
    write_with_index(&mut data, frame.data.as_bytes(), digits, index);
    write_data(out, frame.event, &data);
    Ok(())
}

/// Returns the span of the top-level `index` in an event's data.
fn find_index_span(data: &[u8]) -> Result<Option<Span>, Error> {
    let mut cursor = Cursor::from_bytes(data)?;
    let mut found = None;
    cursor.read_members(|cursor, member| {
        if member.key == "index" {
            let span = cursor.clone().skip_value()?;
            // A value that the event reader does not accept as an index is not accepted here
            // either.
            let index = cursor.read_uint_or_skip()?.and_then(|index| u32::try_from(index).ok());
            found = index.map(|_| span);
        }
        Ok::<_, Error>(())
    })?;
    cursor.expect_end()?;
    Ok(found)
}

fn write_with_index(out: &mut Vec<u8>, bytes: &[u8], span: Span, index: u32) {
    out.extend_from_slice(bytes.get(..span.start).unwrap_or_default());
    out.extend_from_slice(index.to_string().as_bytes());
    out.extend_from_slice(bytes.get(span.end..).unwrap_or_default());
}

fn write_head(out: &mut Vec<u8>, id: &str, model: &str) {
    out.extend_from_slice(br#"{"id":"#);
    write_str(out, id);
    out.extend_from_slice(br#","type":"message","role":"assistant","model":"#);
    write_str(out, model);
    out.push(b',');
}

fn write_stop(
    out: &mut Vec<u8>,
    stop: Option<&Stop>,
    sequence: Option<&str>,
    details: Option<&str>,
) {
    let mut or_null = |text: Option<&str>, name: &[u8]| {
        out.extend_from_slice(name);
        match text {
            Some(text) => write_str(out, text),
            None => out.extend_from_slice(b"null"),
        }
    };
    or_null(stop.map(Stop::name), br#""stop_reason":"#);
    or_null(sequence, br#","stop_sequence":"#);
    if let Some(details) = details {
        out.extend_from_slice(br#","stop_details":"#);
        out.extend_from_slice(details.as_bytes());
    }
}

fn write_string_delta(out: &mut Vec<u8>, index: u32, kind: &str, member: &str, text: &str) {
    let mut data = format!(
        r#"{{"type":"content_block_delta","index":{index},"delta":{{"type":"{kind}","{member}":"#
    )
    .into_bytes();
    write_str(&mut data, text);
    data.extend_from_slice(b"}}");
    write_data(out, "content_block_delta", &data);
}

/// Writes an event with data that was built from text.
fn write_data(out: &mut Vec<u8>, event: &str, data: &[u8]) {
    // Only text goes into `data`, cut at ASCII characters, so the check cannot fail.
    write_event(out, event, std::str::from_utf8(data).unwrap_or_default());
}
