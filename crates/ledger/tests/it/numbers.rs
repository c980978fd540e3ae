//! Numbers without gaps and one end, for any order of records, any batches, restarts and threads.

use proptest::prelude::*;
use softland_ledger::{Query, Record, Run};

use crate::support::*;

/// A step of a test: an operation on a ledger.
#[derive(Clone, Debug)]
enum Act {
    Record(u8, Kind),
    Drain,
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Start,
    Request,
    Signal,
    Turn,
    End,
    Fail,
}

fn record(run: u8, kind: Kind) -> Record {
    let run = format!("run-{run}");
    match kind {
        Kind::Start => start(&run),
        Kind::Request => request(Some(&run), 1),
        Kind::Signal => event(&run, 1, "signal", r#"{"signal":"empty"}"#),
        Kind::Turn => event(&run, 1, "turn_start", "{}"),
        Kind::End => end(&run),
        Kind::Fail => failed(&run),
    }
}

fn act() -> impl Strategy<Value = Act> {
    let kind = prop_oneof![
        2 => Just(Kind::Start),
        4 => Just(Kind::Request),
        2 => Just(Kind::Signal),
        4 => Just(Kind::Turn),
        1 => Just(Kind::End),
        1 => Just(Kind::Fail),
    ];
    prop_oneof![
        20 => (0..4_u8, kind).prop_map(|(run, kind)| Act::Record(run, kind)),
        2 => Just(Act::Drain),
        1 => Just(Act::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn numbers_have_no_gaps_and_one_line_is_the_last(
        acts in prop::collection::vec(act(), 0..60),
        with_database in any::<bool>(),
    ) {
        let mut place = Place::new();
        if !with_database {
            place.options.place = None;
        }
        place.options.gather = std::time::Duration::ZERO;
        let mut ledger = place.open();
        let mut ended = [false; 4];
        // The lines of a run: every record up to its end, and its beginning once.
        let (mut lines, mut met) = ([0_usize; 4], [false; 4]);
        for act in acts {
            match act {
                Act::Record(run, kind) => {
                    let at = usize::from(run);
                    ledger.record(record(run, kind));
                    let again = matches!(kind, Kind::Start) && met[at];
                    lines[at] += usize::from(!ended[at] && !again);
                    // Without a database, only the beginning itself or a restart shows this.
                    met[at] |= matches!(kind, Kind::Start);
                    ended[at] |= matches!(kind, Kind::End | Kind::Fail);
                }
                Act::Drain => ledger.drain(LONG).unwrap(),
                Act::Restart => {
                    ledger.close(LONG).unwrap();
                    if !with_database {
                        for run in 0..4 {
                            met[run] |= lines[run] > 0;
                        }
                    }
                    ledger = place.open();
                }
            }
        }
        ledger.close(LONG).unwrap();
        let log = place.lines();
        for run in 0..4 {
            let name = format!("run-{run}");
            let of: Vec<_> = log.iter().filter(|line| line["run"] == name).cloned().collect();
            check_lines(&of);
            prop_assert_eq!(of.len(), lines[run], "{}", &name);
            let last = of.last().map(|line| line["event"].as_str().unwrap().to_owned());
            let over = matches!(last.as_deref(), Some("done" | "error"));
            prop_assert_eq!(over, ended[run]);
            if with_database {
                prop_assert_eq!(place.steps(&name), of);
            }
        }
    }
}

/// Returns every run as stored in the database.
fn runs(place: &Place) -> Vec<Run> {
    let mut runs = place.reader().list_runs(&Query::default()).unwrap();
    runs.sort_by(|one, other| one.run.cmp(&other.run));
    runs
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    #[test]
    fn runs_stand_the_same_however_they_are_written(
        acts in prop::collection::vec(act(), 1..40),
    ) {
        // In one batch; in one batch per drain and restart; and one by one, by two processes in
        // turn, so that each reads the other's records.
        let mut places = [Place::new(), Place::new(), Place::new()];
        places[0].options.gather = LONG;
        let whole = places[0].open();
        let mut some = places[1].open();
        let both = [places[2].open(), places[2].open()];
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Record(run, kind) => {
                    let record = record(run, kind);
                    whole.record(record.clone());
                    some.record(record.clone());
                    both[number % 2].record(record);
                    both[number % 2].drain(LONG).unwrap();
                }
                Act::Drain => some.drain(LONG).unwrap(),
                Act::Restart => {
                    some.close(LONG).unwrap();
                    some = places[1].open();
                }
            }
        }
        for ledger in both.iter().chain([&whole, &some]) {
            ledger.close(LONG).unwrap();
        }
        let expected = runs(&places[0]);
        prop_assert_eq!(&runs(&places[1]), &expected);
        prop_assert_eq!(&runs(&places[2]), &expected);
    }
}

#[test]
fn many_threads_write_one_ledger() {
    let place = Place::new();
    let ledger = place.open();
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let ledger = ledger.clone();
            std::thread::spawn(move || {
                for turn in 0..200 {
                    // One run of its own, and one that all share.
                    ledger.record(request(Some(&format!("own-{thread}")), turn));
                    ledger.record(event("shared", turn, "signal", "{}"));
                    ledger.record(request(None, turn));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    ledger.record(end("shared"));
    ledger.drain(LONG).unwrap();
    assert_eq!((ledger.lost_records(), ledger.waiting_records()), (0, 0));
    let log = place.lines();
    for run in place.reader().list_runs(&Query::default()).unwrap() {
        let of: Vec<_> = log.iter().filter(|line| line["run"] == run.run).cloned().collect();
        check_lines(&of);
        assert_eq!(of.len(), if run.run == "shared" { 1601 } else { 200 });
        assert_eq!(place.steps(&run.run), of);
    }
}

#[test]
fn two_processes_may_write_one_ledger() {
    // Two ledgers in one process know nothing of each other either.
    let place = Place::new();
    let ledgers = [place.open(), place.open()];
    for turn in 0..50 {
        for (number, ledger) in ledgers.iter().enumerate() {
            ledger.record(request(Some(&format!("own-{number}")), turn));
            ledger.record(request(None, turn));
        }
    }
    // A run that moves from one to the other, such as after a restart that overlaps.
    for turn in 0..6 {
        let ledger = &ledgers[turn as usize % 2];
        ledger.record(request(Some("moving"), turn));
        ledger.drain(LONG).unwrap();
    }
    for ledger in &ledgers {
        ledger.close(LONG).unwrap();
        assert_eq!(ledger.lost_records(), 0);
    }
    let log = place.lines();
    for (run, count) in [("own-0", 50), ("own-1", 50), ("moving", 6)] {
        let of: Vec<_> = log.iter().filter(|line| line["run"] == run).cloned().collect();
        check_lines(&of);
        assert_eq!((of.len(), place.steps(run).len()), (count, count), "{run}");
    }
}

#[test]
fn an_event_cannot_pose_as_the_end() {
    let place = Place::new();
    let ledger = place.open();
    for name in ["done", "error", "run_start", "lines"] {
        ledger.record(event("r", 1, name, "{}"));
    }
    ledger.record(end("r"));
    ledger.drain(LONG).unwrap();
    assert_eq!(ledger.lost_records(), 4);
    let lines = place.lines();
    check_lines(&lines);
    assert_eq!(lines.len(), 1);
}
