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
use crate::openai::{Checked, Form, Refusal, Seal, Tools, empty_array, ensure, reasons};

/// Checks a body that is an object.
///
/// # Errors
/// Returns the first refusal.
pub(crate) fn check<'a>(
    body: &'a Json,
    model: &OpenModel,
    seal: Seal,
    accept_foreign: bool,
) -> Checked<Prompt<'a>> {
    let limits = shape::check(body, model)?;
    let messages: Vec<Message<'a>> = messages::read(body, model)?;
    let tools = tools(body, model)?;
    let thinking = reasons(model, reasoning::wish(body, model), tools.choice.is_forced())?;
    order::check(&messages, model)?;
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
    reasoning::check(&prompt, seal, accept_foreign)?;
    Ok(prompt)
}

fn tools<'a>(body: &'a Json, model: &OpenModel) -> Checked<Tools<'a>> {
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
                Refusal::bad(message).at(key)
            })?;
        }
        let switched = body.get("parallel_tool_calls").is_some_and(|v| *v != Json::Null);
        ensure(model.parallel_switch || !switched, || shape::unsupported("parallel_tool_calls"))?;
    }
    ensure(model.chat_tools || listed.is_none(), || {
        Refusal::bad(
            "Function tools are not supported with this model in /v1/chat/completions. \
                      Please use /v1/responses instead.",
        )
        .at("tools")
    })?;
    let tools = Tools::read(body, Form::Nested)?;
    // Every vendor refuses a choice that cannot be met.
    ensure(!tools.choice.is_forced() || tools.names(Form::Nested).next().is_some(), || {
        let message = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' \
                       are specified.";
        Refusal::bad(message).at("tool_choice")
    })?;
    Ok(tools)
}
