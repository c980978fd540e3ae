//! The blocks of a Chat Completions response, and a response of such blocks.

use std::collections::BTreeMap;

use softland_core::Call;
use softland_wire::chat;

use super::details;
use crate::block_view::BlockView;

/// Keys of a response's blocks. The key of a call is its place behind these.
pub(super) const REASONING: u32 = 0;
pub(super) const TEXT: u32 = 1;
pub(super) const REFUSAL: u32 = 2;
pub(super) const MEMBERS: u32 = 3;
pub(super) const CALLS: u32 = 4;

/// One block of a response.
#[derive(Clone, Debug)]
pub(crate) enum ChatBlock {
    /// The model's thinking, in whichever members it came.
    Reasoning {
        text: String,
        content: Option<String>,
        details: Vec<String>,
    },
    Text(String),
    Refusal(String),
    Call(chat::Call),
    /// Further members of the message: sound, images, notes on its text.
    Members(chat::UnreadMembers),
}

impl ChatBlock {
    pub(crate) fn as_view(&self) -> BlockView<'_> {
        match self {
            Self::Reasoning { text, content, details } => {
                let read = content.as_deref().filter(|text| !text.is_empty()).unwrap_or(text);
                let signed = content.is_some() || !details.is_empty();
                BlockView::Thinking { text: Some(read), signed }
            }
            Self::Text(text) | Self::Refusal(text) => BlockView::Text(text),
            Self::Call(call) => {
                let (id, name, input) = (call.id.as_str(), call.name.as_str(), call.input());
                BlockView::Call(Call { id, name, input, server: false }, call.complete)
            }
            Self::Members(_) => BlockView::Other,
        }
    }

    /// True if the client hears or sees a part of the block that is no text. Other members only
    /// annotate a text, or say how it was made.
    pub(crate) fn has_other_content(&self) -> bool {
        let Self::Members(members) = self else { return false };
        let given = ["audio", "images"].iter().filter_map(|name| members.get(*name));
        given.into_iter().any(|value| !is_nothing(value))
    }
}

/// Returns the blocks of a response, in the order in which they began. `places` has that order by
/// their keys; it is empty for a response that came whole.
pub(super) fn order_blocks(
    message: &chat::ResponseMessage,
    places: &BTreeMap<u32, usize>,
) -> Vec<ChatBlock> {
    let mut blocks: Vec<(u32, ChatBlock)> = Vec::new();
    let details = &message.reasoning_details;
    let content = &message.reasoning_content;
    if content.is_some() || !details.is_empty() || !message.reasoning.is_empty() {
        let reasoning = ChatBlock::Reasoning {
            text: message.reasoning.clone(),
            content: content.clone(),
            details: details.clone(),
        };
        blocks.push((REASONING, reasoning));
    }
    if !message.text.is_empty() {
        blocks.push((TEXT, ChatBlock::Text(message.text.clone())));
    }
    if let Some(refusal) = &message.refusal {
        blocks.push((REFUSAL, ChatBlock::Refusal(refusal.clone())));
    }
    if message.extra.values().any(|value| !is_nothing(value)) {
        blocks.push((MEMBERS, ChatBlock::Members(message.extra.clone())));
    }
    for (key, call) in (CALLS..).zip(&message.calls) {
        blocks.push((key, ChatBlock::Call(call.clone())));
    }
    let place = |key: &u32| places.get(key).copied().unwrap_or(places.len());
    blocks.sort_by_key(|(key, _)| place(key));
    blocks.into_iter().map(|(_, block)| block).collect()
}

/// Returns the response with the content of these blocks. Texts stand apart in it, as the client
/// saw them.
pub(super) fn build_message<'b>(
    blocks: impl Iterator<Item = &'b ChatBlock>,
) -> chat::ResponseMessage {
    let mut message = chat::ResponseMessage::default();
    for block in blocks {
        match block {
            ChatBlock::Reasoning { text, content, details } => {
                message.reasoning.push_str(text);
                if let Some(more) = content {
                    message.reasoning_content.get_or_insert_default().push_str(more);
                }
                let details = details::renumber_details_after(&message.reasoning_details, details);
                message.reasoning_details.extend(details);
            }
            ChatBlock::Text(text) => {
                if !message.text.is_empty() {
                    message.text.push_str("\n\n");
                }
                message.text.push_str(text);
            }
            ChatBlock::Refusal(text) => message.refusal.get_or_insert_default().push_str(text),
            ChatBlock::Call(call) => message.calls.push(call.clone()),
            ChatBlock::Members(members) => message.extra.extend(members.clone()),
        }
    }
    message
}

/// True if a JSON value holds nothing.
pub(super) fn is_nothing(value: &str) -> bool {
    matches!(value, "null" | "\"\"" | "[]" | "{}")
}
