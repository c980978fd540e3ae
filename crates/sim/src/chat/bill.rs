//! The cache's view of a chat prompt: settings, tools, messages, in this order. `tool_choice` is
//! not part of it.

use super::request::{Message, Prompt, Speaker};
use crate::json::Json;
use crate::openai::PromptLayout;

/// Fields that are part of the cached prefix although they are not text.
const SETTINGS: &[&str] = &[
    "reasoning_effort",
    "reasoning",
    "thinking",
    "response_format",
    "verbosity",
    "context_management",
];

/// Lays out the prompt.
pub(super) fn lay_out_prompt(prompt: &Prompt<'_>) -> PromptLayout {
    let parallel = if prompt.tools.parallel { "parallel" } else { "one" };
    let mut settings = vec![prompt.model.id.to_owned(), parallel.to_owned()];
    settings.extend(
        SETTINGS.iter().map(|key| prompt.body.get(key).map(Json::to_text).unwrap_or_default()),
    );
    if prompt.model.tools_are_settings() {
        settings.extend(prompt.tools.all.iter().map(Json::to_text));
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let mut layout = PromptLayout::new(prompt.model.caching, &settings);
    for tool in prompt.tools.all {
        layout.begin_message("tool");
        layout.add_text(&tool.to_text());
        mark_breakpoint(&mut layout, tool);
    }
    for message in &prompt.messages {
        layout.begin_message(message.json.str_at("role").unwrap_or(""));
        write_message(&mut layout, message);
        layout.end_message(matches!(message.speaker, Speaker::User | Speaker::Tool));
    }
    layout
}

/// True if only explicit marks are written.
pub(super) fn is_explicit(body: &Json) -> bool {
    body.get("prompt_cache_options").and_then(|o| o.str_at("mode")) == Some("explicit")
}

fn write_message(layout: &mut PromptLayout, message: &Message<'_>) {
    match message.json.get("content") {
        Some(Json::Str(text)) => layout.add_text(text),
        Some(parts) => {
            for part in parts.items() {
                match part.str_at("type") {
                    Some("text") => layout.add_text(part.str_at("text").unwrap_or("")),
                    Some("image_url") => layout.add_image(&part.to_text()),
                    _ => layout.add_text(&part.to_text()),
                }
                mark_breakpoint(layout, part);
            }
        }
        None => {}
    }
    for key in ["tool_calls", "tool_call_id", "reasoning_content", "reasoning_details"] {
        match message.json.get(key) {
            Some(Json::Str(text)) => layout.add_text(text),
            Some(Json::Null) | None => {}
            Some(other) => layout.add_text(&other.to_text()),
        }
    }
}

fn mark_breakpoint(layout: &mut PromptLayout, json: &Json) {
    let marks = ["cache_control", "prompt_cache_breakpoint"];
    if marks.iter().any(|key| json.get(key).is_some_and(Json::is_map)) {
        layout.add_breakpoint();
    }
}
