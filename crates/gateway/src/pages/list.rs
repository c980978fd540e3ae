//! The list of runs, open and ended, from memory and from the ledger.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use softland_govern::Refusal;
use softland_govern::store::StoreError;
use softland_ledger::{LedgerPlace, Query, Reader, Run, RunLookup};

use super::query::{PageQuery, bad_parameter};
use super::questions;
use crate::run_row::RunRow;
use crate::serve::route::decode_percent;
use crate::state::GatewayState;

/// The number of the ledger's runs in one list.
const LISTED: usize = 1000;
/// The number of runs in one list, from memory and the ledger.
const MOST: usize = 10_000;

/// The parameters of the list: the values of equally named members of a run, `account` also for
/// those below it, `search` for a text in its names, `state` for its outcome or `open`, and `since`
/// for the time of its beginning.
pub(super) const FILTERS: [&str; 9] =
    ["search", "state", "key", "account", "policy", "session", "agent", "model", "since"];

/// The runs that a list is asked for.
pub(super) struct RunFilter(Query);

impl RunFilter {
    /// Reads a filter. An empty value is none.
    ///
    /// # Errors
    /// Returns a refusal for a state that no run has, and for a time that cannot be read.
    pub(super) fn from_query(asked: &PageQuery) -> Result<Self, Refusal> {
        let wanted =
            |name| asked.find_text(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let state = wanted("state");
        if let Some(other) = state.as_deref().filter(|state| !Query::STATES.contains(state)) {
            let states = Query::STATES.join(", ");
            return Err(bad_parameter(&format!("state must be one of {states}, got {other:?}")));
        }
        Ok(Self(Query {
            state,
            text: wanted("search"),
            key: wanted("key"),
            account: wanted("account"),
            policy: wanted("policy"),
            session: wanted("session"),
            agent: wanted("agent"),
            model: wanted("model"),
            since: asked.parse_time("since")?,
            limit: Some(LISTED + 1),
        }))
    }

    /// Returns true if a run in memory matches, by the rules of [`Query`].
    fn matches_row(&self, row: &Value) -> bool {
        let Query { text, key, account, policy, session, agent, model, since, .. } = &self.0;
        let member = |name: &str| row.get(name).and_then(Value::as_str);
        let equal = |name: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| member(name) == Some(wanted))
        };
        let is_below = |wanted: &String| {
            let rest = member("account").and_then(|own| own.strip_prefix(wanted.as_str()));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = |search: &String| {
            let search = search.to_ascii_lowercase();
            let texts: Vec<&str> = SEARCHED.into_iter().filter_map(member).collect();
            texts.join("\n").to_ascii_lowercase().contains(&search)
        };
        // Times of this form are in the order of their texts.
        let since = since.map(softland_ledger::format_timestamp);
        let in_time = since.is_none_or(|since| member("started").is_some_and(|at| *at >= *since));
        let names = [
            ("key", key),
            ("policy", policy),
            ("session", session),
            ("agent", agent),
            ("model", model),
        ];
        names.into_iter().all(|(name, wanted)| equal(name, wanted))
            && self.0.matches_state(member("outcome"))
            && in_time
            && account.as_ref().is_none_or(is_below)
            && text.as_ref().is_none_or(found)
    }
}

/// The members of a run in which a text is looked for.
const SEARCHED: [&str; 11] = [
    "run", "name", "agent", "model", "client", "policy", "session", "reason", "outcome", "key",
    "account",
];

/// Returns the open runs and the newest ended ones that a filter lets through, what the ledger
/// keeps, and whether there are more.
///
/// # Errors
/// Returns an error if the shared state cannot be reached.
pub(super) async fn list_runs(
    gate: &Arc<GatewayState>,
    filter: &RunFilter,
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
            runs.extend(row.filter(|row| filter.matches_row(row)));
        }
    }
    let mut more = false;
    if let Some(place) = settings.ledger.clone() {
        let query = filter.0.clone();
        match tokio::task::spawn_blocking(move || read_runs(&place, &query)).await {
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

/// Returns one run, from memory or the ledger.
///
/// # Errors
/// Returns the reason why the shared state or the ledger, which may have the run, cannot be read.
pub(super) async fn find_run(gate: &Arc<GatewayState>, run: &str) -> Result<Option<Value>, String> {
    let live = gate.services.state.find_run(run).await.map_err(|error| error.to_string())?;
    let row = match (live, gate.live_config().settings.ledger.clone()) {
        (Some(row), _) => serde_json::to_value(RunRow::from_snapshot(&row)).ok(),
        (None, None) => None,
        (None, Some(place)) => {
            let name = run.to_owned();
            let read = tokio::task::spawn_blocking(move || read_run(&place, &name)).await;
            let found = read.unwrap_or_else(|error| Err(error.to_string()));
            let found = found.map_err(|why| ledger_trouble(&why))?;
            found.and_then(|run| serde_json::from_str(&run.to_json()).ok())
        }
    };
    let Some(row) = row else { return Ok(None) };
    Ok(with_questions(gate, vec![row]).await.pop())
}

/// Returns the id of the run that a segment of a path names: the id itself, or else that of the newest
/// run to which a client gave this name (`x-softland-run`).
///
/// # Errors
/// The same as those of [`find_run`].
pub(super) async fn resolve_run(
    gate: &Arc<GatewayState>,
    segment: &str,
) -> Result<Option<Arc<str>>, String> {
    let Ok(name) = String::from_utf8(decode_percent(segment)) else { return Ok(None) };
    if find_run(gate, &name).await?.is_some() {
        return Ok(Some(name.into()));
    }
    let live = gate.services.state.list_runs(0).await.map_err(|error| error.to_string())?;
    let named = live.runs.iter().filter(|run| run.info.name.as_deref() == Some(name.as_str()));
    let newest = named.max_by_key(|run| run.info.started).map(|run| Arc::clone(&run.run));
    match (newest, gate.live_config().settings.ledger.clone()) {
        (Some(run), _) => Ok(Some(run)),
        (None, None) => Ok(None),
        (None, Some(place)) => {
            let read = tokio::task::spawn_blocking(move || newest_named(&place, &name)).await;
            let found = read.unwrap_or_else(|error| Err(error.to_string()));
            Ok(found.map_err(|why| ledger_trouble(&why))?.map(Into::into))
        }
    }
}

/// Returns the message for a person about a ledger that cannot be read.
pub(super) fn ledger_trouble(why: &str) -> String {
    format!("the ledger cannot be read: {why}")
}

fn read_runs(place: &LedgerPlace, query: &Query) -> Result<Vec<Run>, String> {
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    reader.list_runs(query).map_err(|error| error.to_string())
}

fn read_run(place: &LedgerPlace, run: &str) -> Result<Option<Run>, String> {
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    match reader.find_run(run).map_err(|error| error.to_string())? {
        RunLookup::One(found) => Ok(Some(*found).filter(|found| found.run == run)),
        RunLookup::Nothing | RunLookup::Several(_) => Ok(None),
    }
}

fn newest_named(place: &LedgerPlace, name: &str) -> Result<Option<String>, String> {
    let reader = Reader::open(place).map_err(|error| error.to_string())?;
    let mut named = reader.find_named(name).map_err(|error| error.to_string())?;
    Ok(named.pop().map(|run| run.run))
}

async fn with_questions(gate: &Arc<GatewayState>, runs: Vec<Value>) -> Vec<Value> {
    let live = gate.live_config();
    match live.settings.ledger.clone().filter(|_| live.settings.ledger_full) {
        Some(place) => questions::add_questions(gate, place, runs).await,
        None => runs,
    }
}
