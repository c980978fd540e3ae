//! The database ends and comes back, or hangs; a gateway ends and does not come back; unused rows are
//! deleted.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::time::{Duration, Instant};

use softland_govern::money::accounts::{Claim, WindowClaim};
use softland_govern::money::window::WindowBounds;
use softland_govern::runs::{RunOpening, RunProgress};
use softland_govern::shared::{Closing, ReserveQuery, ShownLink};
use softland_govern::store::{Namesake, RunState, StoreChanges};
use softland_govern::{ModelLessons, SharedState, StateNote};
use softland_session::ChainLink;
use softland_session::core::{Digest, NanoUsd};

use crate::outage::{
    SOON, check_another_gateway, check_spending, check_start, read_balance, wait_for_answer, wanted,
};
use crate::server::PostgresServer;
use crate::state::connect;

#[tokio::test]
#[ignore = "needs postgres"]
async fn what_was_spent_while_postgres_was_away_is_booked_once_when_it_is_back() {
    let mut server = PostgresServer::start();
    let state = connect(&server);
    check_spending(&mut server, &state).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_gateway_starts_while_postgres_is_away() {
    let mut server = PostgresServer::start();
    let url = server.url();
    check_start(&mut server, || softland_postgres::connect(&url).expect("an address")).await;
}

#[tokio::test]
async fn a_database_that_accepts_and_says_nothing_is_away() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = silent.local_addr().expect("its address");
    let url = format!("postgres://softland@{at}/postgres");
    let state = softland_postgres::connect(&url).expect("an address");
    let began = Instant::now();
    assert!(state.reserve(wanted("one", 1000, 100)).await.is_err());
    assert!(began.elapsed() < SOON, "it says so soon: {:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_statement_that_hangs_in_postgres_fails_and_leaves_nothing() {
    let server = PostgresServer::start();
    let state = connect(&server);
    wait_for_answer(&state).await;
    let holder = server.begin("BEGIN; LOCK TABLE softland_reservations;");
    let began = Instant::now();
    let hung = state.reserve(wanted("one", 1000, 100)).await;
    assert!(hung.is_err(), "{hung:?}");
    assert!(began.elapsed() < SOON, "it says so soon: {:?}", began.elapsed());
    drop(holder);
    let since = Instant::now();
    while state.reserve(wanted("two", 1000, 1000)).await.is_err() {
        assert!(since.elapsed() < Duration::from_secs(60), "it answers again");
    }
    assert_eq!(read_balance(&state).await, (NanoUsd::ZERO, NanoUsd(1000)));
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_connection_to_postgres_that_hangs_is_not_used_again() {
    let server = PostgresServer::start();
    let state = connect(&server);
    wait_for_answer(&state).await;
    let gateways = "SELECT pid FROM pg_stat_activity WHERE application_name = 'softland'";
    let stopped = server.sql(gateways).replace('\n', " ");
    let signal = async |name: &str| {
        let command = format!("kill -{name} {stopped}");
        tokio::process::Command::new("sh").args(["-c", &command]).status().await.expect("sh runs")
    };
    signal("STOP").await;
    let began = Instant::now();
    let hung = state.find_run("nobody").await;
    let took = began.elapsed();
    // As many as there may be connections: none of them is the one that hangs.
    let mut next = Vec::new();
    for _ in 0..8 {
        next.push(state.find_run("nobody").await.is_ok());
    }
    signal("KILL").await;
    assert!(hung.is_err() && took < SOON, "{hung:?} after {took:?}");
    assert_eq!(next, [true; 8], "other connections are made");
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_run_goes_on_through_another_gateway_of_one_postgres() {
    let server = PostgresServer::start();
    let forget =
        "UPDATE softland_hosts SET seen = 1 WHERE host = (SELECT host FROM softland_running)";
    check_another_gateway((connect(&server), connect(&server)), || || drop(server.sql(forget)))
        .await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_change_that_postgres_shows_late_is_listed_then() {
    let server = PostgresServer::start();
    let state = connect(&server);
    for run in ["slow", "quick"] {
        let opens = Some(Box::new(RunOpening { run: run.into(), at: 5, ..RunOpening::default() }));
        let opened = state.reserve(ReserveQuery { opens, ..wanted(run, 100, 1) }).await;
        opened.expect("it answers").grant.expect("it fits");
    }
    let known = state.list_runs(0).await.expect("it answers").version;
    // A transaction has changed a run, and has not ended.
    let slow = server.begin(
        "BEGIN; UPDATE softland_runs SET begun = 1, version = softland_version() WHERE run = 'slow';",
    );
    let progress = RunProgress { run: "quick".into(), turn: 1, ..RunProgress::default() };
    state.take_note(StateNote::Progress(progress));
    state.find_run("quick").await.expect("it answers");
    let names = |list: &softland_govern::runs::RunList| -> Vec<String> {
        list.runs.iter().map(|row| row.run.to_string()).collect()
    };
    let first = state.list_runs(known).await.expect("it answers");
    assert_eq!(names(&first), ["quick"]);
    slow.commit();
    let next = state.list_runs(first.version).await.expect("it answers");
    assert!(names(&next).contains(&"slow".to_owned()), "{next:?}");
}

/// Leaves something of every kind.
async fn leave_everything(state: &dyn SharedState) {
    let digest = |text: &str| Digest::from_bytes(text.as_bytes());
    let opens = Some(Box::new(RunOpening { run: "r".into(), at: 5, ..RunOpening::default() }));
    let (bounds, holds) = (WindowBounds::FromFirst(1000), None);
    let window = Some(WindowClaim { bounds, holds });
    let window = Claim { window, ..Claim::new("budget".into(), Some(NanoUsd(1000))) };
    let mut query = ReserveQuery { opens, ..wanted("a", 100, 1) };
    query.claims.push(window);
    state.reserve(query).await.expect("it answers").grant.expect("it fits");
    let lessons = ModelLessons { no_none: true, ..ModelLessons::default() };
    state.take_note(StateNote::Learned { model: "m".into(), lessons });
    let face = Namesake {
        scope: "s".into(),
        root: "s".into(),
        tools: digest("tools"),
        system: digest("system"),
        opening: digest("opening"),
        asked: None,
        answered: true,
        last: 1,
    };
    let changes = StoreChanges {
        run: Some((digest("run"), RunState { id: "r".into(), ..RunState::default() })),
        clues: vec![digest("clue")],
        named: Some((vec![digest("name")], face)),
        untaken: Some(digest("question")),
        ..StoreChanges::default()
    };
    let link = ChainLink { items: "{}".to_owned(), ..ChainLink::default() };
    let shown = Some(ShownLink { ids: vec!["one".to_owned()], conversation: None, link });
    let closing = Closing { scope: "s".into(), changes, shown, ..Closing::default() };
    state.close(closing).await.expect("it answers");
    state.cancel_run("r", 10).await.expect("it answers").expect("it is open");
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn everything_that_nobody_uses_goes_from_postgres() {
    let server = PostgresServer::start();
    let state = connect(&server);
    leave_everything(&state).await;
    drop(state);
    let tables = server.sql(
        "SELECT table_name FROM information_schema.columns
         WHERE column_name = 'until' AND table_schema = 'public'",
    );
    assert!(tables.lines().count() >= 11, "{tables}");
    for table in tables.lines() {
        assert_ne!(server.sql(&format!("SELECT count(*) FROM {table}")), "0", "{table}");
        server.sql(&format!("UPDATE {table} SET until = now() - interval '1 second'"));
    }
    server.sql("UPDATE softland_hosts SET seen = 1");
    assert_ne!(server.sql("SELECT softland_sweep()"), "0");
    let kept = server.sql(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'
         AND table_name NOT IN ('softland_meta', 'softland_looked', 'softland_keys_version')",
    );
    for table in kept.lines() {
        assert_eq!(server.sql(&format!("SELECT count(*) FROM {table}")), "0", "{table}");
    }
}
