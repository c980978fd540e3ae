//! Content that arrives as a list of parts, as Mistral's reasoning models send it.

use crate::json::{Cursor, Error, Kind, Str, write_str};

/// A part of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponsePart {
    /// `text`
    Text(String),
    /// `thinking`: the joined text of its parts.
    Thinking(String),
    /// Any other part: a JSON object as received.
    Other(String),
}

impl ResponsePart {
    /// Appends the part as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_text_part(out, text),
            Self::Thinking(text) => {
                out.extend_from_slice(br#"{"type":"thinking","thinking":["#);
                write_text_part(out, text);
                out.extend_from_slice(b"]}");
            }
            Self::Other(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

fn write_text_part(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(br#"{"type":"text","text":"#);
    write_str(out, text);
    out.push(b'}');
}

/// A piece of content in parts, as it appears in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The text of a `text` part.
    Text(Str<'a>),
    /// A text of a `thinking` part, which may hold several.
    Thinking(Str<'a>),
    /// Any other part: a JSON object as received.
    Other(&'a str),
}

/// Reads a list of parts that was scanned before.
#[must_use]
pub fn read_pieces(list: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // There is no error to report.
    let _ = Cursor::new(list).read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            add_part_pieces(&mut pieces, cursor)?;
        }
        Ok::<_, Error>(())
    });
    pieces
}

/// Reads a list into parts of a message.
pub(super) fn read_parts(list: &str) -> impl Iterator<Item = ResponsePart> {
    read_pieces(list).into_iter().map(|piece| match piece {
        Piece::Text(text) => ResponsePart::Text(text.unescape().into_owned()),
        Piece::Thinking(text) => ResponsePart::Thinking(text.unescape().into_owned()),
        Piece::Other(raw) => ResponsePart::Other(raw.to_owned()),
    })
}

/// Appends a part, joining text to text and thinking to thinking.
pub(super) fn push_part(parts: &mut Vec<ResponsePart>, part: ResponsePart) {
    match (parts.last_mut(), part) {
        (Some(ResponsePart::Text(old)), ResponsePart::Text(more))
        | (Some(ResponsePart::Thinking(old)), ResponsePart::Thinking(more)) => old.push_str(&more),
        (_, part) => parts.push(part),
    }
}

fn add_part_pieces<'a>(pieces: &mut Vec<Piece<'a>>, cursor: &mut Cursor<'a>) -> Result<(), Error> {
    let (mut kind, mut said, mut thought) = (Str::default(), None, None);
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_string_or_skip()?.unwrap_or_default().0,
            "text" => said = cursor.read_string_or_skip()?.map(|(text, _)| text),
            "thinking" => thought = Some(read_thinking(cursor)?),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    match (&*kind.unescape(), said, thought) {
        ("text", Some(text), _) => pieces.push(Piece::Text(text)),
        ("thinking", _, Some(texts)) => pieces.extend(texts.into_iter().map(Piece::Thinking)),
        _ => pieces.push(Piece::Other(span.slice_of(whole))),
    }
    Ok(())
}

/// Reads the texts of a `thinking` member: a string, or a list of text parts.
fn read_thinking<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Str<'a>>, Error> {
    let mut texts = Vec::new();
    if cursor.peek()? != Kind::Array {
        texts.extend(cursor.read_string_or_skip()?.map(|(text, _)| text));
        return Ok(texts);
    }
    cursor.read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            cursor.read_members(|cursor, member| {
                if let ("text", Some((text, _))) =
                    (&*member.key.unescape(), cursor.read_string_or_skip()?)
                {
                    texts.push(text);
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(texts)
}
