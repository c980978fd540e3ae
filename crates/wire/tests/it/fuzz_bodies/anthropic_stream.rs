//! Any bytes as a response stream: nothing panics, bounds hold, and what is written back reads
//! the same.

use softland_wire::{
    anthropic::{Assembler, Event, respond},
    json,
    sse::Decoder,
};

const LIMIT: usize = 4096;

/// The whole input is the stream.
pub(crate) fn run(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(data);
    decoder.finish();
    let mut assembler = Assembler::new(LIMIT);
    while let Some(Ok(frame)) = decoder.next() {
        let Ok(event) = Event::from_data(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        reindexed(frame.raw);
    }
    let finished = assembler.finish();
    for block in &finished.message.blocks {
        let mut out = Vec::new();
        block.write_json(&mut out);
        json::check_text(std::str::from_utf8(&out).unwrap()).unwrap();
    }
}

/// An event with another index differs only in the index.
fn reindexed(raw: &[u8]) {
    let Some(index) = alone(raw, |event| event.index()) else { return };
    let other = 7_000_000;
    let (mut out, mut back) = (Vec::new(), Vec::new());
    respond::write_reindexed(&mut out, raw, other).unwrap();
    alone(&out, |moved| assert_eq!(moved.index(), index.map(|_| other))).unwrap();
    respond::write_reindexed(&mut back, &out, index.unwrap_or(other)).unwrap();
    alone(raw, |event| alone(&back, |again| assert_eq!(again, event)).unwrap()).unwrap();
}

/// Reads a frame's event outside of its stream, where a byte order mark may differ in meaning.
fn alone<T>(raw: &[u8], read: impl FnOnce(&Event<'_>) -> T) -> Option<T> {
    let mut decoder = Decoder::new(4 * LIMIT);
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    Event::from_data(frame.event, &frame.data).ok().map(|event| read(&event))
}
