//! Items as JSON: the content of an item, and items that answer the provider's own tools.

use softland_wire::json::{Cursor, Error, write_str};
use softland_wire::responses::{Event, EventKind, OutputKind, Response};
use softland_wire::sse::Decoder;

/// Returns the id of the item that an event ends.
pub(super) fn item_id(raw: &[u8]) -> Option<String> {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    match Event::from_data(frame.event, &frame.data).ok()?.kind {
        EventKind::ItemDone(item) => Some(item.id.unescape().into_owned()),
        _ => None,
    }
}

/// True if an item holds its result: an image, a tool's output, a compacted context.
pub(super) fn holds_result(item: &str) -> bool {
    let mut gives = false;
    // The item was scanned before, so there is no error to report.
    let _ = Cursor::new(item).read_members(|cursor, member| {
        let value = cursor.skip_value()?.slice_of(item);
        let made = ["result", "output", "outputs", "encrypted_content"];
        gives |= made.contains(&&*member.key.unescape()) && !is_nothing(value);
        Ok::<_, Error>(())
    });
    gives
}

/// True if a JSON value holds nothing.
fn is_nothing(value: &str) -> bool {
    matches!(value, "null" | "\"\"" | "[]" | "{}")
}

/// Returns the id and the text of a message item.
pub(super) fn read_id_and_text(item: &str) -> (String, String) {
    let body = [r#"{"output":["#, item, "]}"].concat();
    let response = Response::from_json(body.as_bytes()).unwrap_or_default();
    let Some(item) = response.items.into_iter().next() else { return Default::default() };
    let text = match item.kind {
        OutputKind::Message { text, refusal, .. } => {
            refusal.filter(|_| text.is_empty()).unwrap_or(text)
        }
        _ => String::new(),
    };
    (item.id, text)
}

/// One transparent pixel, for a screenshot that was not made.
const PIXEL: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk\
                     +M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the output of a tool that the provider defines, as of a call that was not run. Where the
/// output has no place for the reason, the reason stands in a message behind it. (openai-python
/// 2.31, `ResponseInputItem`)
pub(super) fn tool_output(kind: &str, call_id: &str, text: &str) -> Vec<u8> {
    let text = &quote_text(text);
    let (name, rest, told) = match kind {
        "shell_call" => {
            let outcome = r#""outcome":{"type":"exit","exit_code":1}"#;
            let part = format!(r#""output":[{{"stdout":"","stderr":{text},{outcome}}}]"#);
            ("shell_call_output".to_owned(), part, true)
        }
        "local_shell_call" => {
            let output = quote_text(&format!(r#"{{"stdout":"","stderr":{text}}}"#));
            ("local_shell_call_output".to_owned(), format!(r#""output":{output}"#), true)
        }
        "apply_patch_call" => {
            let part = format!(r#""status":"failed","output":{text}"#);
            ("apply_patch_call_output".to_owned(), part, true)
        }
        "computer_call" => {
            let shot = format!(r#"{{"type":"computer_screenshot","image_url":"{PIXEL}"}}"#);
            ("computer_call_output".to_owned(), format!(r#""output":{shot}"#), false)
        }
        "tool_search_call" => {
            let part = r#""execution":"client","status":"completed","tools":[]"#.to_owned();
            ("tool_search_output".to_owned(), part, false)
        }
        other => (format!("{other}_output"), format!(r#""output":{text}"#), true),
    };
    let (name, id) = (quote_text(&name), quote_text(call_id));
    let mut out = format!(r#"{{"type":{name},"call_id":{id},{rest}}}"#);
    if !told {
        out += &format!(r#",{{"type":"message","role":"user","content":{text}}}"#);
    }
    out.into_bytes()
}

/// Returns a text as a JSON string.
fn quote_text(text: &str) -> String {
    let mut out = Vec::new();
    write_str(&mut out, text);
    // The string is written from text.
    String::from_utf8(out).unwrap_or_default()
}

pub(super) fn format_denied_approval(id: &str, why: &str) -> Vec<u8> {
    let mut out =
        br#"{"type":"mcp_approval_response","approve":false,"approval_request_id":"#.to_vec();
    write_str(&mut out, id);
    out.extend_from_slice(br#","reason":"#);
    write_str(&mut out, why);
    out.push(b'}');
    out
}
