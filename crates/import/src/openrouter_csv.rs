//! OpenRouter's activity: rows of numbers, in whatever order of columns, newest first or last. No
//! session is recorded; rows of one key, app and model are put into chains in which prompts grow.

mod backwards;
mod columns;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use softland_session::core::NanoUsd;
use softland_session::wire::Tokens;

use crate::draft::{Draft, stop, time};
use crate::input::Input;
use crate::out::Out;
use crate::step::{Begin, Row, Talk};
use backwards::Backwards;
pub(crate) use columns::is_header;
use columns::{Columns, fields};

/// Bytes at the end of a file in which its last row is looked for.
const TAIL: u64 = 64 << 10;
/// The longest row.
const LONGEST: usize = 1 << 20;
/// Completion tokens of a trivial row, at most.
const TRIVIAL: u64 = 5;

/// Reads a file; `plain` is its path where it is not compressed, so that it can be read backwards.
pub(crate) fn read(input: &mut Input<'_>, out: &mut Out<'_>, plain: Option<&Path>) {
    let Some(header) = record(input, out) else { return };
    let behind = input.position();
    let columns = match Columns::of(&header.1) {
        Ok(columns) => columns,
        Err(missing) => {
            out.unreadable(Some(header.0), missing);
            return;
        }
    };
    if let Some(missing) = columns.missing() {
        out.unreadable(Some(header.0), missing);
    }
    let mut chains = Chains::default();
    let Some((number, first)) = record(input, out) else { return };
    let newest = columns.row(&first).ok().and_then(|row| row.time);
    let oldest = plain.and_then(|path| last_time(path, &columns, behind));
    if let (Some(path), Some(newest), Some(oldest)) = (plain, newest, oldest) {
        if newest > oldest {
            if let Err(error) = backwards(path, behind, &columns, out, &mut chains) {
                out.unreadable(None, error.to_string());
            }
            return;
        }
        chains.record(out, &columns, &first, number);
        while let Some((number, text)) = record(input, out) {
            chains.record(out, &columns, &text, number);
        }
        return;
    }
    // Compressed: rows wait as numbers until the last one tells the order.
    let mut rows = Vec::new();
    let mut next = Some((number, first));
    while let Some((number, text)) = next {
        match columns.row(&text) {
            Ok(row) => rows.push((number, row)),
            Err(reason) => out.unreadable(Some(number), reason),
        }
        next = record(input, out);
    }
    let at = |row: Option<&(u64, Entry)>| row.and_then(|(_, row)| row.time);
    if at(rows.first()) > at(rows.last()) {
        rows.reverse();
    }
    for (number, row) in rows {
        chains.row(out, row, number);
    }
}

/// What a row says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    time: Option<u64>,
    key: String,
    app: String,
    model: String,
    prompt: u64,
    completion: u64,
    cached: u64,
    cost: Option<NanoUsd>,
    cancelled: bool,
    finish: String,
}

/// One record: lines up to the one that closes its last quote. With the number of its first line.
fn record(input: &mut Input<'_>, out: &mut Out<'_>) -> Option<(u64, String)> {
    let mut whole = String::new();
    let mut first = None;
    loop {
        match input.line() {
            None => return first.map(|line| (line, whole)),
            Some(Err(line)) => out.unreadable(Some(line), "longer than 64 MiB"),
            Some(Ok(piece)) => {
                out.mended(&piece);
                if first.is_none() && piece.text.trim().is_empty() {
                    continue;
                }
                let line = *first.get_or_insert(piece.line);
                if !whole.is_empty() {
                    whole.push('\n');
                }
                whole.push_str(&piece.text);
                if is_closed(&whole) || whole.len() > LONGEST {
                    return Some((line, whole));
                }
            }
        }
    }
}

/// Whether every quote of a record is closed.
fn is_closed(text: &str) -> bool {
    memchr::memchr_iter(b'"', text.as_bytes()).count().is_multiple_of(2)
}

/// The time of the last row.
fn last_time(path: &Path, columns: &Columns, behind: u64) -> Option<u64> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL).max(behind))).ok()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().find_map(|line| columns.row(line).ok()?.time)
}

