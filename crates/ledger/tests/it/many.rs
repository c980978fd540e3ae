//! Several processes with one ledger: each is a handle of its own here.

use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::Connection;
use softland_core::Outcome;
use softland_ledger::{Ledger, Query, Record};

use crate::support::*;

#[test]
fn many_processes_write_one_ledger_while_old_runs_are_swept() {
    let place = Place::new();
    let mut options = place.options.clone();
    options.events_path = None;
    let old = 1_000;
    place.write((0..old).flat_map(|run| whole_run(&format!("old-{run}"))).collect());
    // The runs above have expired by now.
    place.time.fetch_add(40 * 86_400_000, Ordering::Relaxed);
    let now = place.clock()();
    options.retention = Some(Duration::from_secs(30 * 86_400));
    options.end_left_open = true;
    let writers = 6;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let (options, clock) = (options.clone(), place.clock());
            scope.spawn(move || {
                for round in 0..4 {
                    let ledger = Ledger::open(options.clone(), clock.clone()).unwrap();
                    for record in whole_run(&format!("new-{writer}-{round}")) {
                        ledger.record(dated(record, now));
                    }
                    ledger.close(LONG).unwrap();
                    assert_eq!(ledger.lost_records(), 0);
                }
            });
        }
    });
    let runs = place.reader().list_runs(&Query::default()).unwrap();
    let (new, left): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.run.starts_with("new-"));
    assert_eq!(new.len(), writers * 4);
    assert!(
        new.iter().all(|run| run.end.as_ref().is_some_and(|end| end.outcome == Outcome::Landed))
    );
    assert!(left.len() < old as usize, "some old runs were swept meanwhile");
    let db = Connection::open(place.db()).unwrap();
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

/// The records of a run with one request, from its beginning to its end.
fn whole_run(run: &str) -> Vec<Record> {
    let Record::Request(mut asked) = request(Some(run), 1) else { unreachable!() };
    asked.id = format!("req-of-{run}");
    vec![start(run), Record::Request(asked), end(run)]
}

/// The record at another time.
fn dated(mut record: Record, at: u64) -> Record {
    match &mut record {
        Record::RunStart(start) => start.at = at,
        Record::Request(request) | Record::Sent(request) => request.at = at,
        Record::Event(event) => event.at = at,
        Record::RunEnd(end) => end.at = at,
    }
    record
}

#[test]
fn runs_of_yesterday_end_although_another_process_writes() {
    let mut place = Place::new();
    place.options.end_left_open = true;
    let ledger = place.open();
    ledger.record(start("old"));
    ledger.drain(LONG).unwrap();
    place.time.fetch_add(25 * 3_600_000, Ordering::Relaxed);
    ledger.record(dated(start("young"), place.clock()()));
    ledger.drain(LONG).unwrap();
    // The first process still has the file open.
    place.write(Vec::new());
    let open = Query { state: Some("open".to_owned()), ..Query::default() };
    let open: Vec<_> =
        place.reader().list_runs(&open).unwrap().into_iter().map(|run| run.run).collect();
    assert_eq!(open, ["young"]);
    ledger.close(LONG).unwrap();
}
