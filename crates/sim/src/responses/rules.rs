//! Rules for Responses requests, written from facts about the API and apart from the code that has
//! to obey them. The first refusal wins, in the order below.
//!
//! Error texts are OpenAI's if one is recorded, documented or reported. Other texts name the
//! problem and its place in the same manner.

mod items;
mod order;
mod reasoning;
mod shape;

pub(super) use items::resolve_references;

use super::request::Prompt;
use super::store::Store;
use crate::json::Json;
use crate::models::open::OpenModel;
use crate::openai::{
    OpenAiRefusal, OpenAiResult, Sealer, ToolFormat, Tools, decide_thinking, ensure,
};

/// Checks the fields of a body that is an object, before its history is looked up.
///
/// # Errors
/// Returns the first refusal.
pub(super) fn check_fields(body: &Json, model: &OpenModel) -> OpenAiResult {
    shape::check_shape(body, model)
}

/// Checks everything else. `items` are all items, the stored ones first.
///
/// # Errors
/// Returns the first refusal.
pub(super) fn check_request<'a>(
    body: &'a Json,
    model: &OpenModel,
    items: &'a [Json],
    store: &Store,
    seal: Sealer,
    accept_foreign: bool,
) -> OpenAiResult<Prompt<'a>> {
    items::check_items(items)?;
    let tools = read_tools(body, model)?;
    let thinking =
        decide_thinking(model, shape::reasoning_setting(body, model), tools.choice.is_forced())?;
    order::check_order(items)?;
    let reasoning = reasoning::ReasoningCheck { model, store, seal, accept_foreign, thinking };
    reasoning.check_all(items)?;
    let flag = |key: &str| body.get(key).and_then(Json::as_bool);
    let stores = flag("store") != Some(false) && shape::stores_responses(model);
    let included = body.get("include").map_or(&[][..], Json::items);
    Ok(Prompt {
        model: *model,
        body,
        items,
        tools,
        thinking,
        max_tokens: shape::read_max_tokens(body, model)?,
        stream: flag("stream") == Some(true),
        background: flag("background") == Some(true),
        store: stores,
        summary: body.get("reasoning").is_some_and(|r| r.str_at("summary").is_some()),
        encrypted: !stores
            || included.iter().any(|i| i.as_str() == Some("reasoning.encrypted_content")),
    })
}

fn read_tools<'a>(body: &'a Json, model: &OpenModel) -> OpenAiResult<Tools<'a>> {
    let switched = body.get("parallel_tool_calls").is_some_and(|v| *v != Json::Null);
    ensure(model.parallel_switch || !switched, || {
        shape::unsupported_parameter("parallel_tool_calls")
    })?;
    let tools = Tools::from_body(body, ToolFormat::Flat)?;
    ensure(!tools.choice.is_forced() || !tools.all.is_empty(), || {
        let message = "Tool choice 'required' must be specified with 'tools' parameter.";
        OpenAiRefusal::bad_request(message).with_param("tool_choice")
    })?;
    Ok(tools)
}