fn backwards(
    path: &Path,
    behind: u64,
    columns: &Columns,
    out: &mut Out<'_>,
    chains: &mut Chains,
) -> std::io::Result<()> {
    let mut lines = Backwards::new(path, behind)?;
    let mut record: Option<String> = None;
    while let Some((number, line)) = lines.next()? {
        if record.is_none() && line.trim().is_empty() {
            continue;
        }
        let whole = match record.take() {
            Some(rest) => format!("{line}\n{rest}"),
            None => line,
        };
        if is_closed(&whole) || whole.len() > LONGEST {
            chains.record(out, columns, &whole, number);
        } else {
            record = Some(whole);
        }
    }
    if let Some(rest) = record {
        chains.record(out, columns, &rest, 2);
    }
    Ok(())
}

/// Chains of rows, by what they have in common.
#[derive(Default)]
struct Chains {
    groups: BTreeMap<(String, String, String), BTreeMap<u64, Vec<Talk>>>,
}

impl Chains {
    fn record(&mut self, out: &mut Out<'_>, columns: &Columns, text: &str, number: u64) {
        match columns.row(text) {
            Ok(row) => self.row(out, row, number),
            Err(reason) => out.unreadable(Some(number), reason),
        }
    }

    fn row(&mut self, out: &mut Out<'_>, row: Entry, number: u64) {
        let Entry { key, app, model, .. } = &row;
        let group = self.groups.entry((key.clone(), app.clone(), model.clone())).or_default();
        // The chain whose newest prompt is the largest that fits.
        let fits = group.range(..=row.prompt).next_back().map(|(prompt, _)| *prompt);
        let found = fits.and_then(|prompt| {
            let talks = group.get_mut(&prompt)?;
            let talk = talks.pop();
            if talks.is_empty() {
                group.remove(&prompt);
            }
            talk
        });
        let begin = Begin { inferred: true, line: Some(number), ..Begin::default() };
        let talk = found.unwrap_or_else(|| out.begin(&begin));
        group.entry(row.prompt).or_default().push(talk);
        let calls = matches!(row.finish.as_str(), "tool_calls" | "tool_use" | "function_call");
        let tokens = Tokens {
            input: row.prompt.saturating_sub(row.cached),
            output: row.completion,
            cache_read: row.cached.min(row.prompt),
            ..Tokens::default()
        };
        let trivial = (1..=TRIVIAL).contains(&row.completion) && !row.cancelled && !calls;
        let draft = Draft {
            stop: Some(stop(&row.finish)),
            model: (!row.model.is_empty()).then_some(row.model),
            tokens: Some(tokens),
            cost: row.cost,
            time: row.time,
            line: Some(number),
            row: Some(Row { prompt: row.prompt, trivial, calls, cancelled: row.cancelled }),
            ..Draft::default()
        };
        draft.give(out, talk);
    }
}

/// An entry from its fields, which are as many as there are columns.
fn entry(columns: &Columns, text: &str) -> Result<Entry, String> {
    let list = fields(text);
    let wanted = columns.count();
    if list.len() != wanted {
        return Err(format!("{} fields in place of {wanted}", list.len()));
    }
    let get = |name: &str| columns.at(name).and_then(|at| list.get(at)).map_or("", |f| f.trim());
    let count = |name: &str| match get(name) {
        "" => Ok(0),
        text => text.parse::<f64>().map(|n| n.max(0.0) as u64).map_err(|_| {
            format!("`{name}` is no number: {}", text.chars().take(40).collect::<String>())
        }),
    };
    let cost = get("cost_total").parse::<f64>().ok().and_then(NanoUsd::from_dollars);
    let finish = match get("finish_reason_normalized") {
        "" => get("finish_reason_raw"),
        word => word,
    };
    Ok(Entry {
        time: time(get("created_at")),
        key: get("api_key_name").to_owned(),
        app: get("app_name").to_owned(),
        model: get("model_permaslug").to_owned(),
        prompt: count("tokens_prompt")?,
        completion: count("tokens_completion")?,
        cached: count("tokens_cached")?,
        cost,
        cancelled: get("cancelled").eq_ignore_ascii_case("true") || get("cancelled") == "1",
        finish: finish.to_ascii_lowercase(),
    })
}
