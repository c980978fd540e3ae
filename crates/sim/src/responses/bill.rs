//! The cache's view of a Responses prompt: settings, tools, instructions, items, in this order.
//! `tool_choice` is not part of it.

use super::request::{Kind, Prompt};
use crate::history::Role;
use crate::json::Json;
use crate::openai::Ribbon;

/// Fields that are part of the cached prefix although they are not text.
const SETTINGS: &[&str] = &["text", "context_management"];

/// Lays out the prompt.
pub(super) fn ribbon(prompt: &Prompt<'_>) -> Ribbon {
    let parallel = if prompt.tools.parallel { "parallel" } else { "one" };
    let mut settings = vec![prompt.model.id.to_owned(), parallel.to_owned()];
    let effort = prompt.body.get("reasoning").and_then(|r| r.str_at("effort"));
    settings.push(effort.unwrap_or("").to_owned());
    let text = |key: &&str| prompt.body.get(key).map(Json::text).unwrap_or_default();
    settings.extend(SETTINGS.iter().map(text));
    if prompt.model.tools_are_settings() {
        settings.extend(prompt.tools.all.iter().map(Json::text));
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut ribbon = Ribbon::new(prompt.model.caching, &settings);
    for tool in prompt.tools.all {
        ribbon.begin("tool");
        ribbon.text(&tool.text());
    }
    if let Some(instructions) = prompt.body.str_at("instructions").filter(|i| !i.is_empty()) {
        ribbon.begin("system");
        ribbon.text(instructions);
    }
    for item in prompt.items {
        let kind = Kind::of(item);
        ribbon.begin(item.str_at("type").or_else(|| item.str_at("role")).unwrap_or(""));
        write(&mut ribbon, item, kind);
        ribbon.end(matches!(kind, Kind::Message(Role::User) | Kind::Output));
    }
    ribbon
}

/// True if only explicit marks are written.
pub(super) fn is_explicit(body: &Json) -> bool {
    body.get("prompt_cache_options").and_then(|o| o.str_at("mode")) == Some("explicit")
}

fn write(ribbon: &mut Ribbon, item: &Json, kind: Kind) {
    match kind {
        Kind::Message(role) => {
            ribbon.text(role.name());
            content(ribbon, item.get("content"));
        }
        Kind::Output => {
            ribbon.text(item.str_at("call_id").unwrap_or(""));
            content(ribbon, item.get("output"));
        }
        // Ids and states are not part of what the model reads.
        _ => {
            for (key, value) in item.entries() {
                if !matches!(key.as_str(), "id" | "status" | "type") {
                    ribbon.text(&value.text());
                }
            }
        }
    }
}

fn content(ribbon: &mut Ribbon, content: Option<&Json>) {
    match content {
        Some(Json::Str(text)) => ribbon.text(text),
        Some(parts) => {
            for part in parts.items() {
                match part.str_at("text") {
                    Some(text) => ribbon.text(text),
                    None if part.str_at("type") == Some("input_image") => {
                        ribbon.image(&part.text());
                    }
                    None => ribbon.text(&part.text()),
                }
                if part.get("prompt_cache_breakpoint").is_some_and(Json::is_map) {
                    ribbon.mark();
                }
            }
        }
        None => {}
    }
}
