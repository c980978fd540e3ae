//! The calls in a whole text: an assistant message of a history, or a finished turn.

use super::{
    Block, Call, Malformed, Tags,
    markup::View,
    scan::{Scanner, Token},
};
use crate::json::Span;

/// A complete block of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'t> {
    /// The block.
    pub block: Block<'t>,
    /// The block's span in the text.
    pub span: Span,
    /// The call, or the reason the block is not a call.
    pub call: Result<Call, Malformed>,
}

/// The blocks and texts found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading<'t> {
    /// The complete blocks, in order. Text after a malformed block may be part of its argument: ask
    /// for a repair rather than run it.
    pub blocks: Vec<Found<'t>>,
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
pub fn read<'t>(text: &'t str, tags: &Tags) -> Reading<'t> {
    let view = View { text, base: 0 };
    let mut scanner = Scanner::new();
    let mut reading = Reading::default();
    let mut from = 0;
    while let Some(token) = scanner.next(view, tags, true) {
        match token {
            Token::Opened { .. } => {}
            Token::Closed(place) => {
                let block = place.block(view);
                reading.text(from, place.start);
                from = place.end;
                let span = Span::new(place.start, place.end);
                reading.blocks.push(Found { block, span, call: block.call() });
                scanner.marks = reading.echo.is_none();
            }
            Token::Mark { at, length } => reading.echo = Some(Span::new(at, at + length)),
        }
    }
    let end = scanner.open().map_or(text.len(), |(start, _)| start);
    reading.text(from, end);
    reading.open = (end < text.len()).then(|| Span::new(end, text.len()));
    reading
}

impl<'t> Reading<'t> {
    /// Returns the calls that can be run: none if there is an invented result, and none after a
    /// malformed block.
    pub fn calls(&self) -> impl Iterator<Item = (&Found<'t>, &Call)> {
        let blocks = if self.echo.is_some() { &[][..] } else { &self.blocks };
        blocks.iter().map_while(|found| Some((found, found.call.as_ref().ok()?)))
    }

    /// Returns the error that the model should repair: that of the first block that should be a
    /// call.
    #[must_use]
    pub fn malformed(&self) -> Option<&Malformed> {
        let broken = self.blocks.iter().find_map(|found| found.call.as_ref().err());
        broken.or_else(|| self.open.map(|_| &Malformed::Unclosed))
    }

    /// Returns true if the text consists only of broken blocks: an error or a repair, not an empty
    /// answer.
    #[must_use]
    pub fn only_broken(&self, text: &str) -> bool {
        let silent = self.texts.iter().all(|span| span.of(text).trim().is_empty());
        silent && self.malformed().is_some() && self.blocks.iter().all(|found| found.call.is_err())
    }

    fn text(&mut self, from: usize, to: usize) {
        if from < to {
            self.texts.push(Span::new(from, to));
        }
    }
}
