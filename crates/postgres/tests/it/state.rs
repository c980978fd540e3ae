//! The state does what every state does, from many gateways at once, too.

#![expect(clippy::expect_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use softland_govern::SharedState;
use softland_govern::money::accounts::{LeaseStore as _, ReservationError, WaitLimits};
use softland_govern::shared::ReserveQuery;
use softland_govern::suite::check_shared_state;
use softland_postgres::PostgresState;
use softland_session::core::NanoUsd;

use crate::alike::check_alike;
use crate::outage::{wait_for_answer, wait_for_balance, wanted};
use crate::server::PostgresServer;
use crate::windows::check_against_model;

pub(crate) fn connect(server: &PostgresServer) -> PostgresState {
    softland_postgres::connect(&server.url()).expect("an address")
}

/// An empty database, and a state on it.
pub(crate) fn connect_empty(server: &PostgresServer) -> PostgresState {
    server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public");
    connect(server)
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn the_state_on_postgres_does_what_every_state_does() {
    let server = PostgresServer::start();
    check_shared_state(async || connect_empty(&server).with_given_times()).await;
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn conversations_on_postgres_are_found_as_those_in_memory() {
    let server = PostgresServer::start();
    check_alike(|| connect_empty(&server)).await;
}

#[test]
#[ignore = "needs postgres"]
fn windows_on_postgres_are_what_their_reservations_make_them() {
    let server = PostgresServer::start();
    let runtime = || tokio::runtime::Runtime::new().expect("a runtime");
    check_against_model(6, runtime, || (connect_empty(&server).with_given_times(), false));
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn gateways_on_one_postgres_hold_one_limit_to_the_nano_dollar() {
    let server = PostgresServer::start();
    let states = [connect(&server), connect(&server), connect(&server)].map(Arc::new);
    let mut asked = tokio::task::JoinSet::new();
    for n in 0..60 {
        let state = Arc::clone(&states[n % states.len()]);
        asked.spawn(async move {
            let patience = Duration::from_secs(60);
            let patience = WaitLimits { for_most: patience, in_all: patience };
            let asked = ReserveQuery { patience, ..wanted(&format!("r{n}"), 1000, 100) };
            match state.reserve(asked).await.expect("it answers").grant {
                Ok(grant) => {
                    state.settle_lease(&grant, NanoUsd(90).into());
                    true
                }
                Err(ReservationError::Busy(_) | ReservationError::Spent(_)) => false,
                Err(other) => panic!("{other}"),
            }
        });
    }
    let granted = asked.join_all().await.into_iter().filter(|granted| *granted).count();
    // Eleven times 90 leave 10, which is less than 100.
    assert_eq!(granted, 11);
    wait_for_balance(&*states[0], (NanoUsd(990), NanoUsd::ZERO)).await;
}

/// A request for 60 of 100 on one account.
fn asked(id: &str) -> String {
    let claim = r#"{"account":"all","limit":"100","tokens_limit":null,"window":null}"#;
    let scale = r#"{"input":"0","input_cost":"0","output":"0","output_pico":"0"}"#;
    let ask =
        format!(r#"{{"most":"60","enough":"60","least":"60","most_tokens":"0","scale":{scale}}}"#);
    let wanted = format!(
        r#"{{"id":"{id}","claims":[{claim}],"ask":{ask},"for_most":60000,"in_all":60000,"lease":"60000"}}"#
    );
    format!(r#"{{"op":"reserve","wanted":{wanted},"balances":[],"spent_before":"0"}}"#)
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn k67_a_window_that_begins_with_its_first_request_begins_once_on_postgres() {
    let server = PostgresServer::start();
    wait_for_answer(&connect(&server)).await;
    let window = r#""window":{"from_first":3600000,"holds":null}"#;
    let asks = |id: &str| {
        let asked = asked(id).replace(r#""window":null"#, window);
        format!("SELECT softland_run('{id}', '[{asked}]')->0->1->0->0")
    };
    // The accounts of another window that is over stay as they are.
    server.sql("INSERT INTO softland_begun VALUES ('all', 1, 2, now() + interval '1 day')");
    for account in ["all", "other"] {
        let asks =
            |id: &str| asks(id).replace(r#""account":"all""#, &format!(r#""account":"{account}""#));
        let first = server.begin(&format!("BEGIN; {};", asks(&format!("{account}-1"))));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| server.sql(&asks(&format!("{account}-2"))));
            let since = std::time::Instant::now();
            while server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
                assert!(!second.is_finished(), "{account}: it does not wait for the first");
                assert!(since.elapsed() < Duration::from_secs(60), "{account}: nobody waits");
            }
            first.commit();
            assert_eq!(second.join().expect("it answers"), r#""wait""#, "60 of 100 are reserved");
        });
        let windows = format!(
            "SELECT count(*), sum(reserved) FROM softland_accounts WHERE name LIKE '{account}@%'"
        );
        assert_eq!(server.sql(&windows), "1|60");
    }
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn k68_what_is_granted_on_postgres_while_a_request_asks_is_told() {
    let server = PostgresServer::start();
    wait_for_answer(&connect(&server)).await;
    let run = |operations: &str| format!("SELECT softland_run('h', '[{operations}]')");
    server.sql(&run(&format!("{},{}", asked("r0"), asked("r1"))));
    // A request that asks finds nothing granted, and looks into the line when this lock is free.
    server.sql(
        "ALTER FUNCTION softland_granted(text) RENAME TO softland_granted_now;
         CREATE FUNCTION softland_granted(of text) RETURNS jsonb LANGUAGE plpgsql AS $$
         DECLARE answer jsonb := softland_granted_now(of);
         BEGIN
           IF answer IS NULL THEN PERFORM pg_advisory_xact_lock(1); END IF;
           RETURN answer;
         END $$;
         UPDATE softland_looked SET at = 0",
    );
    let settle = r#"{"op":"settle","id":"r0","money":"0","tokens":"0"}"#;
    let poll = r#"{"op":"poll","id":"r1"}"#;
    let other = r#"{"op":"poll","id":"nobody"}"#;
    let serves = run(&format!("{settle},{other}"));
    let server = &server;
    let serving = server.begin(&format!("BEGIN; SELECT pg_advisory_xact_lock(1); {serves};"));
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| server.sql(&format!("{}->0->1->0->0", run(poll))));
        let since = std::time::Instant::now();
        while server.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0" {
            assert!(!asks.is_finished() && since.elapsed() < Duration::from_secs(60), "it waits");
        }
        serving.commit();
        assert_eq!(asks.join().expect("it answers"), r#""granted""#);
    });
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn many_that_wait_on_postgres_are_looked_at_once_for_all_that_ask() {
    let server = PostgresServer::start();
    wait_for_answer(&connect(&server)).await;
    let asked: Vec<String> = (0..40).map(|n| asked(&format!("r{n}"))).collect();
    let polled = (1..40).map(|n| format!(r#"{{"op":"poll","id":"r{n}"}}"#));
    let polled: Vec<String> = polled.collect();
    let looks = |operations: &[String]| {
        server.sql(&format!(
            "UPDATE softland_looked SET at = 0; SET track_functions = 'pl'; BEGIN;
             SELECT count(*) FROM jsonb_array_elements(softland_run('h', '[{}]')) AS a
               WHERE a->1->0 = '[\"wait\"]';
             SELECT calls FROM pg_stat_xact_user_functions WHERE funcname = 'softland_serve_line';
             COMMIT",
            operations.join(",")
        ))
    };
    assert_eq!(looks(&asked), "39\n1", "39 wait behind one, after one look");
    assert_eq!(looks(&polled), "39\n1");
    let freed = r#"{"op":"settle","id":"r0","money":"40","tokens":"0"}"#.to_owned();
    let polled: Vec<String> = std::iter::once(freed).chain(polled).collect();
    assert_eq!(looks(&polled), "38\n1", "the first of them is served");
    assert_eq!(server.sql("SELECT id FROM softland_reservations"), "r1");
    // An account that is spent keeps nobody waiting: each is told when it asks.
    server.sql("UPDATE softland_accounts SET spent = 100, reserved = 0");
    assert_eq!(looks(&polled[2..]), "0\n1");
    assert_eq!(server.sql("SELECT count(*) FROM softland_line, softland_waits"), "0");
}

#[tokio::test]
#[ignore = "needs postgres"]
async fn a_postgres_of_the_first_version_is_brought_up_to_date() {
    let server = PostgresServer::start();
    server.sql(include_str!("../../src/sql/schema/1.sql"));
    server.sql(
        "CREATE TABLE softland_meta (version integer NOT NULL);
         INSERT INTO softland_meta VALUES (1);
         INSERT INTO softland_line (id, wanted, since, seen)
           VALUES ('one', '{\"claims\": [{\"account\": \"a\"}, {\"account\": \"b\"}]}', 1, 1);
         INSERT INTO softland_accounts (name, spent, until) VALUES ('all', 7, now() + '1 day')",
    );
    let state = connect(&server);
    wait_for_answer(&state).await;
    assert_eq!(server.sql("SELECT max(version) FROM softland_meta"), "4");
    assert_eq!(server.sql("SELECT account FROM softland_waits ORDER BY 1"), "a\nb");
    assert_eq!(server.sql("SELECT spent FROM softland_accounts"), "7", "nothing is lost");
}
