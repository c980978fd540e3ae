//! Any bytes as a response stream: nothing panics, bounds hold, and what is written back reads
//! the same.

use softland_wire::{
    anthropic::{Assembler, Event, respond},
    json,
    sse::Decoder,
};

const LIMIT: usize = 4096;

/// The whole input is the stream.
pub fn run(data: &[u8]) {
    let mut decoder = Decoder::new(LIMIT);
    decoder.push(data);
    decoder.finish();
    let mut assembler = Assembler::new(LIMIT);
    while let Some(Ok(frame)) = decoder.next() {
        let Ok(event) = Event::decode(frame.event, &frame.data) else { continue };
        let _ = assembler.push(&event);
        reindexed(frame.raw, &event);
    }
    let finished = assembler.finish();
    for block in &finished.message.blocks {
        let mut out = Vec::new();
        block.write(&mut out);
        json::check(std::str::from_utf8(&out).unwrap()).unwrap();
    }
}

/// The event under another index is the same event, but for the index.
fn reindexed(raw: &[u8], event: &Event<'_>) {
    let index = 7_000_000;
    let mut out = Vec::new();
    respond::write_reindexed(&mut out, raw, index).unwrap();
    let mut decoder = Decoder::new(2 * LIMIT);
    decoder.push(&out);
    decoder.finish();
    let frame = decoder.next().unwrap().unwrap();
    let moved = Event::decode(frame.event, &frame.data).unwrap();
    if event.index().is_some() {
        assert_eq!(moved.index(), Some(index));
    }
    let mut back = Vec::new();
    respond::write_reindexed(&mut back, &out, event.index().unwrap_or(index)).unwrap();
    let mut decoder = Decoder::new(2 * LIMIT);
    decoder.push(&back);
    decoder.finish();
    let frame = decoder.next().unwrap().unwrap();
    assert_eq!(&Event::decode(frame.event, &frame.data).unwrap(), event);
}
