//! The neutral history of an Anthropic conversation, for scenarios.

use super::request::{Block, MessageTurn, Prompt, read_blocks};
use crate::history::{History, HistoryTurn, Role, Tool, ToolCall, ToolResult};
use crate::json::Json;
use std::borrow::Cow;
use std::fmt::Write as _;

static EMPTY: Json = Json::Map(Vec::new());

/// Reads the turns of a prompt, one history turn for each.
pub(crate) fn read_history<'a>(prompt: &Prompt<'a>) -> History<'a> {
    let open = prompt.last_turn().filter(|t| t.role == Role::Assistant);
    History {
        turns: prompt.turns.iter().map(read_turn).collect(),
        tools: prompt.tools.iter().filter_map(read_tool).collect(),
        choice: prompt.choice,
        parallel: prompt.parallel,
        paused: open
            .map_or(0, |t| t.blocks.iter().filter(|b| b.is_kind("server_tool_use")).count()),
    }
}

fn read_tool(json: &Json) -> Option<Tool<'_>> {
    let custom = matches!(json.str_at("type"), None | Some("custom"));
    custom.then_some(Tool::from_schema(json.str_at("name")?, json.get("input_schema")))
}

fn read_turn<'a>(turn: &MessageTurn<'a>) -> HistoryTurn<'a> {
    let mut said = HistoryTurn::new(turn.role);
    for block in &turn.blocks {
        match block.kind {
            "text" => said.texts.push(Cow::Borrowed(block.text)),
            "tool_use" => said.calls.extend(to_tool_call(block)),
            "tool_result" => said.results.push(to_tool_result(block)),
            _ => {}
        }
    }
    said
}

fn to_tool_call<'a>(block: &Block<'a>) -> Option<ToolCall<'a>> {
    Some(ToolCall {
        id: block.str_at("id"),
        name: block.get("name").and_then(Json::as_str)?,
        input: Cow::Borrowed(block.get("input").unwrap_or(&EMPTY)),
    })
}

fn to_tool_result<'a>(block: &Block<'a>) -> ToolResult<'a> {
    let mut text = String::new();
    let content = block.get("content").map(|c| read_blocks(c, 0)).unwrap_or_default();
    for inner in content.iter().filter(|b| b.is_kind("text")) {
        let _ = writeln!(text, "{}", inner.text);
    }
    ToolResult {
        id: block.str_at("tool_use_id"),
        text: Cow::Owned(text),
        failed: block.get("is_error").and_then(Json::as_bool) == Some(true),
    }
}
