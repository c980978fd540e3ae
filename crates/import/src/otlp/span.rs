//! A span with attributes `gen_ai.*`, as far as it is kept until all have been read.

use softland_session::core::NanoUsd;

use crate::fields::{Fields, array_elements, decode_string};

/// What a span does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// It asks a model.
    Model,
    /// It runs a tool.
    Tool,
    /// It is an agent's whole work.
    Agent,
}

/// One span.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) operation: Operation,
    pub(super) id: String,
    /// Its start in nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) line: u64,
    attributes: Vec<(String, String)>,
}

impl Span {
    /// Returns an attribute as a text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone())
    }

    /// Returns an attribute that is a count.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }

    /// Returns an attribute that is an amount of dollars.
    pub(super) fn dollars(&self, key: &str) -> Option<NanoUsd> {
        self.text(key)?.parse::<f64>().ok().and_then(NanoUsd::from_dollars)
    }

    /// Returns true if any usage is recorded.
    pub(super) fn has_usage(&self) -> bool {
        let counts = |name: &str| name.starts_with("gen_ai.usage.") && name.ends_with("tokens");
        self.attributes.iter().any(|(name, _)| counts(name))
    }
}

/// Reads a span, with the name of its conversation; `None` if it has nothing to do with a model.
pub(super) fn read_span(text: &str, line: u64) -> Result<Option<(String, Span)>, String> {
    let fields = Fields::from_json(text)?;
    let mut attributes = Vec::new();
    for attribute in array_elements(fields.raw("attributes").unwrap_or_default()) {
        let attribute = Fields::from_json(attribute)?;
        let (Some(key), Some(value)) = (attribute.owned_text("key"), attribute.object("value"))
        else {
            continue;
        };
        if key.starts_with("gen_ai.") || key == "error.type" {
            attributes.extend(read_value(&value).map(|value| (key, value)));
        }
    }
    let find = |key: &str| attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let named = find("gen_ai.operation.name").map_or("", String::as_str);
    let operation = match named {
        "chat" | "text_completion" | "generate_content" => Operation::Model,
        "execute_tool" => Operation::Tool,
        "invoke_agent" => Operation::Agent,
        "" if find("gen_ai.response.model").is_some() => Operation::Model,
        _ => return Ok(None),
    };
    let session = find("gen_ai.conversation.id").cloned();
    let session = session.or_else(|| fields.id("traceId")).unwrap_or_default();
    let start = fields.raw("startTimeUnixNano").map(|raw| raw.trim_matches('"'));
    let start = start.and_then(|raw| raw.parse().ok()).unwrap_or(0);
    let id = fields.id("spanId").unwrap_or_default();
    Ok(Some((session, Span { operation, id, start, line, attributes })))
}

/// Reads a value: a text, a number, or the JSON of anything else.
fn read_value(value: &Fields<'_>) -> Option<String> {
    let plain = ["stringValue", "intValue", "doubleValue", "boolValue"];
    let raw = plain.iter().find_map(|key| value.raw(key));
    match raw {
        Some(raw) => Some(match decode_string(raw) {
            Some(text) => text.unescape().into_owned(),
            None => raw.to_owned(),
        }),
        None => value.raw("arrayValue").map(str::to_owned),
    }
}
