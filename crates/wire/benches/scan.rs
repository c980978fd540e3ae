//! Scanning a request of 1 MB (400 turns) and of 10 MB (4,000 turns): linear, and fast enough to
//! be done anew for every request. Beside it, parsing into a `serde_json::Value`.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

mod corpus;

use divan::{Bencher, black_box, counter::BytesCount};
use serde_json::Value;
use softland_wire::{Api, request::Request};

fn main() {
    divan::main();
}

#[divan::bench(args = [400, 4000])]
fn request_scan(bencher: Bencher<'_, '_>, turns: usize) {
    let body = corpus::history(turns);
    let run = || Request::from_body(Api::Anthropic, black_box(&body)).unwrap().messages.list.len();
    bencher.counter(BytesCount::of_slice(&body)).bench(run);
}

#[divan::bench(args = [400, 4000])]
fn serde_json_value(bencher: Bencher<'_, '_>, turns: usize) {
    let body = corpus::history(turns);
    let run = || serde_json::from_slice::<Value>(black_box(&body)).unwrap();
    bencher.counter(BytesCount::of_slice(&body)).bench(run);
}
