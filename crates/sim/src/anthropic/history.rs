//! The neutral history of an Anthropic conversation, for scenarios.

use super::request::{Block, Prompt, Turn, blocks};
use crate::history::{Called, History, Returned, Role, Said, Tool};
use crate::json::Json;
use std::borrow::Cow;
use std::fmt::Write as _;

static EMPTY: Json = Json::Map(Vec::new());

/// Reads the turns of a prompt, one history turn for each.
pub(crate) fn read<'a>(prompt: &Prompt<'a>) -> History<'a> {
    let open = prompt.last().filter(|t| t.role == Role::Assistant);
    History {
        turns: prompt.turns.iter().map(said).collect(),
        tools: prompt.tools.iter().filter_map(tool).collect(),
        choice: prompt.choice,
        parallel: prompt.parallel,
        paused: open.map_or(0, |t| t.blocks.iter().filter(|b| b.is("server_tool_use")).count()),
    }
}

fn tool(json: &Json) -> Option<Tool<'_>> {
    let custom = matches!(json.str_at("type"), None | Some("custom"));
    custom.then_some(Tool::of(json.str_at("name")?, json.get("input_schema")))
}

fn said<'a>(turn: &Turn<'a>) -> Said<'a> {
    let mut said = Said::new(turn.role);
    for block in &turn.blocks {
        match block.kind {
            "text" => said.texts.push(Cow::Borrowed(block.text)),
            "tool_use" => said.calls.extend(call(block)),
            "tool_result" => said.results.push(result(block)),
            _ => {}
        }
    }
    said
}

fn call<'a>(block: &Block<'a>) -> Option<Called<'a>> {
    Some(Called {
        id: block.str_at("id"),
        name: block.get("name").and_then(Json::as_str)?,
        input: Cow::Borrowed(block.get("input").unwrap_or(&EMPTY)),
    })
}

fn result<'a>(block: &Block<'a>) -> Returned<'a> {
    let mut text = String::new();
    let content = block.get("content").map(|c| blocks(c, 0)).unwrap_or_default();
    for inner in content.iter().filter(|b| b.is("text")) {
        let _ = writeln!(text, "{}", inner.text);
    }
    Returned {
        id: block.str_at("tool_use_id"),
        text: Cow::Owned(text),
        failed: block.get("is_error").and_then(Json::as_bool) == Some(true),
    }
}
