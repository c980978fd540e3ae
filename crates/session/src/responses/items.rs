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
pub(super) fn message_of(item: &str) -> (String, String) {
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

/// Returns the output of a tool that the provider defines.
pub(super) fn tool_output(kind: &str, call_id: &str, text: &str) -> Vec<u8> {
    let mut out = br#"{"type":"#.to_vec();
    write_str(&mut out, &format!("{kind}_output"));
    out.extend_from_slice(br#","call_id":"#);
    write_str(&mut out, call_id);
    out.extend_from_slice(br#","output":"#);
    write_str(&mut out, text);
    out.push(b'}');
    out
}

pub(super) fn no_approval(id: &str, why: &str) -> Vec<u8> {
    let mut out =
        br#"{"type":"mcp_approval_response","approve":false,"approval_request_id":"#.to_vec();
    write_str(&mut out, id);
    out.extend_from_slice(br#","reason":"#);
    write_str(&mut out, why);
    out.push(b'}');
    out
}
