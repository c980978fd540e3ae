//! Rules for single items: their types, required fields, and references.

use crate::history::Role;
use crate::json::Json;
use crate::openai::{OpenAiRefusal, OpenAiResult, ensure, missing_parameter, wrong_type};
use crate::responses::request::ItemKind;
use crate::responses::store::Store;

/// Replaces references by the stored items.
///
/// # Errors
/// Refuses with 404 if an item is not stored.
pub(in crate::responses) fn resolve_references(
    items: Vec<Json>,
    store: &Store,
) -> OpenAiResult<Vec<Json>> {
    let resolved = items.into_iter().map(|item| {
        if ItemKind::from_item(&item) != ItemKind::Reference {
            return Ok(item);
        }
        let id = item.str_at("id").unwrap_or("");
        store.find_item(id).cloned().ok_or_else(|| item_not_stored(id))
    });
    resolved.collect()
}

pub(super) fn item_not_stored(id: &str) -> OpenAiRefusal {
    let message = format!(
        "Item with id '{id}' not found. Items are not persisted when `store` is set to false. Try \
         again with `store` set to true, or remove this item from your input."
    );
    OpenAiRefusal::new(404, "invalid_request_error", message).with_param("input")
}

pub(super) fn check_items(items: &[Json]) -> OpenAiResult {
    items.iter().enumerate().try_for_each(|(at, item)| check_item(item, at))
}

fn check_item(item: &Json, at: usize) -> OpenAiResult {
    let path = format!("input[{at}]");
    ensure(item.is_map(), || wrong_type(&path, "an object", item))?;
    let need = |keys: &[&str]| {
        keys.iter().try_for_each(|key| {
            let there = item.get(key).and_then(Json::as_str).is_some();
            ensure(there, || missing_parameter(format!("{path}.{key}")))
        })
    };
    match ItemKind::from_item(item) {
        ItemKind::Message(role) => check_message(item, role, &path),
        ItemKind::Call if item.str_at("type") == Some("function_call") => {
            need(&["call_id", "name", "arguments"])
        }
        ItemKind::Call if item.str_at("type") == Some("custom_tool_call") => {
            need(&["call_id", "name", "input"])
        }
        ItemKind::Call => need(&["call_id"]),
        ItemKind::Output => {
            need(&["call_id"])?;
            let output = item.get("output").is_some_and(|o| *o != Json::Null);
            ensure(output, || missing_parameter(format!("{path}.output")))
        }
        ItemKind::Reasoning => {
            let summary = matches!(item.get("summary"), Some(Json::List(_)));
            ensure(summary, || missing_parameter(format!("{path}.summary")))
        }
        ItemKind::Made | ItemKind::Reference => Ok(()),
        ItemKind::Unknown => Err(unknown_item(item, &path)),
    }
}

fn unknown_item(item: &Json, path: &str) -> OpenAiRefusal {
    if item.get("type").is_none() && item.get("role").is_none() {
        return missing_parameter(format!("{path}.type"));
    }
    let (key, said) = match item.str_at("type") {
        None | Some("message") => ("role", item.str_at("role").unwrap_or("")),
        Some(kind) => ("type", kind),
    };
    let message = format!("Invalid value: '{said}'.");
    OpenAiRefusal::bad_request(message)
        .with_code("invalid_value")
        .with_param(format!("{path}.{key}"))
}

fn check_message(item: &Json, role: Role, path: &str) -> OpenAiResult {
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
                OpenAiRefusal::bad_request(text).with_code("invalid_value").with_param(path.clone())
            })
        }),
        Some(other) if *other != Json::Null => {
            Err(wrong_type(&path, "one of an array of objects or string", other))
        }
        _ => Err(missing_parameter(path)),
    }
}
