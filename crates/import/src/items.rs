//! Items of OpenAI's Responses API, as rollouts and message arrays hold them.

use softland_session::ResultRead;
use softland_session::core::ToolResult;

use crate::draft::Draft;
use crate::fields::{Fields, elements, string};

/// Returns true if a model wrote items of this type, other than messages.
pub(crate) fn is_models(kind: &str) -> bool {
    kind == "reasoning" || kind.ends_with("_call")
}

/// Returns true if items of this type answer a call.
pub(crate) fn is_result(kind: &str) -> bool {
    kind.ends_with("_call_output")
}

/// Adds an item of the model to its turn.
pub(crate) fn add_to(draft: &mut Draft, kind: &str, item: &Fields<'_>) -> Result<(), String> {
    match kind {
        "reasoning" => {
            draft.hidden(None);
            for part in elements(item.raw("summary").unwrap_or_default()) {
                draft.hidden(Fields::of(part)?.str("text"));
            }
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            let id = item.id("call_id").or_else(|| item.id("id"));
            let name = item.owned("name").unwrap_or_else(|| "local_shell".to_owned());
            let input = ["arguments", "input", "action"].iter().find_map(|key| item.raw(key));
            let input = match input.and_then(string) {
                Some(text) => text.unescape().into_owned(),
                None => input.unwrap_or("{}").to_owned(),
            };
            draft.call(id.unwrap_or_default(), name, input, false);
        }
        // The provider's own searches.
        _ => draft.hidden = true,
    }
    Ok(())
}

/// Reads the result of a call.
pub(crate) fn output(payload: &Fields<'_>) -> ToolResult<'static> {
    let mut read = ResultRead::default();
    let raw = payload.raw("output").unwrap_or_default();
    match string(raw) {
        Some(text) => read.text(text),
        None => {
            let parts = elements(raw);
            for part in &parts {
                match Fields::of(part).ok().and_then(|part| part.str("text")) {
                    Some(text) => read.text(text),
                    None => read.media(),
                }
            }
            if let Ok(object) = Fields::of(raw)
                && let Some(text) = object.str("content")
            {
                read.text(text);
                let facts = read.facts();
                let failed = facts.failed || object.raw("success") == Some("false");
                return ToolResult { failed, ..facts };
            }
        }
    }
    read.facts()
}
