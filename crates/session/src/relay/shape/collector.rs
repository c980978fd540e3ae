//! Collects what the shaper hands out.

use softland_wire::tags::ShapedPiece;

use crate::out::ShapeNote;
use crate::tags::{SegmentKind, TagReader, TaggedTexts, TextSegment, call_id, read_call};

/// A piece that the shaper found.
#[derive(Debug)]
pub(super) enum FoundPiece {
    Text(String),
    Call(usize, String),
    Open(String),
    /// A call that was taken out. The text before it passes.
    Repeated(usize),
    Drop(usize),
}

impl FoundPiece {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(raw) | Self::Call(_, raw) | Self::Open(raw) => raw.len(),
            Self::Repeated(bytes) | Self::Drop(bytes) => *bytes,
        }
    }
}

/// The collector of the shaper's pieces.
pub(super) struct PieceCollector<'r> {
    block: usize,
    reader: &'r TagReader,
    before: usize,
    turn: Option<u64>,
    pub(super) items: Vec<FoundPiece>,
}

impl<'r> PieceCollector<'r> {
    pub(super) fn new(
        block: usize,
        reader: &'r TagReader,
        before: usize,
        turn: Option<u64>,
    ) -> Self {
        Self { block, reader, before, turn, items: Vec::new() }
    }

    pub(super) fn take_piece(
        &mut self,
        piece: &ShapedPiece<'_>,
        tagged: &mut TaggedTexts,
        notes: &mut Vec<ShapeNote>,
    ) {
        let tags = &self.reader.shape.tags;
        let block = self.block;
        let mut add = |what, raw: &str| {
            tagged.segments.push(TextSegment { block, what, raw: raw.to_owned() });
        };
        match *piece {
            ShapedPiece::Text(text) => {
                add(SegmentKind::Text, text);
                self.items.push(FoundPiece::Text(text.to_owned()));
            }
            ShapedPiece::Block(found) => {
                let nested = found.count_nested(tags);
                notes.extend((nested > 0).then_some(ShapeNote::Nested { tags: nested }));
                let place = tagged.calls.len();
                let id = call_id(self.turn, self.before + place);
                add(SegmentKind::Call(place), found.raw);
                tagged.calls.push(read_call(&found.read_call(), found.tag(), tags, id));
                self.items.push(FoundPiece::Call(place, found.raw.to_owned()));
            }
            ShapedPiece::Repeated(found) => {
                notes.push(ShapeNote::Repeated { bytes: found.raw.len() });
                add(SegmentKind::Repeated, "");
                self.items.push(FoundPiece::Repeated(found.raw.len()));
            }
            ShapedPiece::Partial { raw, nested, passed } => {
                let bytes = raw.len();
                notes.push(ShapeNote::Partial { bytes, passed, nested });
                if passed {
                    add(SegmentKind::Open, raw);
                    self.items.push(FoundPiece::Open(raw.to_owned()));
                }
            }
            ShapedPiece::Echo { .. } => tagged.echo = true,
            ShapedPiece::Stop(why) => {
                tagged.stop = Some(why);
                notes.push(ShapeNote::Stopped(why));
            }
            ShapedPiece::Trimmed { bytes } => tagged.trimmed = bytes,
            _ => {}
        }
    }
}
