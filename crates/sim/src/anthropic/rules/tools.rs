//! Rules for tool definitions and `tool_choice`.

use super::allow_only;
use super::blocks::is_word;
use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::anthropic::request::{Prompt, Thinking};
use crate::history::Choice;
use crate::json::Json;
use crate::models::Forced;
use std::collections::BTreeSet;

const CUSTOM: &[&str] = &[
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "defer_loading",
    "allowed_callers",
    "input_examples",
    "eager_input_streaming",
];

/// Tools that the provider itself defines, by the beginning of their type.
const SERVER: &[&str] = &[
    "web_search_",
    "web_fetch_",
    "code_execution_",
    "bash_",
    "text_editor_",
    "computer_",
    "memory_",
    "tool_search_tool_",
    "advisor_",
    "mcp_toolset",
];

pub(super) fn check_tools(prompt: &Prompt<'_>) -> AnthropicResult {
    let mut names = BTreeSet::new();
    for (i, tool) in prompt.tools.iter().enumerate() {
        check_definition(tool, i)?;
        let name = tool.str_at("name").unwrap_or("");
        ensure(name.is_empty() || names.insert(name), || {
            "tools: Tool names must be unique.".to_owned()
        })?;
    }
    check_choice(prompt, &names)
}

fn check_definition(tool: &Json, at: usize) -> AnthropicResult {
    ensure(tool.is_map(), || format!("tools.{at}: Input should be a valid dictionary"))?;
    let kind = tool.str_at("type").unwrap_or("custom");
    if kind != "custom" {
        return ensure(SERVER.iter().any(|s| kind.starts_with(s)), || {
            format!(
                "tools.{at}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
            )
        });
    }
    let path = format!("tools.{at}.custom");
    allow_only(tool, &path, CUSTOM)?;
    let Some(name) = tool.str_at("name") else {
        return refuse_with(format!("{path}.name: Field required"));
    };
    ensure(is_word(name, 128), || {
        format!("{path}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
    })?;
    let Some(schema) = tool.get("input_schema") else {
        return refuse_with(format!("{path}.input_schema: Field required"));
    };
    ensure(schema.str_at("type") == Some("object"), || {
        format!("{path}.input_schema.type: Input should be 'object'")
    })
}

fn check_choice(prompt: &Prompt<'_>, names: &BTreeSet<&str>) -> AnthropicResult {
    let Some(choice) = prompt.body.get("tool_choice") else { return Ok(()) };
    let kind = choice.str_at("type").unwrap_or("");
    ensure(matches!(kind, "auto" | "any" | "tool" | "none"), || {
        format!(
            "tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected \
             tags: 'auto', 'any', 'tool', 'none'"
        )
    })?;
    match kind {
        "tool" => {
            allow_only(choice, "tool_choice.tool", &["type", "name", "disable_parallel_tool_use"])?
        }
        "none" => allow_only(choice, "tool_choice.none", &["type"])?,
        _ => allow_only(
            choice,
            &format!("tool_choice.{kind}"),
            &["type", "disable_parallel_tool_use"],
        )?,
    }
    let mcp = prompt.body.get("mcp_servers").is_some();
    ensure(!prompt.tools.is_empty() || mcp, || {
        "tool_choice: Tool choice may only be specified while providing tools.".to_owned()
    })?;
    let (Choice::Any | Choice::Tool(_)) = prompt.choice else { return Ok(()) };
    ensure(prompt.model.forced != Forced::Never, || {
        "tool_choice: type \"tool\" and \"any\" are not supported for this model.".to_owned()
    })?;
    ensure(prompt.thinking != Thinking::Enabled, || {
        "Thinking may not be enabled when tool_choice forces tool use.".to_owned()
    })?;
    match prompt.choice {
        Choice::Tool("") => refuse_with("tool_choice.tool.name: Field required"),
        Choice::Tool(name) => ensure(names.contains(name), || {
            format!("tool_choice: Tool '{name}' not found in provided tools")
        }),
        _ => Ok(()),
    }
}
