//! Reads a row, and tells which of its values cannot be right.

use softland_session::core::{Digest, NanoUsd, Stop};

use super::chains::Chains;
use super::columns::{Columns, split_fields};
use crate::draft::{parse_stop, parse_time};

/// The most completion tokens of a trivial row.
const TRIVIAL: u64 = 5;
/// More tokens than any row has; beyond it, floating-point numbers are not exact.
const MOST: f64 = (1_u64 << 53) as f64;
/// Characters of a bad value that are shown.
const SHOWN: usize = 40;

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The group of rows with the same key, app and model.
    pub(super) group: usize,
    pub(super) line: u64,
    pub(super) time: Option<u64>,
    pub(super) prompt: u64,
    pub(super) completion: u64,
    pub(super) cached: u64,
    pub(super) cost: Option<NanoUsd>,
    pub(super) cancelled: bool,
    /// True if a tool call ended the row.
    pub(super) calls: bool,
    pub(super) stop: Stop,
}

impl Entry {
    /// Returns true if the row was answered in a few tokens.
    pub(super) const fn is_trivial(&self) -> bool {
        self.completion >= 1 && self.completion <= TRIVIAL && !self.cancelled && !self.calls
    }

    /// Returns true if the row may be one of many whose context was answered in vain. A row without
    /// an output says nothing by itself: providers may count what OpenRouter does not.
    pub(super) const fn may_be_stale(&self) -> bool {
        self.completion <= TRIVIAL && !self.cancelled && !self.calls
    }

    /// Returns true if nothing is known about the row's answer.
    pub(super) const fn is_unknown(&self) -> bool {
        self.cancelled && !self.calls
    }
}

/// Reads a record. Also returns the digest that tells it from all others, if it has an id. `list`
/// takes values that cannot be right and that the record is read without.
///
/// # Errors
/// Returns the reason why the record cannot be read.
pub(super) fn read_entry(
    columns: &Columns,
    text: &str,
    line: u64,
    chains: &mut Chains,
    list: &mut dyn FnMut(String),
) -> Result<(Entry, Option<Digest>), String> {
    let fields = split_fields(text);
    let wanted = columns.count();
    if fields.len() != wanted {
        return Err(format!("{} fields in place of {wanted}", fields.len()));
    }
    let get =
        |name: &str| columns.index_of(name).and_then(|at| fields.get(at)).map_or("", |f| f.trim());
    let (prompt, completion) = (get("tokens_prompt"), get("tokens_completion"));
    let prompt =
        parse_count(prompt).ok_or_else(|| describe_bad("tokens_prompt", prompt, "count"))?;
    let completion = parse_count(completion)
        .ok_or_else(|| describe_bad("tokens_completion", completion, "count"))?;
    let cached = parse_count(get("tokens_cached")).unwrap_or_else(|| {
        list(describe_bad("tokens_cached", get("tokens_cached"), "count") + ": taken for 0");
        0
    });
    let cost = get("cost_total");
    let dollars = cost.parse::<f64>().ok().and_then(NanoUsd::from_dollars);
    if dollars.is_none() && !cost.is_empty() {
        list(describe_bad("cost_total", cost, "amount") + ": what it cost is not known");
    }
    let at = parse_time(get("created_at"));
    if at.is_none() && !get("created_at").is_empty() {
        list(describe_bad("created_at", get("created_at"), "time"));
    }
    let finish = match get("finish_reason_normalized") {
        "" => get("finish_reason_raw"),
        word => word,
    };
    let finish = finish.to_ascii_lowercase();
    let cancelled = get("cancelled").eq_ignore_ascii_case("true") || get("cancelled") == "1";
    let entry = Entry {
        group: chains.group_index(get("api_key_name"), get("app_name"), get("model_permaslug")),
        line,
        time: at,
        prompt,
        completion,
        cached,
        cost: dollars,
        cancelled,
        calls: matches!(finish.as_str(), "tool_calls" | "tool_use" | "function_call"),
        stop: parse_stop(&finish),
    };
    // The numbers are part of the digest: an id that is the same in every row identifies none.
    let id = Some(get("generation_id")).filter(|id| !id.is_empty());
    let id = id.map(|id| {
        Digest::from_bytes(
            format!("{id}\n{at:?}\n{prompt}\n{completion}\n{}", cancelled).as_bytes(),
        )
    });
    Ok((entry, id))
}

/// Parses a number of tokens; an empty field is 0.
fn parse_count(text: &str) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let number = text.parse::<f64>().ok()?;
    (number.fract() == 0.0 && (0.0..=MOST).contains(&number)).then_some(number as u64)
}

fn describe_bad(name: &str, value: &str, what: &str) -> String {
    let shown: String = value.chars().take(SHOWN).collect();
    format!("`{name}` is no {what}: {shown}")
}
