//! OpenAI Chat Completions and its dialects: requests, streams, whole responses, errors, usage.
//!
//! [`RequestBody`] is a view of a request body in the terms of this protocol; edits are made
//! through the view shared by all protocols, [`crate::request`]. [`Event`] is an event of a
//! response stream, [`Assembler`] assembles events into a [`ResponseMessage`], and [`respond`]
//! writes softland's own responses. One reader serves OpenAI, Azure, OpenRouter, DeepSeek, z.ai,
//! Groq, xAI, Mistral and the compatibility layers of others: additions of a vendor are read
//! wherever they appear, so the vendor need not be named. Facts come from OpenAI's SDK types, the
//! vendors' documentation, and recordings.

mod chunk;
mod error;
mod message;
mod request;
pub mod respond;
mod usage;

pub use crate::bound::AssembleError;
pub use chunk::{CallDelta, Choice, Chunk, Delta, Event, StreamError};
pub use error::ApiError;
pub use message::{
    Assembler, Call, CallKind, Finish, Finished, MessageError, Piece, ResponseMessage,
    ResponsePart, StreamEnd, UnreadMembers, read_pieces,
};
pub use request::{
    Flag, MaxTokens, Member, PartKind, RequestBody, RequestContent, RequestMessage,
    RequestMessages, RequestPart, RequestRole, RequestThinking, RequestTool, RequestToolChoice,
    RequestToolChoiceKind, RequestTools, RequestedThinking, ResponseFormat, StreamOptions,
    ToolCall, ToolCallKind, ToolKind,
};
pub use usage::Usage;
