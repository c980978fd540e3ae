//! A tag reader that consumes one byte at a time from a `<` on.
//!
//! It is strict, so that prose with angle brackets remains prose: attributes have values, values
//! contain no `<`, and a tag is at most [`MAX_TAG`] bytes long. Since a tag contains no second `<`,
//! giving up on one costs no more than its own length.

use super::{MAX_NAME, MAX_TAG};

/// A part of the text, addressed by offsets into the whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'w> {
    /// The part.
    pub(super) text: &'w str,
    /// Offset of the part in the whole.
    pub(super) base: usize,
}

impl<'w> View<'w> {
    pub(super) const fn end(&self) -> usize {
        self.base + self.text.len()
    }

    /// Returns the text between two offsets, or an empty string if they lie outside of this part.
    pub(super) fn get(&self, from: usize, to: usize) -> &'w str {
        let range = from.saturating_sub(self.base)..to.saturating_sub(self.base);
        self.text.get(range).unwrap_or_default()
    }

    /// Returns the bytes from an offset on.
    pub(super) fn bytes(&self, from: usize) -> &'w [u8] {
        self.text.as_bytes().get(from.saturating_sub(self.base)..).unwrap_or_default()
    }

    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        self.bytes(at).first().copied()
    }
}

/// Counts bytes that are examined or moved, so that tests can check that the total is linear.
#[cfg(test)]
pub(super) fn count_examined(bytes: usize) {
    super::tests::LOOKED.with(|count| count.set(count.get() + bytes));
}

#[cfg(not(test))]
pub(super) const fn count_examined(_: usize) {}

/// The result of reading a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagProgress {
    /// The text ends before the tag does.
    More,
    /// Not a tag, or not a wanted one.
    Not,
    /// `<name …>`, or `<name …/>`
    Open {
        /// True if the tag closes itself.
        empty: bool,
    },
    /// `</name>`
    Close,
}

/// A tag that is being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct TagReader {
    /// Offset of its `<`.
    pub(super) start: usize,
    name: (usize, usize),
    closing: bool,
    phase: TagState,
}

#[derive(Clone, Copy, Debug)]
enum TagState {
    /// After the `<`.
    Lead,
    Name,
    /// Between attributes. In a closing tag, between the name and `>`.
    Gap,
    /// In an attribute's name.
    Key,
    /// Between an attribute's name and `=`.
    Equals,
    /// Between `=` and the value.
    Before,
    Quoted(u8),
    Bare,
    /// After a `/`: `>` must follow.
    Slash,
}

impl TagReader {
    pub(super) const fn new(start: usize) -> Self {
        Self { start, name: (start + 1, start + 1), closing: false, phase: TagState::Lead }
    }

    /// Returns the name, once it is read.
    pub(super) fn name<'w>(&self, view: View<'w>) -> &'w str {
        view.get(self.name.0, self.name.1)
    }

    /// Returns the offsets of the name.
    pub(super) const fn name_range(&self) -> (usize, usize) {
        self.name
    }

    /// Continues reading at `pos`, which is after the bytes read so far. `wanted` judges the name,
    /// or the part of it available (`whole` is false). An unwanted tag is given up at once.
    pub(super) fn feed_view(
        &mut self,
        view: View<'_>,
        pos: &mut usize,
        wanted: impl Fn(&str, bool) -> bool,
    ) -> TagProgress {
        for &byte in view.bytes(*pos) {
            count_examined(1);
            if *pos - self.start >= MAX_TAG {
                return TagProgress::Not;
            }
            if matches!(self.phase, TagState::Name) && !is_name_byte(byte) {
                self.name.1 = *pos;
                if !wanted(self.name(view), true) {
                    return TagProgress::Not;
                }
            }
            match self.step_byte(byte, *pos) {
                TagProgress::More => *pos += 1,
                TagProgress::Not => return TagProgress::Not,
                done => {
                    *pos += 1;
                    return done;
                }
            }
        }
        count_examined(1 + view.end().min(self.name.0 + MAX_NAME) - self.start);
        let unnamed = matches!(self.phase, TagState::Name | TagState::Lead);
        if unnamed && !wanted(view.get(self.name.0, view.end()), false) {
            return TagProgress::Not;
        }
        TagProgress::More
    }

    fn step_byte(&mut self, byte: u8, at: usize) -> TagProgress {
        let space = byte.is_ascii_whitespace();
        self.phase = match (self.phase, byte) {
            (TagState::Lead, b'/') if !self.closing => {
                self.closing = true;
                self.name = (at + 1, at + 1);
                TagState::Lead
            }
            (TagState::Lead, _) if is_name_byte(byte) => TagState::Name,
            (TagState::Name, _) if is_name_byte(byte) => TagState::Name,
            (TagState::Name | TagState::Gap, b'>') if self.closing => return TagProgress::Close,
            (TagState::Name | TagState::Gap | TagState::Bare, b'>') => {
                return TagProgress::Open { empty: false };
            }
            (TagState::Slash, b'>') => return TagProgress::Open { empty: true },
            (TagState::Name | TagState::Gap | TagState::Bare, b'/') if !self.closing => {
                TagState::Slash
            }
            (TagState::Name | TagState::Gap | TagState::Bare, _) if space => TagState::Gap,
            (TagState::Gap, _) if is_name_byte(byte) && !self.closing => TagState::Key,
            (TagState::Key, _) if is_name_byte(byte) => TagState::Key,
            (TagState::Key | TagState::Equals, b'=') => TagState::Before,
            (TagState::Key | TagState::Equals, _) if space => TagState::Equals,
            (TagState::Before, _) if space => TagState::Before,
            (TagState::Before, b'"' | b'\'') => TagState::Quoted(byte),
            (TagState::Before | TagState::Bare, _) if is_name_byte(byte) => TagState::Bare,
            (TagState::Quoted(quote), _) if byte == quote => TagState::Gap,
            (TagState::Quoted(_), _) if byte != b'<' => return TagProgress::More,
            _ => return TagProgress::Not,
        };
        TagProgress::More
    }
}

/// Returns true if a byte may be part of the name of a tag or attribute.
pub(super) const fn is_name_byte(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'<' | b'>' | b'/' | b'=' | b'"' | b'\'' | b'`')
}

/// Returns the attributes of an opening tag that was read before.
pub(super) fn split_attributes(opening: &str) -> impl Iterator<Item = (&str, &str)> {
    let name_end = opening.find(|c: char| c.is_ascii_whitespace()).unwrap_or(opening.len());
    let inside = opening.get(name_end..).unwrap_or_default().trim_end_matches('>');
    let mut rest = inside;
    std::iter::from_fn(move || {
        let (key, value) = rest.split_once('=')?;
        let value = value.trim_ascii_start();
        let (value, after) = match value.as_bytes().first()? {
            b'"' => value.get(1..)?.split_once('"')?,
            b'\'' => value.get(1..)?.split_once('\'')?,
            _ => {
                let end = value.find(|c: char| c.is_ascii_whitespace() || c == '/');
                value.split_at(end.unwrap_or(value.len()))
            }
        };
        rest = after;
        Some((key.trim_ascii(), value))
    })
}
