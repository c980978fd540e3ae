//! Records are kept: in the database, in the log, across restarts, and for as long as configured.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use softland_core::{NanoUsd, Outcome};
use softland_ledger::{
    DeleteTarget, Ledger, OpenProblem, Options, Query, Reader, Record, Request, Run, RunLookup,
    RunStart, UnassignedTotals, Usage, delete_runs,
};

use crate::support::*;

pub(crate) fn whole(run: &str) -> Vec<Record> {
    let because =
        r#"{"intervention":"ask","because":{"reason":"tool_calls","used":30,"limit":30}}"#;
    vec![
        start(run),
        request(Some(run), 1),
        event(run, 2, "intervention", because),
        request(Some(run), 2),
        end(run),
    ]
}

#[test]
fn a_run_comes_out_as_it_went_in() {
    let place = Place::new();
    place.write(whole("run-1"));
    let lines = place.lines();
    assert_eq!(lines, place.steps("run-1"), "log and database say the same");
    check_lines(&lines);
    let events: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["run_start", "usage", "intervention", "usage", "done"]);
    assert_eq!(
        lines[0],
        json!({"v": 1, "seq": 0, "ts": "2026-09-21T14:13:20.000Z", "run": "run-1", "turn": 0,
            "event": "run_start", "agent": null, "model": "claude-opus-5-5", "policy": "coding",
            "session": "s1", "client": "claude-cli/2.1"})
    );
    assert_eq!(
        lines[1],
        json!({"v": 1, "seq": 1, "ts": "2026-09-21T14:13:21.000Z", "run": "run-1", "turn": 1,
            "event": "usage", "input": 10, "output": 20, "cache_read": 3000, "cache_write": 40,
            "cost_usd": 0.001500001, "request": "req-1", "upstream": "anthropic",
            "path": "/v1/messages", "model": "claude-opus-5-5", "status": 200, "ms": 812})
    );
    assert_eq!(
        lines[4],
        json!({"v": 1, "seq": 4, "ts": "2026-09-21T14:14:20.000Z", "run": "run-1", "turn": 2,
            "event": "done", "outcome": "landed", "reason": "tool_calls", "rung": "ask",
            "limit": "tool_calls_limit", "value": 30, "remaining": {}, "answered_by": "model",
            "turns": 2, "tool_calls": 30, "cost_usd": 0.003000002, "usage": {"input": 20,
            "output": 40, "cache_read": 6000, "cache_write": 80}})
    );
}

#[test]
fn a_run_is_listed_with_its_sums_and_its_end() {
    let place = Place::new();
    let ledger = place.open();
    let reader = || place.reader().list_runs(&Query::default()).unwrap().remove(0);
    for record in whole("run-1").into_iter().take(4) {
        ledger.record(record);
    }
    ledger.drain(LONG).unwrap();
    let open: Run = reader();
    let usage = Usage { input: 20, output: 40, cache_read: 6000, cache_write: 80 };
    assert_eq!((open.end, open.ended, open.tool_calls), (None, None, None));
    assert_eq!((open.turns, open.requests, open.usage), (2, 2, usage));
    assert_eq!((open.cost, open.unpriced), (Some(NanoUsd(3_000_002)), 0));
    ledger.record(end("run-1"));
    ledger.drain(LONG).unwrap();
    let ended = reader();
    let how = ended.end.clone().unwrap();
    assert_eq!((how.outcome, how.limit.as_deref()), (Outcome::Landed, Some("tool_calls_limit")));
    assert_eq!((ended.ended, ended.tool_calls), (Some(NOW + 60_000), Some(30)));
    assert_eq!((ended.usage, ended.cost), (usage, Some(NanoUsd(3_000_002))));
    let line: serde_json::Value = serde_json::from_str(&ended.to_json()).unwrap();
    assert_eq!((&line["outcome"], &line["answered_by"]), (&json!("landed"), &json!("model")));
    assert_eq!(line["cost_usd"], json!(0.003000002));
}

#[test]
fn an_unknown_price_is_not_nothing() {
    let place = Place::new();
    let Record::Request(known) = request(Some("r"), 1) else { unreachable!() };
    let mut unknown = known.clone();
    unknown.cost = None;
    place.write(vec![Record::Request(known), Record::Request(unknown)]);
    let run = place.reader().list_runs(&Query::default()).unwrap().remove(0);
    assert_eq!((run.cost, run.unpriced), (Some(NanoUsd(1_500_001)), 1));
    // What its lost beginning would have said, as far as its requests say it.
    assert_eq!(
        (run.session.as_deref(), run.model.as_deref()),
        (Some("s1"), Some("claude-opus-5-5"))
    );
    assert_eq!(place.lines()[1]["cost_usd"], json!(null));
}

