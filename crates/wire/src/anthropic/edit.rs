//! Editing a request body by splicing: what is not edited stays byte-identical.
//!
//! A [`Splice`] collects edits against one body, in any order, and applies them in one copy. Its
//! helpers know where a line, a text block, a message or a top-level member goes. They do not know
//! whether an edit is wise, and the result is only as valid as the JSON handed in.

#[cfg(test)]
mod tests;

use std::fmt;

use super::request::{Block, BlockKind, Content, Message, Request, ResultContent};
use crate::json::{self, Span, Str, write_str};

/// Edits to one body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splice {
    edits: Vec<(Span, Vec<u8>)>,
}

/// Why edits cannot be applied: they are not of this body, or not of one mind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpliceError {
    /// Two edits touch the same bytes.
    Overlap {
        /// Byte offset where the second one begins.
        at: usize,
    },
    /// An edit lies outside of the body.
    OutOfRange {
        /// Byte offset where it begins.
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
    /// No edits.
    #[must_use]
    pub const fn new() -> Self {
        Self { edits: Vec::new() }
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Inserts `bytes` before the byte at `at`. Several insertions at one place keep their order.
    pub fn insert(&mut self, at: usize, bytes: impl Into<Vec<u8>>) {
        self.edits.push((Span::new(at, at), bytes.into()));
    }

    /// Replaces the bytes under `span`.
    pub fn replace(&mut self, span: Span, bytes: impl Into<Vec<u8>>) {
        self.edits.push((span, bytes.into()));
    }

    /// The body with all edits made.
    ///
    /// # Errors
    /// When two edits overlap or one is outside of the body.
    pub fn apply(&self, body: &[u8]) -> Result<Vec<u8>, SpliceError> {
        let mut edits: Vec<&(Span, Vec<u8>)> = self.edits.iter().collect();
        // Stable, and an insertion sorts before a replacement that begins at the same byte.
        edits.sort_by_key(|(span, _)| *span);
        let added: usize = edits.iter().map(|(_, with)| with.len()).sum();
        let mut out = Vec::with_capacity(body.len() + added);
        let mut done = 0;
        for (span, with) in edits {
            if span.start < done {
                return Err(SpliceError::Overlap { at: span.start });
            }
            let kept = body.get(done..span.start);
            let (Some(kept), true) = (kept, span.start <= span.end && span.end <= body.len())
            else {
                return Err(SpliceError::OutOfRange { at: span.start });
            };
            out.extend_from_slice(kept);
            out.extend_from_slice(with);
            done = span.end;
        }
        out.extend_from_slice(body.get(done..).unwrap_or_default());
        Ok(out)
    }

    /// Adds `line` as the last line of a tool result: after an empty line at the end of its string
    /// or of its last text part; where it has no text, as a text part or as its content. Content
    /// without any character becomes the line itself, because the API refuses blank text. Returns
    /// false, and edits nothing, if `block` is no tool result.
    pub fn append_to_result(&mut self, block: &Block<'_>, line: &str) -> bool {
        let BlockKind::ToolResult(result) = &block.kind else { return false };
        match &result.content {
            ResultContent::Text(text, span) => self.append_to_text(*text, *span, line),
            ResultContent::Absent(Some(null)) => self.replace(*null, quoted(line)),
            ResultContent::Absent(None) => self.append_member(block.span, "content", &quoted(line)),
            ResultContent::Parts { span, parts } => {
                match parts.iter().rev().find_map(|part| part.text) {
                    Some((text, inside)) => self.append_to_text(text, inside, line),
                    None => {
                        let last = parts.last().map(|part| part.span);
                        self.append_element(*span, last, &text_block(line));
                    }
                }
            }
        }
        true
    }

    /// Adds a text at the end of a message: after an empty line in its string or in its last block,
    /// if that is a text, so that a client may write one as the other; else as a block of its own.
    pub fn append_to_message(&mut self, message: &Message<'_>, text: &str) {
        match &message.content {
            Content::Text(old, span) => self.append_to_text(*old, *span, text),
            Content::Blocks { span, blocks } => {
                match blocks.last().map(|last| (&last.kind, last)) {
                    Some((BlockKind::Text { text: old, span }, _)) => {
                        self.append_to_text(*old, *span, text);
                    }
                    last => {
                        let last = last.map(|(_, block)| block.span);
                        self.append_element(*span, last, &text_block(text));
                    }
                }
            }
        }
    }

    /// Adds messages, each a JSON object, at the end of `messages`.
    pub fn append_messages<M: AsRef<[u8]>>(&mut self, request: &Request<'_>, messages: &[M]) {
        if messages.is_empty() {
            return;
        }
        let joined = messages.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
        let last = request.messages.list.last().map(|message| message.span);
        self.append_element(request.messages.span, last, &joined);
    }

    /// Sets `tool_choice` to a JSON value, replacing the one there is.
    pub fn set_tool_choice(&mut self, request: &Request<'_>, json: &str) {
        self.set_member(request, request.tool_choice.as_ref().map(|c| c.span), "tool_choice", json);
    }

    /// Sets `max_tokens`, replacing the value there is.
    pub fn set_max_tokens(&mut self, request: &Request<'_>, tokens: u64) {
        let span = request.max_tokens.map(|m| m.span);
        self.set_member(request, span, "max_tokens", &tokens.to_string());
    }

    fn set_member(&mut self, request: &Request<'_>, old: Option<Span>, name: &str, json: &str) {
        match old {
            Some(span) => self.replace(span, json),
            // At the end, so that it also wins over a value of another shape before it.
            None => self.append_member(request.span, name, json.as_bytes()),
        }
    }

    /// Adds text to the end of a JSON string, given with its quotes' span.
    fn append_to_text(&mut self, old: Str<'_>, span: Span, text: &str) {
        let mut inner = Vec::with_capacity(text.len() + 8);
        if !old.is_empty() {
            inner.extend_from_slice(b"\\n\\n");
        }
        json::write_inner(&mut inner, text);
        self.insert(span.end.saturating_sub(1), inner);
    }

    /// Adds a member at the end of an object that has at least one.
    fn append_member(&mut self, object: Span, name: &str, value: &[u8]) {
        let mut bytes = vec![b','];
        write_str(&mut bytes, name);
        bytes.push(b':');
        bytes.extend_from_slice(value);
        self.insert(object.end.saturating_sub(1), bytes);
    }

    /// Adds an element behind the last one of a list.
    fn append_element(&mut self, list: Span, last: Option<Span>, element: &[u8]) {
        match last {
            Some(last) => self.insert(last.end, [b",", element].concat()),
            None => {
                let at = list.end.saturating_sub(1);
                let first = !self.edits.iter().any(|(span, _)| *span == Span::new(at, at));
                self.insert(at, if first { element.to_vec() } else { [b",", element].concat() });
            }
        }
    }
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 8);
    write_str(&mut out, text);
    out
}

/// `{"type":"text","text":…}`
fn text_block(text: &str) -> Vec<u8> {
    let mut out = br#"{"type":"text","text":"#.to_vec();
    write_str(&mut out, text);
    out.push(b'}');
    out
}
