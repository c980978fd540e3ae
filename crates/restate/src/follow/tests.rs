use std::sync::Mutex;

use softland_agent::EventKind;
use softland_agent::core::Outcome;

use super::*;
use crate::fake::FakeEngine;

/// A piece with the beginning of a tree: the first run, which has called another.
fn beginning() -> Vec<u8> {
    let event = |seq: u64, run: &str, rest: &str| {
        format!(
            r#"{{"v":1,"seq":{seq},"ts":"2026-11-29T00:00:00Z","run":"{run}","turn":1,{rest}}}"#
        ) + "\n"
    };
    let child = r#""event":"child","child_run":"run-1.1","agent":"scout","id":"toolu_1""#;
    let text = r#""event":"text_start""#;
    format!("!{}{}", event(0, "run-1", child), event(0, "run-1.1", text)).into_bytes()
}

#[tokio::test]
async fn e13_a_run_that_the_engine_was_told_to_end_is_told_as_cancelled() {
    let first = Mutex::new(Some(beginning()));
    let fake = FakeEngine::start(move |request| match request {
        "POST /SoftlandRun/run-1/piece" => first.lock().unwrap().take().unwrap_or_default(),
        "POST /SoftlandRun/run-1/state" => br#""cancelled""#.to_vec(),
        other => panic!("{other}"),
    })
    .await;
    let mut told = Vec::new();
    let mut hear = |event: &Event| told.push(event.clone());
    follow_run(&fake.client, "run-1", &mut hear, &mut |_| {}).await.unwrap();
    let ends = told.iter().filter(|event| event.kind.is_terminal());
    let ends: Vec<_> = ends.map(|event| (event.run.as_str(), event.seq)).collect();
    assert_eq!(ends, [("run-1.1", 1), ("run-1", 1)], "each run of the tree has one end");
    let EventKind::Error { report, .. } = &told.last().unwrap().kind else {
        panic!("no end: {told:?}")
    };
    assert_eq!(report.ended.outcome, Outcome::Cancelled);
}

/// Follows a run at an address where nobody listens, after `before`. Returns the failure, and the time
/// that it took.
async fn follow_nobody(before: impl AsyncFn(&EngineClient)) -> (FollowError, Duration) {
    let client = EngineClient::new("http://127.0.0.1:9").unwrap();
    before(&client).await;
    let began = Instant::now();
    let failure = follow_run(&client, "run-1", &mut |_| {}, &mut |_| {}).await.unwrap_err();
    (failure, began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn e16_an_engine_that_was_never_reached_is_not_waited_for() {
    let (failure, took) = follow_nobody(async |_| {}).await;
    assert!(took < Duration::from_secs(1), "{took:?}");
    let FollowError::Engine(failure) = failure else { panic!("{failure:?}") };
    assert!(failure.to_string().contains("http://127.0.0.1:9: "), "{failure}");
    let (_, took) = follow_nobody(async |client| client.mark_reached()).await;
    assert!(took >= AWAY && took < AWAY * 2, "one that was reached may come back: {took:?}");
}

/// Nothing answers a request that the engine has taken.
#[tokio::test(start_paused = true)]
async fn e16_a_worker_that_does_not_answer_is_told_as_such() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = EngineClient::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let failure = client.list_runs().await.unwrap_err();
    assert!(failure.to_string().contains("start one with softland worker"), "{failure}");
    let mut notes = Vec::new();
    let mut note = |said: FollowNote| notes.push(said);
    let mut hear = |_: &Event| {};
    let following = follow_run(&client, "run-1", &mut hear, &mut note);
    assert!(tokio::time::timeout(SLOW * 2, following).await.is_err(), "it waits");
    assert!(matches!(notes.as_slice(), [FollowNote::Away(why)] if why.contains("none answers")));
}

#[tokio::test]
async fn e09_the_event_of_a_run_that_is_refused_between_two_looks_is_told() {
    let looks = Mutex::new(0);
    let fake = FakeEngine::start(move |request| match request {
        "POST /SoftlandRun/run-1/piece" => {
            let mut looks = looks.lock().unwrap();
            *looks += 1;
            let end = r#"{"v":1,"seq":0,"ts":"2026-11-29T00:00:00Z","run":"run-1","turn":0,"event":"error",
                "message":"no","outcome":"failed","reason":"setup","turns":0,"tool_calls":0,"cost_usd":0,
                "usage":{"input":0,"output":0,"cache_read":0,"cache_write":0}}"#;
            let piece = format!("!{}\n", end.replace('\n', ""));
            if *looks == 1 { Vec::new() } else { piece.into_bytes() }
        }
        "POST /SoftlandRun/run-1/state" => {
            br#"{"ended":{"end":{"refused":"no"},"failure":null}}"#.to_vec()
        }
        other => panic!("{other}"),
    })
    .await;
    let mut ends = 0;
    let mut hear = |event: &Event| ends += usize::from(event.kind.is_terminal());
    follow_run(&fake.client, "run-1", &mut hear, &mut |_| {}).await.unwrap();
    assert_eq!(ends, 1);
}
