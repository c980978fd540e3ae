//! What recording costs whoever records: one call beside the writer's thread at work, and one
//! whose record is lost because the queue is full.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use softland_core::NanoUsd;
use softland_ledger::{Ledger, Options, Record, Request};

fn main() {
    divan::main();
}

fn request() -> Record {
    Record::Request(Request {
        at: 1_790_000_000_000,
        id: "req-01".to_owned(),
        run: Some("run-20261122T014400-5f3a9c".into()),
        session: Some("2f0f8a1e-6a57-4d0b-a9b0-0b9f6f3f6b52".into()),
        turn: 3,
        upstream: "anthropic".into(),
        path: "/v1/messages".to_owned(),
        model: Some("claude-opus-5-5".into()),
        rung: None,
        status: Some(200),
        input: 10,
        output: 200,
        cache_read: 30_000,
        cache_write: 400,
        cost: Some(NanoUsd(1_500_001)),
        millis: 812,
        remark: None,
        content: None,
    })
}

fn ledger(folder: &tempfile::TempDir, records: usize) -> Ledger {
    let options = Options {
        events_path: Some(folder.path().join("events.ndjson")),
        queue_records: records,
        queue_bytes: usize::MAX / 16,
        ..Options::at(folder.path().join("ledger.db"))
    };
    Ledger::open(options, Arc::new(|| 1_790_000_000_000)).unwrap()
}

/// The record is made beforehand, as the gateway has its parts at hand.
#[divan::bench(sample_count = 200, sample_size = 500)]
fn record(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 1 << 20);
    bencher.with_inputs(request).bench_local_values(|record| ledger.record(record));
    ledger.close(Duration::from_secs(60)).unwrap();
    assert_eq!(ledger.lost(), 0);
}

#[divan::bench(sample_count = 200, sample_size = 500)]
fn lose(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 0);
    bencher.with_inputs(request).bench_local_values(|record| ledger.record(record));
}

/// From the first call to the disk: 1,000 requests, divide by that.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn record_and_drain_1000(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 1 << 20);
    bencher.with_inputs(|| (0..1000).map(|_| request()).collect::<Vec<_>>()).bench_local_values(
        |records| {
            records.into_iter().for_each(|record| ledger.record(record));
            ledger.drain(Duration::from_secs(60)).unwrap();
        },
    );
}
