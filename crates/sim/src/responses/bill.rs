//! The cache's view of a Responses prompt: settings, tools, instructions, items, in this order.
//! `tool_choice` is not part of it.

use super::request::{ItemKind, Prompt};
use crate::history::Role;
use crate::json::Json;
use crate::openai::PromptLayout;

/// Fields that are part of the cached prefix although they are not text.
const SETTINGS: &[&str] = &["text", "context_management"];

/// Lays out the prompt.
pub(super) fn lay_out_prompt(prompt: &Prompt<'_>) -> PromptLayout {
    let parallel = if prompt.tools.parallel { "parallel" } else { "one" };
    let mut settings = vec![prompt.model.id.to_owned(), parallel.to_owned()];
    let effort = prompt.body.get("reasoning").and_then(|r| r.str_at("effort"));
    settings.push(effort.unwrap_or("").to_owned());
    let text = |key: &&str| prompt.body.get(key).map(Json::to_text).unwrap_or_default();
    settings.extend(SETTINGS.iter().map(text));
    if prompt.model.tools_are_settings() {
        settings.extend(prompt.tools.all.iter().map(Json::to_text));
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut layout = PromptLayout::new(prompt.model.caching, &settings);
    for tool in prompt.tools.all {
        layout.begin_message("tool");
        layout.add_text(&tool.to_text());
    }
    if let Some(instructions) = prompt.body.str_at("instructions").filter(|i| !i.is_empty()) {
        layout.begin_message("system");
        layout.add_text(instructions);
    }
    for item in prompt.items {
        let kind = ItemKind::from_item(item);
        layout.begin_message(item.str_at("type").or_else(|| item.str_at("role")).unwrap_or(""));
        write_item(&mut layout, item, kind);
        layout.end_message(matches!(kind, ItemKind::Message(Role::User) | ItemKind::Output));
    }
    layout
}

/// True if only explicit marks are written.
pub(super) fn is_explicit(body: &Json) -> bool {
    body.get("prompt_cache_options").and_then(|o| o.str_at("mode")) == Some("explicit")
}

fn write_item(layout: &mut PromptLayout, item: &Json, kind: ItemKind) {
    match kind {
        ItemKind::Message(role) => {
            layout.add_text(role.name());
            write_content(layout, item.get("content"));
        }
        ItemKind::Output => {
            layout.add_text(item.str_at("call_id").unwrap_or(""));
            write_content(layout, item.get("output"));
        }
        // Ids and states are not part of what the model reads.
        _ => {
            for (key, value) in item.entries() {
                if !matches!(key.as_str(), "id" | "status" | "type") {
                    layout.add_text(&value.to_text());
                }
            }
        }
    }
}

fn write_content(layout: &mut PromptLayout, content: Option<&Json>) {
    match content {
        Some(Json::Str(text)) => layout.add_text(text),
        Some(parts) => {
            for part in parts.items() {
                match part.str_at("text") {
                    Some(text) => layout.add_text(text),
                    None if part.str_at("type") == Some("input_image") => {
                        layout.add_image(&part.to_text());
                    }
                    None => layout.add_text(&part.to_text()),
                }
                if part.get("prompt_cache_breakpoint").is_some_and(Json::is_map) {
                    layout.add_breakpoint();
                }
            }
        }
        None => {}
    }
}
