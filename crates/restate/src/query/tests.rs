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

/// Registers a worker at `http://127.0.0.1:1/v/a`, where the engine has `newest` for new runs. Returns
/// how often it was registered.
async fn register(newest: String) -> usize {
    let fake = FakeEngine::start(move |request| match request {
        "POST /deployments" => br#"{"id":"dp_ours"}"#.to_vec(),
        "GET /services/SoftlandRun" => br#"{"deployment_id":"dp_newest"}"#.to_vec(),
        "GET /deployments/dp_newest" => format!(r#"{{"uri":"{newest}"}}"#).into_bytes(),
        other => panic!("{other}"),
    })
    .await;
    let admin = Admin::new(fake.client.clone());
    admin.register_worker("http://127.0.0.1:1/v/a").await.unwrap();
    fake.asked().iter().filter(|asked| *asked == "POST /deployments").count()
}

#[tokio::test]
async fn e15_a_worker_that_comes_back_gets_new_runs_unless_another_build_serves_them() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let there = format!("http://{}/v", listener.local_addr().unwrap());
    let gone = "http://127.0.0.1:2/v";
    assert_eq!(register(format!("{there}/a/")).await, 2, "the same build");
    assert_eq!(register(format!("{gone}/b/")).await, 2, "another build that is gone");
    assert_eq!(register(format!("{there}/b/")).await, 1, "another build that serves");
}
