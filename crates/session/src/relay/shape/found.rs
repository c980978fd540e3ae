//! Collects what the shaper hands out.

use softland_wire::tags::Piece;

use crate::out::ShapeNote;
use crate::tags::{Reader, Segment, Tagged, What, id_of, read_call};

/// A piece that the shaper found.
#[derive(Debug)]
pub(super) enum Item {
    Text(String),
    Call(usize, String),
    Open(String),
    /// A call that was taken out. The text before it passes.
    Repeated(usize),
    Drop(usize),
}

impl Item {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(raw) | Self::Call(_, raw) | Self::Open(raw) => raw.len(),
            Self::Repeated(bytes) | Self::Drop(bytes) => *bytes,
        }
    }
}

/// The collector of the shaper's pieces.
pub(super) struct Found<'r> {
    block: usize,
    reader: &'r Reader,
    before: usize,
    turn: Option<u64>,
    pub(super) items: Vec<Item>,
}

impl<'r> Found<'r> {
    pub(super) fn new(block: usize, reader: &'r Reader, before: usize, turn: Option<u64>) -> Self {
        Self { block, reader, before, turn, items: Vec::new() }
    }

    pub(super) fn take(
        &mut self,
        piece: &Piece<'_>,
        tagged: &mut Tagged,
        notes: &mut Vec<ShapeNote>,
    ) {
        let tags = &self.reader.shape.tags;
        let block = self.block;
        let mut add = |what, raw: &str| {
            tagged.segments.push(Segment { block, what, raw: raw.to_owned() });
        };
        match *piece {
            Piece::Text(text) => {
                add(What::Text, text);
                self.items.push(Item::Text(text.to_owned()));
            }
            Piece::Block(found) => {
                let nested = found.nested(tags);
                notes.extend((nested > 0).then_some(ShapeNote::Nested { tags: nested }));
                let place = tagged.calls.len();
                let id = id_of(self.turn, self.before + place);
                add(What::Call(place), found.raw);
                tagged.calls.push(read_call(&found.call(), found.tag(), tags, id));
                self.items.push(Item::Call(place, found.raw.to_owned()));
            }
            Piece::Repeated(found) => {
                notes.push(ShapeNote::Repeated { bytes: found.raw.len() });
                add(What::Repeated, "");
                self.items.push(Item::Repeated(found.raw.len()));
            }
            Piece::Partial { raw, nested, passed } => {
                let bytes = raw.len();
                notes.push(ShapeNote::Partial { bytes, passed, nested });
                if passed {
                    add(What::Open, raw);
                    self.items.push(Item::Open(raw.to_owned()));
                }
            }
            Piece::Echo { .. } => tagged.echo = true,
            Piece::Stop(why) => {
                tagged.stop = Some(why);
                notes.push(ShapeNote::Stopped(why));
            }
            Piece::Trimmed { bytes } => tagged.trimmed = bytes,
            _ => {}
        }
    }
}
