//! Received events with other numbers and ids.

use crate::{
    Splice,
    json::{Cursor, Error, Kind, Span},
    splice::quote_text,
    sse::{Decoder, find_data_span, write_event},
};

/// The new numbers and ids of an event. `None` leaves a member as it is. Members that the event
/// lacks are not added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renumber<'a> {
    /// `sequence_number`
    pub sequence_number: Option<u64>,
    /// `output_index`
    pub output_index: Option<u32>,
    /// `item_id`, and the `id` of the event's `item`.
    pub item_id: Option<&'a str>,
    /// The `id` of the event's `response`.
    pub response_id: Option<&'a str>,
}

/// Appends a received event with other numbers. All other bytes stay as they are. `raw` is the
/// frame as received. It is rewritten only if its data spans several lines.
///
/// # Errors
/// Fails if the frame's data is not a JSON object.
pub fn write_renumbered_event(
    out: &mut Vec<u8>,
    raw: &[u8],
    numbers: &Renumber<'_>,
) -> Result<(), Error> {
    let Some(span) = find_data_span(raw) else { return write_renumbered_lines(out, raw, numbers) };
    let data = raw.get(span.start..span.end).unwrap_or_default();
    if data.is_empty() {
        out.extend_from_slice(raw);
        return Ok(());
    }
    out.extend_from_slice(raw.get(..span.start).unwrap_or_default());
    out.extend_from_slice(&renumber_data(data, numbers)?);
    out.extend_from_slice(raw.get(span.end..).unwrap_or_default());
    Ok(())
}

/// Handles a frame with several `data:` lines, or none.
fn write_renumbered_lines(
    out: &mut Vec<u8>,
    raw: &[u8],
    numbers: &Renumber<'_>,
) -> Result<(), Error> {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let Some(Ok(frame)) = decoder.next().filter(|f| f.as_ref().is_ok_and(|f| !f.data.is_empty()))
    else {
        out.extend_from_slice(raw);
        return Ok(());
    };
    let data = renumber_data(frame.data.as_bytes(), numbers)?;
    // Only numbers and quoted text were inserted into text, so the check cannot fail.
    write_event(out, frame.event, std::str::from_utf8(&data).unwrap_or_default());
    Ok(())
}

fn renumber_data(data: &[u8], numbers: &Renumber<'_>) -> Result<Vec<u8>, Error> {
    let mut cursor = Cursor::from_bytes(data)?;
    let mut splice = Splice::new();
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "sequence_number" => {
                replace_number(&mut splice, cursor, u64::MAX, numbers.sequence_number)?
            }
            "output_index" => {
                let index = numbers.output_index.map(u64::from);
                replace_number(&mut splice, cursor, u64::from(u32::MAX), index)?;
            }
            "item_id" => replace_id(&mut splice, cursor, numbers.item_id)?,
            "item" => replace_member_id(&mut splice, cursor, numbers.item_id)?,
            "response" => replace_member_id(&mut splice, cursor, numbers.response_id)?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    cursor.expect_end()?;
    // The spans lie within this text and do not overlap, so there is no error to report.
    Ok(splice.apply(data).unwrap_or_default())
}

/// Replaces a value that the event reader accepts as a number up to `limit`. Any other value stays.
fn replace_number(
    splice: &mut Splice,
    cursor: &mut Cursor<'_>,
    limit: u64,
    with: Option<u64>,
) -> Result<(), Error> {
    let span: Span = cursor.clone().skip_value()?;
    let old = cursor.read_uint_or_skip()?.filter(|old| *old <= limit);
    if let (Some(_), Some(with)) = (old, with) {
        splice.replace(span, with.to_string());
    }
    Ok(())
}

fn replace_id(
    splice: &mut Splice,
    cursor: &mut Cursor<'_>,
    with: Option<&str>,
) -> Result<(), Error> {
    if let (Some((_, span)), Some(with)) = (cursor.read_string_or_skip()?, with) {
        splice.replace(span, quote_text(with));
    }
    Ok(())
}

fn replace_member_id(
    splice: &mut Splice,
    cursor: &mut Cursor<'_>,
    with: Option<&str>,
) -> Result<(), Error> {
    if with.is_none() || cursor.peek()? != Kind::Object {
        return Ok(());
    }
    cursor.read_members(|cursor, member| match &*member.key.unescape() {
        "id" => replace_id(splice, cursor, with),
        _ => Ok(()),
    })?;
    Ok(())
}
