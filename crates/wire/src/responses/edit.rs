//! Where edits go in a Responses request: a line, a text, an item, a top-level member.
//!
//! Every function adds its edits to a [`Splice`] of the request's body and applies nothing. Edits
//! of different places go together in any order; that a place is edited once is for the caller.

#[cfg(test)]
mod tests;

use super::request::{Content, Input, Item, ItemKind, Request, Role};
use crate::{
    Splice,
    json::{Span, write_str},
    splice::quoted,
};

/// Adds `line` as the last line of a function's or custom tool's output: after an empty line at
/// the end of its string or of its last text part; where it has no text, as a text part or as its
/// output. Returns false, and edits nothing, if `item` is no such output or one of no known shape.
pub fn append_to_output(splice: &mut Splice, item: &Item<'_>, line: &str) -> bool {
    let (ItemKind::FunctionCallOutput(output) | ItemKind::CustomToolCallOutput(output)) =
        &item.kind
    else {
        return false;
    };
    match &output.content {
        Content::Text(text, span) => splice.append_to_text(*text, *span, line),
        Content::Absent(Some(null)) => splice.replace(*null, quoted(line)),
        Content::Absent(None) => splice.append_member(item.span, "output", &quoted(line)),
        Content::Parts { span, parts } => match parts.iter().rev().find_map(|part| part.text) {
            Some((text, inside)) => splice.append_to_text(text, inside, line),
            None => {
                let last = parts.last().map(|part| part.span);
                splice.append_element(*span, last, &text_part("input_text", line));
            }
        },
        Content::Other(_) => return false,
    }
    true
}

/// Adds a text at the end of a message: after an empty line in its string or in its last part, if
/// that is a text, so that a client may write one as the other; else as a part of its own. Returns
/// false, and edits nothing, if `item` is no message or one of no known shape.
pub fn append_to_message(splice: &mut Splice, item: &Item<'_>, text: &str) -> bool {
    let ItemKind::Message { role, content, .. } = &item.kind else { return false };
    match content {
        Content::Text(old, span) => splice.append_to_text(*old, *span, text),
        Content::Absent(Some(null)) => splice.replace(*null, quoted(text)),
        Content::Absent(None) => splice.append_member(item.span, "content", &quoted(text)),
        Content::Parts { span, parts } => match parts.last().and_then(|part| part.text) {
            Some((old, inside)) => splice.append_to_text(old, inside, text),
            None => {
                let kind = if *role == Role::Assistant { "output_text" } else { "input_text" };
                let last = parts.last().map(|part| part.span);
                splice.append_element(*span, last, &text_part(kind, text));
            }
        },
        Content::Other(_) => return false,
    }
    true
}

/// Adds a text at the end of an input that is a string, after an empty line. Returns false, and
/// edits nothing, if the input is no string.
pub fn append_to_text_input(splice: &mut Splice, request: &Request<'_>, text: &str) -> bool {
    let Input::Text(old, span) = &request.input else { return false };
    splice.append_to_text(*old, *span, text);
    true
}

/// Adds items, each a JSON object, at the end of `input`. A string becomes the list of one user
/// message that it stands for; where there is no input, it is added. To be called once for a body
/// whose input is no list.
pub fn append_items<I: AsRef<[u8]>>(splice: &mut Splice, request: &Request<'_>, items: &[I]) {
    if items.is_empty() {
        return;
    }
    let joined = items.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
    let list = || [b"[".as_slice(), &joined, b"]"].concat();
    match &request.input {
        Input::Items(input) => {
            let last = input.list.last().map(|item| item.span);
            splice.append_element(input.span, last, &joined);
        }
        Input::Text(_, span) => {
            // Around the string, not in its place, so that it can be added to as well; and within
            // its last quote, because behind it the body's end may take members.
            let quote = Span::new(span.end.saturating_sub(1), span.end);
            splice.insert(span.start, &br#"[{"type":"message","role":"user","content":"#[..]);
            splice.replace(quote, [b"\"},".as_slice(), &joined, b"]"].concat());
        }
        Input::Absent(Some(null)) => splice.replace(*null, list()),
        Input::Absent(None) => splice.append_member(request.span, "input", &list()),
    }
}

/// Sets a top-level member to a JSON value, replacing the one there is.
pub fn set_member(splice: &mut Splice, request: &Request<'_>, name: &str, json: &str) {
    set(splice, request, name, json.as_bytes());
}

/// Sets `tool_choice` to a JSON value.
pub fn set_tool_choice(splice: &mut Splice, request: &Request<'_>, json: &str) {
    set_member(splice, request, "tool_choice", json);
}

/// Sets `max_output_tokens`.
pub fn set_max_output_tokens(splice: &mut Splice, request: &Request<'_>, tokens: u64) {
    set_member(splice, request, "max_output_tokens", &tokens.to_string());
}

/// Sets `previous_response_id`.
pub fn set_previous_response_id(splice: &mut Splice, request: &Request<'_>, id: &str) {
    set(splice, request, "previous_response_id", &quoted(id));
}

fn set(splice: &mut Splice, request: &Request<'_>, name: &str, json: &[u8]) {
    match request.member(name) {
        Some(span) => splice.replace(span, json),
        None => splice.append_member(request.span, name, json),
    }
}

/// `{"type":…,"text":…}`
fn text_part(kind: &str, text: &str) -> Vec<u8> {
    let mut out = format!(r#"{{"type":"{kind}","text":"#).into_bytes();
    write_str(&mut out, text);
    out.push(b'}');
    out
}
