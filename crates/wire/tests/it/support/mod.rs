//! Shared by the codec's tests: cutting streams, and an independent reading of the same JSON.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test, a failed step is a failed test")]

pub(crate) mod bytes;
mod reading;

pub(crate) use reading::{check_message, check_request, read_events, read_message};
use softland_wire::{
    anthropic::{Assembler, Event, Finished},
    sse::Decoder,
};

/// Returns the number of cases for a property: `SOFTLAND_CASES`, or the default.
#[expect(clippy::disallowed_methods, reason = "a setting of the tests")]
pub(crate) fn cases(usual: u32) -> u32 {
    let cases = std::env::var("SOFTLAND_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

/// A frame that owns its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnedFrame {
    pub(crate) event: String,
    pub(crate) data: String,
    pub(crate) raw: Vec<u8>,
}

/// Returns all frames of a stream that arrives in `chunks`.
pub(crate) fn frames(chunks: &[&[u8]]) -> Vec<OwnedFrame> {
    let mut found = Vec::new();
    each_frame(chunks, |event, data, raw| {
        found.push(OwnedFrame {
            event: event.to_owned(),
            data: data.to_owned(),
            raw: raw.to_vec(),
        });
    });
    found
}

pub(crate) fn each_frame(chunks: &[&[u8]], mut each: impl FnMut(&str, &str, &[u8])) {
    let mut decoder = Decoder::new(1 << 24);
    for chunk in chunks {
        decoder.push(chunk);
        while let Some(frame) = decoder.next() {
            let frame = frame.unwrap();
            each(frame.event, &frame.data, frame.raw);
        }
    }
    decoder.finish();
    while let Some(frame) = decoder.next() {
        let frame = frame.unwrap();
        each(frame.event, &frame.data, frame.raw);
    }
}

/// Assembles the message of a stream.
pub(crate) fn assembled(stream: &[u8]) -> Finished {
    let mut assembler = Assembler::new(1 << 26);
    each_frame(&[stream], |event, data, _| {
        if !data.is_empty() {
            assembler.push(&Event::from_data(event, data).unwrap()).unwrap();
        }
    });
    assembler.finish()
}

/// Cuts the stream in two wherever it should not matter, and compares with the whole. Events are a
/// function of a frame's event and data, so frames are compared, and the events of those frames
/// that a cut touches. Returns the number of cuts.
pub(crate) fn assert_same_everywhere(name: &str, stream: &[u8]) -> usize {
    let whole = frames(&[stream]);
    let raw: Vec<u8> = whole.iter().flat_map(|frame| frame.raw.clone()).collect();
    assert_eq!(raw, stream, "{name}: raw bytes");
    let cuts = cuts(&whole, stream.len());
    for &cut in &cuts {
        assert_same(name, &whole, stream, cut);
    }
    if stream.len() <= 4096 {
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(frames(&bytes), whole, "{name}: byte by byte");
    }
    cuts.len()
}

fn assert_same(name: &str, whole: &[OwnedFrame], stream: &[u8], cut: usize) {
    let (head, tail) = stream.split_at(cut);
    let (mut n, mut at) = (0, 0);
    each_frame(&[head, tail], |event, data, raw| {
        let expected = &whole[n];
        let same = expected.event == event && expected.data == data && expected.raw == raw;
        assert!(same, "{name}: frame {n} differs when cut at {cut}");
        if (at..=at + raw.len()).contains(&cut) && !data.is_empty() {
            let (event, data) = (Event::from_data(event, data), &expected.data);
            assert_eq!(event, Event::from_data(&expected.event, data), "{name}: cut at {cut}");
        }
        n += 1;
        at += raw.len();
    });
    assert_eq!(n, whole.len(), "{name}: frames when cut at {cut}");
}

/// Every offset up to 64 KiB; beyond, every frame's end ±3 and 2,000 seeded offsets.
fn cuts(whole: &[OwnedFrame], length: usize) -> Vec<usize> {
    if length <= 65_536 {
        return (0..=length).collect();
    }
    let mut cuts: Vec<usize> = Vec::new();
    let mut end = 0;
    for frame in whole {
        end += frame.raw.len();
        cuts.extend(end.saturating_sub(3)..=(end + 3).min(length));
    }
    let mut seed: u64 = 0x5eed;
    for _ in 0..2000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        cuts.push((seed >> 33) as usize % length);
    }
    cuts
}
