//! Rules for single items: their types, required fields, and references.

use crate::history::Role;
use crate::json::Json;
use crate::openai::{Checked, Refusal, ensure, missing, wrong_type};
use crate::responses::request::Kind;
use crate::responses::store::Store;

/// Replaces references by the stored items.
///
/// # Errors
/// Refuses with 404 if an item is not stored.
pub(in crate::responses) fn resolve(items: Vec<Json>, store: &Store) -> Checked<Vec<Json>> {
    let resolved = items.into_iter().map(|item| {
        if Kind::of(&item) != Kind::Reference {
            return Ok(item);
        }
        let id = item.str_at("id").unwrap_or("");
        store.item(id).cloned().ok_or_else(|| not_kept(id))
    });
    resolved.collect()
}

pub(super) fn not_kept(id: &str) -> Refusal {
    let message = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try \
         again with `store` set to true, or remove this item from your input."
    );
    Refusal::new(404, "invalid_request_error", message).at("input")
}

pub(super) fn check(items: &[Json]) -> Checked {
    items.iter().enumerate().try_for_each(|(at, item)| one(item, at))
}

fn one(item: &Json, at: usize) -> Checked {
    let path = format!("input[{at}]");
    ensure(item.is_map(), || wrong_type(&path, "an object", item))?;
    let need = |keys: &[&str]| {
        keys.iter().try_for_each(|key| {
            let there = item.get(key).and_then(Json::as_str).is_some();
            ensure(there, || missing(format!("{path}.{key}")))
        })
    };
    match Kind::of(item) {
        Kind::Message(role) => message(item, role, &path),
        Kind::Call if item.str_at("type") == Some("function_call") => {
            need(&["call_id", "name", "arguments"])
        }
        Kind::Call if item.str_at("type") == Some("custom_tool_call") => {
            need(&["call_id", "name", "input"])
        }
        Kind::Call => need(&["call_id"]),
        Kind::Output => {
            need(&["call_id"])?;
            let output = item.get("output").is_some_and(|o| *o != Json::Null);
            ensure(output, || missing(format!("{path}.output")))
        }
        Kind::Reasoning => {
            let summary = matches!(item.get("summary"), Some(Json::List(_)));
            ensure(summary, || missing(format!("{path}.summary")))
        }
        Kind::Made | Kind::Reference => Ok(()),
        Kind::Unknown => Err(unknown(item, &path)),
    }
}

fn unknown(item: &Json, path: &str) -> Refusal {
    if item.get("type").is_none() && item.get("role").is_none() {
        return missing(format!("{path}.type"));
    }
    let (key, said) = match item.str_at("type") {
        None | Some("message") => ("role", item.str_at("role").unwrap_or("")),
        Some(kind) => ("type", kind),
    };
    let message = format!("Invalid value: '{said}'.");
    Refusal::bad(message).code("invalid_value").at(format!("{path}.{key}"))
}

fn message(item: &Json, role: Role, path: &str) -> Checked {
    let path = format!("{path}.content");
    match item.get("content") {
        Some(Json::Str(_)) => Ok(()),
        Some(Json::List(parts)) => parts.iter().try_for_each(|part| {
            let kind = part.str_at("type").unwrap_or("");
            let known = match role {
                Role::Assistant => matches!(kind, "output_text" | "refusal"),
                Role::User | Role::System => {
                    matches!(kind, "input_text" | "input_image" | "input_file" | "input_audio")
                }
            };
            ensure(known, || {
                let allowed = match role {
                    Role::Assistant => "'output_text' and 'refusal'",
                    _ => "'input_text', 'input_image', 'input_file', and 'input_audio'",
                };
                let text = format!("Invalid value: '{kind}'. Supported values are: {allowed}.");
                Refusal::bad(text).code("invalid_value").at(path.clone())
            })
        }),
        Some(other) if *other != Json::Null => {
            Err(wrong_type(&path, "one of an array of objects or string", other))
        }
        _ => Err(missing(path)),
    }
}
