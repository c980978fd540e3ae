//! Editing received chunks in place: bytes that are not edited stay identical.

use std::collections::BTreeSet;

use super::write_message_object;
use crate::{
    Splice,
    chat::{
        ResponseMessage,
        chunk::{CallDelta, read_call},
    },
    json::{Cursor, Error, Kind, Span, write_escaped},
    overlay::lay_over_object,
    splice::quote_text,
    sse::{Decoder, find_data_span, write_event},
};

/// The edits of a chunk, apart from its calls. Members that the chunk lacks are not added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewrite<'a> {
    /// The new `id`.
    pub id: Option<&'a str>,
    /// The new `created`.
    pub created: Option<u64>,
    /// The new `model`.
    pub model: Option<&'a str>,
    /// JSON that replaces every `finish_reason` except for null.
    pub finish_reason: Option<&'a str>,
    /// A JSON object that is laid over the usage, in whichever member the vendor reports it.
    pub usage: Option<&'a str>,
    /// The edit of the content.
    pub content: ContentEdit<'a>,
    /// Text to insert before the chunk's text, if that is not empty.
    pub before_text: &'a str,
}

/// The edit of the content of a chunk or of a whole completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEdit<'a> {
    /// The content stays, except for its calls and for text that is inserted.
    #[default]
    Keep,
    /// Every `delta` is emptied.
    Empty,
    /// The content of the first choice is that of this message, and other choices are removed.
    /// Members that say nothing, such as `"refusal":null`, stay.
    Message(&'a ResponseMessage),
}

/// The edit of a piece of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEdit {
    /// The piece stays as it is.
    Keep,
    /// The piece gets this index, even if it had none.
    At(u32),
    /// The piece is removed.
    Out,
}

