//! The end of a received message with another reason and other counts: all else stays as it came.

use super::write_blocks;
use crate::{
    anthropic::{Event, ResponseBlock, Stop},
    json::{Error, write_str},
    lay_over,
    sse::{Frame, write_with_data},
};

/// The changes of a message's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndChanges<'a> {
    /// The stop reason.
    pub stop: &'a Stop,
    /// A JSON object that is laid over the usage.
    pub usage: &'a str,
}

/// Appends a received `message_delta` with these changes. One that states no reason gets none, and
/// one without a usage that states none gets none.
///
/// # Errors
/// Fails if the frame's data is not a JSON object.
pub fn write_changed_delta(
    out: &mut Vec<u8>,
    frame: &Frame<'_>,
    changes: &EndChanges<'_>,
) -> Result<(), Error> {
    let event = Event::from_data(frame.event, &frame.data)?;
    let reason = matches!(&event, Event::MessageDelta(delta) if delta.stop_reason.is_some());
    let counts = matches!(&event, Event::MessageDelta(delta) if delta.usage != Default::default());
    let mut over = b"{".to_vec();
    if reason {
        over.extend_from_slice(br#""delta":{"stop_reason":"#);
        write_str(&mut over, changes.stop.name());
        over.push(b'}');
    }
    if changes.usage != "{}" && (reason || counts) {
        over.extend_from_slice(if reason { br#","usage":"# } else { br#""usage":"# });
        over.extend_from_slice(changes.usage.as_bytes());
    }
    over.push(b'}');
    write_with_data(out, frame, &lay_over(&frame.data, &to_text(over))?);
    Ok(())
}

/// Appends a received whole message under another head, with these blocks and changes.
///
/// # Errors
/// Fails if the body is not a JSON object.
pub fn write_changed_message(
    out: &mut Vec<u8>,
    body: &str,
    (id, model): (&str, &str),
    blocks: &[ResponseBlock],
    changes: &EndChanges<'_>,
) -> Result<(), Error> {
    let mut over = br#"{"id":"#.to_vec();
    write_str(&mut over, id);
    over.extend_from_slice(br#","model":"#);
    write_str(&mut over, model);
    over.extend_from_slice(br#","content":"#);
    write_blocks(&mut over, blocks);
    over.extend_from_slice(br#","stop_reason":"#);
    write_str(&mut over, changes.stop.name());
    if changes.usage != "{}" {
        over.extend_from_slice(br#","usage":"#);
        over.extend_from_slice(changes.usage.as_bytes());
    }
    over.push(b'}');
    out.extend_from_slice(lay_over(body, &to_text(over))?.as_bytes());
    Ok(())
}

/// Returns what was written from text as text.
fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}
