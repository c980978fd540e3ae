//! The room for text in each form of a tool result: one table for all APIs.
//!
//! A form that is not in the table has no room. An API may refuse a text in it, and every later
//! request of the conversation would hold that text.

use std::collections::BTreeSet;

use super::{BlockKind, Content, Message, ResultContent, Role, TextRoom};

/// A place for text in an output of the Responses API.
#[derive(Clone, Copy)]
enum Place {
    /// The output is a string, or a list of the parts in [`PARTS`].
    Content,
    /// The output is a string or absent.
    String,
    /// The output is a list of objects, whose `stdout` is text.
    Stdout,
    /// There is none.
    Nowhere,
}

/// The outputs of the Responses API, by their type. (openai-python 2.31, `ResponseInputItem`)
const OUTPUTS: [(&str, Place); 7] = [
    ("function_call_output", Place::Content),
    ("custom_tool_call_output", Place::Content),
    // "Optional human-readable log text from the apply patch tool"
    ("apply_patch_call_output", Place::String),
    ("shell_call_output", Place::Stdout),
    // "A JSON string of the output of the local shell tool call"
    ("local_shell_call_output", Place::Nowhere),
    // A screenshot.
    ("computer_call_output", Place::Nowhere),
    // The definitions of tools.
    ("tool_search_output", Place::Nowhere),
];

/// The parts beside which a text may stand. Anthropic's `tool_reference` is none of them: the API
/// refuses a result that mixes it with other parts.
const PARTS: [&str; 11] = [
    // Anthropic
    "text",
    "image",
    "document",
    "search_result",
    // Responses
    "input_text",
    "output_text",
    "input_image",
    "input_file",
    // Chat Completions
    "image_url",
    "input_audio",
    "file",
];

/// Returns the room in an output of the Responses API of this type.
pub(super) fn output_room(kind: &str, content: &ResultContent<'_>) -> TextRoom {
    let place = OUTPUTS.iter().find(|(known, _)| *known == kind).map(|(_, place)| *place);
    let fits = match (place.unwrap_or(Place::Nowhere), content) {
        (Place::Content, content) => return content_room(content),
        (Place::String, ResultContent::Absent(_) | ResultContent::Text(..)) => true,
        (Place::Stdout, ResultContent::Parts { parts, .. }) => {
            parts.last().is_some_and(|last| last.text.is_some())
        }
        _ => false,
    };
    if fits { TextRoom::Text } else { TextRoom::Closed }
}

/// Returns the room in a content of text and parts.
pub(super) fn content_room(content: &ResultContent<'_>) -> TextRoom {
    let fits = match content {
        ResultContent::Absent(_) | ResultContent::Text(..) => true,
        ResultContent::Opaque(_) => false,
        ResultContent::Parts { parts, .. } => {
            parts.iter().all(|part| PARTS.iter().any(|known| part.kind.eq_str(known)))
        }
    };
    if fits { TextRoom::Text } else { TextRoom::Closed }
}

/// Marks the results of calls that code made. In Anthropic's form only the calls say so.
pub(super) fn mark_results_of_code(list: &mut [Message<'_>]) {
    let mut by_code = BTreeSet::new();
    for message in list {
        let Content::Blocks { blocks, .. } = &mut message.content else { continue };
        if message.role == Role::Assistant {
            by_code.clear();
        }
        for block in blocks {
            match &mut block.kind {
                BlockKind::ToolUse { id, by_code: true, .. } => {
                    by_code.insert(id.unescape());
                }
                BlockKind::ToolResult(result)
                    if !by_code.is_empty() && by_code.contains(&result.tool_use_id.unescape()) =>
                {
                    result.room = TextRoom::Closed;
                }
                _ => {}
            }
        }
    }
}
