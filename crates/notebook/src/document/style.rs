//! The layout of a notebook's text, so that new parts look like old ones; and texts as nbformat
//! keeps them, in lists of lines.

use serde_json::{Map, Value};

/// The layout of a JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonLayout {
    /// The indentation of one level; `None` if everything is on one line.
    unit: Option<String>,
    newline: &'static str,
    colon: &'static str,
}

impl Default for JsonLayout {
    /// The layout that Jupyter writes.
    fn default() -> Self {
        Self { unit: Some(" ".to_owned()), newline: "\n", colon: ": " }
    }
}

impl JsonLayout {
    #[cfg(test)]
    pub(super) fn indented(unit: &str) -> Self {
        Self { unit: Some(unit.to_owned()), ..Self::default() }
    }

    /// Detects the layout of an object's text at its first member.
    pub(super) fn from_text(text: &str) -> Self {
        let Some((_, inner)) = text.split_once('{') else { return Self::default() };
        let behind = inner.trim_start_matches([' ', '\t', '\r', '\n']);
        let space = inner.get(..inner.len() - behind.len()).unwrap_or_default();
        // The first name has no quote in it in any notebook; if it had, only the layout would
        // suffer.
        let value = behind.splitn(3, '"').nth(2).unwrap_or_default();
        let colon = if value.trim_start().starts_with(": ") { ": " } else { ":" };
        match space.rsplit_once('\n') {
            Some((before, unit)) => {
                let newline = if before.ends_with('\r') { "\r\n" } else { "\n" };
                Self { unit: Some(unit.to_owned()), newline, colon }
            }
            None => Self { unit: None, newline: "", colon },
        }
    }

    pub(super) const fn colon(&self) -> &'static str {
        self.colon
    }

    /// Returns a line break before a level; empty if there are no lines.
    pub(super) fn line_break(&self, level: usize) -> String {
        let Some(unit) = &self.unit else { return String::new() };
        format!("{}{}", self.newline, unit.repeat(level))
    }

    /// Writes a value that begins at a level.
    pub(super) fn write_value(&self, out: &mut String, value: &Value, level: usize) {
        match value {
            Value::Array(list) if !list.is_empty() => {
                out.push('[');
                for (n, value) in list.iter().enumerate() {
                    self.write_separator(out, n, level);
                    self.write_value(out, value, level + 1);
                }
                out.push_str(&self.line_break(level));
                out.push(']');
            }
            Value::Object(members) if !members.is_empty() => {
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    self.write_separator(out, n, level);
                    out.push_str(&Value::from(name.as_str()).to_string());
                    out.push_str(self.colon);
                    self.write_value(out, value, level + 1);
                }
                out.push_str(&self.line_break(level));
                out.push('}');
            }
            plain => out.push_str(&plain.to_string()),
        }
    }

    fn write_separator(&self, out: &mut String, n: usize, level: usize) {
        if n > 0 {
            out.push(',');
            if self.unit.is_none() && self.colon.ends_with(' ') {
                out.push(' ');
            }
        }
        out.push_str(&self.line_break(level + 1));
    }
}

/// Splits a text into a list of its lines.
pub(super) fn split_lines(text: &str) -> Value {
    Value::Array(text.split_inclusive('\n').map(Value::from).collect())
}

/// Joins a list of lines; a text is returned as it is.
pub(super) fn join_lines(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => lines.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// Returns an output with each of its texts in one piece.
pub(super) fn join_texts(output: &Value) -> Value {
    each_text(output, |_, value| join_lines(value).map(Value::from))
}

/// Returns an output with its texts in lines, as Jupyter writes them.
pub(super) fn split_texts(output: &Value) -> Value {
    each_text(output, |kind, value| {
        let in_lines =
            kind.starts_with("text/") || matches!(kind, "image/svg+xml" | "application/javascript");
        value.as_str().filter(|_| in_lines).map(split_lines)
    })
}

fn each_text(output: &Value, change: impl Fn(&str, &Value) -> Option<Value>) -> Value {
    let mut output = output.clone();
    let Some(members) = output.as_object_mut() else { return output };
    if members.get("output_type").and_then(Value::as_str) == Some("stream")
        && let Some(text) = members.get_mut("text")
        && let Some(changed) = change("text/plain", text)
    {
        *text = changed;
    }
    let none = &mut Map::new();
    let data = members.get_mut("data").and_then(Value::as_object_mut).unwrap_or(none);
    for (kind, value) in data {
        let is_json = kind == "application/json" || kind.ends_with("+json");
        if !is_json && let Some(changed) = change(kind, value) {
            *value = changed;
        }
    }
    output
}
