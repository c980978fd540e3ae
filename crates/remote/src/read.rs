//! What the script returns, as the types of the gateway. A record that cannot be read is left out:
//! its run is then governed as one whose record is lost.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use softland_govern::recall::{FoundBy, FoundTurn, Recalled, Recollection};
use softland_govern::runs::{
    EndedRun, ObservedEnd, OpenedRun, RunAfter, RunInfo, RunPhase, RunSnapshot, RunTotals,
    SnapshotEnd,
};
use softland_govern::store::{RunState, StoredScope};
use softland_govern::{LearnedLimit, ModelLessons};
use softland_session::ChainLink;
use softland_session::core::{Digest, NanoUsd, PinnedRecord};
use softland_session::wire::{ExtraCharges, Tokens};

use crate::answer::Answer;

/// The length of a digest's text.
const DIGEST: usize = 32;

/// Returns the elements of an array.
pub(crate) fn read_list(value: Answer) -> Vec<Answer> {
    if let Answer::List(values) = value { values } else { Vec::new() }
}

/// Returns a text, if the value is one.
pub(crate) fn read_text(value: &Answer) -> Option<&str> {
    if let Answer::Text(text) = value { Some(text) } else { None }
}

/// Returns a number, which may come as a text.
pub(crate) fn read_number(value: &Answer) -> u64 {
    match value {
        Answer::Number(number) => *number,
        other => read_text(other).and_then(|text| text.parse().ok()).unwrap_or(0),
    }
}

/// Returns texts of an array.
pub(crate) fn read_texts(value: Answer) -> Vec<Arc<str>> {
    read_list(value).iter().filter_map(read_text).map(Into::into).collect()
}

/// Takes the first elements of an array, of a fixed number.
pub(crate) fn read_elements<const N: usize>(value: Answer) -> Option<[Answer; N]> {
    read_list(value).try_into().ok()
}

fn parse<T: DeserializeOwned>(text: &str) -> Option<T> {
    let parsed = serde_json::from_str(text);
    if let Err(error) = &parsed {
        tracing::warn!(%error, "a record in the shared store cannot be read");
    }
    parsed.ok()
}

fn parse_digest(text: &str) -> Option<Digest> {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).ok()
}

/// The fields of a hash.
struct Fields(HashMap<String, String>);

impl Fields {
    fn from_value(value: Answer) -> Self {
        let flat = read_list(value);
        let pairs = flat.chunks_exact(2).filter_map(|pair| match pair {
            [field, value] => Some((read_text(field)?.to_owned(), read_text(value)?.to_owned())),
            _ => None,
        });
        Self(pairs.collect())
    }

