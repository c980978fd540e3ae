//! Rules for returned reasoning: whole, unmodified, with its calls.

use crate::chat::request::{Message, Prompt, Speaker};
use crate::constraints::ThinkingPresence;
use crate::json::Json;
use crate::models::open::{Dialect, OpenModel};
use crate::openai::{
    IssuedId, OpenAiRefusal, OpenAiResult, SealStatus, Sealer, ensure, refuse_with,
};
use std::collections::BTreeMap;

/// Returns the request's own setting for reasoning, if any.
pub(super) fn reasoning_setting(body: &Json, model: &OpenModel) -> Option<bool> {
    match model.dialect {
        Dialect::DeepSeek | Dialect::Zai => {
            body.get("thinking").and_then(|t| t.str_at("type")).map(|kind| kind != "disabled")
        }
        Dialect::OpenRouter => {
            let wanted = body.get("include_reasoning").and_then(Json::as_bool);
            let Some(reasoning) = body.get("reasoning").filter(|r| r.is_map()) else {
                return wanted;
            };
            let off = reasoning.get("enabled").and_then(Json::as_bool) == Some(false)
                || reasoning.str_at("effort") == Some("none");
            Some(!off)
        }
        _ => body.str_at("reasoning_effort").map(|effort| effort != "none"),
    }
}

pub(super) fn check_reasoning(
    prompt: &Prompt<'_>,
    seal: Sealer,
    accept_foreign: bool,
) -> OpenAiResult {
    match prompt.model.dialect {
        Dialect::DeepSeek => check_deepseek(prompt),
        Dialect::OpenRouter => check_openrouter(prompt, seal, accept_foreign),
        _ => Ok(()),
    }
}

/// In thinking mode, every turn with calls must come back with its reasoning, even an empty one.
fn check_deepseek(prompt: &Prompt<'_>) -> OpenAiResult {
    let thinks = prompt.thinking != ThinkingPresence::Off;
    let bare = |m: &Message<'_>| {
        !m.calls.is_empty() && m.json.get("reasoning_content").and_then(Json::as_str).is_none()
    };
    if thinks && prompt.messages.iter().any(bare) {
        return refuse_with(
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        );
    }
    Ok(())
}

/// Details must come back unchanged, and must be present in a Claude's open tool loop.
fn check_openrouter(prompt: &Prompt<'_>, seal: Sealer, accept_foreign: bool) -> OpenAiResult {
    let user = |m: &Message<'_>| m.speaker == Speaker::User;
    let open = prompt.messages.iter().rposition(user).map_or(0, |at| at + 1);
    for (i, message) in prompt.messages.iter().enumerate() {
        let details = message.json.get("reasoning_details").map_or(&[][..], Json::items);
        for thought in join_thoughts(details).values() {
            let fine = match seal.verify_token(&thought.token, &thought.text) {
                SealStatus::Good => true,
                SealStatus::Changed => false,
                // Reasoning that was never signed proves nothing.
                SealStatus::Foreign => accept_foreign || thought.token.is_empty(),
            };
            ensure(fine, || modified_reasoning(prompt, message))?;
        }
        let issued = message.calls.iter().filter_map(|c| IssuedId::from_id(c.id));
        let needs = issued.into_iter().any(|issued| issued.reasoning.is_some());
        let loops = i >= open && prompt.model.claude && prompt.thinking != ThinkingPresence::Off;
        ensure(!needs || !loops || !details.is_empty(), || missing_reasoning(message))?;
    }
    Ok(())
}

#[derive(Debug, Default)]
struct ReturnedReasoning {
    text: String,
    token: String,
}

/// Joins the pieces of each index, in whatever form a client keeps them.
fn join_thoughts(details: &[Json]) -> BTreeMap<u64, ReturnedReasoning> {
    let mut thoughts: BTreeMap<u64, ReturnedReasoning> = BTreeMap::new();
    for detail in details {
        let index = detail.get("index").and_then(Json::as_u64).unwrap_or(0);
        let thought = thoughts.entry(index).or_default();
        thought.text.push_str(detail.str_at("text").unwrap_or(""));
        thought.token.push_str(detail.str_at("signature").unwrap_or(""));
        thought.token.push_str(detail.str_at("data").unwrap_or(""));
    }
    thoughts
}

fn modified_reasoning(prompt: &Prompt<'_>, message: &Message<'_>) -> OpenAiRefusal {
    let at = message.at;
    if prompt.model.claude {
        let text = format!("messages.{at}.content.0: Invalid `signature` in `thinking` block");
        return OpenAiRefusal::from_upstream(text);
    }
    OpenAiRefusal::bad_request(format!(
        "The encrypted content of messages[{at}] could not be verified. Reason: Encrypted content \
         could not be decrypted or parsed."
    ))
}

fn missing_reasoning(message: &Message<'_>) -> OpenAiRefusal {
    OpenAiRefusal::from_upstream(format!(
        "messages.{}.content.0.type: Expected `thinking` or `redacted_thinking`, but found \
         `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a \
         thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
        message.at
    ))
}
