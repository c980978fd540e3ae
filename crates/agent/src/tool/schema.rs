//! Checks the arguments of a call: valid JSON, an object, all required members, the right types.
//!
//! Only the top level of a schema is checked (`required`, `properties.*.type`,
//! `additionalProperties: false`). This is not a JSON Schema validator: keywords that it does not
//! understand are ignored.

use serde_json::{Map, Value};
use softland_session::wire::json;

use super::{ToolDef, cut_line};

/// Returns the arguments as an object, or a message for the model that says what is wrong and what
/// is allowed. Optional members that are `null` are left out.
pub(crate) fn parse_input(def: &ToolDef, raw: &str) -> Result<Value, String> {
    let name = &def.name;
    if json::nesting_depth(raw) > json::MAX_DEPTH {
        return Err(format!(
            "{name} was not run: its arguments are nested deeper than {} levels. Send {}.",
            json::MAX_DEPTH,
            signature(def)
        ));
    }
    let value: Value = serde_json::from_str(raw).map_err(|error| {
        format!(
            "{name} was not run: its arguments are not valid JSON ({error}). Send {}.",
            signature(def)
        )
    })?;
    let Value::Object(mut members) = value else {
        return Err(format!(
            "{name} was not run: its arguments must be a JSON object, got {}. Send {}.",
            describe_value(&value),
            signature(def)
        ));
    };
    let required = required_members(def);
    members.retain(|key, value| !value.is_null() || required.contains(&key.as_str()));
    let faults = find_faults(def, &required, &members);
    if faults.is_empty() {
        return Ok(Value::Object(members));
    }
    Err(format!("{name} was not run: {}. Send {}.", faults.join("; "), signature(def)))
}

fn find_faults(def: &ToolDef, required: &[&str], members: &Map<String, Value>) -> Vec<String> {
    let properties = schema_properties(def);
    let closed = def.input_schema.get("additionalProperties") == Some(&Value::Bool(false));
    let mut faults: Vec<String> = required
        .iter()
        .filter(|key| !members.contains_key(**key))
        .map(|key| format!("`{key}` is missing"))
        .collect();
    for (key, value) in members {
        match properties.and_then(|all| all.get(key)) {
            Some(property) => {
                if let Some(wanted) = type_mismatch(property, value) {
                    faults.push(format!("`{key}` must be {wanted}, got {}", describe_value(value)));
                }
            }
            None if closed => faults.push(format!("`{}` is not an argument", cut_line(key, 60))),
            None => {}
        }
    }
    faults
}

fn required_members(def: &ToolDef) -> Vec<&str> {
    let list = def.input_schema.get("required").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn schema_properties(def: &ToolDef) -> Option<&Map<String, Value>> {
    def.input_schema.get("properties").and_then(Value::as_object)
}

/// Returns the wanted type if `value` has another type.
fn type_mismatch(property: &Value, value: &Value) -> Option<String> {
    let wanted = property.get("type")?.as_str()?;
    let fits = match wanted {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        _ => true,
    };
    if !fits {
        return Some(with_article(wanted));
    }
    let minimum = property.get("minimum").and_then(Value::as_i64)?;
    let below = value.as_i64().is_some_and(|number| number < minimum);
    below.then(|| format!("{} of at least {minimum}", with_article(wanted)))
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Describes `value`, briefly enough for a message.
fn describe_value(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("the string \"{}\"", cut_line(text, 40)),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Returns the arguments on one line: `{"path": string, "offset"?: integer}`.
fn signature(def: &ToolDef) -> String {
    let required = required_members(def);
    let members: Vec<String> = schema_properties(def)
        .into_iter()
        .flatten()
        .map(|(key, property)| {
            let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
            let mark = if required.contains(&key.as_str()) { "" } else { "?" };
            format!("\"{key}\"{mark}: {kind}")
        })
        .collect();
    format!("{{{}}}", members.join(", "))
}
