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
pub(super) fn looked(bytes: usize) {
    super::tests::LOOKED.with(|count| count.set(count.get() + bytes));
}

#[cfg(not(test))]
pub(super) const fn looked(_: usize) {}

/// The result of reading a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fed {
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
pub(super) struct Markup {
    /// Offset of its `<`.
    pub(super) start: usize,
    name: (usize, usize),
    closing: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
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

impl Markup {
    pub(super) const fn new(start: usize) -> Self {
        Self { start, name: (start + 1, start + 1), closing: false, phase: Phase::Lead }
    }

    /// Returns the name, once it is read.
    pub(super) fn name<'w>(&self, view: View<'w>) -> &'w str {
        view.get(self.name.0, self.name.1)
    }

    /// Returns the offsets of the name.
    pub(super) const fn name_at(&self) -> (usize, usize) {
        self.name
    }

    /// Continues reading at `pos`, which is after the bytes read so far. `wanted` judges the name,
    /// or the part of it available (`whole` is false). An unwanted tag is given up at once.
    pub(super) fn feed(
        &mut self,
        view: View<'_>,
        pos: &mut usize,
        wanted: impl Fn(&str, bool) -> bool,
    ) -> Fed {
        for &byte in view.bytes(*pos) {
            looked(1);
            if *pos - self.start >= MAX_TAG {
                return Fed::Not;
            }
            if matches!(self.phase, Phase::Name) && !in_name(byte) {
                self.name.1 = *pos;
                if !wanted(self.name(view), true) {
                    return Fed::Not;
                }
            }
            match self.step(byte, *pos) {
                Fed::More => *pos += 1,
                Fed::Not => return Fed::Not,
                done => {
                    *pos += 1;
                    return done;
                }
            }
        }
        looked(1 + view.end().min(self.name.0 + MAX_NAME) - self.start);
        let unnamed = matches!(self.phase, Phase::Name | Phase::Lead);
        if unnamed && !wanted(view.get(self.name.0, view.end()), false) {
            return Fed::Not;
        }
        Fed::More
    }

    fn step(&mut self, byte: u8, at: usize) -> Fed {
        let space = byte.is_ascii_whitespace();
        self.phase = match (self.phase, byte) {
            (Phase::Lead, b'/') if !self.closing => {
                self.closing = true;
                self.name = (at + 1, at + 1);
                Phase::Lead
            }
            (Phase::Lead, _) if in_name(byte) => Phase::Name,
            (Phase::Name, _) if in_name(byte) => Phase::Name,
            (Phase::Name | Phase::Gap, b'>') if self.closing => return Fed::Close,
            (Phase::Name | Phase::Gap | Phase::Bare, b'>') => return Fed::Open { empty: false },
            (Phase::Slash, b'>') => return Fed::Open { empty: true },
            (Phase::Name | Phase::Gap | Phase::Bare, b'/') if !self.closing => Phase::Slash,
            (Phase::Name | Phase::Gap | Phase::Bare, _) if space => Phase::Gap,
            (Phase::Gap, _) if in_name(byte) && !self.closing => Phase::Key,
            (Phase::Key, _) if in_name(byte) => Phase::Key,
            (Phase::Key | Phase::Equals, b'=') => Phase::Before,
            (Phase::Key | Phase::Equals, _) if space => Phase::Equals,
            (Phase::Before, _) if space => Phase::Before,
            (Phase::Before, b'"' | b'\'') => Phase::Quoted(byte),
            (Phase::Before | Phase::Bare, _) if in_name(byte) => Phase::Bare,
            (Phase::Quoted(quote), _) if byte == quote => Phase::Gap,
            (Phase::Quoted(_), _) if byte != b'<' => return Fed::More,
            _ => return Fed::Not,
        };
        Fed::More
    }
}

/// Returns true if a byte may be part of the name of a tag or attribute.
pub(super) const fn in_name(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'<' | b'>' | b'/' | b'=' | b'"' | b'\'' | b'`')
}

/// Returns the attributes of an opening tag that was read before.
pub(super) fn attributes(opening: &str) -> impl Iterator<Item = (&str, &str)> {
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