    fn read_text(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    fn read_number(&self, field: &str) -> u64 {
        self.read_text(field).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn is_set(&self, field: &str) -> bool {
        self.read_text(field) == Some("1")
    }
}

/// Returns the stored state of a conversation.
fn stored_scope(value: Answer) -> StoredScope {
    let fields = Fields::from_value(value);
    let mut scope = StoredScope::default();
    for (field, value) in &fields.0 {
        let (kind, key) = field.split_at_checked(1).unwrap_or((field, ""));
        let digest = || parse_digest(key);
        match kind {
            "p" => {
                let pin = parse(value).map(|pin| immediate(&fields, key, pin));
                scope.pins.extend(digest().zip(pin.map(Box::new)));
            }
            "t" => scope.tails.extend(digest().zip(parse(value))),
            "r" => scope.results.extend(digest().zip(parse(value))),
            "u" => {
                let tokens = fields.read_number(&format!("k{key}"));
                let cost = fields.read_number(&format!("c{key}"));
                scope.runs.extend(digest().zip(run_state(value, tokens, cost)));
            }
            "n" => scope.newest = parse_digest(value),
            "a" => scope.asked = digests(value),
            "f" => scope.face = parse(value),
            "h" => scope.cache = parse(value).unwrap_or_default(),
            _ => {}
        }
    }
    scope
}

/// Returns the digests that a text holds.
fn digests<C: FromIterator<Digest>>(text: &str) -> C {
    let parts = text.as_bytes().chunks(DIGEST);
    parts.filter_map(|part| parse_digest(std::str::from_utf8(part).ok()?)).collect()
}

/// Adds the messages that arrived at once to a record.
fn immediate(fields: &Fields, run: &str, pin: PinnedRecord) -> PinnedRecord {
    let went_on = fields.read_text(&format!("w{run}")).map(digests).unwrap_or_default();
    let behind_landing = fields.read_text(&format!("b{run}")).and_then(parse_digest);
    PinnedRecord { went_on, behind_landing, ..pin }
}

fn run_state(blob: &str, tokens: u64, cost: u64) -> Option<Arc<RunState>> {
    let state: RunState = parse(blob)?;
    Some(Arc::new(RunState { tokens, cost: NanoUsd(cost), ..state }))
}

/// Returns what is known of a request's conversation.
pub(crate) fn read_recalled(value: Answer) -> Option<Recalled> {
    let [parent, found, lessons, cancelled] = read_elements(value)?;
    let parent = read_elements(parent).and_then(|[scope, fields]: [Answer; 2]| {
        Some((read_text(&scope)?.into(), Arc::new(stored_scope(fields))))
    });
    let cancelled = read_list(cancelled).into_iter().filter_map(|one| {
        let [run, here] = read_elements(one)?;
        Some((read_text(&run)?.into(), read_text(&here).and_then(parse_digest)))
    });
    Some(Recalled {
        parent,
        found: recollection(found),
        lessons: model_lessons(&Fields::from_value(lessons)),
        cancelled: cancelled.collect(),
    })
}

fn recollection(value: Answer) -> Option<Recollection> {
    let [scope, fields, by, index, known, flag, turn] = read_elements(value)?;
    let (index, known) = (read_number(&index) as usize, read_number(&known) as usize);
    let turn = found_turn(turn);
    let by = match read_text(&by)? {
        "content" => FoundBy::Content(turn?),
        "calls" => FoundBy::Calls { turn: turn?, index, known },
        "prefix" => FoundBy::Prefix { turn: turn?, index },
        "compacted" => FoundBy::Compacted,
        "summary" => FoundBy::Summary(index),
        "name" => FoundBy::Name(read_number(&flag) == 1),
        "again" => FoundBy::Again,
        "beside" => FoundBy::Beside(read_number(&flag) == 1),
        _ => return None,
    };
    Some(Recollection {
        scope: read_text(&scope)?.into(),
        kept: Arc::new(stored_scope(fields)),
        by,
    })
}

fn found_turn(value: Answer) -> Option<FoundTurn> {
    let [run, blob, tokens, cost, fork] = read_elements(value)?;
    let then = run_state(read_text(&blob)?, read_number(&tokens), read_number(&cost))?;
    Some(FoundTurn {
        run: parse_digest(read_text(&run)?)?,
        then,
        fork: read_text(&fork) == Some("1"),
    })
}

fn model_lessons(fields: &Fields) -> ModelLessons {
    let most = fields.read_text("most").and_then(|most| most.parse().ok());
    let limit = most.map(|most| LearnedLimit { completion: fields.is_set("completion"), most });
    ModelLessons { no_forcing: fields.is_set("forcing"), no_none: fields.is_set("none"), limit }
}

/// Returns a response that a client was shown.
pub(crate) fn read_chain_link(value: Answer) -> ChainLink {
    let mut fields = Fields::from_value(value).0;
    let mut take = |field: &str| fields.remove(field);
    ChainLink {
        before: take("before"),
        items: take("items").unwrap_or_default(),
        upstream: take("upstream"),
        add: take("add").unwrap_or_default(),
    }
}

fn run_totals(fields: &Fields) -> RunTotals {
    let beside = ExtraCharges {
        web_searches: small(fields, "web_searches"),
        file_searches: small(fields, "file_searches"),
        programs: small(fields, "programs"),
        images: small(fields, "images"),
        sources: small(fields, "sources"),
        served: fields.read_text("served").and_then(tier).unwrap_or_default(),
        in_one_country: fields.is_set("in_one_country"),
        stated: fields.read_text("stated").and_then(|stated| stated.parse().ok()),
    };
    RunTotals {
        last: fields.read_number("last"),
        turns: fields.read_number("turns"),
        calls: fields.read_number("calls"),
        tokens: Tokens {
            input: fields.read_number("input"),
            output: fields.read_number("output"),
            cache_read: fields.read_number("cache_read"),
            cache_write_5m: fields.read_number("cache_write_5m"),
            cache_write_1h: fields.read_number("cache_write_1h"),
            beside,
        },
        cost: fields.read_text("cost").and_then(|cost| cost.parse().ok()).map(NanoUsd),
        before: (fields.read_number("turns_before"), fields.read_number("calls_before")),
        failed: fields.is_set("failed"),
        remaining: fields.read_text("remaining").and_then(parse).unwrap_or_default(),
    }
}

fn small(fields: &Fields, field: &str) -> u32 {
    u32::try_from(fields.read_number(field)).unwrap_or(u32::MAX)
}

/// Returns a tier from its rank and name.
fn tier<T: DeserializeOwned>(text: &str) -> Option<T> {
    parse(text.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Returns a run that has ended, from its name and fields.
pub(crate) fn read_ended_run(value: Answer) -> Option<EndedRun> {
    let [run, fields] = read_elements(value)?;
    let fields = Fields::from_value(fields);
    let info = fields.read_text("info").and_then(parse).unwrap_or_default();
    Some(EndedRun { run: read_text(&run)?.into(), info, totals: run_totals(&fields) })
}

/// Returns the answer to a request that begins.
pub(crate) fn read_opened_run(value: Answer) -> Option<OpenedRun> {
    let [is_new, begun, superseded] = read_elements(value)?;
    let (is_new, begun) = (read_number(&is_new) == 1, read_number(&begun));
    Some(OpenedRun { is_new, begun, superseded: read_ended_run(superseded) })
}

/// Returns a run after one of its requests; `observed` is the end that the request would have had.
pub(crate) fn read_run_after(value: Answer, observed: Option<ObservedEnd>) -> Option<RunAfter> {
    let [ended, first] = read_elements(value)?;
    let first_observed_end = if read_number(&first) == 1 { observed } else { None };
    Some(RunAfter { ended: read_ended_run(ended).map(|ended| ended.totals), first_observed_end })
}

/// Returns a run from its name, its fields, and whether it is busy.
pub(crate) fn read_run_snapshot(value: Answer) -> Option<RunSnapshot> {
    let [run, fields, is_busy] = read_elements(value)?;
    let fields = Fields::from_value(fields);
    let totals = run_totals(&fields);
    let info: RunInfo = parse(fields.read_text("info")?)?;
    let phase: RunPhase = fields.read_text("phase").and_then(parse).unwrap_or_default();
    let end = fields.read_text("ended").map(|at| {
        match fields.read_text("ending").filter(|text| !text.is_empty()).and_then(parse) {
            Some(end) => end,
            // Nobody has continued it.
            None => SnapshotEnd {
                at: at.parse().unwrap_or(0),
                ending: totals.abandoned_end(),
                local: false,
            },
        }
    });
    Some(RunSnapshot {
        run: read_text(&run)?.into(),
        info: Arc::new(info),
        last: totals.last,
        phase,
        is_busy: read_number(&is_busy) == 1,
        turns: totals.turns.max(fields.read_number("begun")),
        calls: totals.calls,
        tokens: totals.tokens,
        cost: totals.cost,
        end,
    })
}
