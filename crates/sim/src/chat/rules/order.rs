//! The order of messages: every call is followed by its result, every result has its call.

use crate::chat::request::{Message, Speaker};
use crate::models::open::OpenModel;
use crate::openai::{Checked, Refusal, ensure};
use std::collections::BTreeSet;

pub(super) fn check(messages: &[Message<'_>], model: &OpenModel) -> Checked {
    let mut open: Vec<&str> = Vec::new();
    let mut caller = 0;
    for message in messages {
        if message.speaker == Speaker::Tool {
            let id = message.json.str_at("tool_call_id").unwrap_or("");
            let Some(at) = open.iter().position(|call| *call == id) else {
                return Err(orphan(message));
            };
            open.remove(at);
            continue;
        }
        ensure(open.is_empty(), || unanswered(caller, &open))?;
        open = message.calls.iter().map(|c| c.id).collect();
        caller = message.at;
        unique(message)?;
    }
    ensure(open.is_empty(), || unanswered(caller, &open))?;
    let last = messages.last().map(|m| m.speaker);
    ensure(model.prefill || last != Some(Speaker::Assistant), || {
        Refusal::upstream(
            "This model does not support assistant message prefill. The conversation must end \
             with a user message.",
        )
    })
}

fn unique(message: &Message<'_>) -> Checked {
    let mut seen = BTreeSet::new();
    for call in &message.calls {
        ensure(seen.insert(call.id), || {
            let text = format!(
                "Duplicate value for 'tool_call_id' of '{}' in message[{}]",
                call.id, message.at
            );
            Refusal::bad(text).at(message.path("tool_calls"))
        })?;
    }
    Ok(())
}

/// Creates the refusal of a result without a call. A second result of a call counts as one.
fn orphan(message: &Message<'_>) -> Refusal {
    let text = "Invalid parameter: messages with role 'tool' must be a response to a preceeding \
                message with 'tool_calls'.";
    Refusal::bad(text).at(message.path("role"))
}

fn unanswered(caller: usize, open: &[&str]) -> Refusal {
    let text = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to \
         each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    Refusal::bad(text).at(format!("messages.[{}].role", caller + 1))
}
