//! Content that comes as a list of parts, as Mistral's reasoning models send it.

use crate::json::{Cursor, Error, Kind, Str, write_str};

/// One part of a response's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// `text`
    Text(String),
    /// `thinking`: the text of its parts.
    Thinking(String),
    /// Any other: a JSON object as received.
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

/// Reads a list of parts that was scanned before.
pub(super) fn read(list: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    // There is no error to report.
    let _ = Cursor::new(list).elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            parts.push(part(cursor)?);
        }
        Ok::<_, Error>(())
    });
    parts
}

/// Adds a part behind those there are: text to text, thinking to thinking.
pub(super) fn push(parts: &mut Vec<Part>, part: Part) {
    match (parts.last_mut(), part) {
        (Some(Part::Text(old)), Part::Text(more))
        | (Some(Part::Thinking(old)), Part::Thinking(more)) => old.push_str(&more),
        (_, part) => parts.push(part),
    }
}

fn part(cursor: &mut Cursor<'_>) -> Result<Part, Error> {
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
    Ok(match (&*kind.unescape(), said, thought) {
        ("text", Some(text), _) => Part::Text(text.unescape().into_owned()),
        ("thinking", _, Some(text)) => Part::Thinking(text),
        _ => Part::Other(span.of(whole).to_owned()),
    })
}

/// The text of a `thinking` member: a string, or a list of text parts.
fn thinking(cursor: &mut Cursor<'_>) -> Result<String, Error> {
    let mut out = String::new();
    if cursor.peek()? != Kind::Array {
        if let Some((text, _)) = cursor.string_or_skip()? {
            text.push_to(&mut out);
        }
        return Ok(out);
    }
    cursor.elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            cursor.members(|cursor, member| {
                if let ("text", Some((text, _))) =
                    (&*member.key.unescape(), cursor.string_or_skip()?)
                {
                    text.push_to(&mut out);
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(out)
}
