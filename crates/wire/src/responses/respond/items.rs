//! softland's own items: those of a response, and those that go into a request's input.

use crate::{json::write_str, responses::request::RequestRole};

/// Returns a message as an input item: `{"type":"message","role":…,"content":[…]}`. An unknown role
/// becomes `developer`.
#[must_use]
pub fn request_message(role: RequestRole, text: &str) -> Vec<u8> {
    let (role, part) = match role {
        RequestRole::User => ("user", "input_text"),
        RequestRole::Assistant => ("assistant", "output_text"),
        RequestRole::System => ("system", "input_text"),
        RequestRole::Developer | RequestRole::Other => ("developer", "input_text"),
    };
    let head =
        format!(r#"{{"type":"message","role":"{role}","content":[{{"type":"{part}","text":"#);
    let mut out = head.into_bytes();
    write_str(&mut out, text);
    out.extend_from_slice(b"}]}");
    out
}

/// Returns a `function_call` as an input item. `arguments` is JSON text.
#[must_use]
pub fn function_call(call_id: &str, name: &str, arguments: &str) -> Vec<u8> {
    format_call(None, call_id, name, arguments)
}

/// Returns a `custom_tool_call` as an input item.
#[must_use]
pub fn custom_tool_call(call_id: &str, name: &str, input: &str) -> Vec<u8> {
    format_object("custom_tool_call", &[("call_id", call_id), ("name", name), ("input", input)])
}

/// Returns the `function_call_output` of a call.
#[must_use]
pub fn function_call_output(call_id: &str, output: &str) -> Vec<u8> {
    format_object("function_call_output", &[("call_id", call_id), ("output", output)])
}

/// Returns the `custom_tool_call_output` of a call.
#[must_use]
pub fn custom_tool_call_output(call_id: &str, output: &str) -> Vec<u8> {
    format_object("custom_tool_call_output", &[("call_id", call_id), ("output", output)])
}

/// Returns a `function_call`, with its own id and status if it is part of a response.
pub(super) fn format_call(
    id_status: Option<(&str, &str)>,
    call_id: &str,
    name: &str,
    arguments: &str,
) -> Vec<u8> {
    let mut members = Vec::with_capacity(5);
    if let Some((id, status)) = id_status {
        members.extend([("id", id), ("status", status)]);
    }
    members.extend([("call_id", call_id), ("name", name), ("arguments", arguments)]);
    format_object("function_call", &members)
}

/// Returns a message of a response, with one text part or none.
pub(super) fn format_text_message(id: &str, status: &str, text: Option<&str>) -> Vec<u8> {
    let mut out =
        format_object("message", &[("id", id), ("status", status), ("role", "assistant")]);
    out.pop();
    out.extend_from_slice(br#","content":["#);
    if let Some(text) = text {
        write_text_part(&mut out, text);
    }
    out.extend_from_slice(b"]}");
    out
}

/// Appends an `output_text` part.
pub(super) fn write_text_part(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(br#"{"type":"output_text","annotations":[],"logprobs":[],"text":"#);
    write_str(out, text);
    out.push(b'}');
}

fn format_object(kind: &str, members: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!(r#"{{"type":"{kind}""#).into_bytes();
    for (name, value) in members {
        out.push(b',');
        write_str(&mut out, name);
        out.push(b':');
        write_str(&mut out, value);
    }
    out.push(b'}');
    out
}