/// Runs and requests of no run whose prices are all unknown were listed with 0.
#[test]
fn c154_money_is_unknown_where_no_part_of_it_is_known() {
    for (run, priced, wanted) in [
        (Some("r"), &[false][..], None),
        (Some("r"), &[false, false], None),
        (Some("r"), &[false, true], Some(NanoUsd(1_500_001))),
        (Some("r"), &[true], Some(NanoUsd(1_500_001))),
        (None, &[false], None),
        (None, &[true, false], Some(NanoUsd(1_500_001))),
    ] {
        let place = Place::new();
        let records = priced.iter().zip(1..).map(|(priced, n)| {
            let Record::Request(mut row) = request(run, n) else { unreachable!() };
            row.cost = row.cost.filter(|_| *priced);
            Record::Request(row)
        });
        place.write(records.collect());
        let json = match run {
            Some(_) => place.reader().list_runs(&Query::default()).unwrap().remove(0).to_json(),
            None => place.reader().sum_unassigned(&Query::default()).unwrap().to_json(None),
        };
        let line: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(line["cost_usd"], json!(wanted), "{run:?} {priced:?}");
    }
    // Nothing was spent where nothing was asked.
    assert_eq!(UnassignedTotals::default().known_cost(), Some(NanoUsd::ZERO));
}

#[test]
fn errors_have_a_message_and_no_answer() {
    let place = Place::new();
    place.write(vec![start("run-1"), failed("run-1")]);
    let line = place.lines().remove(1);
    assert_eq!((&line["event"], &line["outcome"]), (&json!("error"), &json!("failed")));
    assert_eq!(line["message"], "the provider gave no answer");
    assert!(line.get("answer").is_none() && line.get("answered_by").is_none());
}

#[test]
fn numbers_go_on_after_a_restart() {
    for with_database in [true, false] {
        let mut place = Place::new();
        if !with_database {
            place.options.place = None;
        }
        place.write(vec![start("a"), request(Some("a"), 1), start("b"), failed("b")]);
        // A restarted gateway sees the run again, and an ended run stays ended.
        place.write(vec![start("a"), request(Some("a"), 2), end("a"), end("b"), start("b")]);
        place.write(vec![end("a"), request(Some("a"), 3)]);
        for run in ["a", "b"] {
            let lines = place.lines();
            let lines: Vec<_> = lines.into_iter().filter(|line| line["run"] == run).collect();
            check_lines(&lines);
            assert_eq!(lines.len(), if run == "a" { 4 } else { 2 }, "{with_database} {run}");
        }
    }
}

#[test]
fn what_comes_late_is_kept_and_changes_no_end() {
    let place = Place::new();
    place.write([whole("r"), vec![request(Some("r"), 9), event("r", 9, "signal", "{}")]].concat());
    assert_eq!(place.lines().len(), 5);
    let steps = place.reader().read_steps("r").unwrap();
    let late: Vec<_> = steps.iter().map(|step| (step.seq, step.late)).collect();
    let wanted = [(0, false), (1, false), (2, false), (3, false), (4, false), (5, true), (6, true)];
    assert_eq!(late, wanted);
    let run = place.reader().list_runs(&Query::default()).unwrap().remove(0);
    assert_eq!((run.turns, run.requests, run.usage.input), (2, 3, 20));
}

#[test]
fn contents_are_digests_unless_whole_ones_are_wanted() {
    const SAID: &str = "the secret plan";
    for full in [false, true] {
        let mut place = Place::new();
        place.options.full_contents = full;
        let fields = |name: &str| json!({"id": "t1", "name": "grep", name: SAID}).to_string();
        let Record::Request(mut sent) = request(Some("r"), 1) else { unreachable!() };
        sent.content = Some(format!("{{\"messages\":\"{SAID}\"}}").into_bytes());
        let Record::RunEnd(mut ended) = end("r") else { unreachable!() };
        ended.answer = Some(SAID.to_owned());
        place.write(vec![
            start("r"),
            event("r", 1, "text_delta", &fields("text")),
            event("r", 1, "tool_execute", &fields("input")),
            event("r", 1, "tool_result", &fields("content")),
            Record::Request(sent),
            Record::RunEnd(ended),
        ]);
        let log = std::fs::read(place.log()).unwrap();
        let bytes = std::fs::read(place.db()).unwrap();
        for (what, bytes, times) in [("log", &log, 4), ("database", &bytes, 5)] {
            let found = bytes.windows(SAID.len()).filter(|w| *w == SAID.as_bytes()).count();
            assert_eq!(found >= times, full, "{what}: {found} times");
            assert!(full || found == 0, "{what}");
        }
        let result = &place.lines()[3];
        assert_eq!(result["content"].as_str(), full.then_some(SAID));
        assert_eq!(result["content_bytes"].as_u64(), (!full).then_some(15));
    }
}

