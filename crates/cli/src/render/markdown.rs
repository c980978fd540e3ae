//! Renders the answer's Markdown for a terminal. It is parsed by pulldown-cmark and shown while it
//! streams, one finished block or line at a time.
//!
//! A printed line cannot change, so unfinished text is held back. Of the open block only whole
//! lines of code and whole list items are shown.

use super::pieces::{Piece, Style};
use super::text::MIN_WIDTH;

mod block;
mod layout;
mod table;
#[cfg(test)]
mod tests;
mod words;

use block::Block;

/// Text of one style.
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
type StyledLine = Vec<Span>;

/// Markdown text that is being received.
#[derive(Debug, Default)]
pub(super) struct Markdown {
    width: usize,
    /// The text from the beginning of the open block, which is not completely shown.
    source: String,
    /// The number of lines of the open block that were shown.
    shown: usize,
    /// True if a part of the open block was shown.
    open: bool,
    /// True if a block was shown before, from which a blank line separates the next.
    begun: bool,
}

impl Markdown {
    /// Sets the width of the terminal. A block that was begun keeps its width.
    pub(super) fn resize(&mut self, width: usize) {
        if !self.open {
            self.width = width.max(MIN_WIDTH);
        }
    }

    /// Adds text, and returns the pieces that it completes.
    pub(super) fn push(&mut self, text: &str) -> Vec<Piece> {
        self.source.push_str(text);
        let mut pieces = Vec::new();
        if !text.contains('\n') {
            return pieces;
        }
        // The meaning of a line may depend on its last character.
        while let Some(whole) = self.source.rfind('\n').and_then(|at| self.source.get(..=at))
            && let Some((block, next)) = block::parse_first_block(whole, self.width)
        {
            if next.is_none() && !block.is_closed(whole) {
                self.show_lines(block.lines.get(..block.stable).unwrap_or_default(), &mut pieces);
                self.forget_code(&block);
                break;
            }
            let next = next.unwrap_or(whole.len());
            self.close_block(&block, next, &mut pieces);
        }
        pieces
    }

    /// Ends the text, and returns the remaining pieces.
    pub(super) fn finish_text(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some((block, next)) = block::parse_first_block(&self.source, self.width) {
            self.close_block(&block, next.unwrap_or(self.source.len()), &mut pieces);
        }
        *self = Self { width: self.width, ..Self::default() };
        pieces
    }

    fn close_block(&mut self, block: &Block, next: usize, pieces: &mut Vec<Piece>) {
        self.show_lines(&block.lines, pieces);
        self.source.drain(..next);
        (self.shown, self.open) = (0, false);
    }

    fn show_lines(&mut self, lines: &[StyledLine], pieces: &mut Vec<Piece>) {
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

    /// Drops the lines of code that were shown, so that they are not parsed again with each new
    /// line.
    fn forget_code(&mut self, block: &Block) {
        if let Some(code) = &block.code {
            self.source.drain(code.clone());
            self.shown = 0;
        }
    }
}
