use super::*;
use crate::fake::FakeEngine;

/// Asks to delete a run that the engine has in these words. Returns what came of it, and whether the
/// engine was asked to purge.
async fn delete(row: Option<&str>) -> (RunDeletion, bool) {
    let rows = row.map(|row| format!(r#"{{"id":"inv_1",{row}}}"#)).unwrap_or_default();
    let rows = format!(r#"{{"rows":[{rows}]}}"#);
    let fake = FakeEngine::start(move |_| rows.clone().into_bytes()).await;
    let deletion = Admin::new(fake.client.clone()).delete_run("run-1").await.unwrap();
    (deletion, fake.asked().contains(&"PATCH /invocations/inv_1/purge".to_owned()))
}

#[tokio::test]
async fn e14_only_a_run_that_has_ended_is_deleted() {
    assert_eq!(delete(Some(r#""status":"completed""#)).await, (RunDeletion::Deleted, true));
    for status in ["running", "suspended", "backing-off", "paused", "scheduled", "ready"] {
        let row = format!(r#""status":"{status}""#);
        assert_eq!(delete(Some(&row)).await, (RunDeletion::Open, false), "{status}");
    }
    assert_eq!(delete(None).await, (RunDeletion::Unknown, false));
}

#[test]
fn a_run_that_the_engine_was_told_to_end_is_cancelled() {
    let state = |status: &str, failure: Option<&str>| {
        let (status, completion_failure) = (status.to_owned(), failure.map(str::to_owned));
        Invocation { status, completion_failure, ..Invocation::default() }.into_state()
    };
    assert_eq!(state("completed", Some("[409] killed")), EngineState::Cancelled);
    assert_eq!(state("completed", Some("[409] canceled")), EngineState::Cancelled);
    let failed = EngineState::Ended { end: None, failure: Some("[500] no".to_owned()) };
    assert_eq!(state("completed", Some("[500] no")), failed);
}

#[tokio::test]
async fn a_run_that_has_ended_is_not_ended_again() {
    let kill = async |status: &'static str| {
        let rows = format!(r#"{{"rows":[{{"id":"inv_1","status":"{status}"}}]}}"#);
        let fake = FakeEngine::start(move |_| rows.clone().into_bytes()).await;
        Admin::new(fake.client.clone()).kill_run("run-1").await.unwrap();
        fake.asked().contains(&"PATCH /invocations/inv_1/kill".to_owned())
    };
    assert!(kill("paused").await && kill("backing-off").await && kill("running").await);
    assert!(!kill("completed").await);
}

#[tokio::test(start_paused = true)]
async fn e18_a_worker_whose_machine_is_gone_is_not_reached() {
    // Nothing answers: the engine waits for a connection that nobody refuses.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let admin = Admin::new(EngineClient::new(&address).unwrap());
    assert_eq!(admin.reaches_worker("http://10.0.0.1:9080/v/a").await, Ok(false));
}

#[tokio::test]
async fn e20_a_run_is_listed_with_its_outcome() {
    let told = r#""outcome":"{\"outcome\":\"landed\",\"reason\":\"tool_calls\"}""#;
    let rows = [
        r#""status":"running""#.to_owned(),
        format!(r#""status":"completed","completion_result":"success",{told}"#),
        format!(
            r#""status":"completed","completion_result":"failure","completion_failure":"[409] killed",{told}"#
        ),
        r#""status":"completed","completion_result":"failure","completion_failure":"[500] no""#
            .to_owned(),
        r#""status":"completed","completion_result":"success","outcome":null"#.to_owned(),
    ];
    let rows = rows.map(|row| format!(r#"{{"id":"inv_1","target_service_key":"run-1",{row}}}"#));
    let rows = format!(r#"{{"rows":[{}]}}"#, rows.join(","));
    let fake = FakeEngine::start(move |_| rows.clone().into_bytes()).await;
    let listed = Admin::new(fake.client.clone()).list_runs().await.unwrap();
    let words = listed.iter().map(|row| {
        let outcome = row.outcome.as_ref();
        let outcome = outcome.map(|end| format!("{}: {}", end.outcome.word(), end.reason));
        (row.state.as_str(), outcome.unwrap_or_default())
    });
    let expected = [
        ("running", ""),
        ("completed", "landed: tool_calls"),
        ("completed", "cancelled: user"),
        ("failed", ""),
        ("completed", ""),
    ];
    assert_eq!(words.collect::<Vec<_>>(), expected.map(|(state, end)| (state, end.to_owned())));
    for row in &listed {
        // The client reads what the worker has read.
        let json = serde_json::to_string(row).unwrap();
        assert_eq!(serde_json::from_str::<RunRow>(&json).unwrap(), *row, "{json}");
    }
}

#[tokio::test]
async fn e23_an_address_that_is_not_that_of_the_administration_is_told_as_such() {
    for (status, body, why) in [
        (400, r#"{"code":400,"message":"bad path: /version"}"#, "it answers 400"),
        (200, "<html>", "it tells no version of Restate"),
    ] {
        let fake = FakeEngine::start_with_status(move |_, _| (status, body.into())).await;
        let failure = Admin::new(fake.client.clone()).find_ingress().await.unwrap_err();
        let said = format!(
            "{} is not the address of Restate's administration (port 9070 by default): {why}",
            fake.client.shown_address()
        );
        assert_eq!((failure.to_string(), failure.is_passing()), (said, false));
    }
}
