//! Ledgers in a PostgreSQL, over a real server: they answer as SQLite files do, take what several
//! writers write at once, and a database that is away costs records at most.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use softland_core::{NanoUsd, Outcome, Reason, RunEnding};
use softland_ledger::{
    DeleteTarget, Event, Ledger, LedgerMark, LedgerPlace, Options, Payer, Query, Reader, Record,
    Request, RunEnd, RunLookup, RunOwner, RunStart, UsageGroup, UsageQuery, delete_runs,
};

use crate::outage::TestServer as _;
use crate::server::{PostgresServer, postgres_program};
use crate::support::*;

mod deletion;

/// The runs of random records. One id begins another.
const RUNS: [&str; 4] = ["run-a", "run-ab", "run-c", "run-d"];

#[test]
fn tests_with_postgres_pass() {
    crate::required::run_with_server("postgres", &postgres_program("postgres"));
}

fn place_of(server: &PostgresServer) -> LedgerPlace {
    LedgerPlace::from_url(&server.url()).unwrap()
}

fn options_of(place: &LedgerPlace) -> Options {
    Options {
        place: Some(place.clone()),
        full_contents: true,
        gather: Duration::from_millis(2),
        ..Options::default()
    }
}

fn open(options: &Options) -> Ledger {
    Ledger::open(options.clone(), Arc::new(|| NOW)).unwrap()
}

fn write(options: &Options, records: impl IntoIterator<Item = Record>) {
    let ledger = open(options);
    records.into_iter().for_each(|record| ledger.record(record));
    ledger.close(LONG).unwrap();
    assert_eq!(ledger.lost_records(), 0);
}

/// An empty ledger.
fn clear(server: &PostgresServer) -> LedgerPlace {
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    place_of(server)
}

/// Every answer that a reader gives.
fn all_answers(reader: &Reader) -> String {
    let mut told = Vec::new();
    let mut tell = |answer: &dyn std::fmt::Debug| told.push(format!("{answer:?}"));
    let text = |text: &str| Some(text.to_owned());
    for query in [
        Query::default(),
        Query { limit: Some(2), ..Query::default() },
        Query { state: Some("open".to_owned()), ..Query::default() },
        Query { session: text("s1"), since: Some(NOW + 5000), ..Query::default() },
        Query { key: text("ana"), ..Query::default() },
        Query { account: text("acme"), ..Query::default() },
        Query { account: text("acme/a"), model: text("m1"), ..Query::default() },
        Query { policy: text("coding"), agent: text("Tester"), ..Query::default() },
        Query { state: text("landed"), ..Query::default() },
        Query { text: text("TEST"), ..Query::default() },
        Query { text: text("é"), ..Query::default() },
        Query { text: text("É"), ..Query::default() },
        Query { text: text("%"), ..Query::default() },
    ] {
        tell(&reader.list_runs(&query).unwrap());
        tell(&reader.sum_unassigned(&query).unwrap());
    }
    tell(&reader.find_latest().unwrap());
    tell(&reader.find_named("job").unwrap());
    for run in ["run-a", "run-", "run-c", "x", ""] {
        tell(&reader.find_run(run).unwrap());
        tell(&reader.read_steps(run).unwrap());
        tell(&reader.read_newest_content(run).unwrap());
        tell(&reader.turn_cost(run, 2).unwrap());
    }
    tell(&reader.has_contents().unwrap());
    tell(&reader.list_signals(NOW + 1000).unwrap());
    tell(&sum_usage(reader, &[]));
    tell(&sum_usage(reader, &UsageGroup::ALL));
    tell(&sum_usage(reader, &[UsageGroup::Agent, UsageGroup::Day]));
    for account in ["acme", "acme/a", "acm"] {
        tell(&reader.sum_account(account, NOW + 2000).unwrap());
        tell(&reader.sum_account_span(account, NOW, 3000, NOW + 9000).unwrap());
    }
    told.join("\n")
}

fn sum_usage(reader: &Reader, by: &[UsageGroup]) -> Vec<softland_ledger::UsageRow> {
    let query = UsageQuery { by: by.to_vec(), limit: 1000, ..UsageQuery::default() };
    let all = reader.sum_usage(&query).unwrap();
    let (from, to, account) = (Some(NOW + 1000), Some(NOW + 12_000), Some("acme/a".to_owned()));
    let part = reader.sum_usage(&UsageQuery { from, to, account, ..query }).unwrap();
    all.into_iter().chain(part).collect()
}

