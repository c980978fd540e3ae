//! The columns of a file, and the fields of a record.

use std::borrow::Cow;

use crate::draft::parse_time;

/// Columns that are read; without the first two there is nothing to read.
const READ: &[&str] = &[
    "tokens_prompt",
    "tokens_completion",
    "created_at",
    "model_permaslug",
    "cost_total",
    "tokens_cached",
    "cancelled",
    "finish_reason_normalized",
    "api_key_name",
    "app_name",
];
const NEEDED: usize = 2;
/// More columns by which such a file is recognized.
const KNOWN: &[&str] =
    &["generation_id", "provider_name", "tokens_reasoning", "finish_reason_raw", "variant"];

/// Returns true if the first line names OpenRouter's columns.
pub(crate) fn is_header(head: &[u8]) -> bool {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return false };
    let names = split_fields(line.trim());
    let known = |name: &&Cow<'_, str>| READ.contains(&name.trim()) || KNOWN.contains(&name.trim());
    let tokens = names.iter().any(|name| name.trim().starts_with("tokens_"));
    names.iter().filter(known).count() >= 3 && (tokens || line.contains("generation_id"))
}

/// The positions of the columns.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Vec<String>,
}

impl Columns {
    /// Reads the header.
    ///
    /// # Errors
    /// Names the columns without which nothing can be read.
    pub(crate) fn from_header(header: &str) -> Result<Self, String> {
        let names = split_fields(header.trim()).iter().map(|name| name.trim().to_owned()).collect();
        let columns = Self { names };
        let needed = READ.iter().take(NEEDED);
        let missing: Vec<_> =
            needed.filter(|name| columns.index_of(name).is_none()).copied().collect();
        if missing.is_empty() { Ok(columns) } else { Err(name_missing(&missing)) }
    }

    /// Returns the missing columns, of those that are read.
    pub(crate) fn missing_columns(&self) -> Option<String> {
        let missing: Vec<_> =
            READ.iter().filter(|name| self.index_of(name).is_none()).copied().collect();
        (!missing.is_empty()).then(|| name_missing(&missing))
    }

    pub(crate) fn index_of(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|found| found == name)
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Returns the time of a record, if the record is whole.
    pub(crate) fn record_time(&self, text: &str) -> Option<u64> {
        let list = split_fields(text);
        let at = self.index_of("created_at").filter(|_| list.len() == self.count())?;
        parse_time(list.get(at)?.trim())
    }
}

fn name_missing(missing: &[&str]) -> String {
    format!("missing columns: {}", missing.join(", "))
}

/// Splits a record into its fields, without their quotes.
pub(crate) fn split_fields(text: &str) -> Vec<Cow<'_, str>> {
    let mut list = Vec::new();
    let mut rest = text;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted),
            None => match rest.split_once(',') {
                Some((field, after)) => (Cow::Borrowed(field), Some(after)),
                None => (Cow::Borrowed(rest), None),
            },
        };
        list.push(field);
        match after {
            Some(after) => rest = after,
            None => return list,
        }
    }
}

/// Reads a field behind its opening quote; also returns the rest behind its comma.
fn quoted_field(text: &str) -> (Cow<'_, str>, Option<&str>) {
    let mut from = 0;
    let end = loop {
        let Some(at) = text.get(from..).and_then(|rest| rest.find('"')) else { break text.len() };
        let at = from + at;
        if text.get(at + 1..).is_some_and(|rest| rest.starts_with('"')) {
            from = at + 2;
        } else {
            break at;
        }
    };
    let field = text.get(..end).unwrap_or_default();
    let field =
        if field.contains("\"\"") { field.replace("\"\"", "\"").into() } else { field.into() };
    let after = text.get(end + 1..).unwrap_or_default();
    (field, after.split_once(',').map(|(_, after)| after))
}
