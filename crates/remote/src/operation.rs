//! Operations, as the script reads them: JSON objects, in which numbers that Lua could not hold are
//! texts.

use serde::Serialize;
use serde_json::{Value, json};
use softland_govern::StateNote;
use softland_govern::recall::RecallQuery;
use softland_govern::runs::{RequestEnd, RunOpening, RunPhase};
use softland_govern::shared::{Closing, ShownLink};
use softland_govern::store::{RunState, StoreChanges};
use softland_session::core::{Digest, NanoUsd, PinnedRecord};

/// Returns a value as a text of JSON, which the script stores and does not read.
pub(crate) fn to_text(value: &impl Serialize) -> Value {
    // Values of this workspace always have a form in JSON: they have texts as keys.
    serde_json::to_string(value).map_or(Value::Null, Value::String)
}

/// Returns a number as a text. Redis adds signed numbers.
pub(crate) fn to_number(number: u64) -> Value {
    number.min(i64::MAX.unsigned_abs()).to_string().into()
}

/// Finds the conversation of a request.
pub(crate) fn encode_recall(query: &RecallQuery) -> Value {
    let mut operation = serde_json::to_value(query).unwrap_or_default();
    let (calls, call_turns): (Vec<Digest>, Vec<usize>) = query.calls.iter().copied().unzip();
    operation["calls"] = json!(calls);
    operation["call_turns"] = json!(call_turns);
    operation["op"] = "recall".into();
    operation
}

/// Returns the responses behind one.
pub(crate) fn encode_link_query(id: &str, most: usize) -> Value {
    json!({"op": "links", "id": id, "most": most})
}

/// Begins a request of a run.
pub(crate) fn encode_opening(opening: &RunOpening) -> Value {
    let RunOpening { run, info, at, here } = opening;
    json!({
        "run": run, "info": to_text(info), "at": to_number(*at), "here": here,
        "continues": info.continues, "parent": info.parent,
        "phase": to_text(&RunPhase::default()),
    })
}

/// Ends a request.
pub(crate) fn encode_closing(closing: Closing) -> Value {
    let Closing { scope, changes, parent, shown, accounts, request } = closing;
    json!({
        "op": "close",
        "changes": store_changes(&scope, changes),
        "parent": parent.map(|(scope, changes)| store_changes(&scope, *changes)),
        "shown": shown.map(shown_link),
        "accounts": accounts,
        "request": request.as_ref().map(request_end),
    })
}

/// A note of a host.
pub(crate) fn encode_note(note: StateNote) -> Value {
    match note {
        StateNote::Progress(progress) => json!({
            "op": "progress", "run": progress.run, "turn": to_number(progress.turn),
            "calls": to_number(progress.calls), "phase": to_text(&progress.phase),
            "before": [to_number(progress.before.0), to_number(progress.before.1)],
        }),
        StateNote::Withdrawn(run) => json!({"op": "withdraw", "run": run}),
        StateNote::Ended(request) => json!({"op": "ended", "request": request_end(&request)}),
        StateNote::EndKnown { run, end } => json!({
            "op": "replace_end", "run": run, "ended": to_number(end.at), "ending": to_text(&end),
        }),
        StateNote::Learned { model, lessons } => json!({
            "op": "learn", "model": model, "forcing": lessons.no_forcing, "none": lessons.no_none,
            "completion": lessons.limit.is_some_and(|limit| limit.completion),
            "most": lessons.limit.map(|limit| limit.most.to_string()),
        }),
    }
}

fn request_end(request: &RequestEnd) -> Value {
    let RequestEnd { run, totals, observed_end, end } = request;
    let (tokens, beside) = (totals.tokens, totals.tokens.beside);
    let mut counts = json!({});
    for (name, count) in [
        ("input", tokens.input),
        ("output", tokens.output),
        ("cache_read", tokens.cache_read),
        ("cache_write_5m", tokens.cache_write_5m),
        ("cache_write_1h", tokens.cache_write_1h),
        ("web_searches", beside.web_searches.into()),
        ("file_searches", beside.file_searches.into()),
        ("programs", beside.programs.into()),
        ("images", beside.images.into()),
        ("sources", beside.sources.into()),
        ("stated", beside.stated.unwrap_or(0)),
    ] {
        if count > 0 || name == "stated" && beside.stated.is_some() {
            counts[name] = to_number(count);
        }
    }
    let served =
        format!("{}{}", beside.served as u8, to_text(&beside.served).as_str().unwrap_or(""));
    json!({
        "run": run, "last": to_number(totals.last), "turns": to_number(totals.turns),
        "calls": to_number(totals.calls), "cost": totals.cost.map(|cost| to_number(cost.0)),
        "failed": if totals.failed { "1" } else { "0" }, "remaining": to_text(&totals.remaining),
        "tokens": counts, "served": served, "in_one_country": beside.in_one_country,
        "observed": observed_end.as_ref().map(to_text),
        "ended": end.as_ref().map(|end| to_number(end.at)), "ending": end.as_ref().map(to_text),
    })
}

fn shown_link(shown: ShownLink) -> Value {
    let ShownLink { ids, conversation, link } = shown;
    json!({"ids": ids, "conversation": conversation, "link": link})
}

fn store_changes(scope: &str, changes: StoreChanges) -> Value {
    let StoreChanges { pins, tails, results, run, child_tokens, asked, named, clues, .. } = changes;
    let StoreChanges { past_clues, untaken, cache, .. } = changes;
    // The record of the request's own run is applied last, so that it is the last to be forgotten.
    let own = run.as_ref().map(|(_, state)| state.key);
    let (own, mut ordered): (Vec<_>, Vec<_>) =
        pins.into_iter().partition(|(run, _)| Some(*run) == own);
    ordered.extend(own);
    let past = past_clues.map(|(run, then, clues)| {
        let mut past = run_state(run, &then);
        past["clues"] = json!(clues);
        past
    });
    json!({
        "scope": scope,
        "pins": ordered.into_iter().map(|(run, pin)| pinned(run, *pin)).collect::<Vec<_>>(),
        "tails": tails.iter().map(|(at, tail)| json!([at, to_text(tail)])).collect::<Vec<_>>(),
        "results": results.iter().map(|(at, seen)| json!([at, to_text(seen)])).collect::<Vec<_>>(),
        "run": run.map(|(run, state)| run_state(run, &state)),
        "child": child_tokens.map(|(run, tokens)| json!([run, to_number(tokens)])),
        "asked": asked,
        "named": named.map(|(names, face)| json!({"names": names, "face": to_text(&face)})),
        "clues": clues, "past": past, "untaken": untaken, "cache": cache.as_ref().map(to_text),
    })
}

/// A record without the messages that arrived at once, which the script merges.
fn pinned(run: Digest, mut pin: PinnedRecord) -> Value {
    let went = std::mem::take(&mut pin.went_on);
    let behind = pin.behind_landing.take();
    json!({
        "run": run, "compactions": pin.compactions, "looked": pin.looked.map_or(0, |at| at + 1),
        "went": went, "behind": behind, "blob": to_text(&pin),
    })
}

/// A state without tokens and cost, which the script adds.
fn run_state(run: Digest, state: &RunState) -> Value {
    let blob = RunState { tokens: 0, cost: NanoUsd::ZERO, ..state.clone() };
    json!({
        "run": run, "id": state.id, "last": to_number(state.last), "blob": to_text(&blob),
        "tokens": to_number(state.tokens), "cost": to_number(state.cost.0),
    })
}