#[test]
fn fields_cannot_break_a_line() {
    let place = Place::new();
    place.write(
        vec![
            event("r\n\"x", 1, "child", r#"{"run":"run-2","agent":"a"}"#),
            event("r\n\"x", 1, "signal", "{\n \"signal\": \"empty\"\n}"),
            event("r\n\"x", 1, "signal", "no object"),
            event("r\n\"x", 1, "signal", "{\"a\":1} {}"),
            event("r\n\"x", 1, "signal", " {} "),
            event("r\n\"x", 1, "child", r#"{"r\u0075n" : "run-3"}"#),
            // These have records of their own.
            event("r\n\"x", 1, "done", "{}"),
        ]
        .into_iter()
        .take(6)
        .collect(),
    );
    let lines = place.lines();
    check_lines(&lines);
    assert!(lines.iter().all(|line| line["run"] == "r\n\"x"));
    assert_eq!((&lines[0]["child_run"], &lines[0]["agent"]), (&json!("run-2"), &json!("a")));
    assert_eq!(lines[1]["signal"], "empty");
    assert_eq!(lines[2]["unreadable_bytes"], 9);
    assert_eq!(lines[3]["unreadable_bytes"], 10);
    assert_eq!(lines[5]["child_run"], "run-3");
    assert_eq!(lines, place.steps("r\n\"x"));
}

#[test]
fn lists_are_filtered_and_newest_first() {
    let place = Place::new();
    let mut records = Vec::new();
    for (number, session) in ["s1", "s2", "s1", "s2"].into_iter().enumerate() {
        let Record::RunStart(mut begun) = start(&format!("run-{number}")) else { unreachable!() };
        begun.at = NOW + number as u64;
        begun.session = session.into();
        records.push(Record::RunStart(begun));
    }
    records.push(end("run-3"));
    place.write(records);
    let reader = place.reader();
    let listed = |query: Query| -> Vec<String> {
        reader.list_runs(&query).unwrap().into_iter().map(|run| run.run).collect()
    };
    let all = Query::default();
    assert_eq!(listed(all.clone()), ["run-3", "run-2", "run-1", "run-0"]);
    assert_eq!(listed(Query { limit: Some(2), ..all.clone() }), ["run-3", "run-2"]);
    assert_eq!(listed(Query { since: Some(NOW + 2), ..all.clone() }), ["run-3", "run-2"]);
    let session = Some("s2".to_owned());
    let outcome =
        reader.list_runs(&all).unwrap()[0].end.as_ref().unwrap().outcome.word().to_owned();
    assert_eq!(listed(Query { state: Some(outcome), ..all.clone() }), ["run-3"]);
    assert!(listed(Query { state: Some("none".to_owned()), ..all.clone() }).is_empty());
    for (text, found) in [("RUN-2", vec!["run-2"]), ("none", Vec::new())] {
        assert_eq!(listed(Query { text: Some(text.to_owned()), ..all.clone() }), found);
    }
    assert_eq!(listed(Query { session, ..all.clone() }), ["run-3", "run-1"]);
    assert_eq!(
        listed(Query { state: Some("open".to_owned()), ..all }),
        ["run-2", "run-1", "run-0"]
    );
}

/// With more runs than the writer remembers, open runs keep their numbers, and an ended run is
/// found again.
#[test]
fn what_is_forgotten_is_read_again() {
    const MANY: u64 = 4_200;
    let mut place = Place::new();
    place.options.queue_records = 20_000;
    let mut records = vec![start("first"), event("first", 1, "signal", "{}")];
    for n in 0..MANY {
        let run = format!("run-{n}");
        records.extend([start(&run), end(&run)]);
    }
    records.extend([start("last"), event("first", 2, "signal", "{}"), end("first")]);
    records.extend([event("last", 1, "signal", "{}"), request(Some("run-7"), 3)]);
    place.write(records);
    for (run, lines) in [("first", 4), ("last", 2), ("run-7", 2), ("run-4199", 2)] {
        check_lines(&place.steps(run));
        assert_eq!(place.steps(run).len(), lines, "{run}");
    }
    let late = place.reader().read_steps("run-7").unwrap();
    assert_eq!(late.iter().filter(|step| step.late).count(), 1);
    assert_eq!(place.reader().list_runs(&Query::default()).unwrap().len() as u64, MANY + 2);
}

#[test]
fn runs_have_the_names_that_clients_give_them() {
    let place = Place::new();
    let named = |run: &str, name: Option<&str>, at: u64, observed: bool| {
        let Record::RunStart(begun) = start(run) else { unreachable!() };
        let name = name.map(Into::into);
        Record::RunStart(RunStart { at: NOW + at, name, observed, ..begun })
    };
    place.write(vec![
        named("b", Some("build-42"), 2, true),
        named("a", Some("build-42"), 3, false),
        named("c", None, 1, false),
        end("b"),
    ]);
    let reader = place.reader();
    let ids = |name: &str| -> Vec<String> {
        reader.find_named(name).unwrap().into_iter().map(|run| run.run).collect()
    };
    assert_eq!(ids("build-42"), ["b", "a"], "the oldest first");
    assert!(ids("build").is_empty() && ids("").is_empty());
    let RunLookup::One(run) = reader.find_run("b").unwrap() else { panic!("no run") };
    assert_eq!((run.name.as_deref(), run.observed), (Some("build-42"), true));
    let line: serde_json::Value = serde_json::from_str(&run.to_json()).unwrap();
    assert_eq!((&line["name"], &line["mode"]), (&json!("build-42"), &json!("observe")));
    let begun = &place.steps("b")[0];
    assert_eq!((&begun["name"], &begun["mode"]), (&json!("build-42"), &json!("observe")));
    let begun = &place.steps("c")[0];
    assert!(begun.get("name").is_none() && begun.get("mode").is_none(), "{begun}");
}

#[test]
fn what_belongs_to_no_run_is_summed() {
    let place = Place::new();
    let nothing = || UnassignedTotals::default();
    place.write(vec![start("r"), request(Some("r"), 1)]);
    assert_eq!(place.reader().sum_unassigned(&Query::default()).unwrap(), nothing());
    let loose = |turn: u64, session: &str, cost: Option<NanoUsd>| {
        let Record::Request(request) = request(None, turn) else { unreachable!() };
        let session = Some(session.into());
        Record::Request(Request { session, cost, ..request })
    };
    place.write(vec![
        loose(1, "s1", Some(NanoUsd(3))),
        loose(2, "s2", Some(NanoUsd(4))),
        loose(3, "s1", None),
    ]);
    let reader = place.reader();
    let of = |session: Option<&str>, since| {
        let session = session.map(str::to_owned);
        reader.sum_unassigned(&Query { session, since, ..Query::default() }).unwrap()
    };
    let all = of(None, None);
    assert_eq!((all.requests, all.cost, all.unpriced), (3, NanoUsd(7), 1));
    let usage = Usage { input: 30, output: 60, cache_read: 9000, cache_write: 120 };
    assert_eq!(all.usage, usage);
    let one = of(Some("s1"), None);
    assert_eq!((one.requests, one.cost, one.unpriced), (2, NanoUsd(3), 1));
    assert_eq!(of(None, Some(NOW + 2500)).requests, 1);
    assert_eq!(of(Some("s3"), None), nothing());
    let line: serde_json::Value = serde_json::from_str(&one.to_json(Some("s1"))).unwrap();
    assert_eq!((&line["run"], &line["session"]), (&json!(null), &json!("s1")));
    assert_eq!((&line["requests"], &line["cost_usd"]), (&json!(2), &json!(0.000000003)));
}

#[test]
fn a_ledger_of_an_older_version_is_brought_up() {
    let steps = [
        include_str!("../../src/db/1.sql"),
        include_str!("../../src/db/2.sql"),
        include_str!("../../src/db/3.sql"),
    ];
    for version in 1..=steps.len() {
        let place = Place::new();
        let db = rusqlite::Connection::open(place.db()).unwrap();
        for step in &steps[..version] {
            db.execute_batch(step).unwrap();
        }
        db.pragma_update(None, "user_version", version as i64).unwrap();
        db.pragma_update(None, "application_id", 0x736f_6674).unwrap();
        let sql = "INSERT INTO runs (run, started, last, met, next_seq, turns, requests, input, \
                   output, cache_read, cache_write, unpriced) VALUES ('old', 1, 2, 1, 2, 1, 0, 0, \
                   0, 0, 0, 0); \
                   INSERT INTO events VALUES (1, 0, 1, 0, 'run_start', '{}'), \
                   (1, 1, 2, 1, 'turn_start', '{}')";
        db.execute_batch(sql).unwrap();
        drop(db);
        let old = |what: &str| {
            let RunLookup::One(old) = place.reader().find_run("old").unwrap() else {
                panic!("no run")
            };
            assert_eq!((old.name, old.observed, old.started), (None, false, 1), "{what}");
            place.steps("old")
        };
        let before = old("it can be read before");
        assert_eq!(before.len(), 2);
        assert!(place.reader().find_named("old").unwrap().is_empty());
        let turns = (2..20).map(|turn| event("old", turn, "turn_start", "{}"));
        place.write([start("new")].into_iter().chain(turns).collect());
        let after = old("and when it is written");
        assert_eq!((&after[..2], after.len()), (&before[..], 20));
        check_lines(&after);
        assert!(matches!(place.reader().find_run("new").unwrap(), RunLookup::One(_)));
    }
}

/// A query by hand finds each line, also lines that share a row.
#[test]
fn each_line_is_in_the_view_by_itself() {
    let mut place = Place::new();
    place.options.gather = LONG;
    place.write((1..40).map(|turn| event("r", turn, "turn_start", "{\"a\":[1]}")).collect());
    let db = rusqlite::Connection::open(place.db()).unwrap();
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert!(one("SELECT count(*) FROM events") < 10);
    assert_eq!(one("SELECT count(DISTINCT seq) FROM lines WHERE event = 'turn_start'"), 39);
    assert_eq!(one("SELECT sum(turn) FROM lines WHERE fields = '{\"a\":[1]}'"), 780);
}

#[test]
fn runs_are_found_by_a_unique_prefix() {
    let place = Place::new();
    place.write(vec![
        start("run-a1"),
        start("run-a2"),
        start("run-b"),
        start("run-b-2"),
        start("x%_"),
    ]);
    let reader = place.reader();
    let found = |prefix: &str| match reader.find_run(prefix).unwrap() {
        RunLookup::One(run) => vec![run.run],
        RunLookup::Nothing => vec![],
        RunLookup::Several(ids) => [vec!["several".to_owned()], ids].concat(),
    };
    assert_eq!(found("run-a1"), ["run-a1"]);
    assert_eq!(found("run-b"), ["run-b"], "an id that another one begins with");
    assert_eq!(found("run-b-"), ["run-b-2"]);
    assert_eq!(found("run-a"), ["several", "run-a1", "run-a2"]);
    assert_eq!(found("x"), ["x%_"]);
    assert!(found("%").is_empty() && found("run-c").is_empty());
}

#[test]
fn old_runs_go_and_young_ones_stay() {
    let mut place = Place::new();
    let day = 86_400_000;
    let old: Vec<_> = (0..200).flat_map(|n| whole(&format!("old-{n}"))).collect();
    place.write(old);
    place.write((0..200).map(|_| request(None, 1)).collect());
    let Record::RunStart(mut young) = start("young") else { unreachable!() };
    young.at = NOW + 20 * day;
    place.write(vec![Record::RunStart(young)]);
    place.options.retention = Some(Duration::from_secs(30 * 86_400));
    place.time.store(NOW + 40 * day, Ordering::Relaxed);
    let ledger = place.open();
    let rows = |table: &str| {
        let db = rusqlite::Connection::open(place.db()).unwrap();
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    let until = std::time::Instant::now() + LONG;
    while rows("runs") + rows("requests") > 1 && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((rows("runs"), rows("requests"), rows("events")), (1, 0, 1));
    assert_eq!(place.reader().list_runs(&Query::default()).unwrap()[0].run, "young");
    drop(ledger);
}

#[test]
fn what_is_deleted_is_gone_while_a_gateway_writes() {
    let place = Place::new();
    let ledger = place.open();
    for n in 0..100 {
        whole(&format!("run-{n}")).into_iter().for_each(|record| ledger.record(record));
    }
    ledger.drain(LONG).unwrap();
    assert_eq!(delete_runs(place.db(), DeleteTarget::Run("run-7")).unwrap(), 1);
    assert_eq!(delete_runs(place.db(), DeleteTarget::Run("run-7")).unwrap(), 0);
    assert_eq!(delete_runs(place.db(), DeleteTarget::Before(NOW)).unwrap(), 0);
    ledger.record(start("new"));
    ledger.drain(LONG).unwrap();
    assert_eq!(delete_runs(place.db(), DeleteTarget::Before(NOW + 60_001)).unwrap(), 100);
    assert!(place.reader().list_runs(&Query::default()).unwrap().is_empty());
    // The writer notices: a deleted run is begun anew.
    ledger.record(request(Some("new"), 1));
    ledger.drain(LONG).unwrap();
    assert_eq!(place.steps("new").len(), 1);
    let error = delete_runs(place.folder().join("none.db"), DeleteTarget::Before(0)).unwrap_err();
    assert!(error.to_string().ends_with("none.db: there is no such ledger"), "{error}");
}

#[cfg(unix)]
fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Returns the mode that every file has on systems without modes.
#[cfg(not(unix))]
fn mode(_: &std::path::Path) -> u32 {
    0o644
}

fn open_to_all(path: &std::path::Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
    assert_eq!(mode(path), 0o644);
}

#[cfg(unix)]
#[test]
fn only_the_owner_may_read() {
    let place = Place::new();
    // Existing files with another mode.
    std::fs::write(place.log(), "").unwrap();
    open_to_all(&place.log());
    place.write(vec![start("q")]);
    open_to_all(&place.db());
    let ledger = place.open();
    ledger.record(start("r"));
    ledger.drain(LONG).unwrap();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm", "events.ndjson"] {
        assert_eq!(mode(&place.folder().join(name)), 0o600, "{name}");
    }
}

#[test]
fn a_closed_ledger_leaves_one_file() {
    let place = Place::new();
    place.write(vec![start("r")]);
    let names: std::collections::BTreeSet<_> = std::fs::read_dir(place.folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["events.ndjson", "ledger.db"]);
}

#[test]
fn files_of_others_and_of_the_future_are_left_alone() {
    let place = Place::new();
    let open = |path: &std::path::Path| {
        let problem = Ledger::open(Options::with_path(path), place.clock()).unwrap_err();
        let read = Reader::open(path).unwrap_err();
        assert_eq!(problem.to_string(), read.to_string());
        problem
    };
    let text = place.folder().join("notes.txt");
    std::fs::write(&text, "these are my notes, and they are longer than a header\n".repeat(99))
        .unwrap();
    let before = std::fs::read(&text).unwrap();
    open_to_all(&text);
    assert!(matches!(open(&text).problem, OpenProblem::NotALedger));
    assert_eq!((std::fs::read(&text).unwrap(), mode(&text)), (before, 0o644));
    let log = Options { events_path: Some(text.clone()), ..Options::default() };
    let error = Ledger::open(log, place.clock()).unwrap_err().to_string();
    assert!(error.contains("not an event log of softland; it is left as it is"), "{error}");
    assert_eq!(mode(&text), 0o644);

    let other = place.folder().join("other.db");
    let db = rusqlite::Connection::open(&other).unwrap();
    db.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE cookies (x)").unwrap();
    open_to_all(&other);
    assert!(matches!(open(&other).problem, OpenProblem::NotALedger));
    assert_eq!(mode(&other), 0o644);

    place.write(vec![start("r")]);
    let db = rusqlite::Connection::open(place.db()).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let error = open(&place.db());
    assert!(matches!(error.problem, OpenProblem::Newer { found: 99, .. }));
    assert!(error.to_string().contains("was written by a newer softland (ledger version 99"));
}

#[test]
fn an_empty_file_becomes_a_ledger() {
    let place = Place::new();
    std::fs::write(place.db(), "").unwrap();
    assert!(matches!(Reader::open(place.db()).unwrap_err().problem, OpenProblem::Empty));
    place.write(vec![start("r")]);
    assert_eq!(place.reader().list_runs(&Query::default()).unwrap().len(), 1);
    let missing = Reader::open(place.folder().join("none.db")).unwrap_err();
    assert!(matches!(missing.problem, OpenProblem::Missing));
    let folder = Reader::open(place.folder()).unwrap_err().to_string();
    assert!(folder.ends_with(": is a folder; a ledger is a file"), "{folder}");
    let deleted = delete_runs(place.folder(), DeleteTarget::Before(1));
    assert_eq!(deleted.unwrap_err().to_string(), folder);
    let folder = Ledger::open(Options::with_path(place.folder().join("no/such.db")), place.clock());
    assert!(folder.unwrap_err().to_string().contains("no/such.db: cannot be opened for writing"));
}
