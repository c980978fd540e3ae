//! Rules for top-level fields: known and required names, beta headers, and types.

use super::{Endpoint, allow_only, refuse_extra};
use crate::anthropic::error::{AnthropicRefusal, AnthropicResult, ensure, refuse_with};
use crate::json::{Json, json_object};
use crate::models::Model;
use crate::request::Request;

const BOTH: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "cache_control",
    "context_management",
    "mcp_servers",
    "output_config",
    "output_format",
    "speed",
    "thread",
];

const MESSAGES_ONLY: &[&str] = &[
    "max_tokens",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "service_tier",
    "container",
    "inference_geo",
    "diagnostics",
    "safeguards",
];

/// Fields that are only known under one of these betas.
const BETAS: &[(&str, &[&str])] = &[
    (
        "context_management",
        &["context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04"],
    ),
    ("mcp_servers", &["mcp-client-2025-11-20", "mcp-client-2025-04-04"]),
    ("output_format", &["structured-outputs-2025-11-13"]),
    ("speed", &["fast-mode-2026-02-01"]),
    ("thread", &["message-threads-2026-08-12"]),
    ("diagnostics", &["cache-diagnosis-2026-04-07"]),
    ("safeguards", &["dangerous-tool-use-2026-09-03"]),
];

pub(super) fn check_shape(
    request: &Request<'_>,
    endpoint: Endpoint,
    body: &Json,
    model: &Model,
) -> AnthropicResult {
    check_known_fields(request, endpoint, body)?;
    check_thread(body)?;
    check_types(body)?;
    ensure(body.get("messages").is_some(), || "messages: Field required".to_owned())?;
    let messages = body.get("messages").map_or(&[][..], Json::items);
    ensure(!messages.is_empty(), || "messages: at least one message is required".to_owned())?;
    if endpoint == Endpoint::Messages {
        check_max_tokens(body, model)?;
    }
    check_output_config(request, body, model)
}

fn check_known_fields(request: &Request<'_>, endpoint: Endpoint, body: &Json) -> AnthropicResult {
    for (key, _) in body.entries() {
        let known = BOTH.contains(&key.as_str())
            || (endpoint == Endpoint::Messages && MESSAGES_ONLY.contains(&key.as_str()));
        if !known {
            return refuse_extra(key);
        }
        if let Some((_, betas)) = BETAS.iter().find(|(field, _)| field == key)
            && !betas.iter().any(|beta| request.has_beta(beta))
        {
            return refuse_extra(key);
        }
    }
    Ok(())
}

/// Refuses threads in the way that makes the SDK send the whole history instead.
fn check_thread(body: &Json) -> AnthropicResult {
    if body.get("thread").is_none() {
        return Ok(());
    }
    let mut refusal = AnthropicRefusal::new(
        400,
        "invalid_request_error",
        "thread: not supported for this request",
    );
    refusal.details = Some(json_object([
        ("error_code", "thread_unsupported_request".into()),
        ("unsupported", Json::List(vec!["thread".into()])),
    ]));
    Err(refusal)
}

fn check_types(body: &Json) -> AnthropicResult {
    let expect = |key: &str, what: &str, ok: fn(&Json) -> bool| match body.get(key) {
        Some(value) if !ok(value) => refuse_with(format!("{key}: Input should be {what}")),
        _ => Ok(()),
    };
    let list: fn(&Json) -> bool = |v| matches!(v, Json::List(_));
    expect("messages", "a valid list", list)?;
    expect("tools", "a valid list", list)?;
    expect("stop_sequences", "a valid list", list)?;
    expect("stream", "a valid boolean", |v| v.as_bool().is_some())?;
    expect("system", "a valid string or list", |v| matches!(v, Json::Str(_) | Json::List(_)))?;
    for key in ["tool_choice", "thinking", "metadata", "output_config", "cache_control"] {
        expect(key, "a valid dictionary", Json::is_map)?;
    }
    let sequences = body.get("stop_sequences").map_or(&[][..], Json::items);
    let blank = sequences.iter().any(|s| s.as_str().is_none_or(|s| s.trim().is_empty()));
    ensure(!blank, || "stop_sequences: each stop sequence must contain non-whitespace".to_owned())
}

fn check_max_tokens(body: &Json, model: &Model) -> AnthropicResult {
    let Some(value) = body.get("max_tokens") else {
        return refuse_with("max_tokens: Field required");
    };
    let Some(n) = value.as_u64() else {
        return refuse_with(
            "max_tokens: Input should be a valid integer greater than or equal to 0",
        );
    };
    ensure(n <= model.output_max, || {
        format!(
            "max_tokens: {n} > {}, which is the maximum allowed number of output tokens for {}",
            model.output_max, model.id
        )
    })?;
    if n > 0 {
        return Ok(());
    }
    // Zero only warms the cache.
    let forced = body.get("tool_choice").and_then(|c| c.str_at("type"));
    let enabled = body.get("thinking").and_then(|t| t.str_at("type")) == Some("enabled");
    let stream = body.get("stream").and_then(Json::as_bool) == Some(true);
    ensure(!stream && !enabled && !matches!(forced, Some("any" | "tool")), || {
        "max_tokens: 0 is not supported with stream, forced tool choice or enabled thinking"
            .to_owned()
    })
}

fn check_output_config(request: &Request<'_>, body: &Json, model: &Model) -> AnthropicResult {
    let Some(config) = body.get("output_config") else { return Ok(()) };
    allow_only(config, "output_config", &["effort", "format", "task_budget"])?;
    check_effort(config, model, body)?;
    let Some(budget) = config.get("task_budget") else { return Ok(()) };
    if !request.has_beta("task-budgets-2026-03-13") {
        return refuse_extra("output_config.task_budget");
    }
    ensure(model.task_budget, || "task_budget is not supported on this model".to_owned())?;
    let total = budget.get("total").and_then(Json::as_u64).unwrap_or(0);
    ensure(total >= 20_000, || {
        "output_config.task_budget.total: Input should be greater than or equal to 20000".to_owned()
    })
}

/// Checks an effort, also that of a system message's own `output_config`, passed as `config`.
pub(super) fn check_effort(config: &Json, model: &Model, body: &Json) -> AnthropicResult {
    let Some(effort) = config.get("effort") else { return Ok(()) };
    let effort = effort.as_str().unwrap_or("");
    ensure(!model.efforts.is_empty(), || {
        "This model does not support the effort parameter.".to_owned()
    })?;
    ensure(model.efforts.contains(&effort), || {
        let supported = model.efforts.join(", ");
        format!(
            "This model does not support effort level '{effort}'. Supported levels: {supported}."
        )
    })?;
    let off = body.get("thinking").and_then(|t| t.str_at("type")) == Some("disabled");
    ensure(!(model.id == "claude-opus-5" && off && matches!(effort, "max" | "xhigh")), || {
        format!("effort '{effort}' needs thinking on this model")
    })
}
