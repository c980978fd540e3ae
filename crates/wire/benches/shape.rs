//! Shaping 4 MB of text: ordinary prose with markup here and there, as one response would have
//! it, whole and in deltas of 40 bytes; prose that a call ends; calls alone; and floods.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use divan::{Bencher, black_box, counter::BytesCount};
use softland_wire::tags::{Shape, ShapedPiece, Shaper, Tags, parse_text};

fn main() {
    divan::main();
}

const SIZE: usize = 4_000_000;

/// Paragraphs, lists, inline code, a code fence, comparisons, some HTML.
const PROSE: &str = "The harbour notes of June list three arrivals and no departure, which is odd: \
the ledger names four. I compared `arrivals.csv` with the ledger, line by line, and found that the \
*Größe* column is empty where the ship's name has an accent.\n\n- a first point, with a < b\n- a \
second one, about <b>markup</b> and `x <y> z`\n\n```rust\nfn main() {\n    let a: Vec<u8> = \
Vec::new();\n}\n```\n\nSo the import drops them. It could be fixed in two places; the better one \
is the reader, since the writer is also used by the export, where the accents are wanted. 東京 \
has no such ship.\n\n";

const CALL: &str = "<use_tool>\n{\"name\":\"grep\",\"arguments\":{\"pattern\":\"Größe|size\",\
\"path\":\"notes/harbour/june.md\",\"context\":[1,2,3],\"note\":\"see </use_tool> above\"}}\n\
</use_tool>\n";

fn prose() -> String {
    PROSE.repeat(SIZE / PROSE.len())
}

fn shape(bencher: Bencher<'_, '_>, text: &str, chunk: usize) {
    let mut ends = vec![0];
    while ends.last().is_some_and(|end| *end < text.len()) {
        let end = ends.last().unwrap() + chunk;
        ends.push(text.floor_char_boundary(end.min(text.len())));
    }
    let shape = Shape {
        suppress_tail: true,
        held_limit: 2 * SIZE,
        ..Shape::watch_only(Tags::new(["use_tool", "tool_call"]).unwrap())
    };
    bencher.counter(BytesCount::of_str(text)).bench(|| {
        let mut shaper = Shaper::new(shape.clone());
        let mut passed = 0;
        let mut sink = |piece: ShapedPiece<'_>| passed += piece.forward_text().map_or(0, str::len);
        for pair in ends.windows(2) {
            shaper.push(black_box(&text[pair[0]..pair[1]]), &mut sink).unwrap();
        }
        shaper.finish(&mut sink).unwrap();
        passed
    });
}

#[divan::bench(args = [40, 1460, SIZE])]
fn ordinary_text(bencher: Bencher<'_, '_>, chunk: usize) {
    shape(bencher, &prose(), chunk);
}

#[divan::bench(args = [40, 1460, SIZE])]
fn tail_after_a_call(bencher: Bencher<'_, '_>, chunk: usize) {
    shape(bencher, &format!("{CALL}{}", prose()), chunk);
}

#[divan::bench(args = [40, SIZE])]
fn calls(bencher: Bencher<'_, '_>, chunk: usize) {
    shape(bencher, &CALL.repeat(SIZE / CALL.len()), chunk);
}

#[divan::bench(args = ["angles", "openings", "fences", "backticks", "lines"])]
fn floods(bencher: Bencher<'_, '_>, of: &str) {
    let part = match of {
        "angles" => "<",
        "openings" => "<use_tool",
        "fences" => "\n```",
        "backticks" => "`",
        _ => "\n",
    };
    shape(bencher, &part.repeat(SIZE / part.len()), 1460);
}

#[divan::bench]
fn reading_ordinary_text(bencher: Bencher<'_, '_>) {
    let text = prose();
    let tags = Tags::new(["use_tool"]).unwrap();
    bencher
        .counter(BytesCount::of_str(&text))
        .bench(|| parse_text(black_box(&text), &tags).texts.len());
}
