//! Rules for top-level fields: known names, types, bounds, and support by the model.

use crate::json::Json;
use crate::models::open::{Caching, OpenModel};
use crate::openai::{
    FieldType, OpenAiRefusal, OpenAiResult, check_bounds, check_known, check_sampling, check_types,
    ensure, read_integer,
};

const FIELDS: &[&str] = &[
    "model",
    "messages",
    "audio",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
    "web_search_options",
];

const TYPES: &[(&str, FieldType)] = &[
    ("messages", FieldType::List),
    ("tools", FieldType::List),
    ("stream", FieldType::Bool),
    ("stream_options", FieldType::Map),
    ("parallel_tool_calls", FieldType::Bool),
    ("response_format", FieldType::Map),
    ("reasoning_effort", FieldType::Text),
];

const BOUNDS: &[(&str, f64, f64)] = &[
    ("temperature", 0.0, 2.0),
    ("top_p", 0.0, 1.0),
    ("presence_penalty", -2.0, 2.0),
    ("frequency_penalty", -2.0, 2.0),
];

/// The limits and streaming options of a checked request.
pub(super) struct RequestLimits {
    pub(super) max_tokens: u64,
    pub(super) stream: bool,
    pub(super) usage: bool,
    pub(super) obfuscation: bool,
}

pub(super) fn check_shape(body: &Json, model: &OpenModel) -> OpenAiResult<RequestLimits> {
    ensure(model.chat, || {
        let message = "This model is only supported in v1/responses and not in \
                       v1/chat/completions.";
        OpenAiRefusal::new(404, "invalid_request_error", message).with_param("model")
    })?;
    for key in ["functions", "function_call"] {
        ensure(body.get(key).is_none(), || {
            OpenAiRefusal::bad_request(format!(
                "'{key}' is deprecated, and not simulated: use 'tools'."
            ))
            .with_param(key)
        })?;
    }
    if model.knows_fields() {
        check_known(body, "", FIELDS)?;
    }
    check_types(body, TYPES)?;
    check_bounds(body, BOUNDS)?;
    ensure(read_integer(body, "n", 1)?.unwrap_or(1) == 1, || {
        OpenAiRefusal::bad_request("'n': the simulator gives one choice only.").with_param("n")
    })?;
    check_reasoner(body, model)?;
    let max_tokens = read_max_tokens(body, model)?;
    let stream = body.get("stream").and_then(Json::as_bool) == Some(true);
    let options = body.get("stream_options").filter(|o| **o != Json::Null);
    ensure(options.is_none() || stream || !model.knows_fields(), || {
        let message = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        OpenAiRefusal::bad_request(message).with_param("stream_options")
    })?;
    let option = |key: &str| options.and_then(|o| o.get(key)).and_then(Json::as_bool);
    let usage = option("include_usage") == Some(true);
    let obfuscation = option("include_obfuscation") != Some(false);
    Ok(RequestLimits { max_tokens, stream, usage, obfuscation })
}

/// Refuses what reasoning models do not accept, and what only they accept.
fn check_reasoner(body: &Json, model: &OpenModel) -> OpenAiResult {
    let set = |key: &str| body.get(key).is_some_and(|v| *v != Json::Null);
    if model.is_strict_reasoner() {
        ensure(!set("max_tokens"), || {
            let message = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                           Use 'max_completion_tokens' instead.";
            OpenAiRefusal::bad_request(message)
                .with_code("unsupported_parameter")
                .with_param("max_tokens")
        })?;
        for key in ["stop", "logprobs", "logit_bias"] {
            ensure(!set(key), || unsupported_parameter(key))?;
        }
        let none = body.str_at("reasoning_effort") == Some("none");
        if !(none && model.samples_without_reasoning()) {
            check_sampling(body)?;
        }
    } else if model.knows_fields() {
        ensure(!set("reasoning_effort"), || unsupported_parameter("reasoning_effort"))?;
    }
    let newer = matches!(model.caching, Caching::MessageEnds { .. });
    ensure(newer || !model.knows_fields() || !set("prompt_cache_options"), || {
        unsupported_parameter("prompt_cache_options")
    })
}

pub(super) fn unsupported_parameter(key: &str) -> OpenAiRefusal {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    OpenAiRefusal::bad_request(message).with_code("unsupported_parameter").with_param(key)
}

fn read_max_tokens(body: &Json, model: &OpenModel) -> OpenAiResult<u64> {
    let old = read_integer(body, "max_tokens", 1)?;
    let new = read_integer(body, "max_completion_tokens", 1)?;
    ensure(old.is_none() || new.is_none(), || {
        let message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not \
                       supported.";
        OpenAiRefusal::bad_request(message).with_code("invalid_parameter_combination")
    })?;
    let key = if old.is_some() { "max_tokens" } else { "max_completion_tokens" };
    let asked = old.or(new).unwrap_or(model.output_max);
    ensure(asked <= model.output_max, || {
        let message = format!(
            "{key} is too large: {asked}. This model supports at most {} completion tokens, \
             whereas you provided {asked}.",
            model.output_max
        );
        OpenAiRefusal::bad_request(message).with_code("invalid_value").with_param(key)
    })?;
    Ok(asked)
}
