//! SSE and decoding to typed events, beside a straightforward reader made of `eventsource-stream`
//! and `serde_json::Value`, over the same 1 MB in chunks of 1,460 bytes. Both add up the length of
//! the text, thinking and input they see; a check before the run says that they agree.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

mod corpus;

use std::convert::Infallible;

use divan::{Bencher, counter::BytesCount};
use eventsource_stream::Eventsource;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::Value;
use softland_wire::{anthropic::Event, sse::Decoder};

const CHUNK: usize = 1460;

fn main() {
    let stream = corpus::stream();
    assert_eq!(ours(stream.as_bytes()), baseline(stream.as_bytes()));
    divan::main();
}

fn ours(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new(1 << 24);
    let mut length = 0;
    for chunk in bytes.chunks(CHUNK) {
        decoder.push(chunk);
        while let Some(frame) = decoder.next() {
            let frame = frame.unwrap();
            if frame.data.is_empty() {
                continue;
            }
            length += match Event::from_data(frame.event, &frame.data).unwrap() {
                Event::TextDelta { text, .. } | Event::ThinkingDelta { text, .. } => {
                    text.unescape().len()
                }
                Event::InputJsonDelta { partial_json, .. } => partial_json.unescape().len(),
                _ => 0,
            };
        }
    }
    length
}

fn baseline(bytes: &[u8]) -> usize {
    let chunks = stream::iter(bytes.chunks(CHUNK).map(Ok::<_, Infallible>));
    let lengths = chunks.eventsource().map(|event| {
        let value: Value = serde_json::from_str(&event.unwrap().data).unwrap();
        let delta = &value["delta"];
        match delta["type"].as_str() {
            Some("text_delta") => delta["text"].as_str().unwrap().len(),
            Some("thinking_delta") => delta["thinking"].as_str().unwrap().len(),
            Some("input_json_delta") => delta["partial_json"].as_str().unwrap().len(),
            _ => 0,
        }
    });
    lengths.fold(0, |sum, length| async move { sum + length }).now_or_never().unwrap()
}

#[divan::bench]
fn softland(bencher: Bencher<'_, '_>) {
    let stream = corpus::stream();
    bencher.counter(BytesCount::of_str(&stream)).bench(|| ours(stream.as_bytes()));
}

#[divan::bench]
fn eventsource_stream_and_value(bencher: Bencher<'_, '_>) {
    let stream = corpus::stream();
    bencher.counter(BytesCount::of_str(&stream)).bench(|| baseline(stream.as_bytes()));
}
