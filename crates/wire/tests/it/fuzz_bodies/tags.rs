//! Any text with calls in it, shaped: however it is cut it gives what the whole gives, and that is
//! what the reference says. Nothing panics, and no byte is lost or doubled.

#[path = "../tags/reference.rs"]
pub(crate) mod reference;

use std::num::NonZeroU32;

use reference::{Got, joined};
use softland_wire::tags::{
    PartialBlocks, Shape, ShapeSummary, ShapedPiece, Shaper, StopAfter, Tags,
};

/// Longest text that is examined, in bytes: the reference is quadratic.
const LONGEST: usize = 4096;

/// The first byte chooses the shape, the second the cutting, the rest is the text.
pub(crate) fn run(data: &[u8]) {
    let &[which, seed, ref text @ ..] = data else { return };
    let text = text.get(..text.len().min(LONGEST)).unwrap_or_default();
    let Some(text) = text.utf8_chunks().next().map(|chunk| chunk.valid()) else { return };
    let shapes = shapes();
    let shape = &shapes[usize::from(which) % shapes.len()];

    let whole = shaped(shape, [text]);
    assert_eq!(whole.0, joined(reference::shape(text, shape)), "{text:?} under {shape:?}");
    let chunks = cut(text, &mut Seeded(seed.into()));
    assert_eq!(shaped(shape, chunks.iter().copied()), whole, "{chunks:?} under {shape:?}");
    let by_one = text.split_inclusive(|_: char| true);
    assert_eq!(shaped(shape, by_one), whole, "{text:?} by characters under {shape:?}");
    adds_up(text, &whole);
}

/// The text sent, repeated and dropped adds up to the input.
pub(crate) fn adds_up(text: &str, (got, summary): &(Vec<Got>, ShapeSummary)) {
    let length = |piece: &Got| match piece {
        Got::Text(text) => text.len(),
        Got::Block { raw, .. } | Got::Partial { raw, passed: true, .. } | Got::Repeated(raw) => {
            raw.len()
        }
        _ => 0,
    };
    let told = got.iter().map(length).sum::<usize>() as u64;
    assert_eq!(told + summary.dropped_bytes, text.len() as u64, "{text:?}");
}

pub(crate) fn tags() -> Tags {
    Tags::new(["use_tool", "tool"]).unwrap()
}

pub(crate) fn off() -> Shape {
    Shape::watch_only(tags())
}

pub(crate) fn on() -> Shape {
    Shape { suppress_tail: true, ..off() }
}

/// One of every kind of setting, and some together.
pub(crate) fn shapes() -> Vec<Shape> {
    vec![
        off(),
        on(),
        Shape { partial: PartialBlocks::Drop, ..off() },
        Shape { partial: PartialBlocks::Drop, drop_repeated: true, ..on() },
        Shape { drop_repeated: true, ..off() },
        Shape { stop_after: StopAfter::First, ..on() },
        Shape { max_tools: NonZeroU32::new(2), drop_repeated: true, ..off() },
        Shape { stop_at_echo: true, ..on() },
        Shape { stop_at_echo: true, ..off() },
        Shape { stop_after: StopAfter::Burst { burst_ms: 50 }, ..on() },
    ]
}

pub(crate) fn own(piece: ShapedPiece<'_>, tags: &Tags) -> Got {
    match piece {
        ShapedPiece::Text(text) => Got::Text(text.to_owned()),
        ShapedPiece::Opened { tag } => Got::Opened(tag.to_owned()),
        ShapedPiece::Block(block) => Got::Block {
            raw: block.raw.to_owned(),
            inner: block.inner().to_owned(),
            nested: block.count_nested(tags),
        },
        ShapedPiece::Repeated(block) => Got::Repeated(block.raw.to_owned()),
        ShapedPiece::Partial { raw, nested, passed } => {
            Got::Partial { raw: raw.to_owned(), nested, passed }
        }
        ShapedPiece::Echo { mark } => Got::Echo(mark.to_owned()),
        ShapedPiece::Stop(reason) => Got::Stop(reason),
        ShapedPiece::Trimmed { bytes } => Got::Trimmed(bytes),
        other => panic!("unknown piece {other:?}"),
    }
}

/// Shapes a text that arrives in pieces.
pub(crate) fn shaped<'t>(
    shape: &Shape,
    chunks: impl IntoIterator<Item = &'t str>,
) -> (Vec<Got>, ShapeSummary) {
    let mut shaper = Shaper::new(shape.clone());
    let mut got = Vec::new();
    let mut sink = |piece: ShapedPiece<'_>| got.push(own(piece, &shape.tags));
    for chunk in chunks {
        shaper.push(chunk, &mut sink).unwrap();
    }
    let summary = shaper.finish(&mut sink).unwrap();
    (joined(got), summary)
}

/// A text cut anyhow.
pub(crate) fn cut<'t>(text: &'t str, seeded: &mut Seeded) -> Vec<&'t str> {
    let pieces = 1 + seeded.below(8);
    let most = 2 + 2 * text.len() / pieces;
    let mut chunks = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let mut at = seeded.below(most).min(rest.len());
        while !rest.is_char_boundary(at) {
            at += 1;
        }
        let (chunk, after) = rest.split_at(at);
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

/// A small generator, so that the texts are the same everywhere.
pub(crate) struct Seeded(pub(crate) u64);

impl Seeded {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % limit.max(1)
    }
}
