//! The answer's Markdown for a terminal: parsed by pulldown-cmark, shown as it comes, a finished
//! block or line at a time.
//!
//! A line that was printed stays, so nothing is shown that could still change: of the block that is
//! open, only whole lines of code and whole items of lists.

use super::pieces::{Piece, Style};
use super::text::MIN_WIDTH;

mod block;
mod layout;
mod table;
#[cfg(test)]
mod tests;
mod words;

use block::Block;

/// Text that looks the same.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    style: Style,
    text: String,
}

impl Span {
    fn new(style: Style, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }
}

/// One line of the terminal.
type Line = Vec<Span>;

/// Markdown that is being received.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    width: usize,
    /// What was not shown to its end yet, from the beginning of the open block on.
    source: String,
    /// Lines of the open block that were shown.
    shown: usize,
    /// Something of the open block was shown.
    open: bool,
    /// Something was shown before: a blank line stands between.
    begun: bool,
}

impl Markdown {
    /// The terminal has another width; a block that was begun keeps its own.
    pub(super) fn resize(&mut self, width: usize) {
        if !self.open {
            self.width = width.max(MIN_WIDTH);
        }
    }

    /// Takes more text; what is finished by it is to be shown.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.source.push_str(text);
        let mut pieces = Vec::new();
        if !text.contains('\n') {
            return pieces;
        }
        // What a line is may depend on its last character.
        while let Some(whole) = self.source.rfind('\n').and_then(|at| self.source.get(..=at))
            && let Some((block, next)) = block::first(whole, self.width)
        {
            if next.is_none() && !block.is_closed(whole) {
                self.show(block.lines.get(..block.stable).unwrap_or_default(), &mut pieces);
                self.forget(&block);
                break;
            }
            let next = next.unwrap_or(whole.len());
            self.close(&block, next, &mut pieces);
        }
        pieces
    }

    /// The text has ended: what is left of it.
    pub(super) fn end(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some((block, next)) = block::first(&self.source, self.width) {
            self.close(&block, next.unwrap_or(self.source.len()), &mut pieces);
        }
        *self = Self { width: self.width, ..Self::default() };
        pieces
    }

    fn close(&mut self, block: &Block, next: usize, pieces: &mut Vec<Piece>) {
        self.show(&block.lines, pieces);
        self.source.drain(..next);
        (self.shown, self.open) = (0, false);
    }

    fn show(&mut self, lines: &[Line], pieces: &mut Vec<Piece>) {
        let new = lines.get(self.shown..).unwrap_or_default();
        if new.is_empty() {
            return;
        }
        if self.begun && !self.open {
            pieces.push(Piece::answer("\n"));
        }
        for line in new {
            for Span { style, text } in line {
                pieces.push(Piece { style: *style, ..Piece::answer(text.as_str()) });
            }
            pieces.push(Piece::answer("\n"));
        }
        (self.begun, self.open, self.shown) = (true, true, lines.len());
    }

    /// Lines of code that were shown are not read again with each that follows.
    fn forget(&mut self, block: &Block) {
        if let Some(code) = &block.code {
            self.source.drain(code.clone());
            self.shown = 0;
        }
    }
}
