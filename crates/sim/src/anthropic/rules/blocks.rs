//! Rules for single messages and content blocks: roles, types, fields, emptiness.

use super::refuse_extra;
use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::anthropic::request::{Block, read_blocks};
use crate::json::Json;
use crate::request::Request;

/// The blocks that both sides may have.
const ANY: &[&str] = &["text"];
const USER: &[&str] = &["image", "document", "search_result", "tool_result", "container_upload"];
const ASSISTANT: &[&str] = &[
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "container_upload",
    "mcp_tool_use",
    "mcp_tool_result",
    "mcp_tool_listing",
    "advisor_tool_result",
    "compaction",
    "fallback",
];
const SYSTEM: &[&str] = &["tool_addition", "tool_removal"];

const TOOL_CHANGES: &str = "mid-conversation-tool-changes-2026-07-01";
const CLEAR_AT: &str = "mid-conversation-system-clear-at-2026-08-21";
/// The documented beta, and the one under which Claude Code 2.1.330 sends the same field. If the
/// field is refused, the client drops beta and field together, so they belong together.
const MESSAGE_CONFIG: [&str; 2] =
    ["mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"];

/// The fields of those blocks whose fields are all known.
const FIELDS: &[(&str, &[&str])] = &[
    ("text", &["type", "text", "cache_control", "citations"]),
    ("thinking", &["type", "thinking", "signature"]),
    ("redacted_thinking", &["type", "data"]),
    ("tool_use", &["type", "id", "name", "input", "cache_control", "caller", "toolset_name"]),
    (
        "tool_result",
        &["type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"],
    ),
];

pub(super) fn check_blocks(request: &Request<'_>, body: &Json) -> AnthropicResult {
    for (i, block) in
        body.get("system").map(|s| read_blocks(s, 0)).unwrap_or_default().iter().enumerate()
    {
        ensure(block.is_kind("text"), || format!("system.{i}.type: Input should be 'text'"))?;
        let whole = matches!(body.get("system"), Some(Json::Str(_)));
        ensure(whole || !block.text.is_empty(), || {
            "system: text content blocks must be non-empty".to_owned()
        })?;
    }
    for (i, message) in body.get("messages").map_or(&[][..], Json::items).iter().enumerate() {
        check_message(request, message, i)?;
    }
    Ok(())
}

fn check_message(request: &Request<'_>, message: &Json, at: usize) -> AnthropicResult {
    ensure(message.is_map(), || format!("messages.{at}: Input should be a valid dictionary"))?;
    let role = message.str_at("role").unwrap_or("");
    for (key, _) in message.entries() {
        let allowed = match (key.as_str(), role) {
            ("role" | "content", _) => true,
            ("clear_at", "system") => request.has_beta(CLEAR_AT),
            ("output_config", "system") => MESSAGE_CONFIG.iter().any(|beta| request.has_beta(beta)),
            _ => false,
        };
        if !allowed {
            return refuse_extra(&format!("messages.{at}.{key}"));
        }
    }
    let Some(content) = message.get("content") else {
        return refuse_with(format!("messages.{at}.content: Field required"));
    };
    ensure(matches!(content, Json::Str(_) | Json::List(_)), || {
        format!("messages.{at}.content: Input should be a valid string or list")
    })?;
    let list = read_blocks(content, at);
    let bare = list.is_empty() || matches!(content, Json::Str(text) if text.is_empty());
    let config_only = role == "system" && message.get("output_config").is_some();
    ensure(!bare || config_only, || {
        format!("messages.{at}: {role} messages must have non-empty content")
    })?;
    list.iter().try_for_each(|block| check_block(request, block, role))
}

