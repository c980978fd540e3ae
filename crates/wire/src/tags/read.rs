//! The calls in a whole text: an assistant message of a history, or a finished turn.

use super::{
    MalformedCall, TagBlock, Tags, TextCall,
    markup::View,
    scan::{Scanner, Token},
};
use crate::json::Span;

/// A complete block of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBlock<'t> {
    /// The block.
    pub block: TagBlock<'t>,
    /// The block's span in the text.
    pub span: Span,
    /// The call, or the reason the block is not a call.
    pub call: Result<TextCall, MalformedCall>,
}

/// The blocks and texts found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedText<'t> {
    /// The complete blocks, in order. Text after a malformed block may be part of its argument: ask
    /// for a repair rather than run it.
    pub blocks: Vec<FoundBlock<'t>>,
    /// The block that the text ends in, if any: cut, or never closed. It is not a call.
    pub open: Option<Span>,
    /// The text after a call that looks like a tool result, if any. The calls of this turn must not
    /// be run.
    pub echo: Option<Span>,
    /// The text outside of blocks.
    pub texts: Vec<Span>,
}

/// Reads a whole text by the rules of the shaper.
#[must_use]
pub fn parse_text<'t>(text: &'t str, tags: &Tags) -> ParsedText<'t> {
    let view = View { text, base: 0 };
    let mut scanner = Scanner::new();
    let mut reading = ParsedText::default();
    let mut from = 0;
    while let Some(token) = scanner.next_token(view, tags, true) {
        match token {
            Token::Opened { .. } => {}
            Token::Closed(place) => {
                let block = place.slice_block(view);
                reading.push_text_span(from, place.start);
                from = place.end;
                let span = Span::new(place.start, place.end);
                reading.blocks.push(FoundBlock { block, span, call: block.read_call() });
                scanner.marks = reading.echo.is_none();
            }
            Token::Mark { at, length } => reading.echo = Some(Span::new(at, at + length)),
        }
    }
    let end = scanner.open_block().map_or(text.len(), |(start, _)| start);
    reading.push_text_span(from, end);
    reading.open = (end < text.len()).then(|| Span::new(end, text.len()));
    reading
}

impl<'t> ParsedText<'t> {
    /// Returns the calls that can be run: none if there is an invented result, and none after a
    /// malformed block.
    pub fn runnable_calls(&self) -> impl Iterator<Item = (&FoundBlock<'t>, &TextCall)> {
        let blocks = if self.echo.is_some() { &[][..] } else { &self.blocks };
        blocks.iter().map_while(|found| Some((found, found.call.as_ref().ok()?)))
    }

    /// Returns the error that the model should repair: that of the first block that should be a
    /// call.
    #[must_use]
    pub fn first_malformed(&self) -> Option<&MalformedCall> {
        let broken = self.blocks.iter().find_map(|found| found.call.as_ref().err());
        broken.or_else(|| self.open.map(|_| &MalformedCall::Unclosed))
    }

    /// Returns true if the text consists only of broken blocks: an error or a repair, not an empty
    /// answer.
    #[must_use]
    pub fn is_only_broken(&self, text: &str) -> bool {
        let silent = self.texts.iter().all(|span| span.slice_of(text).trim().is_empty());
        silent
            && self.first_malformed().is_some()
            && self.blocks.iter().all(|found| found.call.is_err())
    }

    fn push_text_span(&mut self, from: usize, to: usize) {
        if from < to {
            self.texts.push(Span::new(from, to));
        }
    }
}