/// Appends a received chunk in which pieces of calls get other indexes or are removed. All other
/// bytes stay as they are. A frame without a chunk is appended unchanged. `raw` is the frame as
/// received. It is rewritten only if its data spans several lines. `place` is called for every
/// piece in order.
///
/// # Errors
/// Fails if the frame's data is not JSON.
pub fn write_reindexed(
    out: &mut Vec<u8>,
    raw: &[u8],
    place: impl FnMut(&CallDelta<'_>) -> CallEdit,
) -> Result<(), Error> {
    write_rewritten(out, raw, &Rewrite::default(), place)
}

/// Appends a received chunk with another `id`, as [`write_reindexed`] does.
///
/// # Errors
/// Fails if the frame's data is not JSON.
pub fn write_with_id(out: &mut Vec<u8>, raw: &[u8], id: &str) -> Result<(), Error> {
    let rewrite = Rewrite { id: Some(id), ..Rewrite::default() };
    write_rewritten(out, raw, &rewrite, |_| CallEdit::Keep)
}

/// Appends a received chunk with all edits, as [`write_reindexed`] does.
///
/// # Errors
/// Fails if the frame's data is not JSON.
pub fn write_rewritten(
    out: &mut Vec<u8>,
    raw: &[u8],
    rewrite: &Rewrite<'_>,
    place: impl FnMut(&CallDelta<'_>) -> CallEdit,
) -> Result<(), Error> {
    if let Some(span) = find_data_span(raw) {
        let data = raw.get(span.start..span.end).unwrap_or_default();
        let changed = rewrite_data(data, rewrite, place)?;
        out.extend_from_slice(raw.get(..span.start).unwrap_or_default());
        out.extend_from_slice(changed.as_deref().unwrap_or(data));
        out.extend_from_slice(raw.get(span.end..).unwrap_or_default());
        return Ok(());
    }
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    if let Some(Ok(frame)) = decoder.next()
        && !frame.data.is_empty()
        && let Some(changed) = rewrite_data(frame.data.as_bytes(), rewrite, place)?
    {
        // Only text was inserted into text.
        write_event(out, frame.event, std::str::from_utf8(&changed).unwrap_or_default());
        return Ok(());
    }
    out.extend_from_slice(raw);
    Ok(())
}

/// Appends a received completion with all edits. All other bytes stay as they are.
///
/// # Errors
/// Fails if the body is not a JSON object.
pub fn write_rewritten_body(
    out: &mut Vec<u8>,
    body: &[u8],
    rewrite: &Rewrite<'_>,
) -> Result<(), Error> {
    let changed = rewrite_data(body, rewrite, |_| CallEdit::Keep)?;
    out.extend_from_slice(changed.as_deref().unwrap_or(body));
    Ok(())
}

/// Appends a received chunk with the piece of a single call, the `nth` in it. All members of the
/// piece stay as they came, and so do those of the chunk, except for the role and other content,
/// its usage and its end. Returns false and appends nothing if there is no such piece.
pub fn write_call_alone(out: &mut Vec<u8>, raw: &[u8], nth: usize) -> bool {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let Some(Ok(frame)) = decoder.next() else { return false };
    let Ok(Some(alone)) = keep_call(frame.data.as_bytes(), nth) else { return false };
    // Only whole members were cut out of text.
    write_event(out, frame.event, std::str::from_utf8(&alone).unwrap_or_default());
    true
}

/// Returns the data of a chunk with one piece of a call; `None` if there is no such piece.
fn keep_call(data: &[u8], nth: usize) -> Result<Option<Vec<u8>>, Error> {
    let mut cursor = Cursor::from_bytes(data)?;
    let (mut splice, mut gone, mut pieces) = (Splice::new(), Vec::new(), 0);
    let mut keep_delta = |cursor: &mut Cursor<'_>| {
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "tool_calls" if cursor.peek()? == Kind::Array => {
                    cursor.read_elements(|cursor| {
                        let piece = cursor.skip_value()?;
                        if pieces != nth {
                            gone.push(piece);
                        }
                        pieces += 1;
                        Ok::<_, Error>(())
                    })?;
                }
                _ => gone.push(Span::new(member.span.start, cursor.skip_value()?.end)),
            }
            Ok::<_, Error>(())
        })
    };
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "usage" => splice.replace(cursor.skip_value()?, "null"),
            "choices" if cursor.peek()? == Kind::Array => {
                cursor.read_elements(|cursor| {
                    if cursor.peek()? != Kind::Object {
                        return Ok(());
                    }
                    cursor.read_members(|cursor, member| {
                        match &*member.key.unescape() {
                            "delta" if cursor.peek()? == Kind::Object => {
                                keep_delta(cursor)?;
                            }
                            "finish_reason" | "native_finish_reason" | "usage" => {
                                splice.replace(cursor.skip_value()?, "null");
                            }
                            _ => {}
                        }
                        Ok::<_, Error>(())
                    })?;
                    Ok::<_, Error>(())
                })?;
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    if nth >= pieces {
        return Ok(None);
    }
    for cut in merge_cuts(data, &gone) {
        splice.replace(cut, "");
    }
    Ok(splice.apply(data).ok())
}

/// Returns the data with all edits, or `None` if there is nothing to edit.
fn rewrite_data(
    data: &[u8],
    rewrite: &Rewrite<'_>,
    place: impl FnMut(&CallDelta<'_>) -> CallEdit,
) -> Result<Option<Vec<u8>>, Error> {
    if data.trim_ascii().is_empty() || data.trim_ascii() == b"[DONE]" {
        return Ok(None);
    }
    let mut cursor = Cursor::from_bytes(data)?;
    let mut editor = ChunkEditor { rewrite, place, splice: Splice::new() };
    editor.edit_chunk(&mut cursor)?;
    cursor.expect_end()?;
    if editor.splice.is_empty() {
        return Ok(None);
    }
    // Every edit replaces a separate value, so edits do not overlap.
    Ok(editor.splice.apply(data).ok())
}

/// Walks a chunk and records the edits.
struct ChunkEditor<'r, F> {
    rewrite: &'r Rewrite<'r>,
    place: F,
    splice: Splice,
}