fn check_block(request: &Request<'_>, block: &Block<'_>, role: &str) -> AnthropicResult {
    let (kind, path) = (block.kind, block.path());
    let known = [ANY, USER, ASSISTANT, SYSTEM].iter().any(|list| list.contains(&kind));
    ensure(known, || {
        format!(
            "{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
        )
    })?;
    let own = match role {
        "user" => USER,
        "assistant" => ASSISTANT,
        _ => SYSTEM,
    };
    ensure(ANY.contains(&kind) || own.contains(&kind), || wrong_role(block, role))?;
    if SYSTEM.contains(&kind) && !request.has_beta(TOOL_CHANGES) {
        return refuse_with(format!("{path}: {kind} blocks need the beta header {TOOL_CHANGES}"));
    }
    if let Some((_, fields)) = FIELDS.iter().find(|(k, _)| *k == kind)
        && let Some((key, _)) =
            block.entries().iter().find(|(key, _)| !fields.contains(&key.as_str()))
    {
        return refuse_extra(&format!("{path}.{kind}.{key}"));
    }
    match kind {
        "text" => check_text(block),
        "tool_use" => check_tool_use(block, &path),
        "tool_result" => check_tool_result(block, &path),
        "thinking" => require_fields(block, &path, &["thinking", "signature"]),
        "redacted_thinking" => require_fields(block, &path, &["data"]),
        _ => Ok(()),
    }
}

fn wrong_role(block: &Block<'_>, role: &str) -> String {
    let home = if ASSISTANT.contains(&block.kind) { "assistant" } else { "user" };
    match role {
        "system" => format!("{}: only text is allowed in system messages", block.path()),
        _ => format!(
            "messages.{}: `{}` blocks can only be in `{home}` messages",
            block.at.0, block.kind
        ),
    }
}

fn require_fields(block: &Block<'_>, path: &str, fields: &[&str]) -> AnthropicResult {
    for field in fields {
        ensure(block.get(field).and_then(Json::as_str).is_some(), || {
            format!("{path}.{}.{field}: Field required", block.kind)
        })?;
    }
    Ok(())
}

fn check_text(block: &Block<'_>) -> AnthropicResult {
    if block.text.is_empty() && block.get("cache_control").is_some() {
        return refuse_with(format!(
            "{}.text: cache_control cannot be set for empty text blocks",
            block.path()
        ));
    }
    ensure(!block.text.is_empty(), || {
        "messages: text content blocks must be non-empty".to_owned()
    })?;
    ensure(!block.text.trim().is_empty(), || {
        "messages: text content blocks must contain non-whitespace text".to_owned()
    })
}

fn check_tool_use(block: &Block<'_>, path: &str) -> AnthropicResult {
    require_fields(block, path, &["id", "name"])?;
    let (id, name) = (block.str_at("id"), block.str_at("name"));
    ensure(is_word(id, usize::MAX), || {
        format!("{path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    })?;
    ensure(is_word(name, 200), || {
        format!("{path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
    })?;
    ensure(block.get("input").is_some_and(Json::is_map), || {
        format!("{path}.tool_use.input: Input should be a valid dictionary")
    })
}

fn check_tool_result(block: &Block<'_>, path: &str) -> AnthropicResult {
    require_fields(block, path, &["tool_use_id"])?;
    let Some(content) = block.get("content") else { return Ok(()) };
    if matches!(content, Json::Str(_)) {
        return Ok(());
    }
    let parts = read_blocks(content, 0);
    let references = parts.iter().filter(|part| part.is_kind("tool_reference")).count();
    ensure(references == 0 || references == parts.len(), || {
        format!("{path}.tool_result.content: tool_reference cannot be mixed with other content")
    })?;
    for (i, inner) in parts.iter().enumerate() {
        let known = ["text", "image", "document", "search_result", "tool_reference"];
        ensure(known.contains(&inner.kind), || {
            format!("{path}.tool_result.content.{i}: Input tag '{}' is not allowed", inner.kind)
        })?;
        ensure(!inner.is_kind("text") || !inner.text.is_empty(), || {
            "messages: text content blocks must be non-empty".to_owned()
        })?;
    }
    Ok(())
}

pub(super) fn is_word(text: &str, max: usize) -> bool {
    let ok = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    !text.is_empty() && text.len() <= max && text.bytes().all(ok)
}
