//! The beginning of a tape: what is known of a run when somebody begins to watch it, from the
//! ledger, from the running request, and from stored contents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use softland_govern::runs::RunSnapshot;
use softland_ledger::{LedgerPlace, Reader, Step};
use softland_session::wire::Api;
use softland_session::wire::request::Request;

use crate::run_row::RunRow;
use crate::run_steps;
use crate::state::GatewayState;

/// The time that the ledger has to write the queued records.
const WRITTEN: Duration = Duration::from_secs(2);

/// The beginning of a run's lines.
pub(super) struct TapeStart {
    pub(super) steps: Vec<Step>,
    /// The last turn up to which the lines are complete.
    pub(super) whole: u64,
    /// True if the run has ended.
    pub(super) over: bool,
    /// True if anything is known of the run.
    pub(super) found: bool,
}

/// A request's history, with the turn that the request asks for.
struct RequestContent {
    api: Api,
    turn: u64,
    body: Vec<u8>,
}

/// Reads the beginning of a run, of which the shared state has this row. Blocks: not for async tasks.
pub(super) fn read_start(
    gate: &Arc<GatewayState>,
    run: &str,
    row: Option<&RunSnapshot>,
) -> TapeStart {
    let now = gate.now();
    let open = row.is_some_and(|row| row.end.is_none());
    let place = gate.live_config().settings.ledger.clone();
    if let Some(ledger) = gate.watch.ledger.as_ref().filter(|_| open || place.is_some()) {
        // Makes sure that the ledger has all records so far.
        let _ = ledger.drain(WRITTEN);
    }
    let (mut steps, kept) = place.as_ref().map(|place| read_ledger(place, run)).unwrap_or_default();
    if steps.is_empty()
        && let Some(row) = row
    {
        steps = remembered_steps(row);
    }
    let said = running_content(gate, run).or(kept);
    let found = !steps.is_empty();
    let over = !open && steps.iter().any(|step| matches!(step.event.as_str(), "done" | "error"));
    let (steps, whole) = match said {
        Some(said) => merge_history(steps, &said, row.map_or(now, |row| row.info.started)),
        None => (steps, 0),
    };
    TapeStart { steps, whole, over, found }
}

/// Adds what was asked and said to the lines of a run that a ledger has, where it keeps contents.
#[must_use]
pub fn add_history(reader: &Reader, run: &str, steps: Vec<Step>) -> Vec<Step> {
    let Some(kept) = stored_content(reader, run) else { return steps };
    let began = steps.first().map_or(0, |step| step.at);
    let (late, steps): (Vec<_>, Vec<_>) = steps.into_iter().partition(|step| step.late);
    let (mut merged, _) = merge_history(steps, &kept, began);
    merged.extend(late);
    merged
}

fn read_ledger(place: &LedgerPlace, run: &str) -> (Vec<Step>, Option<RequestContent>) {
    let Ok(reader) = Reader::open(place) else { return Default::default() };
    let mut steps = reader.read_steps(run).unwrap_or_default();
    steps.retain(|step| !step.late);
    (steps, stored_content(&reader, run))
}

/// Returns the content of a run's newest request, if the ledger keeps contents.
fn stored_content(reader: &Reader, run: &str) -> Option<RequestContent> {
    let content = reader.read_newest_content(run).ok().flatten()?;
    let api = match content.path.rsplit('/').next()? {
        "messages" => Api::Anthropic,
        "completions" => Api::Chat,
        "responses" => Api::Responses,
        _ => return None,
    };
    Some(RequestContent { api, turn: content.turn, body: content.body })
}

/// Returns the question of a run whose contents the ledger keeps.
pub(super) fn stored_question(reader: &Reader, run: &str) -> Option<String> {
    let said = stored_content(reader, run)?;
    let request = Request::from_body(said.api, &said.body).ok()?;
    run_steps::find_question(&request, said.turn)
}

/// Returns the lines of a run in a gateway without a ledger, from memory.
fn remembered_steps(row: &RunSnapshot) -> Vec<Step> {
    let mut fields = serde_json::to_value(RunRow::from_snapshot(row)).unwrap_or_default();
    if let Some(fields) = fields.as_object_mut() {
        // These belong to the envelope.
        for name in ["v", "run", "turn", "event", "ts", "seq"] {
            fields.remove(name);
        }
    }
    let mut steps = vec![run_steps::make_step(row.info.started, 0, "run_start", &fields)];
    if let Some(end) = &row.end {
        let event = if end.ending.outcome.is_done() { "done" } else { "error" };
        let turn = fields.get("turns").and_then(Value::as_u64).unwrap_or(0);
        steps.push(run_steps::make_step(end.at, turn, event, &fields));
    }
    steps
}

/// Returns the content of the run's running request, which carries its history.
fn running_content(gate: &GatewayState, run: &str) -> Option<RequestContent> {
    let (turn, asked) = gate.services.running.newest_request(run)?;
    Some(RequestContent { api: asked.api, turn, body: asked.body.to_vec() })
}

/// Merges the history into the ledger's lines: a turn's blocks go before its last usage line, and
/// its results behind it. They have the times of those lines; without any, that of the newest line
/// before the end, or of the run's beginning.
fn merge_history(steps: Vec<Step>, kept: &RequestContent, began: u64) -> (Vec<Step>, u64) {
    let Ok(request) = Request::from_body(kept.api, &kept.body) else { return (steps, 0) };
    let before_end = |step: &&Step| !matches!(step.event.as_str(), "done" | "error");
    let newest = steps.iter().filter(before_end).map(|step| step.at).max().unwrap_or(began);
    let (question, turns) = run_steps::read_history(&request, kept.turn, newest);
    let whole = kept.turn.saturating_sub(1);
    let mut turns: BTreeMap<u64, run_steps::HistoryTurn> =
        turns.into_iter().map(|turn| (turn.turn, turn)).collect();
    let mut last_usage = BTreeMap::new();
    let mut last_step = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        if step.event == "usage" {
            last_usage.insert(step.turn, at);
        }
        if step.turn > 0 && !matches!(step.event.as_str(), "done" | "error") {
            last_step.insert(step.turn, at);
        }
    }
    let mut merged = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        let (turn, time) = (step.turn, step.at);
        let dated = move |step: Step| Step { at: time, ..step };
        let begins = step.event == "run_start";
        if last_usage.get(&turn) == Some(&at)
            && let Some(said) = turns.get_mut(&turn)
        {
            merged.extend(std::mem::take(&mut said.said).into_iter().map(dated));
        }
        merged.push(step);
        if begins && let Some(question) = &question {
            merged.push(run_steps::make_step(time, 0, "question", &json!({"text": question})));
        }
        if last_step.get(&turn) == Some(&at)
            && let Some(said) = turns.remove(&turn)
        {
            merged.extend(said.said.into_iter().chain(said.results).map(dated));
        }
    }
    // Without a ledger the history has no positions; it goes to the end.
    for (_, said) in turns {
        merged.extend(said.said.into_iter().chain(said.results));
    }
    // The line of the run's end stays the last one.
    if let Some(at) = merged.iter().position(|step| matches!(step.event.as_str(), "done" | "error"))
    {
        let end = merged.remove(at);
        merged.push(end);
    }
    (merged, whole)
}
