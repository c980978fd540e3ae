//! Rules for chat requests, written from facts about the APIs and apart from the code that has to
//! obey them. The first refusal wins, in the order below.
//!
//! Error texts are the vendors' if one is recorded, documented or reported. Other texts name the
//! problem and its place in the same manner.

mod messages;
mod order;
mod reasoning;
mod shape;

use super::request::{Message, Prompt};
use crate::json::Json;
use crate::models::open::OpenModel;
use crate::openai::{
    OpenAiRefusal, OpenAiResult, Sealer, ToolFormat, Tools, decide_thinking, empty_array, ensure,
};

/// Checks a body that is an object.
///
/// # Errors
/// Returns the first refusal.
pub(crate) fn check_request<'a>(
    body: &'a Json,
    model: &OpenModel,
    seal: Sealer,
    accept_foreign: bool,
) -> OpenAiResult<Prompt<'a>> {
    let limits = shape::check_shape(body, model)?;
    let messages: Vec<Message<'a>> = messages::read_messages(body, model)?;
    let tools = read_tools(body, model)?;
    let thinking = decide_thinking(
        model,
        reasoning::reasoning_setting(body, model),
        tools.choice.is_forced(),
    )?;
    order::check_order(&messages, model)?;
    let prompt = Prompt {
        model: *model,
        body,
        messages,
        tools,
        thinking,
        max_tokens: limits.max_tokens,
        stream: limits.stream,
        usage: limits.usage,
        obfuscation: limits.obfuscation,
    };
    reasoning::check_reasoning(&prompt, seal, accept_foreign)?;
    Ok(prompt)
}

fn read_tools<'a>(body: &'a Json, model: &OpenModel) -> OpenAiResult<Tools<'a>> {
    let listed = body.get("tools").filter(|t| **t != Json::Null);
    if model.knows_fields() {
        ensure(listed.is_none_or(|t| !t.items().is_empty()), || empty_array("tools"))?;
        for key in ["tool_choice", "parallel_tool_calls"] {
            let set = body.get(key).is_some_and(|v| *v != Json::Null);
            ensure(!set || listed.is_some(), || {
                let message = format!(
                    "Invalid value for '{key}': '{key}' is only allowed when 'tools' are \
                     specified."
                );
                OpenAiRefusal::bad_request(message).with_param(key)
            })?;
        }
        let switched = body.get("parallel_tool_calls").is_some_and(|v| *v != Json::Null);
        ensure(model.parallel_switch || !switched, || {
            shape::unsupported_parameter("parallel_tool_calls")
        })?;
    }
    ensure(model.chat_tools || listed.is_none(), || {
        OpenAiRefusal::bad_request(
            "Function tools are not supported with this model in /v1/chat/completions. \
                      Please use /v1/responses instead.",
        )
        .with_param("tools")
    })?;
    let tools = Tools::from_body(body, ToolFormat::Nested)?;
    // Every vendor refuses a choice that cannot be met.
    ensure(
        !tools.choice.is_forced() || tools.client_names(ToolFormat::Nested).next().is_some(),
        || {
            let message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' \
                       are specified.";
            OpenAiRefusal::bad_request(message).with_param("tool_choice")
        },
    )?;
    Ok(tools)
}
