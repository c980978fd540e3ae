//! Edits of a JSON body by splicing: bytes that are not edited stay identical.
//!
//! A [`Splice`] collects edits to one body, in any order, and applies them in one copy. It knows
//! JSON's strings, objects and lists. The module of each protocol knows where a line or a message
//! goes. A splice does not judge whether an edit is wise, and its result is only as valid as the
//! JSON given to it.

use std::collections::BTreeSet;
use std::fmt;

use crate::json::{self, Span, Str, write_str};

/// Edits to one body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    edits: Vec<(Span, Vec<u8>)>,
    /// Offsets at which elements were inserted into empty lists.
    filled: BTreeSet<usize>,
}

/// The reason edits cannot be applied: they lie outside of the body, or contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpliceError {
    /// Two edits touch the same bytes.
    Overlap {
        /// Byte offset at which the second edit begins.
        at: usize,
    },
    /// An edit lies outside of the body.
    OutOfRange {
        /// Byte offset at which the edit begins.
        at: usize,
    },
}

impl fmt::Display for SpliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { at } => write!(f, "two edits overlap at byte {at}"),
            Self::OutOfRange { at } => write!(f, "the edit at byte {at} is outside of the body"),
        }
    }
}

impl std::error::Error for SpliceError {}

impl Splice {
    /// Creates a splice without edits.
    #[must_use]
    pub const fn new() -> Self {
        Self { edits: Vec::new(), filled: BTreeSet::new() }
    }

    /// Returns true if there is nothing to edit.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Inserts `bytes` before the byte at `at`. Several insertions at the same offset keep their
    /// order.
    pub fn insert(&mut self, at: usize, bytes: impl Into<Vec<u8>>) {
        self.edits.push((Span::new(at, at), bytes.into()));
    }

    /// Replaces the bytes under `span`.
    pub fn replace(&mut self, span: Span, bytes: impl Into<Vec<u8>>) {
        self.edits.push((span, bytes.into()));
    }

    /// Discards the edits within `span`. An insertion at its end stays.
    pub fn drop_within(&mut self, span: Span) {
        self.edits.retain(|(at, _)| {
            at.end <= span.start && at.start < span.start || at.start >= span.end
        });
    }

    /// Returns the body with all edits made.
    ///
    /// # Errors
    /// Fails if two edits overlap or if an edit lies outside of the body.
    pub fn apply(&self, body: &[u8]) -> Result<Vec<u8>, SpliceError> {
        let added: usize = self.edits.iter().map(|(_, with)| with.len()).sum();
        let out = Vec::with_capacity(body.len() + added);
        if self.edits.is_sorted_by_key(|(span, _)| *span) {
            return apply_sorted_edits(self.edits.iter(), body, out);
        }
        let mut edits: Vec<&(Span, Vec<u8>)> = self.edits.iter().collect();
        // The sort is stable, and an insertion sorts before a replacement that begins at the same
        // byte.
        edits.sort_by_key(|(span, _)| *span);
        apply_sorted_edits(edits.into_iter(), body, out)
    }

    /// Appends text to a JSON string. `span` includes the string's quotes.
    pub(crate) fn append_to_text(&mut self, old: Str<'_>, span: Span, text: &str) {
        let mut inner = Vec::with_capacity(text.len() + 8);
        if !old.is_empty() {
            inner.extend_from_slice(b"\\n\\n");
        }
        json::write_escaped(&mut inner, text);
        self.insert(span.end.saturating_sub(1), inner);
    }

    /// Appends a member to an object that has at least one.
    pub(crate) fn append_member(&mut self, object: Span, name: &str, value: &[u8]) {
        self.append_member_to(object, false, name, value);
    }

    /// Appends a member to an object. `first` is true if the object has none so far.
    pub(crate) fn append_member_to(&mut self, object: Span, first: bool, name: &str, value: &[u8]) {
        let mut bytes = if first { Vec::new() } else { vec![b','] };
        write_str(&mut bytes, name);
        bytes.push(b':');
        bytes.extend_from_slice(value);
        self.insert(object.end.saturating_sub(1), bytes);
    }

    /// Appends an element to a list. `last` is the span of the list's last element.
    pub(crate) fn append_element(&mut self, list: Span, last: Option<Span>, element: &[u8]) {
        match last {
            Some(last) => self.insert(last.end, [b",", element].concat()),
            None => {
                let at = list.end.saturating_sub(1);
                let first = self.filled.insert(at);
                self.insert(at, if first { element.to_vec() } else { [b",", element].concat() });
            }
        }
    }
}

/// Applies edits that are sorted by position.
fn apply_sorted_edits<'e>(
    edits: impl Iterator<Item = &'e (Span, Vec<u8>)>,
    body: &[u8],
    mut out: Vec<u8>,
) -> Result<Vec<u8>, SpliceError> {
    let mut done = 0;
    for (span, with) in edits {
        if span.start < done {
            return Err(SpliceError::Overlap { at: span.start });
        }
        let kept = body.get(done..span.start);
        let (Some(kept), true) = (kept, span.start <= span.end && span.end <= body.len()) else {
            return Err(SpliceError::OutOfRange { at: span.start });
        };
        out.extend_from_slice(kept);
        out.extend_from_slice(with);
        done = span.end;
    }
    out.extend_from_slice(body.get(done..).unwrap_or_default());
    Ok(out)
}

/// Returns `text` as a JSON string.
pub(crate) fn quote_text(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    write_str(&mut out, text);
    out
}
