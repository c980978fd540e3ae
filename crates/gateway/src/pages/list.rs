//! The list of runs, open and ended, from memory and from the ledger.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use softland_govern::store::StoreError;
use softland_ledger::{Query, Reader, Run, RunLookup};

use super::questions;
use crate::run_row::RunRow;
use crate::state::GatewayState;

/// The number of the ledger's runs in one list.
const LISTED: usize = 1000;
/// The number of runs in one list, from memory and the ledger.
const MOST: usize = 10_000;

/// Returns the open runs and the newest ended ones, what the ledger keeps, and whether there are
/// more. With `search` it returns only the runs with that text in a name, with `state` only those
/// with that outcome.
///
/// # Errors
/// Returns an error if the shared state cannot be reached.
pub(super) async fn list_runs(
    gate: &Arc<GatewayState>,
    search: Option<&str>,
    state: Option<&str>,
) -> Result<Value, StoreError> {
    let settings = gate.live_config();
    let settings = &settings.settings;
    let content = if settings.ledger_full { "full" } else { "digests" };
    let mut ledger = json!({"on": settings.ledger.is_some(), "content": content});
    if settings.ledger_read_only {
        ledger["read_only"] = true.into();
    }
    let live = gate.services.state.list_runs(0).await?;
    // A page that reads on from this version misses nothing.
    let at = format!("{}.{}", live.version, gate.pages.stamp);
    let mut runs: Vec<Value> = Vec::new();
    let mut known = BTreeSet::new();
    for row in live.runs.into_iter().rev() {
        if known.insert(Arc::clone(&row.run)) {
            let row = serde_json::to_value(RunRow::from_snapshot(&row)).ok();
            runs.extend(row.filter(|row| matches_query(row, search, state)));
        }
    }
    let mut more = false;
    if let Some(path) = settings.ledger.clone() {
        let query = Query {
            limit: Some(LISTED + 1),
            open: state == Some("open"),
            outcome: state.filter(|state| *state != "open").map(str::to_owned),
            text: search.map(str::to_owned),
            ..Query::default()
        };
        match tokio::task::spawn_blocking(move || read_runs(&path, &query)).await {
            Ok(Ok(kept)) => {
                more = kept.len() > LISTED;
                let kept = kept.iter().take(LISTED).filter(|run| !known.contains(run.run.as_str()));
                runs.extend(kept.filter_map(|run| serde_json::from_str(&run.to_json()).ok()));
            }
            Ok(Err(why)) => ledger["trouble"] = ledger_trouble(&why).into(),
            Err(error) => ledger["trouble"] = ledger_trouble(&error.to_string()).into(),
        }
    }
    let started =
        |row: &Value| row.get("started").and_then(Value::as_str).unwrap_or_default().to_owned();
    runs.sort_by_cached_key(|row| Reverse(started(row)));
    more |= runs.len() > MOST;
    runs.truncate(MOST);
    let runs = with_questions(gate, runs).await;
    Ok(json!({"v": 1, "ledger": ledger, "at": at, "runs": runs, "more": more}))
}

/// Returns true if a run in memory matches, by the rules of [`Query`].
fn matches_query(row: &Value, search: Option<&str>, state: Option<&str>) -> bool {
    let text = |name: &str| row.get(name).and_then(Value::as_str);
    let in_state = match state {
        None => true,
        Some("open") => text("outcome").is_none(),
        Some(outcome) => text("outcome") == Some(outcome),
    };
    let found = |search: &str| {
        let search = search.to_ascii_lowercase();
        let searched =
            ["run", "name", "agent", "model", "client", "policy", "session", "reason", "outcome"];
        let texts: Vec<&str> = searched.into_iter().filter_map(text).collect();
        texts.join("\n").to_ascii_lowercase().contains(&search)
    };
    in_state && search.is_none_or(found)
}

/// Returns one run, from memory or the ledger.
///
/// # Errors
/// Returns the reason why the shared state or the ledger, which may have the run, cannot be read.
pub(super) async fn find_run(gate: &Arc<GatewayState>, run: &str) -> Result<Option<Value>, String> {
    let live = gate.services.state.find_run(run).await.map_err(|error| error.to_string())?;
    let row = match (live, gate.live_config().settings.ledger.clone()) {
        (Some(row), _) => serde_json::to_value(RunRow::from_snapshot(&row)).ok(),
        (None, None) => None,
        (None, Some(path)) => {
            let name = run.to_owned();
            let read = tokio::task::spawn_blocking(move || read_run(&path, &name)).await;
            let found = read.unwrap_or_else(|error| Err(error.to_string()));
            let found = found.map_err(|why| ledger_trouble(&why))?;
            found.and_then(|run| serde_json::from_str(&run.to_json()).ok())
        }
    };
    let Some(row) = row else { return Ok(None) };
    Ok(with_questions(gate, vec![row]).await.pop())
}

/// Returns the message for a person about a ledger that cannot be read.
pub(super) fn ledger_trouble(why: &str) -> String {
    format!("the ledger cannot be read: {why}")
}

fn read_runs(path: &Path, query: &Query) -> Result<Vec<Run>, String> {
    let reader = Reader::open(path).map_err(|error| error.to_string())?;
    reader.list_runs(query).map_err(|error| error.to_string())
}

fn read_run(path: &Path, run: &str) -> Result<Option<Run>, String> {
    let reader = Reader::open(path).map_err(|error| error.to_string())?;
    match reader.find_run(run).map_err(|error| error.to_string())? {
        RunLookup::One(found) => Ok(Some(*found).filter(|found| found.run == run)),
        RunLookup::Nothing | RunLookup::Several(_) => Ok(None),
    }
}

async fn with_questions(gate: &Arc<GatewayState>, runs: Vec<Value>) -> Vec<Value> {
    let live = gate.live_config();
    match live.settings.ledger.clone().filter(|_| live.settings.ledger_full) {
        Some(path) => questions::add_questions(gate, path, runs).await,
        None => runs,
    }
}
