//! A finished response: its text, its calls, its finish reason and its usage.
//!
//! [`Finished::from_json`] reads a whole response, [`Assembler`] assembles the chunks of a stream.
//! The same answer gives equal messages either way. [`ResponseMessage::write_back`] writes the
//! response as it must go back in the next request. This module does not decide what the answer
//! means (empty, final, truncated).

mod assemble;
mod call;
mod calls;
mod details;
mod members;
mod objects;
mod parts;
#[cfg(test)]
mod tests;
mod write_back;

use std::{collections::BTreeMap, fmt};

pub use assemble::{Assembler, Finished, StreamEnd};
pub use call::{Call, CallKind};
pub use parts::{Piece, ResponsePart, read_pieces};

use super::{
    chunk::{Chunk, Event},
    error::ApiError,
    usage::Usage,
};
use crate::json;

/// Members that this crate does not read, by name, each value as received.
pub type UnreadMembers = BTreeMap<String, String>;

/// A response of the model: one choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseMessage {
    /// The response's id.
    pub id: String,
    /// The creation time, in seconds since 1970; 0 if no chunk states it.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// All text.
    pub text: String,
    /// The content in parts, if it came as a list (Mistral); empty if it is plain text.
    pub parts: Vec<ResponsePart>,
    /// The refusal that the model gave instead of an answer.
    pub refusal: Option<String>,
    /// `reasoning` (OpenRouter, Groq) and the thinking of Mistral's parts.
    pub reasoning: String,
    /// `reasoning_content` (DeepSeek, z.ai, xAI): present if it was received, even if empty,
    /// because it goes back even if empty.
    pub reasoning_content: Option<String>,
    /// `reasoning_details` (OpenRouter): JSON objects. In a stream, pieces with the same index are
    /// combined: their texts are joined, their signature is kept.
    pub reasoning_details: Vec<String>,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// The finish reason. `None` if the response does not state it, as when a stream is cut.
    pub finish: Option<Finish>,
    /// The finish reason as stated by the vendor behind OpenRouter.
    pub native_finish: Option<String>,
    /// The usage.
    pub usage: Usage,
    /// Further members of the message: `annotations`, `audio`, `images`. Of members that come in
    /// pieces, lists are joined, and objects are merged with their texts joined, except for `id`
    /// and `type`. Of anything else the last value wins.
    pub extra: UnreadMembers,
}

/// `finish_reason`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// `stop`. Some vendors send it with calls too, as does a named `tool_choice`.
    Stop,
    /// `length`
    Length,
    /// `tool_calls`
    ToolCalls,
    /// `content_filter`
    ContentFilter,
    /// `function_call`, deprecated.
    FunctionCall,
    /// `error` (OpenRouter)
    Error,
    /// A reason this module does not know.
    Other(String),
}

impl Finish {
    /// Returns the reason that the API calls `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name {
            "stop" => Self::Stop,
            "length" => Self::Length,
            "tool_calls" => Self::ToolCalls,
            "content_filter" => Self::ContentFilter,
            "function_call" => Self::FunctionCall,
            "error" => Self::Error,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Returns the API's name for the reason.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::FunctionCall => "function_call",
            Self::Error => "error",
            Self::Other(name) => name,
        }
    }

    /// Returns true if the output ended before the model ended it, so that the last call cannot be
    /// trusted: `length`, Mistral's `model_length`, and names of z.ai and DeepSeek for an exhausted
    /// context, a filter or a failed machine.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        match self {
            Self::Length | Self::ContentFilter | Self::Error => true,
            Self::Stop | Self::ToolCalls | Self::FunctionCall => false,
            Self::Other(name) => matches!(
                name.as_str(),
                "model_length"
                    | "max_tokens"
                    | "model_context_window_exceeded"
                    | "sensitive"
                    | "network_error"
                    | "insufficient_system_resource"
            ),
        }
    }
}

/// The reason a body is not a response of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON.
    Json(json::Error),
    /// JSON, but with neither a choice nor an error.
    NoChoices,
    /// An error with status 200.
    Api(Box<ApiError>),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the response is {error}"),
            Self::NoChoices => f.write_str("the response has no `choices`"),
            Self::Api(error) => write!(f, "the response is an error: {error}"),
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
    /// Reads the first choice of a whole, non-streamed response.
    ///
    /// # Errors
    /// Fails if the body is not JSON, has no choice, or is an error, alone or in place of the
    /// choice.
    pub fn from_json(body: &[u8]) -> Result<Self, MessageError> {
        let finished = Finished::from_json(body)?;
        match finished.end {
            StreamEnd::Error(error) => Err(MessageError::Api(error)),
            StreamEnd::Stop | StreamEnd::Cut => Ok(finished.message),
        }
    }

    /// Returns the model's thinking, from either member: `reasoning_content`, otherwise
    /// `reasoning`.
    #[must_use]
    pub fn thinking(&self) -> &str {
        match &self.reasoning_content {
            Some(content) if !content.is_empty() => content,
            _ => &self.reasoning,
        }
    }
}

impl Finished {
    /// Reads a whole, non-streamed response: its first choice, or the error in its place with
    /// status 200, with the usage, which is billed nevertheless.
    ///
    /// # Errors
    /// Fails if the body is not JSON, or has neither a choice nor an error.
    pub fn from_json(body: &[u8]) -> Result<Self, MessageError> {
        let cursor = json::Cursor::from_bytes(body)?;
        let chunk = Chunk::from_data(cursor.text(), false)?;
        if chunk.choices.is_empty() && chunk.error.is_none() {
            return Err(MessageError::NoChoices);
        }
        let mut assembler = Assembler::for_whole_response();
        // Without a limit, nothing can fail.
        let _ = assembler.push(&Event::Chunk(chunk));
        let _ = assembler.push(&Event::Done);
        Ok(assembler.finish())
    }
}
