//! Writing responses: the events of a stream, whole responses, received events with new numbers,
//! and softland's own input items.
//!
//! The writers append to a buffer and keep no state except for the running `sequence_number`, which
//! each event uses and increments. The caller ensures that a stream is valid (one head, items in
//! order, one end). Values given as JSON are written as they are.

mod items;
mod renumber;
#[cfg(test)]
mod tests;
mod whole;

pub use items::{
    custom_tool_call, custom_tool_call_output, function_call, function_call_output, request_message,
};
pub use renumber::{Renumber, write_renumbered_event};
pub use whole::{
    Changes, Head, ResponseEnd, apply_changes, error_body, format_response, request_members,
};

use super::{
    response::{Failure, Status},
    stream::{Channel, Phase},
};
use crate::{json::write_str, sse::write_event};

/// Writes `response.created` and `response.in_progress`, with a response object as JSON.
pub fn write_head(out: &mut Vec<u8>, sequence: &mut u64, response_json: &str) {
    write_response(out, sequence, Phase::Created, response_json);
    write_response(out, sequence, Phase::InProgress, response_json);
}

/// Writes the event that announces a phase of the response, with a response object as JSON.
pub fn write_response(out: &mut Vec<u8>, sequence: &mut u64, phase: Phase, response_json: &str) {
    write_numbered_event(out, sequence, phase.event_type(), |data| {
        data.extend_from_slice(br#","response":"#);
        data.extend_from_slice(response_json.as_bytes());
    });
}

/// Writes the last event by the status: `response.incomplete`, `response.failed` or, for any other
/// status, `response.completed`.
pub fn write_end(out: &mut Vec<u8>, sequence: &mut u64, status: &Status, response_json: &str) {
    let phase = match status {
        Status::Incomplete => Phase::Incomplete,
        Status::Failed => Phase::Failed,
        _ => Phase::Completed,
    };
    write_response(out, sequence, phase, response_json);
}

/// Writes a `response.output_item.added` with an item as JSON.
pub fn write_item_added(out: &mut Vec<u8>, sequence: &mut u64, index: u32, item_json: &[u8]) {
    write_item(out, sequence, "response.output_item.added", index, item_json);
}

/// Writes a `response.output_item.done` with an item as JSON.
pub fn write_item_done(out: &mut Vec<u8>, sequence: &mut u64, index: u32, item_json: &[u8]) {
    write_item(out, sequence, "response.output_item.done", index, item_json);
}

/// Writes the beginning of a message with one text: the item, then its part.
pub fn write_text_start(out: &mut Vec<u8>, sequence: &mut u64, index: u32, id: &str) {
    write_item_added(out, sequence, index, &items::format_text_message(id, "in_progress", None));
    write_part(out, sequence, "response.content_part.added", index, id, "");
}

/// Writes more of that text.
pub fn write_text_delta(out: &mut Vec<u8>, sequence: &mut u64, index: u32, id: &str, text: &str) {
    write_piece(out, sequence, Channel::Text, "delta", index, id, text);
}

/// Writes the end of that message: the whole text, the part, the item.
pub fn write_text_end(out: &mut Vec<u8>, sequence: &mut u64, index: u32, id: &str, text: &str) {
    write_piece(out, sequence, Channel::Text, "done", index, id, text);
    write_part(out, sequence, "response.content_part.done", index, id, text);
    write_item_done(out, sequence, index, &items::format_text_message(id, "completed", Some(text)));
}

/// Writes a whole message with one text.
pub fn write_text_item(out: &mut Vec<u8>, sequence: &mut u64, index: u32, id: &str, text: &str) {
    write_text_start(out, sequence, index, id);
    write_text_delta(out, sequence, index, id, text);
    write_text_end(out, sequence, index, id, text);
}

/// Returns the message that [`write_text_item`] writes, as it appears in the response's `output`.
#[must_use]
pub fn text_item(id: &str, text: &str) -> Vec<u8> {
    items::format_text_message(id, "completed", Some(text))
}

/// Writes a whole `function_call`, with its arguments in one piece.
pub fn write_call_item(
    out: &mut Vec<u8>,
    sequence: &mut u64,
    index: u32,
    id: &str,
    (call_id, name, arguments): (&str, &str, &str),
) {
    let begun = items::format_call(Some((id, "in_progress")), call_id, name, "");
    write_item_added(out, sequence, index, &begun);
    write_piece(out, sequence, Channel::Arguments, "delta", index, id, arguments);
    write_piece(out, sequence, Channel::Arguments, "done", index, id, arguments);
    write_item_done(out, sequence, index, &call_item(id, call_id, name, arguments));
}

/// Returns the call that [`write_call_item`] writes, as it appears in the response's `output`.
#[must_use]
pub fn call_item(id: &str, call_id: &str, name: &str, arguments: &str) -> Vec<u8> {
    items::format_call(Some((id, "completed")), call_id, name, arguments)
}

/// Writes a piece of streamed content: the `….delta` event of a channel.
pub fn write_delta(
    out: &mut Vec<u8>,
    sequence: &mut u64,
    channel: Channel,
    (index, id): (u32, &str),
    text: &str,
) {
    write_piece(out, sequence, channel, "delta", index, id, text);
}

/// Writes an `error` event, in the flat shape of the vendor's SDKs. `response.failed` may follow.
pub fn write_error(out: &mut Vec<u8>, sequence: &mut u64, failure: &Failure) {
    write_numbered_event(out, sequence, "error", |data| {
        data.extend_from_slice(br#","code":"#);
        match [&failure.code, &failure.kind].into_iter().find(|word| !word.is_empty()) {
            Some(code) => write_str(data, code),
            None => data.extend_from_slice(b"null"),
        }
        data.extend_from_slice(br#","message":"#);
        write_str(data, &failure.message);
        data.extend_from_slice(br#","param":null"#);
    });
}

fn write_item(out: &mut Vec<u8>, sequence: &mut u64, event: &str, index: u32, item_json: &[u8]) {
    write_numbered_event(out, sequence, event, |data| {
        data.extend_from_slice(format!(r#","output_index":{index},"item":"#).as_bytes());
        data.extend_from_slice(item_json);
    });
}

fn write_part(
    out: &mut Vec<u8>,
    sequence: &mut u64,
    event: &str,
    index: u32,
    id: &str,
    text: &str,
) {
    write_numbered_event(out, sequence, event, |data| {
        write_position(data, index, id, true);
        data.extend_from_slice(br#","part":"#);
        items::write_text_part(data, text);
    });
}

fn write_piece(
    out: &mut Vec<u8>,
    sequence: &mut u64,
    channel: Channel,
    step: &str,
    index: u32,
    id: &str,
    text: &str,
) {
    let event = format!("response.{}.{step}", channel.name());
    write_numbered_event(out, sequence, &event, |data| {
        write_position(data, index, id, matches!(channel, Channel::Text | Channel::Refusal));
        match channel {
            Channel::Summary => data.extend_from_slice(br#","summary_index":0"#),
            Channel::Reasoning => data.extend_from_slice(br#","content_index":0"#),
            // Some clients require it.
            Channel::Text => data.extend_from_slice(br#","logprobs":[]"#),
            Channel::Refusal | Channel::Arguments | Channel::Input => {}
        }
        data.push(b',');
        write_str(data, if step == "delta" { step } else { channel.member_name() });
        data.push(b':');
        write_str(data, text);
    });
}

fn write_position(data: &mut Vec<u8>, index: u32, id: &str, content: bool) {
    data.extend_from_slice(br#","item_id":"#);
    write_str(data, id);
    data.extend_from_slice(format!(r#","output_index":{index}"#).as_bytes());
    if content {
        data.extend_from_slice(br#","content_index":0"#);
    }
}

/// Writes an event: its type, its number and the members that `members` adds.
fn write_numbered_event(
    out: &mut Vec<u8>,
    sequence: &mut u64,
    event: &str,
    members: impl FnOnce(&mut Vec<u8>),
) {
    let mut data = format!(r#"{{"type":"{event}","sequence_number":{sequence}"#).into_bytes();
    members(&mut data);
    data.push(b'}');
    *sequence = sequence.saturating_add(1);
    // Only text goes into `data`, so the check fails only if the caller's own bytes are not text.
    write_event(out, event, std::str::from_utf8(&data).unwrap_or_default());
}

impl Channel {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "output_text",
            Self::Refusal => "refusal",
            Self::Summary => "reasoning_summary_text",
            Self::Reasoning => "reasoning_text",
            Self::Arguments => "function_call_arguments",
            Self::Input => "custom_tool_call_input",
        }
    }

    /// Returns the member that holds the whole text in the `….done` event.
    const fn member_name(self) -> &'static str {
        match self {
            Self::Text | Self::Summary | Self::Reasoning => "text",
            Self::Refusal => "refusal",
            Self::Arguments => "arguments",
            Self::Input => "input",
        }
    }
}
