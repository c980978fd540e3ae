//! Splits an agent file and reads its YAML into keys, values and lines.
//!
//! This module does not know the meaning of any key. Anchors, merge keys and deep or huge documents
//! are bounded or refused, so that no file can keep the reader busy for long.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Options, Spanned};
use softland_session::core::policy::PolicyValue;

use super::Diagnostics;

/// The lines of a file before its front matter.
const LINES_BEFORE: usize = 1;

/// The two parts of a file.
pub(super) struct Parts {
    /// The lines between the `---` lines.
    pub(super) yaml: String,
    /// The rest, without blank lines around it.
    pub(super) body: String,
    /// The first line after the front matter, from 1.
    pub(super) body_line: usize,
}

/// A top-level key of the front matter.
pub(super) struct FrontMatterEntry {
    pub(super) key: String,
    /// The line in the file, from 1.
    pub(super) line: usize,
    pub(super) value: PolicyValue,
}

/// Splits a file at its `---` lines. A byte order mark and CRLF are understood. `Err` holds a line
/// and a message.
pub(super) fn split_file(text: &str) -> Result<Parts, (usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next().is_none_or(|first| first.trim_end() != "---") {
        let message = "an agent file begins with a line `---`, then YAML with at least `name:` and \
                       `description:`, then another line `---`, then the system prompt";
        return Err((1, message.to_owned()));
    }
    let mut yaml = String::new();
    let mut number = LINES_BEFORE;
    for line in lines.by_ref() {
        number += 1;
        if line.trim_end() == "---" {
            let body: Vec<&str> = lines.collect();
            let body = body.join("\n").trim_matches('\n').to_owned();
            let body = if body.trim().is_empty() { String::new() } else { body };
            return Ok(Parts { yaml, body, body_line: number + 1 });
        }
        // YAML ends a line at a carriage return, but editors do not. All later line numbers would
        // be wrong.
        if line.contains('\r') {
            let message = "holds a carriage return in the middle of the line; lines end in LF or \
                           CRLF";
            return Err((number, message.to_owned()));
        }
        yaml.push_str(line);
        yaml.push('\n');
    }
    Err((1, "the front matter is not closed: a second line `---` is missing".to_owned()))
}

/// Reads the keys in the file's order. `None` if the YAML is invalid, which is then reported.
pub(super) fn read_entries(yaml: &str, report: &mut Diagnostics) -> Option<Vec<FrontMatterEntry>> {
    let error = match parse_yaml(yaml) {
        Ok(entries) => return Some(entries),
        Err(error) => error,
    };
    // Other agents read `description: Use when: …` as text to the end of the line. YAML does not.
    if let Some((line, quoted)) = quote_description(yaml)
        && let Ok(entries) = parse_yaml(&quoted)
    {
        let message = "taken as text to the end of the line; quote it to be valid YAML";
        report.add_warning(line, Some("description"), message);
        return Some(entries);
    }
    if let Some(line) = find_tab_indent(yaml) {
        report.add_error(Some(line), None, "is indented with a tab; YAML takes spaces only");
        return None;
    }
    let (line, key, message) = explain_error(&error);
    report.add_error(line, key.as_deref(), message);
    None
}

fn parse_yaml(yaml: &str) -> Result<Vec<FrontMatterEntry>, Error> {
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let Entries(entries) = serde_saphyr::from_str_with_options(yaml, yaml_options())?;
    Ok(entries)
}

fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000,
            max_nodes: 10_000,
            max_depth: 32,
            max_aliases: 100,
            max_anchors: 100,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 10_000,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        // `countdown: off` is a word here, not a boolean.
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        underscored_numbers_as_strings: true,
        // `.nan` is left to the key, which can say which values it takes.
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    }
}

/// Returns the line in the file, the key and the message of a YAML error.
fn explain_error(error: &Error) -> (Option<usize>, Option<String>, String) {
    let error = error.without_snippet();
    let line = error
        .location()
        .and_then(|location| usize::try_from(location.line()).ok())
        .filter(|line| *line > 0)
        .map(|line| line + LINES_BEFORE);
    if let Error::DuplicateMappingKey { key, .. } = error {
        return (line, key.clone(), "is there twice".to_owned());
    }
    let text = error.to_string();
    // The library repeats the position, counted from the first line of the YAML.
    let text = text.split(" at line ").next().unwrap_or(&text);
    let text: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    (line, None, format!("the front matter is not valid YAML: {text}"))
}

/// Returns the first line that is indented with a tab. The parser names the line before it.
fn find_tab_indent(yaml: &str) -> Option<usize> {
    let indented = |line: &str| line.trim_start_matches(' ').starts_with('\t');
    yaml.lines().position(indented).map(|index| index + 1 + LINES_BEFORE)
}

/// Puts a bare one-line `description` in quotes. Returns the YAML and the line in the file; `None`
/// if there is no such key.
fn quote_description(yaml: &str) -> Option<(usize, String)> {
    const KEY: &str = "description:";
    let mut found = None;
    let mut lines = Vec::new();
    for (index, line) in yaml.lines().enumerate() {
        let value = line.strip_prefix(KEY).map(str::trim);
        match value {
            Some(value) if found.is_none() && !value.starts_with(['"', '\'', '|', '>']) => {
                found = Some(index + 1 + LINES_BEFORE);
                lines.push(format!("{KEY} '{}'", value.replace('\'', "''")));
            }
            _ => lines.push(line.to_owned()),
        }
    }
    found.map(|line| (line, lines.join("\n")))
}

struct Entries(Vec<FrontMatterEntry>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("keys with values, such as `name: my-agent`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let AnyValue(value) = map.next_value()?;
            let line = usize::try_from(key.referenced.line()).unwrap_or(0) + LINES_BEFORE;
            entries.push(FrontMatterEntry { key: key.value, line, value });
        }
        Ok(Entries(entries))
    }
}

/// Any YAML value.
struct AnyValue(PolicyValue);

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor).map(Self)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = PolicyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Null)
    }

    fn visit_none<E>(self) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<PolicyValue, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<PolicyValue, E> {
        // The number is beyond any sensible limit. As text it is refused with its digits shown.
        Ok(i128::try_from(value)
            .map_or_else(|_| PolicyValue::Text(value.to_string()), PolicyValue::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<PolicyValue, E> {
        Ok(PolicyValue::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<PolicyValue, A::Error> {
        let mut items = Vec::new();
        while let Some(AnyValue(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(PolicyValue::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PolicyValue, A::Error> {
        let mut members = Vec::new();
        while let Some((key, AnyValue(value))) = map.next_entry::<String, AnyValue>()? {
            members.push((key, value));
        }
        Ok(PolicyValue::Map(members))
    }
}
