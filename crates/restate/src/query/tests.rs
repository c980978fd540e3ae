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
    let admin = Admin::new(crate::EngineClient::new(&address).unwrap());
    assert_eq!(admin.reaches_worker("http://10.0.0.1:9080/v/a").await, Ok(false));
}
