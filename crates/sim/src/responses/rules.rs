//! Rules for Responses requests, written from facts about the API and apart from the code that has
//! to obey them. The first refusal wins, in the order below.
//!
//! Error texts are OpenAI's if one is recorded, documented or reported. Other texts name the
//! problem and its place in the same manner.

mod items;
mod order;
mod reasoning;
mod shape;

pub(super) use items::resolve;

use super::request::Prompt;
use super::store::Store;
use crate::json::Json;
use crate::models::open::OpenModel;
use crate::openai::{Checked, Form, Refusal, Seal, Tools, ensure, reasons};

/// Checks the fields of a body that is an object, before its history is looked up.
///
/// # Errors
/// Returns the first refusal.
pub(super) fn fields(body: &Json, model: &OpenModel) -> Checked {
    shape::check(body, model)
}

/// Checks everything else. `items` are all items, the stored ones first.
///
/// # Errors
/// Returns the first refusal.
pub(super) fn check<'a>(
    body: &'a Json,
    model: &OpenModel,
    items: &'a [Json],
    store: &Store,
    seal: Seal,
    accept_foreign: bool,
) -> Checked<Prompt<'a>> {
    items::check(items)?;
    let tools = tools(body, model)?;
    let thinking = reasons(model, shape::wish(body, model), tools.choice.is_forced())?;
    order::check(items)?;
    let reasoning = reasoning::Check { model, store, seal, accept_foreign, thinking };
    reasoning.all(items)?;
    let flag = |key: &str| body.get(key).and_then(Json::as_bool);
    let stores = flag("store") != Some(false) && shape::keeps(model);
    let included = body.get("include").map_or(&[][..], Json::items);
    Ok(Prompt {
        model: *model,
        body,
        items,
        tools,
        thinking,
        max_tokens: shape::max_tokens(body, model)?,
        stream: flag("stream") == Some(true),
        background: flag("background") == Some(true),
        store: stores,
        summary: body.get("reasoning").is_some_and(|r| r.str_at("summary").is_some()),
        encrypted: !stores
            || included.iter().any(|i| i.as_str() == Some("reasoning.encrypted_content")),
    })
}

fn tools<'a>(body: &'a Json, model: &OpenModel) -> Checked<Tools<'a>> {
    let switched = body.get("parallel_tool_calls").is_some_and(|v| *v != Json::Null);
    ensure(model.parallel_switch || !switched, || shape::unsupported("parallel_tool_calls"))?;
    let tools = Tools::read(body, Form::Flat)?;
    ensure(!tools.choice.is_forced() || !tools.all.is_empty(), || {
        let message = "Tool choice 'required' must be specified with 'tools' parameter.";
        Refusal::bad(message).at("tool_choice")
    })?;
    Ok(tools)
}
