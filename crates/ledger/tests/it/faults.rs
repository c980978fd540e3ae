//! Failing disks: recording never waits, losses are counted and logged, and faults pass.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use softland_ledger::{Ledger, Query, Record};

use crate::support::*;

/// Records these without waiting for a disk: half of the calls take at most 50 µs each, and none
/// takes longer than a busy machine may pause a thread, which is less than the time to wait for a
/// lock.
#[track_caller]
fn record_all(ledger: &Ledger, records: impl Iterator<Item = Record>) {
    let mut took = Vec::new();
    for record in records {
        let began = Instant::now();
        ledger.record(record);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    let slowest = took.last().copied().unwrap_or_default();
    assert!(median < Duration::from_micros(50), "{median:?}");
    assert!(slowest < Duration::from_millis(200), "{slowest:?}");
}

fn requests(run: &str, count: u64) -> impl Iterator<Item = Record> {
    (0..count).map(move |turn| request(Some(run), turn))
}

/// Checks that every record that was not lost is there, once, in both places.
#[track_caller]
fn check(place: &Place, run: &str, recorded: u64, lost: u64) {
    let lines = place.lines();
    check_lines(&lines);
    assert_eq!(lines.len() as u64, recorded - lost);
    assert_eq!(place.steps(run), lines);
}

#[test]
fn a_locked_file_loses_only_what_does_not_fit_and_passes() {
    let mut place = Place::new();
    place.options.queue_records = 64;
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.drain(LONG).unwrap();
    let lock = Connection::open(place.db()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    record_all(&ledger, requests("r", 200));
    ledger.drain(Duration::from_millis(400)).unwrap_err();
    record_all(&ledger, requests("r", 200));
    let lost = ledger.lost_records();
    assert!(lost >= 400 - 2 * 64, "{lost}");
    lock.execute_batch("COMMIT").unwrap();
    ledger.drain(LONG).unwrap();
    assert_eq!(ledger.lost_records(), lost, "what waited is written");
    // It continues without a gap.
    ledger.record(request(Some("r"), 1));
    ledger.close(LONG).unwrap();
    check(&place, "r", 402, lost);
}

#[test]
fn a_queue_that_fills_is_written_before_it_is_full() {
    let mut place = Place::new();
    place.options.queue_records = 64;
    place.options.gather = 10 * LONG;
    let ledger = place.open();
    record_all(&ledger, std::iter::once(start("r")).chain(requests("r", 40)));
    let until = Instant::now() + LONG;
    while ledger.waiting_records() >= 32 && Instant::now() < until {
        std::thread::yield_now();
    }
    assert!(ledger.waiting_records() < 32, "what is written did not wait for company");
    ledger.close(LONG).unwrap();
    check(&place, "r", 41, 0);
}

#[test]
fn a_ledger_opens_on_a_locked_file() {
    let place = Place::new();
    place.write(vec![start("r")]);
    let lock = Connection::open(place.db()).unwrap();
    lock.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    let ledger = place.open();
    ledger.record(request(Some("r"), 1));
    ledger.drain(Duration::from_millis(300)).unwrap_err();
    drop(lock);
    ledger.close(LONG).unwrap();
    check(&place, "r", 2, 0);
}

#[test]
fn a_full_database_is_a_counted_loss_until_there_is_room() {
    let mut place = Place::new();
    place.options.queue_records = 64;
    place.options.max_bytes = Some(200_000);
    let ledger = place.open();
    let (mut recorded, mut is_full) = (0, false);
    let until = Instant::now() + LONG;
    while !is_full && Instant::now() < until {
        record_all(&ledger, requests("r", 50));
        recorded += 50;
        // A queue that is full on a slow machine loses records, too, and is written then.
        let is_written = ledger.drain(Duration::from_secs(2)).is_ok();
        is_full = !is_written && ledger.lost_records() > 0;
    }
    assert!(ledger.lost_records() > 0 && ledger.waiting_records() > 0, "{ledger:?}");
    let kept = place.steps("r").len() as u64;
    assert!(std::fs::metadata(place.db()).unwrap().len() <= 200_000);
    // Another process makes room.
    let db = Connection::open(place.db()).unwrap();
    db.busy_timeout(LONG).unwrap();
    db.execute_batch("DELETE FROM requests WHERE seq < 600").unwrap();
    drop(db);
    ledger.close(LONG).unwrap();
    let lines = place.lines();
    check_lines(&lines);
    assert!(lines.len() as u64 > kept);
    assert_eq!(lines.len() as u64 + ledger.lost_records(), recorded);
}

#[test]
fn a_record_that_is_refused_is_lost_alone() {
    let mut place = Place::new();
    place.write(vec![start("run-1")]);
    // No record is known to be refused; an index added to the file refuses one.
    let rule = "CREATE UNIQUE INDEX once ON events (turn) WHERE event = 'signal'";
    Connection::open(place.db()).unwrap().execute_batch(rule).unwrap();
    place.options.gather = LONG;
    let ledger = place.open();
    // One batch with more rows than a statement takes; the second of two equal rows is refused.
    let turns = (1..=30).map(|turn| if turn == 20 { 7 } else { turn });
    record_all(&ledger, turns.map(|turn| event("run-1", turn, "signal", "{}")));
    record_all(&ledger, requests("run-1", 30));
    assert_eq!((ledger.close(LONG).unwrap_err().left, ledger.lost_records()), (1, 1));
    let lines = place.lines();
    check_lines(&lines);
    assert_eq!(lines, place.steps("run-1"));
    let of = |event: &str| lines.iter().filter(|line| line["event"] == event).count();
    assert_eq!((of("run_start"), of("signal"), of("usage")), (1, 29, 30));
}

#[test]
fn a_database_that_was_moved_away_is_begun_anew() {
    let place = Place::new();
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.record(start("open"));
    ledger.record(request(Some("open"), 1));
    ledger.drain(LONG).unwrap();
    let before = place.reader().list_runs(&Query::default()).unwrap();
    let before = before.iter().find(|run| run.run == "open").unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let name = format!("ledger.db{suffix}");
        std::fs::rename(place.folder().join(&name), place.folder().join(format!("old-{name}")))
            .unwrap();
    }
    // For now the file cannot even be created.
    std::fs::create_dir(place.db()).unwrap();
    ledger.record(start("new"));
    ledger.drain(Duration::from_millis(300)).unwrap_err();
    std::fs::remove_dir(place.db()).unwrap();
    ledger.record(end("open"));
    ledger.close(LONG).unwrap();
    assert_eq!(ledger.lost_records(), 0);
    let runs = place.reader().list_runs(&Query::default()).unwrap();
    let mut names: Vec<_> = runs.iter().map(|run| run.run.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["new", "open"]);
    // Runs with new records are as they were, including their start.
    let open = runs.iter().find(|run| run.run == "open").unwrap();
    assert_eq!((open.started, &open.model), (before.started, &before.model));
    assert_eq!((open.requests, open.end.is_some()), (1, true));
    let lines = place.lines().into_iter().filter(|line| line["run"] == "open");
    check_lines(&lines.collect::<Vec<_>>());
}

#[test]
fn a_log_that_cannot_be_written_holds_its_lines_back() {
    let mut place = Place::new();
    place.options.queue_records = 64;
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.drain(LONG).unwrap();
    std::fs::rename(place.log(), place.folder().join("first")).unwrap();
    std::fs::create_dir(place.log()).unwrap();
    record_all(&ledger, requests("r", 300));
    ledger.drain(Duration::from_millis(300)).unwrap_err();
    std::fs::remove_dir(place.log()).unwrap();
    ledger.close(LONG).unwrap();
    assert!(ledger.lost_records() > 0);
    let lines = [lines(&place.folder().join("first")), place.lines()].concat();
    check_lines(&lines);
    assert_eq!(lines.len() as u64, 301 - ledger.lost_records());
    assert_eq!(place.steps("r"), lines);
}

#[test]
fn lines_that_missed_the_log_are_in_it_after_the_next_start() {
    let place = Place::new();
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.record(start("other"));
    ledger.drain(LONG).unwrap();
    let away = place.folder().join("away");
    std::fs::rename(place.log(), &away).unwrap();
    std::fs::create_dir(place.log()).unwrap();
    ledger.record(request(Some("r"), 1));
    ledger.record(end("r"));
    // They are in the database, so they are not lost.
    ledger.close(Duration::from_millis(200)).unwrap();
    assert_eq!((place.steps("r").len(), lines(&away).len()), (3, 2));
    std::fs::remove_dir(place.log()).unwrap();
    // The state that a process leaves when it dies in the middle of a line.
    let torn = [std::fs::read(&away).unwrap(), b"{\"v\":1,\"seq\":1,\"ts".to_vec()].concat();
    std::fs::write(place.log(), torn).unwrap();
    for _ in 0..2 {
        place.write(Vec::new());
        let log = place.lines();
        let of: Vec<_> = log.iter().filter(|line| line["run"] == "r").cloned().collect();
        assert_eq!((log.len(), &of), (4, &place.steps("r")));
        check_lines(&of);
    }
}

#[test]
fn ends_are_let_in_where_requests_are_not() {
    let mut place = Place::new();
    place.options.queue_records = 64;
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.drain(LONG).unwrap();
    let lock = Connection::open(place.db()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // Records of a batch in progress are no longer in the queue.
    record_all(&ledger, requests("r", 30));
    ledger.drain(Duration::from_millis(100)).unwrap_err();
    record_all(&ledger, requests("r", 100));
    let lost = ledger.lost_records();
    assert!(lost >= 100 - 56, "{lost}");
    ledger.record(end("r"));
    assert_eq!(ledger.lost_records(), lost);
    lock.execute_batch("COMMIT").unwrap();
    ledger.close(LONG).unwrap();
    assert_eq!(place.lines().last().unwrap()["event"], "done");
}

#[test]
fn bytes_are_bounded_as_records_are() {
    let mut place = Place::new();
    place.options.queue_bytes = 1 << 20;
    let ledger = place.open();
    let lock = Connection::open(place.db()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for turn in 0..10 {
        let Record::Request(mut large) = request(Some("r"), turn) else { unreachable!() };
        large.content = Some(vec![b'x'; 400_000]);
        ledger.record(Record::Request(large));
    }
    // At most the held records (8 MiB per batch, never more than were accepted) and those that fit.
    assert!(ledger.lost_records() >= 4, "{}", ledger.lost_records());
    lock.execute_batch("COMMIT").unwrap();
    ledger.close(LONG).unwrap();
}

#[test]
fn a_closed_ledger_takes_nothing_and_says_so() {
    let place = Place::new();
    let ledger = place.open();
    let other = ledger.clone();
    ledger.record(start("r"));
    ledger.close(LONG).unwrap();
    other.record(end("r"));
    assert_eq!((other.lost_records(), other.waiting_records()), (1, 0));
    other.drain(LONG).unwrap();
    other.close(LONG).unwrap();
}

#[test]
fn what_cannot_be_written_before_the_end_is_counted() {
    let place = Place::new();
    let ledger = place.open();
    let lock = Connection::open(place.db()).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    record_all(&ledger, requests("r", 10));
    let began = Instant::now();
    let left = ledger.close(Duration::from_millis(200)).unwrap_err().left;
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_eq!((left, ledger.lost_records(), ledger.waiting_records()), (10, 10, 0));
}

#[test]
fn trouble_is_said_aloud_but_not_each_time() {
    let said = Said::default();
    let subscriber = tracing_subscriber::fmt().with_writer(said.clone()).with_ansi(false).finish();
    let place = Place::new();
    let ledger = place.open();
    ledger.close(LONG).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        record_all(&ledger, requests("r", 100));
    });
    let text = said.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("ERROR") && text.contains("the ledger loses records"), "{text}");
}

/// Collects log messages.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        String::from_utf8(bytes).unwrap()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Said {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