fn payers() -> impl Strategy<Value = Payer> {
    let payer = |key: Option<&str>, account: Option<&str>| Payer {
        key: key.map(Into::into),
        account: account.map(Into::into),
    };
    prop_oneof![
        Just(payer(None, None)),
        Just(payer(Some("ana"), Some("acme/a"))),
        Just(payer(Some("bo"), Some("acme/ab"))),
        Just(payer(Some("carl"), Some("acme"))),
    ]
}

/// A record, whose time is a step after the one before.
fn records() -> impl Strategy<Value = Record> {
    let run = prop::sample::select(&RUNS[..]);
    let begun = (run.clone(), payers(), any::<bool>()).prop_map(|(run, payer, named)| {
        let Record::RunStart(begun) = start(run) else { unreachable!() };
        Record::RunStart(RunStart {
            payer,
            session: if named { "s1".into() } else { "s\u{e9}2".into() },
            agent: named.then(|| "Tester".into()),
            name: named.then(|| "job".into()),
            observed: !named,
            ..begun
        })
    });
    let asked = (prop::option::of(run.clone()), payers(), 1..4_u64, 0..5_u64, any::<bool>());
    let asked = asked
        .prop_map(|(run, payer, turn, id, priced)| {
            let Record::Request(asked) = request(run, turn) else { unreachable!() };
            Request {
                payer,
                id: format!("req-{id}"),
                model: Some(if priced { "m1".into() } else { "m\u{e9}".into() }),
                cost: asked.cost.filter(|_| priced),
                rung: priced.then(|| "ask".to_owned()),
                status: Some(200).filter(|_| priced),
                content: priced.then(|| format!("{{\"n\":{id}}}").into_bytes()),
                ..asked
            }
        })
        .boxed();
    let asked = prop_oneof![asked.clone().prop_map(Record::Request), asked.prop_map(Record::Sent)];
    let names = prop::sample::select(&["signal", "turn_start", "intervention", "done"][..]);
    let said = (run.clone(), names, 1..4_u64, "[a-z\u{e9}\"\\\\\u{0}]{0,8}").prop_map(
        |(run, name, turn, text)| {
            let fields = softland_ledger::Fields::from_value(&serde_json::json!({"text": text}));
            let Record::Event(said) = event(run, turn, name, "{}") else { unreachable!() };
            Record::Event(Event { fields, ..said })
        },
    );
    let ended = (run, payers(), any::<bool>()).prop_map(|(run, payer, landed)| {
        let ended = if landed { end(run) } else { failed(run) };
        let Record::RunEnd(ended) = ended else { unreachable!() };
        let owner = RunOwner { session: Some("s1".into()), model: Some("m1".into()), payer };
        Record::RunEnd(RunEnd { owner, ..ended })
    });
    prop_oneof![2 => begun, 5 => asked, 4 => said, 1 => ended]
}

fn dated(mut record: Record, time: u64) -> Record {
    match &mut record {
        Record::RunStart(RunStart { at, .. })
        | Record::Sent(Request { at, .. })
        | Record::Request(Request { at, .. })
        | Record::Event(Event { at, .. })
        | Record::RunEnd(RunEnd { at, .. }) => *at = time,
    }
    record
}

/// What is done to both ledgers after the records were written.
fn deletions() -> impl Strategy<Value = u8> {
    0..5_u8
}

fn delete(place: &LedgerPlace, which: u8) -> u64 {
    let target = match which {
        0 => DeleteTarget::Run("run-a"),
        1 => DeleteTarget::Before(NOW + 6000),
        2 => DeleteTarget::Of { session: Some("s1"), key: None },
        3 => DeleteTarget::Of { session: None, key: Some("ana") },
        _ => DeleteTarget::Of { session: Some("s1"), key: Some("bo") },
    };
    delete_runs(place, target).unwrap()
}