impl<F: FnMut(&CallDelta<'_>) -> CallEdit> ChunkEditor<'_, F> {
    fn edit_chunk(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let rewrite = self.rewrite;
        cursor.read_members(|cursor, member| {
            let value = match &*member.key.unescape() {
                "id" => rewrite.id.map(quote_text),
                "model" => rewrite.model.map(quote_text),
                "created" => rewrite.created.map(|created| created.to_string().into_bytes()),
                "choices" => return self.edit_choices(cursor),
                "usage" => return self.edit_usage(cursor),
                "x_groq" => return self.edit_groq(cursor),
                _ => None,
            };
            if let Some(value) = value {
                self.splice.replace(cursor.skip_value()?, value);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn edit_choices(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Array {
            return Ok(());
        }
        let text = cursor.text();
        let (mut gone, mut first) = (Vec::new(), true);
        cursor.read_elements(|cursor| {
            let only_first = matches!(self.rewrite.content, ContentEdit::Message(_));
            if only_first && !std::mem::take(&mut first) {
                gone.push(cursor.skip_value()?);
                return Ok(());
            }
            if cursor.peek()? != Kind::Object {
                return Ok(());
            }
            cursor.read_members(|cursor, member| match &*member.key.unescape() {
                "delta" | "message" => self.edit_content_object(cursor),
                "usage" => self.edit_usage(cursor),
                "finish_reason" => {
                    if let (Some(json), true) =
                        (self.rewrite.finish_reason, cursor.peek()? != Kind::Null)
                    {
                        self.splice.replace(cursor.skip_value()?, json);
                    }
                    Ok(())
                }
                _ => Ok(()),
            })?;
            Ok::<_, Error>(())
        })?;
        for cut in merge_cuts(text.as_bytes(), &gone) {
            self.splice.replace(cut, "");
        }
        Ok(())
    }

    fn edit_groq(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? == Kind::Object {
            cursor.read_members(|cursor, member| match &*member.key.unescape() {
                "usage" => self.edit_usage(cursor),
                _ => Ok(()),
            })?;
        }
        Ok(())
    }

    fn edit_usage(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        match self.rewrite.usage {
            Some(usage) if cursor.peek()? == Kind::Object => {
                lay_over_object(&mut self.splice, cursor, usage)
            }
            _ => Ok(()),
        }
    }

    fn edit_content_object(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        match self.rewrite.content {
            ContentEdit::Keep => self.edit_delta(cursor),
            ContentEdit::Empty => {
                self.splice.replace(cursor.skip_value()?, "{}");
                Ok(())
            }
            ContentEdit::Message(message) => self.edit_message(cursor, message),
        }
    }

    /// Lays the content of `message` over the next value, and cuts out other content.
    fn edit_message(
        &mut self,
        cursor: &mut Cursor<'_>,
        message: &ResponseMessage,
    ) -> Result<(), Error> {
        let mut written = Vec::new();
        write_message_object(&mut written, message);
        // It is written from text.
        let written = String::from_utf8(written).unwrap_or_default();
        let mut wanted = BTreeSet::new();
        Cursor::new(&written).read_members(|_, member| {
            wanted.insert(member.key.unescape().into_owned());
            Ok::<_, Error>(())
        })?;
        let text = cursor.text();
        let (mut gone, mut kept) = (Vec::new(), 0);
        if cursor.peek()? == Kind::Object {
            cursor.clone().read_members(|cursor, member| {
                let value = cursor.skip_value()?;
                let nothing = matches!(value.slice_of(text), "null" | "\"\"" | "[]" | "{}");
                if nothing || wanted.contains(&*member.key.unescape()) {
                    kept += 1;
                } else {
                    gone.push(Span::new(member.span.start, value.end));
                }
                Ok::<_, Error>(())
            })?;
        }
        if kept == 0 {
            self.splice.replace(cursor.skip_value()?, written);
            return Ok(());
        }
        lay_over_object(&mut self.splice, cursor, &written)?;
        for cut in merge_cuts(text.as_bytes(), &gone) {
            self.splice.replace(cut, "");
        }
        Ok(())
    }

    fn edit_delta(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        if cursor.peek()? != Kind::Object {
            return Ok(());
        }
        cursor.read_members(|cursor, member| match &*member.key.unescape() {
            "content" => self.edit_content(cursor),
            "tool_calls" => self.edit_calls(cursor, member.span),
            _ => Ok(()),
        })?;
        Ok(())
    }

    fn edit_content(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Error> {
        let before = self.rewrite.before_text;
        if let (Some((text, span)), false) = (cursor.read_string_or_skip()?, before.is_empty())
            && !text.is_empty()
        {
            let mut inner = Vec::new();
            write_escaped(&mut inner, before);
            self.splice.insert(span.start + 1, inner);
        }
        Ok(())
    }

    /// Edits a list of calls. `key` is the span of the member's key.
    fn edit_calls(&mut self, cursor: &mut Cursor<'_>, key: Span) -> Result<(), Error> {
        if cursor.peek()? != Kind::Array {
            return Ok(());
        }
        let text = cursor.text();
        let (mut gone, mut kept) = (Vec::new(), 0);
        let list = cursor.read_elements(|cursor| {
            if cursor.peek()? != Kind::Object {
                kept += 1;
                return Ok(());
            }
            let call = read_call(&mut cursor.clone())?;
            let span = cursor.clone().skip_value()?;
            match (self.place)(&call) {
                CallEdit::Out => {
                    gone.push(span);
                    cursor.skip_value()?;
                    return Ok(());
                }
                CallEdit::At(index) => set_index(&mut self.splice, cursor, index)?,
                CallEdit::Keep => {}
            }
            kept += 1;
            Ok::<_, Error>(())
        })?;
        let gone = match (gone.is_empty(), kept) {
            // If a list loses its last element, the member is removed, because clients fail on an
            // empty list.
            (false, 0) => vec![Span::new(key.start, list.end)],
            _ => gone,
        };
        for cut in merge_cuts(text.as_bytes(), &gone) {
            self.splice.replace(cut, "");
        }
        Ok(())
    }
}

/// Sets the index of the next call object.
fn set_index(edits: &mut Splice, cursor: &mut Cursor<'_>, index: u32) -> Result<(), Error> {
    let mut old = Vec::new();
    let mut any = false;
    let span = cursor.read_members(|cursor, member| {
        any = true;
        if member.key == "index" {
            old.push(cursor.skip_value()?);
        }
        Ok::<_, Error>(())
    })?;
    if old.is_empty() {
        let comma = if any { "," } else { "" };
        edits.insert(span.start + 1, format!(r#""index":{index}{comma}"#));
    }
    for old in old {
        edits.replace(old, index.to_string());
    }
    Ok(())
}

/// Returns the spans to cut in order to remove `spans`: neighbours merged, each with one comma.
pub(super) fn merge_cuts(text: &[u8], spans: &[Span]) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut runs: Vec<Span> = Vec::new();
    for span in sorted {
        let between = |run: &Span| text.get(run.end..span.start).unwrap_or_default();
        match runs.last_mut() {
            Some(run) if between(run).trim_ascii() == b"," => run.end = span.end,
            _ => runs.push(span),
        }
    }
    runs.into_iter().map(|run| extend_by_comma(text, run)).collect()
}

/// Extends the run by the comma before it or, if the run is first, by the comma after it.
fn extend_by_comma(text: &[u8], run: Span) -> Span {
    let before = text.get(..run.start).unwrap_or_default().trim_ascii_end();
    if before.ends_with(b",") {
        return Span::new(before.len() - 1, run.end);
    }
    let after = text.get(run.end..).unwrap_or_default();
    let space = after.len() - after.trim_ascii_start().len();
    let comma = after.get(space) == Some(&b',');
    Span::new(run.start, if comma { run.end + space + 1 } else { run.end })
}
