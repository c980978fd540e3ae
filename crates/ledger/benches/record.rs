//! What recording costs whoever records: one call beside the writer's thread at work, and one
//! whose record is lost because the queue is full.

#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use softland_core::NanoUsd;
use softland_ledger::{Event, Ledger, Options, Payer, Record, Request};

fn main() {
    divan::main();
}

fn request() -> Request {
    Request {
        at: 1_790_000_000_000,
        id: "req-01".to_owned(),
        run: Some("run-20261122T014400-5f3a9c".into()),
        session: Some("2f0f8a1e-6a57-4d0b-a9b0-0b9f6f3f6b52".into()),
        payer: Payer::default(),
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
    }
}

fn ledger(folder: &tempfile::TempDir, records: usize) -> Ledger {
    let options = Options {
        events_path: Some(folder.path().join("events.ndjson")),
        queue_records: records,
        queue_bytes: usize::MAX / 16,
        ..Options::with_path(folder.path().join("ledger.db"))
    };
    Ledger::open(options, Arc::new(|| 1_790_000_000_000)).unwrap()
}

/// The record is made beforehand, as the gateway has its parts at hand.
#[divan::bench(sample_count = 200, sample_size = 500)]
fn record(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 1 << 20);
    bencher
        .with_inputs(|| Record::Request(request()))
        .bench_local_values(|record| ledger.record(record));
    ledger.close(Duration::from_secs(60)).unwrap();
    assert_eq!(ledger.lost_records(), 0);
}

#[divan::bench(sample_count = 200, sample_size = 500)]
fn lose(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 0);
    bencher
        .with_inputs(|| Record::Request(request()))
        .bench_local_values(|record| ledger.record(record));
}

/// From the first call to the disk: 1,000 requests, divide by that.
#[divan::bench(sample_count = 30, sample_size = 1)]
fn record_and_drain_1000(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let ledger = ledger(&folder, 1 << 20);
    bencher
        .with_inputs(|| (0..1000).map(|_| Record::Request(request())).collect::<Vec<_>>())
        .bench_local_values(|records| {
            records.into_iter().for_each(|record| ledger.record(record));
            ledger.drain(Duration::from_secs(60)).unwrap();
        });
}

/// As a gateway that counts down has them: 64 runs side by side of 16 turns, an intervention and a
/// request each. From the first call to the disk; divide by 1,024.
#[divan::bench(sample_count = 60, sample_size = 1)]
fn write_governed_1024(bencher: Bencher<'_, '_>) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options {
        queue_bytes: usize::MAX / 16,
        ..Options::with_path(folder.path().join("ledger.db"))
    };
    let ledger = Ledger::open(options, Arc::new(|| 1_790_000_000_000)).unwrap();
    let mut runs = 0..;
    bencher.with_inputs(|| governed(&mut runs)).bench_local_values(|records| {
        records.into_iter().for_each(|record| ledger.record(record));
        ledger.drain(Duration::from_secs(60)).unwrap();
    });
    assert_eq!(ledger.lost_records(), 0);
}

fn governed(runs: &mut impl Iterator<Item = u64>) -> Vec<Record> {
    let because = r#"{"because":{"reason":"tool_calls","used":2,"limit":4},"intervention":"countdown","text":"2 tool calls remaining"}"#;
    let runs: Vec<Arc<str>> = runs.take(64).map(|run| format!("run-{run:016x}").into()).collect();
    let turns = (1..=16).flat_map(|turn| runs.iter().map(move |run| (turn, run)));
    let told = |(turn, run): (u64, &Arc<str>)| {
        let (request, run) = (request(), Arc::clone(run));
        let at = request.at;
        let fields = because.into();
        let event = Event { at, run: Arc::clone(&run), turn, event: "intervention", fields };
        [Record::Event(event), Record::Request(Request { run: Some(run), turn, ..request })]
    };
    turns.flat_map(told).collect()
}
