//! Deletions from a PostgreSQL, beside writers that are at work: sessions that do what these do, up to
//! a point that the test chooses.

use super::*;
use crate::server::Session;

/// A run with rows in each table.
fn run_with_everything(run: &str, at: u64) -> Vec<Record> {
    let Record::Request(asked) = request(Some(run), 1) else { unreachable!() };
    let asked = Request { id: format!("req-{run}"), content: Some(b"{}".to_vec()), ..asked };
    let sent = Request { id: format!("sent-{run}"), ..asked.clone() };
    let all = [start(run), Record::Request(asked), event(run, 1, "signal", "{}")];
    all.into_iter().chain([Record::Sent(sent)]).map(|record| dated(record, at)).collect()
}

/// Does what a writer does in a transaction: locks the row of a run, and adds rows to the run.
fn start_writing(server: &PostgresServer, run: &str) -> Session {
    server.begin(&format!(
        "BEGIN; UPDATE softland_ledger_runs SET next_seq = next_seq + 2 WHERE run = '{run}';
         INSERT INTO softland_ledger_lines
           SELECT id, 8, 0, 2, 'signal', '{{}}' FROM softland_ledger_runs WHERE run = '{run}';
         INSERT INTO softland_ledger_requests
           SELECT run_id, 9, at, 'next', session, 2, upstream, path, model, rung, status, 0, 0, 0, 0, 0, 0
           FROM softland_ledger_requests WHERE request = 'req-{run}';
         INSERT INTO softland_ledger_contents
           SELECT id, 9, 'x' FROM softland_ledger_runs WHERE run = '{run}';"
    ))
}

/// Returns the numbers of the rows that belong to no run, in each table, and of the runs.
fn count_rows_without_run(server: &PostgresServer) -> String {
    let without = |table: &str| {
        format!(
            "(SELECT count(*) FROM softland_ledger_{table} AS t WHERE NOT EXISTS
              (SELECT FROM softland_ledger_runs AS r WHERE r.id = t.run_id))"
        )
    };
    let [lines, requests, contents] = ["lines", "requests", "contents"].map(without);
    server.sql(&format!(
        "SELECT {lines}, {requests}, {contents}, (SELECT count(*) FROM softland_ledger_runs)"
    ))
}

/// Waits until a session waits for a lock, or until `done`.
fn wait_for_waiter(server: &PostgresServer, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() && server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
        assert!(since.elapsed() < LONG, "nobody waits");
    }
}

#[test]
#[ignore = "needs postgres"]
fn k62_on_postgres_runs_that_are_written_while_they_are_deleted_go_whole() {
    let server = PostgresServer::start();
    for target in [DeleteTarget::Run("run-a"), DeleteTarget::Of { session: Some("s1"), key: None }]
    {
        let shared = clear(&server);
        write(&options_of(&shared), run_with_everything("run-a", NOW));
        let writer = start_writing(&server, "run-a");
        std::thread::scope(|scope| {
            let deletion = scope.spawn(|| delete_runs(&shared, target).unwrap());
            wait_for_waiter(&server, || deletion.is_finished());
            writer.commit();
            assert_eq!(deletion.join().unwrap(), 1, "{target:?} waits for the writer");
        });
        assert_eq!(count_rows_without_run(&server), "0|0|0|0", "{target:?}");
        assert_eq!(server.sql("SELECT count(*) FROM softland_ledger_open_requests"), "0");
    }
}

#[test]
#[ignore = "needs postgres"]
fn on_postgres_a_run_that_is_deleted_while_it_is_written_begins_anew() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    write(&options_of(&shared), run_with_everything("run-a", NOW));
    let deletion = server.begin(
        "BEGIN; DELETE FROM softland_ledger_lines; DELETE FROM softland_ledger_requests;
         DELETE FROM softland_ledger_contents; DELETE FROM softland_ledger_runs;",
    );
    let ledger = open(&options_of(&shared));
    ledger.record(event("run-a", 2, "signal", "{}"));
    ledger.record(request(Some("run-a"), 2));
    wait_for_waiter(&server, || ledger.waiting_records() == 0);
    deletion.commit();
    ledger.close(LONG).unwrap();
    assert_eq!((count_rows_without_run(&server).as_str(), ledger.lost_records()), ("0|0|0|1", 0));
    let steps = Reader::open(&shared).unwrap().read_steps("run-a").unwrap();
    assert_eq!(steps.iter().map(|step| step.seq).collect::<Vec<_>>(), [0, 1], "both are kept");
}

#[test]
#[ignore = "needs postgres"]
fn on_postgres_retention_waits_for_no_writer() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    let old = NOW - 2 * 24 * 60 * 60 * 1000;
    write(
        &options_of(&shared),
        ["run-a", "run-c"].iter().flat_map(|run| run_with_everything(run, old)),
    );
    let writer = start_writing(&server, "run-a");
    let retention = Some(Duration::from_secs(24 * 60 * 60));
    write(&Options { retention, ..options_of(&shared) }, [start("run-d")]);
    let left = server.sql("SELECT run FROM softland_ledger_runs ORDER BY run");
    assert_eq!(left.lines().collect::<Vec<_>>(), ["run-a", "run-d"], "one is being written");
    writer.commit();
    assert_eq!(count_rows_without_run(&server), "0|0|0|2");
}

#[test]
#[ignore = "needs postgres"]
fn on_postgres_a_request_that_is_sent_waits_for_the_deletion_of_its_run() {
    let server = PostgresServer::start();
    let shared = place_of(&server);
    write(&options_of(&shared), run_with_everything("run-a", NOW));
    let deletion = server.begin(
        "BEGIN; DELETE FROM softland_ledger_lines; DELETE FROM softland_ledger_requests;
         DELETE FROM softland_ledger_contents; DELETE FROM softland_ledger_open_requests;
         DELETE FROM softland_ledger_runs;",
    );
    let ledger = open(&options_of(&shared));
    let Record::Request(sent) = request(Some("run-a"), 2) else { unreachable!() };
    ledger.record(Record::Sent(sent));
    wait_for_waiter(&server, || ledger.waiting_records() == 0);
    deletion.commit();
    ledger.close(LONG).unwrap();
    assert_eq!(server.sql("SELECT run FROM softland_ledger_open_requests"), "run-a");
    let session = server.sql("SELECT session FROM softland_ledger_runs WHERE run = 'run-a'");
    assert_eq!(session, "s1", "the run is there again");
}
