//! Content that arrives as a list of parts, as Mistral's reasoning models send it.

use crate::json::{Cursor, Error, Kind, Str, write_str};

/// A part of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// `text`
    Text(String),
    /// `thinking`: the joined text of its parts.
    Thinking(String),
    /// Any other part: a JSON object as received.
    Other(String),
}

impl Part {
    /// Appends the part as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => write_text(out, text),
            Self::Thinking(text) => {
                out.extend_from_slice(br#"{"type":"thinking","thinking":["#);
                write_text(out, text);
                out.extend_from_slice(b"]}");
            }
            Self::Other(raw) => out.extend_from_slice(raw.as_bytes()),
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
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
pub fn pieces(list: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    // There is no error to report.
    let _ = Cursor::new(list).elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            add(&mut pieces, cursor)?;
        }
        Ok::<_, Error>(())
    });
    pieces
}

/// Reads a list into parts of a message.
pub(super) fn read(list: &str) -> impl Iterator<Item = Part> {
    pieces(list).into_iter().map(|piece| match piece {
        Piece::Text(text) => Part::Text(text.unescape().into_owned()),
        Piece::Thinking(text) => Part::Thinking(text.unescape().into_owned()),
        Piece::Other(raw) => Part::Other(raw.to_owned()),
    })
}

/// Appends a part, joining text to text and thinking to thinking.
pub(super) fn push(parts: &mut Vec<Part>, part: Part) {
    match (parts.last_mut(), part) {
        (Some(Part::Text(old)), Part::Text(more))
        | (Some(Part::Thinking(old)), Part::Thinking(more)) => old.push_str(&more),
        (_, part) => parts.push(part),
    }
}

fn add<'a>(pieces: &mut Vec<Piece<'a>>, cursor: &mut Cursor<'a>) -> Result<(), Error> {
    let (mut kind, mut said, mut thought) = (Str::default(), None, None);
    let whole = cursor.text();
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.string_or_skip()?.unwrap_or_default().0,
            "text" => said = cursor.string_or_skip()?.map(|(text, _)| text),
            "thinking" => thought = Some(thinking(cursor)?),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    match (&*kind.unescape(), said, thought) {
        ("text", Some(text), _) => pieces.push(Piece::Text(text)),
        ("thinking", _, Some(texts)) => pieces.extend(texts.into_iter().map(Piece::Thinking)),
        _ => pieces.push(Piece::Other(span.of(whole))),
    }
    Ok(())
}

/// Reads the texts of a `thinking` member: a string, or a list of text parts.
fn thinking<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Str<'a>>, Error> {
    let mut texts = Vec::new();
    if cursor.peek()? != Kind::Array {
        texts.extend(cursor.string_or_skip()?.map(|(text, _)| text));
        return Ok(texts);
    }
    cursor.elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            cursor.members(|cursor, member| {
                if let ("text", Some((text, _))) =
                    (&*member.key.unescape(), cursor.string_or_skip()?)
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
