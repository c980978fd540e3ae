//! Writing responses: the chunks of a stream, whole completions, messages, and received chunks with
//! another id or other call indexes.
//!
//! The writers append to a buffer and keep no state. The caller ensures that a stream is valid (the
//! role first, one finish reason, one `[DONE]`). Values given as JSON are written as they are.

mod rewrite;
#[cfg(test)]
mod tests;

pub use rewrite::{
    CallEdit, ContentEdit, Rewrite, write_call_alone, write_reindexed, write_rewritten,
    write_rewritten_body, write_with_id,
};

use super::{
    message::{Call, Finish, ResponseMessage},
    usage::Usage,
};
use crate::{json::write_str, sse::write_event};

/// The members that all chunks of a stream share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head<'a> {
    /// `id`
    pub id: &'a str,
    /// `created`, in seconds since 1970.
    pub created: u64,
    /// `model`
    pub model: &'a str,
}

/// Writes the first chunk: the role, without text.
pub fn write_role(out: &mut Vec<u8>, head: Head<'_>) {
    write_delta(out, head, r#"{"role":"assistant","content":""}"#);
}

/// Writes a chunk with more text.
pub fn write_text(out: &mut Vec<u8>, head: Head<'_>, text: &str) {
    write_member(out, head, "content", text);
}

/// Writes a chunk with more of a refusal.
pub fn write_refusal(out: &mut Vec<u8>, head: Head<'_>, text: &str) {
    write_member(out, head, "refusal", text);
}

/// Writes a chunk with more reasoning, in the dialect's member for it: `reasoning_content` or
/// `reasoning`.
pub fn write_reasoning(out: &mut Vec<u8>, head: Head<'_>, member: &str, text: &str) {
    write_member(out, head, member, text);
}

/// Writes a chunk with a list of `reasoning_details`, each given as JSON.
pub fn write_reasoning_details<D: AsRef<[u8]>>(out: &mut Vec<u8>, head: Head<'_>, details: &[D]) {
    let list = details.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
    let data = format_chunk(head, |data| {
        data.extend_from_slice(br#"{"reasoning_details":["#);
        data.extend_from_slice(&list);
        data.extend_from_slice(b"]}");
    });
    write_data(out, &data);
}

/// Writes a chunk with further members, each value given as JSON.
pub fn write_members<'m>(
    out: &mut Vec<u8>,
    head: Head<'_>,
    members: impl IntoIterator<Item = (&'m str, &'m str)>,
) {
    let data = format_chunk(head, |data| {
        for (n, (name, value)) in members.into_iter().enumerate() {
            data.push(if n == 0 { b'{' } else { b',' });
            write_str(data, name);
            data.push(b':');
            data.extend_from_slice(value.as_bytes());
        }
        data.push(b'}');
    });
    write_data(out, &data);
}

/// Writes a chunk with a whole call. `index` is the call's index in the stream that is written.
pub fn write_call(out: &mut Vec<u8>, head: Head<'_>, index: u32, call: &Call) {
    let data = format_chunk(head, |data| {
        data.extend_from_slice(format!(r#"{{"tool_calls":[{{"index":{index},"id":"#).as_bytes());
        write_str(data, &call.id);
        call.write_body(data);
        data.extend_from_slice(b"]}");
    });
    write_data(out, &data);
}

/// Writes a chunk that begins a function call: its id and name, without arguments.
pub fn write_call_start(out: &mut Vec<u8>, head: Head<'_>, index: u32, id: &str, name: &str) {
    let data = format_chunk(head, |data| {
        data.extend_from_slice(format!(r#"{{"tool_calls":[{{"index":{index},"id":"#).as_bytes());
        write_str(data, id);
        data.extend_from_slice(br#","type":"function","function":{"name":"#);
        write_str(data, name);
        data.extend_from_slice(br#","arguments":""}}]}"#);
    });
    write_data(out, &data);
}

/// Writes a chunk with more of a function call's arguments.
pub fn write_call_arguments(out: &mut Vec<u8>, head: Head<'_>, index: u32, piece: &str) {
    let data = format_chunk(head, |data| {
        let open = format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"#);
        data.extend_from_slice(open.as_bytes());
        write_str(data, piece);
        data.extend_from_slice(b"}}]}");
    });
    write_data(out, &data);
}

/// Writes a chunk with a `delta` given as JSON.
pub fn write_delta(out: &mut Vec<u8>, head: Head<'_>, delta_json: &str) {
    let data = format_chunk(head, |data| data.extend_from_slice(delta_json.as_bytes()));
    write_data(out, &data);
}

/// Writes the chunk with the finish reason.
pub fn write_finish(out: &mut Vec<u8>, head: Head<'_>, finish: &Finish) {
    let mut data = format_head(head, "chat.completion.chunk");
    data.extend_from_slice(br#""choices":[{"index":0,"delta":{},"finish_reason":"#);
    write_str(&mut data, finish.name());
    data.extend_from_slice(b"}]}");
    write_data(out, &data);
}

/// Writes the chunk with the usage, without choices.
pub fn write_usage(out: &mut Vec<u8>, head: Head<'_>, usage: &Usage) {
    let mut data = format_head(head, "chat.completion.chunk");
    data.extend_from_slice(br#""choices":[],"usage":"#);
    usage.write_json(&mut data);
    data.push(b'}');
    write_data(out, &data);
}

/// Writes `[DONE]`.
pub fn write_done(out: &mut Vec<u8>) {
    write_event(out, "", "[DONE]");
}

/// Writes an error within a stream, the last of its data.
pub fn write_error(out: &mut Vec<u8>, kind: &str, message: &str, code: Option<&str>) {
    write_data(out, &error_body(kind, message, code));
}

/// Returns an error body in OpenAI's shape for a response with an HTTP error status.
#[must_use]
pub fn error_body(kind: &str, message: &str, code: Option<&str>) -> Vec<u8> {
    let mut out = br#"{"error":{"message":"#.to_vec();
    write_str(&mut out, message);
    out.extend_from_slice(br#","type":"#);
    write_str(&mut out, kind);
    out.extend_from_slice(br#","param":null,"code":"#);
    match code {
        Some(code) => write_str(&mut out, code),
        None => out.extend_from_slice(b"null"),
    }
    out.extend_from_slice(b"}}");
    out
}

/// Writes a whole, non-streamed response.
pub fn write_completion(out: &mut Vec<u8>, message: &ResponseMessage) {
    let head = Head { id: &message.id, created: message.created, model: &message.model };
    out.extend_from_slice(&format_head(head, "chat.completion"));
    out.extend_from_slice(br#""choices":[{"index":0,"message":"#);
    write_message_object(out, message);
    write_choice_end(out, message);
    if message.usage.present {
        out.extend_from_slice(br#","usage":"#);
        message.usage.write_json(out);
    }
    out.push(b'}');
}

/// Writes the message of a whole response.
fn write_message_object(out: &mut Vec<u8>, message: &ResponseMessage) {
    out.extend_from_slice(br#"{"role":"assistant","content":"#);
    message.write_content(out);
    message.write_refusal(out);
    if !message.reasoning.is_empty() && message.parts.is_empty() {
        out.extend_from_slice(br#","reasoning":"#);
        write_str(out, &message.reasoning);
    }
    message.write_reasoning(out);
    message.write_calls(out);
    for (name, value) in &message.extra {
        out.push(b',');
        write_str(out, name);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
}

/// Writes the end of the choice and of the list of choices.
fn write_choice_end(out: &mut Vec<u8>, message: &ResponseMessage) {
    out.extend_from_slice(br#","finish_reason":"#);
    match &message.finish {
        Some(finish) => write_str(out, finish.name()),
        None => out.extend_from_slice(b"null"),
    }
    if let Some(native) = &message.native_finish {
        out.extend_from_slice(br#","native_finish_reason":"#);
        write_str(out, native);
    }
    out.extend_from_slice(b"}]");
}

/// Returns a request message with plain text: `system`, `developer`, `user` or `assistant`.
#[must_use]
pub fn request_message(role: &str, text: &str) -> Vec<u8> {
    let mut out = br#"{"role":"#.to_vec();
    write_str(&mut out, role);
    out.extend_from_slice(br#","content":"#);
    write_str(&mut out, text);
    out.push(b'}');
    out
}

/// Returns the message that answers a call.
#[must_use]
pub fn tool_message(call_id: &str, content: &str) -> Vec<u8> {
    let mut out = br#"{"role":"tool","tool_call_id":"#.to_vec();
    write_str(&mut out, call_id);
    out.extend_from_slice(br#","content":"#);
    write_str(&mut out, content);
    out.push(b'}');
    out
}

fn write_member(out: &mut Vec<u8>, head: Head<'_>, member: &str, text: &str) {
    let data = format_chunk(head, |data| {
        data.push(b'{');
        write_str(data, member);
        data.push(b':');
        write_str(data, text);
        data.push(b'}');
    });
    write_data(out, &data);
}

/// Returns a chunk around a delta.
fn format_chunk(head: Head<'_>, delta: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut data = format_head(head, "chat.completion.chunk");
    data.extend_from_slice(br#""choices":[{"index":0,"delta":"#);
    delta(&mut data);
    data.extend_from_slice(br#","finish_reason":null}]}"#);
    data
}

/// Returns the beginning of a chunk or completion, up to the comma after its head.
fn format_head(head: Head<'_>, object: &str) -> Vec<u8> {
    let mut data = br#"{"id":"#.to_vec();
    write_str(&mut data, head.id);
    let middle = format!(r#","object":"{object}","created":{},"model":"#, head.created);
    data.extend_from_slice(middle.as_bytes());
    write_str(&mut data, head.model);
    data.push(b',');
    data
}

/// Writes an event with data that was built from text.
fn write_data(out: &mut Vec<u8>, data: &[u8]) {
    // Only text goes into `data`, cut at ASCII characters, so the check cannot fail.
    write_event(out, "", std::str::from_utf8(data).unwrap_or_default());
}
