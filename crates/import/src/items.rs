//! Items of OpenAI's Responses API, as rollouts and message arrays hold them.

use softland_session::ResultReader;
use softland_session::core::ToolResult;

use crate::draft::TurnDraft;
use crate::fields::{Fields, array_elements, decode_string};

/// Returns true if a model wrote items of this type, other than messages.
pub(crate) fn is_model_item(kind: &str) -> bool {
    kind == "reasoning" || kind.ends_with("_call")
}

/// Returns true if items of this type answer a call.
pub(crate) fn is_result(kind: &str) -> bool {
    kind.ends_with("_call_output")
}

/// Adds an item of the model to its turn.
pub(crate) fn add_item(draft: &mut TurnDraft, kind: &str, item: &Fields<'_>) -> Result<(), String> {
    match kind {
        "reasoning" => {
            draft.add_hidden(None);
            for part in array_elements(item.raw("summary").unwrap_or_default()) {
                draft.add_hidden(Fields::from_json(part)?.str("text"));
            }
        }
        "function_call" | "custom_tool_call" | "local_shell_call" => {
            let id = item.id("call_id").or_else(|| item.id("id"));
            let name = item.owned_text("name").unwrap_or_else(|| "local_shell".to_owned());
            let input = ["arguments", "input", "action"].iter().find_map(|key| item.raw(key));
            let input = match input.and_then(decode_string) {
                Some(text) => text.unescape().into_owned(),
                None => input.unwrap_or("{}").to_owned(),
            };
            draft.add_call(id.unwrap_or_default(), name, input, false);
        }
        // The provider's own searches. To open a page that was found costs nothing.
        _ => {
            draft.hidden = true;
            let action = item.object("action").and_then(|action| action.owned_text("type"));
            if kind != "web_search_call" || action.is_none_or(|action| action == "search") {
                draft.charges.count_item(kind);
            }
        }
    }
    Ok(())
}

/// Reads the result of a call.
pub(crate) fn read_output(payload: &Fields<'_>) -> ToolResult<'static> {
    let mut read = ResultReader::default();
    let raw = payload.raw("output").unwrap_or_default();
    match decode_string(raw) {
        Some(text) => read.add_text(text),
        None => {
            let parts = array_elements(raw);
            for part in &parts {
                match Fields::from_json(part).ok().and_then(|part| part.str("text")) {
                    Some(text) => read.add_text(text),
                    None => read.add_media(part),
                }
            }
            if let Ok(object) = Fields::from_json(raw)
                && let Some(text) = object.str("content")
            {
                read.add_text(text);
                let facts = read.to_facts();
                let failed = facts.failed || object.raw("success") == Some("false");
                return ToolResult { failed, ..facts };
            }
        }
    }
    read.to_facts()
}
