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
