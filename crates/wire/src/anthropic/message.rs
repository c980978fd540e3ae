//! A finished response: its blocks, its stop reason and its usage.
//!
//! [`ResponseMessage::from_json`] reads a whole response, [`Assembler`] assembles the events of a
//! stream. The same answer gives equal messages either way, except for the spelling of a call's
//! input, which is kept as received. A [`ResponseBlock`] can be written as it must go back in the
//! next request. This module does not decide what the answer means (empty, final, truncated).

mod assemble;
mod block;
#[cfg(test)]
mod tests;

use std::fmt;

pub use assemble::{Assembler, Finished, StreamEnd};
pub use block::{ResponseBlock, UnreadMembers};

use super::{
    stream::read_blocks,
    usage::{Usage, UsageUpdate},
};
use crate::json::{self, Cursor, Str};

/// A response of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseMessage {
    /// The response's id.
    pub id: String,
    /// The model that answered.
    pub model: String,
    /// The content, in order.
    pub blocks: Vec<ResponseBlock>,
    /// The stop reason. `None` if the response does not state it, as when a stream is cut.
    pub stop: Option<Stop>,
    /// The stop sequence met.
    pub stop_sequence: Option<String>,
    /// Details of a refusal: a JSON object as received.
    pub stop_details: Option<String>,
    /// The usage.
    pub usage: Usage,
}

/// `stop_reason`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// `end_turn`
    EndTurn,
    /// `max_tokens`
    MaxTokens,
    /// `stop_sequence`
    StopSequence,
    /// `tool_use`
    ToolUse,
    /// `pause_turn`: to continue, send the content back unchanged.
    PauseTurn,
    /// `refusal`
    Refusal,
    /// `model_context_window_exceeded`
    ContextWindowExceeded,
    /// `compaction` (beta)
    Compaction,
    /// A reason this module does not know.
    Other(String),
}

impl Stop {
    /// Returns the reason that the API calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "end_turn" => Self::EndTurn,
            "max_tokens" => Self::MaxTokens,
            "stop_sequence" => Self::StopSequence,
            "tool_use" => Self::ToolUse,
            "pause_turn" => Self::PauseTurn,
            "refusal" => Self::Refusal,
            "model_context_window_exceeded" => Self::ContextWindowExceeded,
            "compaction" => Self::Compaction,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the API's name for the reason.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::EndTurn => "end_turn",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::ToolUse => "tool_use",
            Self::PauseTurn => "pause_turn",
            Self::Refusal => "refusal",
            Self::ContextWindowExceeded => "model_context_window_exceeded",
            Self::Compaction => "compaction",
            Self::Other(name) => name,
        }
    }
}

/// The reason a body is not a response of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON.
    Json(json::Error),
    /// JSON, but without a `content` list: perhaps an error body.
    NoContent,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the response is {error}"),
            Self::NoContent => f.write_str("the response has no `content` list"),
        }
    }
}

impl std::error::Error for MessageError {}

impl From<json::Error> for MessageError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

impl ResponseMessage {
    /// Reads a whole, non-streamed response.
    ///
    /// # Errors
    /// Fails if the body is not JSON or has no `content` list.
    pub fn from_json(body: &[u8]) -> Result<Self, MessageError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let mut message = Self::default();
        let mut has_content = false;
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "content" => {
                    message.blocks.clear();
                    let list = &mut message.blocks;
                    has_content =
                        read_blocks(cursor, |start| list.push(ResponseBlock::from_whole(&start)))?;
                }
                key => message.read_member(key, cursor)?,
            }
            Ok::<_, json::Error>(())
        })?;
        cursor.expect_end()?;
        let beside = &mut message.usage.tokens.beside;
        message.blocks.iter().for_each(|block| beside.count_block(block));
        if has_content { Ok(message) } else { Err(MessageError::NoContent) }
    }

    fn read_member(&mut self, key: &str, cursor: &mut Cursor<'_>) -> Result<(), json::Error> {
        match key {
            "id" => self.id = cursor.read_text_or_skip()?.map(Str::into_string).unwrap_or_default(),
            "model" => {
                self.model = cursor.read_text_or_skip()?.map(Str::into_string).unwrap_or_default()
            }
            "stop_reason" => {
                self.stop =
                    cursor.read_text_or_skip()?.map(|name| Stop::from_name(&name.unescape()))
            }
            "stop_sequence" => {
                self.stop_sequence = cursor.read_text_or_skip()?.map(Str::into_string)
            }
            "stop_details" => {
                let details = cursor.skip_unless_null()?;
                self.stop_details = details.map(|span| span.slice_of(cursor.text()).to_owned());
            }
            "usage" => self.usage.apply_update(&UsageUpdate::from_cursor(cursor)?),
            _ => {}
        }
        Ok(())
    }
}
