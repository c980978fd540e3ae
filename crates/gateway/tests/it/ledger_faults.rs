//! A ledger that cannot be written never stops or slows a gateway: what is lost is counted, and
//! what waits is written once that is possible.

#![cfg(unix)]
#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::Running;
use crate::support::client::Client;
use crate::support::script::{Scripted, calls, says};
use crate::support::sim::governed;
use rusqlite::Connection;
use softland_gateway::Settings;
use softland_ledger::{Query, Reader};

use crate::support;

/// Clients' requests of one test.
const REQUESTS: u32 = 60;

async fn before(upstream: &Scripted, change: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = governed(&upstream.url(), &[]);
    change(&mut settings);
    Running::with(settings).await
}

/// Requests of runs of their own, of which none may fail or wait for a disk.
async fn all_are_served(gateway: &Running) {
    let began = Instant::now();
    for n in 0..REQUESTS {
        let client = Client::new(n % 2 == 0).asking(&format!("question {n}"));
        let got = client.post(gateway).await;
        assert_eq!(got.status(), 200, "{n}: {}", got.text());
    }
    assert!(began.elapsed() < support::LONG, "{:?}", began.elapsed());
}

fn locked(path: &Path) -> Connection {
    let other = Connection::open(path).expect("the ledger");
    other.execute_batch("BEGIN IMMEDIATE").expect("locked");
    other
}

/// A counter's value; 0 where it is not there.
async fn counter(gateway: &Running, name: &str) -> u64 {
    let text = gateway.metrics().await;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().expect("a number"))
}

const LOST: &str = r#"softland_events_total{event="ledger_lost"}"#;
const WAITING: &str = "softland_ledger_waiting";

#[tokio::test]
async fn a_locked_ledger_waits_loses_what_does_not_fit_and_is_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    for (room, loses) in [(8192, false), (40, true)] {
        let upstream = Scripted::plays(vec![says("all")]).await;
        let mut gateway = before(&upstream, |settings| {
            settings.ledger = Some(path.clone().into());
            settings.limits.ledger_records = room;
        })
        .await;
        all_are_served(&gateway).await;
        let lock = locked(&path);
        all_are_served(&gateway).await;
        let (lost, waiting) = (counter(&gateway, LOST).await, counter(&gateway, WAITING).await);
        assert!(waiting > 0, "room {room}");
        assert_eq!(lost > 0, loses, "room {room}: {lost} lost, {waiting} wait");
        drop(lock);
        gateway.until_metrics(&format!("{WAITING} 0\n")).await;
        all_are_served(&gateway).await;
        gateway.stopped().await;
        let runs =
            Reader::open(&path).expect("a ledger").list_runs(&Query::default()).expect("runs");
        let all = 3 * REQUESTS as usize;
        assert!(if loses { runs.len() < 2 * all } else { runs.len() == all }, "{}", runs.len());
        assert!(loses || runs.iter().all(|run| run.end.is_some()));
    }
}

#[tokio::test]
async fn a_lock_that_stays_delays_the_end_of_the_gateway_for_a_bounded_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ledger.db");
    let upstream = Scripted::plays(vec![says("all")]).await;
    let mut gateway =
        before(&upstream, |settings| settings.ledger = Some(path.clone().into())).await;
    all_are_served(&gateway).await;
    let _lock = locked(&path);
    all_are_served(&gateway).await;
    let began = Instant::now();
    gateway.stopped().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_full_disk_stops_nobody() {
    // Every write to this device fails as one to a full disk does.
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: there is no /dev/full here");
        return;
    }
    let upstream = Scripted::plays(vec![calls(1), says("all")]).await;
    let mut gateway = before(&upstream, |settings| {
        settings.log.events = Some(full.to_owned());
        settings.limits.ledger_records = 40;
    })
    .await;
    all_are_served(&gateway).await;
    assert!(counter(&gateway, LOST).await > 0);
    assert!(counter(&gateway, WAITING).await > 0);
    let began = Instant::now();
    gateway.stopped().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}
