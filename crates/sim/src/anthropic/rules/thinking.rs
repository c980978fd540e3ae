//! Rules for the `thinking` parameter per model, and for its mode within an open tool loop.
//! Signatures are in `signatures`.

use super::{allow_only, refuse_extra};
use crate::anthropic::error::{AnthropicResult, ensure, refuse_with};
use crate::anthropic::request::{Prompt, Thinking};
use crate::history::Role;
use crate::json::Json;
use crate::request::Request;

const BINDING: &str = "thinking-binding-controls-2026-08-01";
const INTERLEAVED: &str = "interleaved-thinking-2025-05-14";
const UPDATES: &str = "thinking-display-updates-2026-08-18";

pub(super) fn check_thinking(request: &Request<'_>, prompt: &Prompt<'_>) -> AnthropicResult {
    if let Some(config) = prompt.body.get("thinking") {
        check_parameter(request, prompt, config)?;
    }
    check_open_loop(prompt)
}

fn check_parameter(request: &Request<'_>, prompt: &Prompt<'_>, config: &Json) -> AnthropicResult {
    let kind = config.str_at("type").unwrap_or("");
    let modes = prompt.model.thinking;
    match kind {
        "enabled" => {
            allow_only(
                config,
                "thinking.enabled",
                &["type", "budget_tokens", "display", "block_binding"],
            )?;
            ensure(modes.enabled, || unsupported_type(kind, "adaptive"))?;
            check_budget(request, prompt, config)?;
        }
        "between_tools" if modes.between_tools => {
            allow_only(config, "thinking.between_tools", &["type", "display", "block_binding"])?;
            let effort = prompt.body.get("output_config").and_then(|c| c.str_at("effort"));
            ensure(!matches!(effort, Some("max" | "xhigh")), || {
                "effort above 'high' is not supported with between_tools thinking".to_owned()
            })?;
        }
        "adaptive" => {
            allow_only(config, "thinking.adaptive", &["type", "display", "block_binding"])?;
            ensure(modes.adaptive, || unsupported_type(kind, "enabled"))?;
        }
        "disabled" => {
            allow_only(config, "thinking.disabled", &["type", "block_binding"])?;
            ensure(modes.disabled, || unsupported_type(kind, "adaptive"))?;
        }
        other => {
            return refuse_with(format!(
                "thinking: Input tag '{other}' found using 'type' does not match any of the \
                 expected tags: 'disabled', 'enabled', 'adaptive'"
            ));
        }
    }
    if config.get("block_binding").is_some() && !request.has_beta(BINDING) {
        return refuse_extra("thinking.block_binding");
    }
    match config.str_at("display") {
        None | Some("omitted" | "summarized") => Ok(()),
        Some("updates") if request.has_beta(UPDATES) => Ok(()),
        Some(_) => refuse_with("thinking.display: Input should be 'summarized' or 'omitted'"),
    }
}

fn unsupported_type(kind: &str, instead: &str) -> String {
    format!(
        "\"thinking.type.{kind}\" is not supported for this model. Use \"thinking.type.{instead}\" \
         instead."
    )
}

fn check_budget(request: &Request<'_>, prompt: &Prompt<'_>, config: &Json) -> AnthropicResult {
    let Some(budget) = config.get("budget_tokens").and_then(Json::as_u64) else {
        return refuse_with("thinking.enabled.budget_tokens: Field required");
    };
    ensure(budget >= 1024, || {
        "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024".to_owned()
    })?;
    let counted = prompt.body.get("max_tokens").is_none() || request.has_beta(INTERLEAVED);
    ensure(counted || budget < prompt.max_tokens, || {
        "`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned()
    })
}

/// Checks an open tool loop, which is one assistant turn. With `enabled` it starts with thinking. A
/// turn that has thinking may go on without it: the Copilot CLI switches it off wherever the last
/// message has no block of thinking.
fn check_open_loop(prompt: &Prompt<'_>) -> AnthropicResult {
    let turns = prompt.open_loop();
    if turns.last().is_none_or(|t| t.role != Role::User) {
        return Ok(());
    }
    let mut spoken = turns.iter().filter(|t| t.role == Role::Assistant);
    let Some(first) = spoken.next() else { return Ok(()) };
    match (prompt.thinking, first.blocks.first()) {
        (Thinking::Enabled, Some(block)) if !block.is_thinking() => refuse_with(format!(
            "{}.type: Expected `thinking` or `redacted_thinking`, but found `{}`. When `thinking` \
             is enabled, a final `assistant` message must start with a thinking block (preceeding \
             the lastmost set of `tool_use` and `tool_result` blocks).",
            block.path(),
            block.kind
        )),
        _ => Ok(()),
    }
}
