//! Results of calls that are large, or too large for the engine.

use softland_agent::core::Outcome;
use softland_agent::journal::new_run_id;
use softland_agent::{Event, EventKind};
use softland_restate::EngineClient;

use crate::runs::{ended, follow, order, well_told};
use crate::workers::{free_address, server, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e04_a_result_of_20_mb_works_and_one_of_40_mb_is_a_named_error() {
    let Some((ingress, _)) = server() else { return };
    let client = EngineClient::new(&ingress).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _worker = start(folder.path(), &free_address());
    let run = new_run_id();
    client.start_run(&run, &order("large")).await.unwrap();
    let events = follow(&client, &run).await.unwrap();
    well_told(&events, "large");
    assert_eq!(ended(&events).ended.outcome, Outcome::Answered);
    let result = |event: &Event| match &event.kind {
        EventKind::ToolResult { ok, content, .. } => Some((*ok, content.clone())),
        _ => None,
    };
    let results: Vec<_> = events.iter().filter_map(result).collect();
    let [(true, large), (false, too_large)] = results.as_slice() else {
        panic!("{:?}", results.iter().map(|(ok, text)| (ok, text.len())).collect::<Vec<_>>())
    };
    assert!(large.len() >= 20_000_000, "{}", large.len());
    assert!(too_large.contains("result too large"), "{}", &too_large[..200]);
}