/// Writes the same records to a file and to a database, the latter through two writers by turns, and
/// compares all answers, also after a deletion.
fn check_alike(server: &PostgresServer, records: &[(Record, bool)], deleted: u8) {
    let folder = tempfile::tempdir().unwrap();
    let (file, shared) = (LedgerPlace::from(folder.path().join("l.db")), clear(server));
    let log = |name: &str| Some(folder.path().join(name));
    let one = open(&Options { events_path: log("one"), ..options_of(&file) });
    let two = [(); 2].map(|()| open(&Options { events_path: log("two"), ..options_of(&shared) }));
    let mut last = false;
    for (at, (record, turn)) in (0..).zip(records) {
        let record = dated(record.clone(), NOW + at * 700);
        one.record(record.clone());
        if last != *turn {
            two[usize::from(last)].drain(LONG).unwrap();
            last = *turn;
        }
        two[usize::from(last)].record(record);
    }
    for ledger in two.iter().chain([&one]) {
        // All records are settled before closing, which only repeats that some are lost: events of
        // reserved names.
        ledger.drain(LONG).unwrap();
        let _ = ledger.close(LONG);
    }
    assert_eq!(one.lost_records(), two.iter().map(Ledger::lost_records).sum::<u64>());
    let ids = |name: &str| -> Vec<String> {
        lines(&folder.path().join(name)).iter().map(ToString::to_string).collect()
    };
    assert_eq!(ids("one"), ids("two"), "the event logs");
    let answers = |place: &LedgerPlace| all_answers(&Reader::open(place).unwrap());
    similar(&answers(&file), &answers(&shared));
    let copy = folder.path().join("copy.db");
    Reader::open(&shared).unwrap().copy_to_file(&copy).unwrap();
    for run in RUNS {
        let steps = |place: &LedgerPlace| Reader::open(place).unwrap().read_steps(run).unwrap();
        assert_eq!(steps(&file), steps(&copy.as_path().into()), "the copy");
    }
    assert_eq!(delete(&file, deleted), delete(&shared, deleted), "the number of deleted runs");
    similar(&answers(&file), &answers(&shared));
}

/// Fails with the first answer that differs.
#[track_caller]
fn similar(one: &str, other: &str) {
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(one.lines().count(), other.lines().count());
}

#[test]
#[ignore = "needs postgres"]
fn k40_a_ledger_on_postgres_answers_as_a_file_does() {
    let server = PostgresServer::start();
    let turns = prop::collection::vec((records(), any::<bool>()), 0..40);
    let mut runner = TestRunner::new(Config { cases: 12, ..Config::default() });
    for _ in 0..runner.config().cases {
        // No search for a smaller case: each costs a database.
        let case = (&turns, deletions()).new_tree(&mut runner).unwrap();
        let (records, deleted) = case.current();
        check_alike(&server, &records, deleted);
    }
}

#[test]
#[ignore = "needs postgres"]
fn k41_many_writers_on_postgres_add_up_in_one_run() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    let (writers, each) = (4, 60);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let options = options_of(&shared);
            scope.spawn(move || {
                let ledger = open(&options);
                for turn in 1..=each {
                    let Record::Request(mut asked) = request(Some("run-a"), turn) else {
                        unreachable!()
                    };
                    asked.id = format!("req-{writer}-{turn}");
                    ledger.record(start(&format!("own-{}", turn % 7)));
                    ledger.record(Record::Request(asked));
                    ledger.record(event("run-a", turn, "signal", "{}"));
                    if turn % 5 == 0 {
                        ledger.drain(LONG).unwrap();
                    }
                }
                ledger.close(LONG).unwrap();
                assert_eq!(ledger.lost_records(), 0);
            });
        }
    });
    let reader = Reader::open(&shared).unwrap();
    let RunLookup::One(run) = reader.find_run("run-a").unwrap() else { panic!("one run") };
    let all = writers * each;
    assert_eq!((run.requests, run.turns, run.usage.input), (all, each, all * 10));
    assert_eq!(run.cost, Some(NanoUsd(1_500_001 * all)));
    let seqs: Vec<u64> = reader.read_steps("run-a").unwrap().iter().map(|step| step.seq).collect();
    assert_eq!(seqs, (0..2 * all).collect::<Vec<_>>(), "no number is missing or twice");
    assert_eq!(reader.list_runs(&Query::default()).unwrap().len(), 8);
}

#[test]
#[ignore = "needs postgres"]
fn k42_a_postgres_that_is_away_costs_records_and_no_time() {
    let mut server = PostgresServer::start();
    let shared = place_of(&server);
    let options = Options { queue_records: 64, ..options_of(&shared) };
    let ledger = open(&options);
    ledger.record(start("run-a"));
    ledger.drain(LONG).unwrap();
    server.kill();
    let began = Instant::now();
    for turn in 0..200 {
        ledger.record(request(Some("run-a"), turn));
    }
    assert!(began.elapsed() < Duration::from_secs(2), "nobody waits: {:?}", began.elapsed());
    assert!(ledger.lost_records() > 0, "the queue has an end");
    assert!(ledger.waiting_records() > 0, "and holds what it can");
    ledger.drain(Duration::from_millis(1)).unwrap_err();
    let since = Instant::now();
    while ledger.last_fault().is_none() && since.elapsed() < LONG {
        std::thread::yield_now();
    }
    let fault = ledger.last_fault().unwrap();
    assert!(fault.starts_with("postgres://127.0.0.1:") && !fault.contains('@'), "{fault}");
    server.restart();
    ledger.drain(LONG).unwrap();
    let lost = ledger.lost_records();
    ledger.record(end("run-a"));
    ledger.close(LONG).unwrap();
    assert_eq!(ledger.lost_records(), lost, "what came later is written");
    let reader = Reader::open(&shared).unwrap();
    let RunLookup::One(run) = reader.find_run("run-a").unwrap() else { panic!("one run") };
    assert_eq!(
        (run.requests + lost, run.ended.is_some()),
        (200, true),
        "each is written or counted"
    );
}

