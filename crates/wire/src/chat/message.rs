//! A finished response: what it says, what it calls, why it ended and what it used.
//!
//! [`Finished::from_json`] reads a whole response, [`Assembler`] folds the chunks of a stream; the
//! same answer gives equal messages either way. [`Message::write_back`] writes it as it must go
//! back in the next request. What the answer means (empty, final, truncated) is not decided here.

mod assemble;
mod back;
mod call;
mod calls;
mod details;
mod members;
mod objects;
mod parts;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

pub use assemble::{Assembler, End, Finished};
pub use call::{Call, CallKind};
pub use parts::{Part, Piece, pieces};

use super::{
    chunk::{Chunk, Event},
    error::ApiError,
    usage::Usage,
};
use crate::json;

/// Members beyond those this crate reads, by name, each value as received.
pub type Extra = BTreeMap<String, String>;

/// A response of the model: one choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The response's id.
    pub id: String,
    /// When it was begun, in seconds since 1970; 0 where no chunk says.
    pub created: u64,
    /// The model that answered.
    pub model: String,
    /// All text.
    pub text: String,
    /// The content in parts, where it came as a list (Mistral); empty where it is plain text.
    pub parts: Vec<Part>,
    /// What the model said in place of an answer.
    pub refusal: Option<String>,
    /// `reasoning` (OpenRouter, Groq) and the thinking of Mistral's parts.
    pub reasoning: String,
    /// `reasoning_content` (DeepSeek, z.ai, xAI): present where it came, even if empty, because it
    /// goes back even if empty.
    pub reasoning_content: Option<String>,
    /// `reasoning_details` (OpenRouter): JSON objects. Of a stream, pieces of one index are put
    /// together: their texts joined, their signature kept.
    pub reasoning_details: Vec<String>,
    /// The calls, in order.
    pub calls: Vec<Call>,
    /// Why it ended; `None` where the response does not say, as when a stream is cut.
    pub finish: Option<Finish>,
    /// Why it ended in the words of the vendor behind OpenRouter.
    pub native_finish: Option<String>,
    /// What it used.
    pub usage: Usage,
    /// Further members of the message: `annotations`, `audio`, `images`. Of what comes in pieces,
    /// lists are joined and objects put together: their texts joined, but for `id` and `type`. Of
    /// anything else the last value stands.
    pub extra: Extra,
}

/// `finish_reason`
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// `stop`; with calls too, by some vendors and for a named `tool_choice`.
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
    /// The reason that the API calls `name`.
    #[must_use]
    pub fn named(name: &str) -> Self {
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

    /// The API's name for the reason.
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

    /// Whether the output ended before the model ended it, so that the last call is not to be
    /// trusted: `length`, Mistral's `model_length`, z.ai's and DeepSeek's own words for a context,
    /// a filter or a machine that gave out.
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

/// Why a body is not a response of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// Not JSON.
    Json(json::Error),
    /// JSON, but with neither a choice nor an error.
    NoChoices,
    /// An error, under status 200.
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

impl Message {
    /// Reads a whole, non-streamed response that is none but the model's: its first choice.
    ///
    /// # Errors
    /// When it is not JSON, has no choice, or is an error, alone or in the choice's place.
    pub fn from_json(body: &[u8]) -> Result<Self, MessageError> {
        let finished = Finished::from_json(body)?;
        match finished.end {
            End::Error(error) => Err(MessageError::Api(error)),
            End::Stop | End::Cut => Ok(finished.message),
        }
    }

    /// What the model thought, by whatever member it came: `reasoning_content`, else `reasoning`.
    #[must_use]
    pub fn thinking(&self) -> &str {
        match &self.reasoning_content {
            Some(content) if !content.is_empty() => content,
            _ => &self.reasoning,
        }
    }
}

impl Finished {
    /// Reads a whole, non-streamed response: its first choice, or the error that stands in its
    /// place under status 200, with the usage that is billed all the same.
    ///
    /// # Errors
    /// When it is not JSON, or has neither a choice nor an error.
    pub fn from_json(body: &[u8]) -> Result<Self, MessageError> {
        let cursor = json::Cursor::from_bytes(body)?;
        let chunk = Chunk::read(cursor.text(), false)?;
        if chunk.choices.is_empty() && chunk.error.is_none() {
            return Err(MessageError::NoChoices);
        }
        let mut assembler = Assembler::whole();
        // Without a limit there is nothing to fail.
        let _ = assembler.push(&Event::Chunk(chunk));
        let _ = assembler.push(&Event::Done);
        Ok(assembler.finish())
    }
}
