//! Rules for top-level fields: known names, types, bounds, and exclusions.

use crate::json::Json;
use crate::models::open::{Caching, Dialect, OpenModel};
use crate::openai::{Checked, Refusal, Type, bounds, ensure, integer, known, sampling, types};

const FIELDS: &[&str] = &[
    "model",
    "input",
    "background",
    "client_metadata",
    "context_management",
    "conversation",
    "include",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

const TYPES: &[(&str, Type)] = &[
    ("tools", Type::List),
    ("include", Type::List),
    ("stream", Type::Bool),
    ("store", Type::Bool),
    ("background", Type::Bool),
    ("parallel_tool_calls", Type::Bool),
    ("instructions", Type::Text),
    ("previous_response_id", Type::Text),
    ("reasoning", Type::Map),
    ("text", Type::Map),
    ("stream_options", Type::Map),
];

/// The minimum of `max_output_tokens`.
const LEAST_OUTPUT: u64 = 16;

pub(super) fn check(body: &Json, model: &OpenModel) -> Checked {
    ensure(model.responses, || {
        let message = format!("The model `{}` is not served by the Responses API.", model.id);
        Refusal::new(404, "invalid_request_error", message).at("model")
    })?;
    if model.knows_fields() {
        known(body, "", FIELDS)?;
    }
    types(body, TYPES)?;
    let input = body.get("input").filter(|input| **input != Json::Null);
    ensure(input.is_none_or(|input| matches!(input, Json::Str(_) | Json::List(_))), || {
        let message = "Invalid type for 'input': expected one of a string or an array of input \
                       items.";
        Refusal::bad(message).at("input").code("invalid_type")
    })?;
    bounds(body, &[("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)])?;
    max_tokens(body, model)?;
    integer(body, "max_tool_calls", 1)?;
    let effort = body.get("reasoning").and_then(|r| r.str_at("effort"));
    if model.is_strict_reasoner() {
        let free = effort == Some("none") && model.samples_without_reasoning();
        if !free {
            sampling(body)?;
        }
    } else if model.knows_fields() {
        ensure(effort.is_none(), || unsupported("reasoning.effort"))?;
    }
    let set = |key: &str| body.get(key).is_some_and(|v| *v != Json::Null);
    let newer = matches!(model.caching, Caching::MessageEnds { .. });
    ensure(newer || !model.knows_fields() || !set("prompt_cache_options"), || {
        unsupported("prompt_cache_options")
    })?;
    exclusions(body)
}

fn exclusions(body: &Json) -> Checked {
    let set = |key: &str| body.get(key).is_some_and(|v| *v != Json::Null);
    let flag = |key: &str| body.get(key).and_then(Json::as_bool);
    ensure(!(set("previous_response_id") && set("conversation")), || {
        let message = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. \
                       Ensure you are only providing one of them.";
        Refusal::bad(message).code("mutually_exclusive_parameters")
    })?;
    ensure(!set("conversation"), || {
        let message = "Conversation not found: the simulator keeps none.";
        Refusal::new(404, "invalid_request_error", message).at("conversation")
    })?;
    ensure(flag("background") != Some(true) || flag("store") != Some(false), || {
        Refusal::bad("Background mode requires 'store' to be true.").at("store")
    })?;
    ensure(set("input") || set("previous_response_id") || set("prompt"), || {
        let message = "Missing required parameter: 'input'.";
        Refusal::bad(message).code("missing_required_parameter").at("input")
    })
}

/// True if this vendor stores responses.
pub(super) fn keeps(model: &OpenModel) -> bool {
    model.dialect != Dialect::DeepSeek
}

/// Returns the request's own setting for reasoning, if any.
pub(super) fn wish(body: &Json, model: &OpenModel) -> Option<bool> {
    if model.dialect == Dialect::DeepSeek
        && let Some(kind) = body.get("thinking").and_then(|t| t.str_at("type"))
    {
        return Some(kind != "disabled");
    }
    let effort = body.get("reasoning").and_then(|r| r.str_at("effort"));
    effort.map(|effort| effort != "none")
}

pub(super) fn max_tokens(body: &Json, model: &OpenModel) -> Checked<u64> {
    let asked = integer(body, "max_output_tokens", LEAST_OUTPUT)?;
    let asked = asked.unwrap_or(model.output_max);
    ensure(asked <= model.output_max, || {
        let message = format!(
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {}, but \
             got {asked} instead.",
            model.output_max
        );
        Refusal::bad(message).code("integer_above_max_value").at("max_output_tokens")
    })?;
    Ok(asked)
}

pub(super) fn unsupported(key: &str) -> Refusal {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    Refusal::bad(message).code("unsupported_parameter").at(key)
}
