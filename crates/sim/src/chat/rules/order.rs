//! The order of messages: every call is followed by its result, every result has its call.

use crate::chat::request::{Message, Speaker};
use crate::models::open::OpenModel;
use crate::openai::{OpenAiRefusal, OpenAiResult, ensure};
use std::collections::BTreeSet;

pub(super) fn check_order(messages: &[Message<'_>], model: &OpenModel) -> OpenAiResult {
    let mut open: Vec<&str> = Vec::new();
    let mut caller = 0;
    for message in messages {
        if message.speaker == Speaker::Tool {
            let id = message.json.str_at("tool_call_id").unwrap_or("");
            let Some(at) = open.iter().position(|call| *call == id) else {
                return Err(orphan_result(message));
            };
            open.remove(at);
            continue;
        }
        ensure(open.is_empty(), || unanswered_calls(caller, &open))?;
        open = message.calls.iter().map(|c| c.id).collect();
        caller = message.at;
        check_unique(message)?;
    }
    ensure(open.is_empty(), || unanswered_calls(caller, &open))?;
    let last = messages.last().map(|m| m.speaker);
    ensure(model.prefill || last != Some(Speaker::Assistant), || {
        OpenAiRefusal::from_upstream(
            "This model does not support assistant message prefill. The conversation must end \
             with a user message.",
        )
    })
}

fn check_unique(message: &Message<'_>) -> OpenAiResult {
    let mut seen = BTreeSet::new();
    for call in &message.calls {
        ensure(seen.insert(call.id), || {
            let text = format!(
                "Duplicate value for 'tool_call_id' of '{}' in message[{}]",
                call.id, message.at
            );
            OpenAiRefusal::bad_request(text).with_param(message.path("tool_calls"))
        })?;
    }
    Ok(())
}

/// Creates the refusal of a result without a call. A second result of a call counts as one.
fn orphan_result(message: &Message<'_>) -> OpenAiRefusal {
    let text = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                message with 'tool_calls'.";
    OpenAiRefusal::bad_request(text).with_param(message.path("role"))
}

fn unanswered_calls(caller: usize, open: &[&str]) -> OpenAiRefusal {
    let text = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    OpenAiRefusal::bad_request(text).with_param(format!("messages.[{}].role", caller + 1))
}