#[test]
#[ignore = "needs postgres"]
fn a_gateway_starts_while_its_postgres_is_away() {
    let mut server = PostgresServer::start();
    let shared = place_of(&server);
    server.kill();
    let ledger = open(&options_of(&shared));
    ledger.record(start("run-a"));
    assert!(Reader::open(&shared).is_err());
    server.restart();
    ledger.close(LONG).unwrap();
    assert_eq!(Reader::open(&shared).unwrap().list_runs(&Query::default()).unwrap().len(), 1);
}

/// Passes connections on to a server. Once armed, it lets one commit through and cuts the connection
/// off instead of its confirmation.
fn start_cutting_proxy(server: &PostgresServer) -> (String, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let (url, at) = (server.url(), listener.local_addr().unwrap().to_string());
    let target = url.split(['@', '/']).find(|part| part.contains("127.0.0.1")).unwrap().to_owned();
    let url = url.replace(&target, &at);
    let cuts = Arc::clone(&armed);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&target).unwrap());
            let (mut answers, mut back) =
                (server.try_clone().unwrap(), client.try_clone().unwrap());
            let (cuts, cut) = (Arc::clone(&cuts), Arc::new(AtomicBool::new(false)));
            let is_cut = Arc::clone(&cut);
            std::thread::spawn(move || {
                let mut piece = [0; 8192];
                while let Ok(size @ 1..) = answers.read(&mut piece) {
                    // The confirmation of the commit: it is done now.
                    if is_cut.load(Ordering::SeqCst) || back.write_all(&piece[..size]).is_err() {
                        break;
                    }
                }
                let _ = back.shutdown(Shutdown::Both);
            });
            std::thread::spawn(move || {
                let mut piece = [0; 8192];
                while let Ok(size @ 1..) = client.read(&mut piece) {
                    let commits = piece[..size].windows(7).any(|part| part == b"COMMIT\0");
                    if commits && cuts.swap(false, Ordering::SeqCst) {
                        cut.store(true, Ordering::SeqCst);
                    }
                    if server.write_all(&piece[..size]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (url, armed)
}

#[test]
#[ignore = "needs postgres"]
fn k43_a_batch_on_postgres_whose_confirmation_is_lost_is_written_once() {
    let server = PostgresServer::start();
    let (url, armed) = start_cutting_proxy(&server);
    let shared = LedgerPlace::from_url(&url).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let ledger = open(&Options { events_path: Some(log.clone()), ..options_of(&shared) });
    ledger.record(start("run-a"));
    ledger.drain(LONG).unwrap();
    armed.store(true, Ordering::SeqCst);
    ledger.record(request(Some("run-a"), 1));
    ledger.drain(LONG).unwrap();
    assert!(!armed.load(Ordering::SeqCst) && ledger.last_fault().is_some(), "one was cut off");
    ledger.record(end("run-a"));
    ledger.close(LONG).unwrap();
    let reader = Reader::open(place_of(&server)).unwrap();
    let RunLookup::One(run) = reader.find_run("run-a").unwrap() else { panic!("one run") };
    assert_eq!((run.requests, ledger.lost_records()), (1, 0));
    let events: Vec<_> = lines(&log).iter().map(|line| line["event"].to_string()).collect();
    assert_eq!(events, ["\"run_start\"", "\"usage\"", "\"done\""], "and each line is in the log");
}

#[test]
#[ignore = "needs postgres"]
fn k44_old_runs_go_from_postgres_and_abandoned_ones_end_once() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    let Record::Request(sent) = request(Some("run-a"), 1) else { unreachable!() };
    let sent = Request { cost: Some(NanoUsd(7)), ..sent };
    write(&options_of(&shared), [start("run-a"), Record::Sent(sent), start("run-c"), end("run-c")]);
    let day = 24 * 60 * 60 * 1000;
    let later = |hours: u64, keep: Option<u64>| {
        let retention = keep.map(|days| Duration::from_millis(days * day));
        let options = Options { end_left_open: true, retention, ..options_of(&shared) };
        let all = [(); 3].map(|()| {
            Ledger::open(options.clone(), Arc::new(move || NOW + hours * 3_600_000)).unwrap()
        });
        for ledger in all {
            ledger.record(dated(start(&format!("run-{hours}")), NOW + hours * 3_600_000));
            ledger.close(LONG).unwrap();
        }
    };
    let find = |run: &str| match Reader::open(&shared).unwrap().find_run(run).unwrap() {
        RunLookup::One(run) => Some(run),
        _ => None,
    };
    later(23, None);
    assert!(find("run-a").unwrap().ended.is_none(), "its gateway may still serve it");
    later(26, None);
    let run = find("run-a").unwrap();
    assert_eq!(run.end, Some(RunEnding::without_limit(Outcome::Cancelled, Reason::User)));
    assert_eq!((run.requests, run.cost), (1, Some(NanoUsd(7))), "its request is booked once");
    assert_eq!(server.sql("SELECT count(*) FROM softland_ledger_open_requests"), "0");
    later(24 * 30, Some(40));
    assert!(find("run-a").is_some());
    later(24 * 60, Some(40));
    assert_eq!((find("run-a"), find("run-c"), find("run-26")), (None, None, None));
    assert!(find("run-1440").is_some() && find("run-720").is_some());
    assert_eq!(server.sql("SELECT count(*) FROM softland_ledger_requests"), "0");
}

#[test]
#[ignore = "needs postgres"]
fn a_reader_of_a_postgres_sees_whole_batches_while_they_are_written() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    assert!(matches!(
        Reader::open(&shared).unwrap_err().problem,
        softland_ledger::OpenProblem::Empty
    ));
    let ledger = open(&options_of(&shared));
    ledger.record(start("run-a"));
    ledger.drain(LONG).unwrap();
    let (reader, mark) = (Reader::open(&shared).unwrap(), LedgerMark::read(&shared).unwrap());
    for turn in 1..200 {
        ledger.record(request(Some("run-a"), turn));
        ledger.record(event("run-a", turn, "signal", "{}"));
        let seqs: Vec<_> = reader.read_steps("run-a").unwrap().iter().map(|s| s.seq).collect();
        assert_eq!(seqs, (0..seqs.len() as u64).collect::<Vec<_>>(), "no number is missing");
    }
    ledger.close(LONG).unwrap();
    assert_ne!(LedgerMark::read(&shared), Some(mark), "others have written");
    assert_eq!(LedgerMark::read(&shared), LedgerMark::read(&shared));
}

#[test]
#[ignore = "needs postgres"]
fn k45_a_postgres_that_refuses_or_is_newer_is_named_without_its_password() {
    let server = PostgresServer::start();
    write(&options_of(&place_of(&server)), [start("run-a")]);
    server.sql("INSERT INTO softland_ledger_meta VALUES (99)");
    let url = server.url().replace("softland@", "softland:hunter2@");
    let newer = LedgerPlace::from_url(&url).unwrap();
    let absent = LedgerPlace::from_url(&url.replace("/postgres", "/absent")).unwrap();
    let nobody = LedgerPlace::from_url(&url.replace("softland:", "nobody:")).unwrap();
    for (place, why) in [
        (&newer, "was written by a newer softland (ledger version 99; this one knows up to 1)"),
        (&absent, "database \"absent\" does not exist (3D000)"),
        (&nobody, "role \"nobody\" does not exist (28000)"),
    ] {
        let written = Ledger::open(options_of(place), Arc::new(|| NOW)).unwrap_err();
        for told in [written.to_string(), Reader::open(place).unwrap_err().to_string()] {
            assert!(told.starts_with("postgres://127.0.0.1:") && told.contains(why), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        assert!(!format!("{place:?} {written:?}").contains("hunter2"));
    }
    for wrong in ["postgres://a:hunter2@[x/b", "postgres://a:hunter2@h/b?sslmode=x"] {
        let told = LedgerPlace::from_url(wrong).unwrap_err();
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_file_is_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("l.db"), folder.path().join("copy.db"));
    let run = |name: &str| [start(name), request(Some(name), 1), event(name, 1, "signal", "{}")];
    let options = options_of(&file.as_path().into());
    write(&options, (0..900).flat_map(|n| run(&format!("run-{n}"))));
    Reader::open(&file).unwrap().copy_to_file(&copy).unwrap();
    let list = |path: &Path| {
        let reader = Reader::open(path).unwrap();
        let runs = reader.list_runs(&Query::default()).unwrap();
        let steps = runs.iter().map(|run| reader.read_steps(&run.run).unwrap());
        let steps: Vec<_> = steps.collect();
        (runs, steps)
    };
    assert_eq!(list(&file), list(&copy));
}
