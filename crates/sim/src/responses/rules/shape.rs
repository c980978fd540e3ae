//! Rules for top-level fields: known names, types, bounds, and exclusions.

use crate::json::Json;
use crate::models::open::{Caching, Dialect, OpenModel};
use crate::openai::{
    FieldType, OpenAiRefusal, OpenAiResult, check_bounds, check_known, check_sampling, check_types,
    ensure, read_integer,
};

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

const TYPES: &[(&str, FieldType)] = &[
    ("tools", FieldType::List),
    ("include", FieldType::List),
    ("stream", FieldType::Bool),
    ("store", FieldType::Bool),
    ("background", FieldType::Bool),
    ("parallel_tool_calls", FieldType::Bool),
    ("instructions", FieldType::Text),
    ("previous_response_id", FieldType::Text),
    ("reasoning", FieldType::Map),
    ("text", FieldType::Map),
    ("stream_options", FieldType::Map),
];

/// The minimum of `max_output_tokens`.
const LEAST_OUTPUT: u64 = 16;

pub(super) fn check_shape(body: &Json, model: &OpenModel) -> OpenAiResult {
    ensure(model.responses, || {
        let message = format!("The model `{}` is not served by the Responses API.", model.id);
        OpenAiRefusal::new(404, "invalid_request_error", message).with_param("model")
    })?;
    if model.knows_fields() {
        check_known(body, "", FIELDS)?;
    }
    check_types(body, TYPES)?;
    let input = body.get("input").filter(|input| **input != Json::Null);
    ensure(input.is_none_or(|input| matches!(input, Json::Str(_) | Json::List(_))), || {
        let message = "Invalid type for 'input': expected one of a string or an array of input \
                       items.";
        OpenAiRefusal::bad_request(message).with_param("input").with_code("invalid_type")
    })?;
    check_bounds(body, &[("temperature", 0.0, 2.0), ("top_p", 0.0, 1.0)])?;
    read_max_tokens(body, model)?;
    read_integer(body, "max_tool_calls", 1)?;
    let effort = body.get("reasoning").and_then(|r| r.str_at("effort"));
    if model.is_strict_reasoner() {
        let free = effort == Some("none") && model.samples_without_reasoning();
        if !free {
            check_sampling(body)?;
        }
    } else if model.knows_fields() {
        ensure(effort.is_none(), || unsupported_parameter("reasoning.effort"))?;
    }
    let set = |key: &str| body.get(key).is_some_and(|v| *v != Json::Null);
    let newer = matches!(model.caching, Caching::MessageEnds { .. });
    ensure(newer || !model.knows_fields() || !set("prompt_cache_options"), || {
        unsupported_parameter("prompt_cache_options")
    })?;
    check_exclusions(body)
}

fn check_exclusions(body: &Json) -> OpenAiResult {
    let set = |key: &str| body.get(key).is_some_and(|v| *v != Json::Null);
    let flag = |key: &str| body.get(key).and_then(Json::as_bool);
    ensure(!(set("previous_response_id") && set("conversation")), || {
        let message = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. \
                       Ensure you are only providing one of them.";
        OpenAiRefusal::bad_request(message).with_code("mutually_exclusive_parameters")
    })?;
    ensure(!set("conversation"), || {
        let message = "Conversation not found: the simulator keeps none.";
        OpenAiRefusal::new(404, "invalid_request_error", message).with_param("conversation")
    })?;
    ensure(flag("background") != Some(true) || flag("store") != Some(false), || {
        OpenAiRefusal::bad_request("Background mode requires 'store' to be true.")
            .with_param("store")
    })?;
    ensure(set("input") || set("previous_response_id") || set("prompt"), || {
        let message = "Missing required parameter: 'input'.";
        OpenAiRefusal::bad_request(message)
            .with_code("missing_required_parameter")
            .with_param("input")
    })
}

/// True if this vendor stores responses.
pub(super) fn stores_responses(model: &OpenModel) -> bool {
    model.dialect != Dialect::DeepSeek
}

/// Returns the request's own setting for reasoning, if any.
pub(super) fn reasoning_setting(body: &Json, model: &OpenModel) -> Option<bool> {
    if model.dialect == Dialect::DeepSeek
        && let Some(kind) = body.get("thinking").and_then(|t| t.str_at("type"))
    {
        return Some(kind != "disabled");
    }
    let effort = body.get("reasoning").and_then(|r| r.str_at("effort"));
    effort.map(|effort| effort != "none")
}

pub(super) fn read_max_tokens(body: &Json, model: &OpenModel) -> OpenAiResult<u64> {
    let asked = read_integer(body, "max_output_tokens", LEAST_OUTPUT)?;
    let asked = asked.unwrap_or(model.output_max);
    ensure(asked <= model.output_max, || {
        let message = format!(
            "Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {}, but \
             got {asked} instead.",
            model.output_max
        );
        OpenAiRefusal::bad_request(message)
            .with_code("integer_above_max_value")
            .with_param("max_output_tokens")
    })?;
    Ok(asked)
}

pub(super) fn unsupported_parameter(key: &str) -> OpenAiRefusal {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    OpenAiRefusal::bad_request(message).with_code("unsupported_parameter").with_param(key)
}
