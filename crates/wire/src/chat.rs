//! OpenAI Chat Completions and its dialects: requests, streams, whole responses, errors, usage.
//!
//! [`Request`] is a view into a request body, in this protocol's words; edits go by the view of all
//! protocols, [`crate::request`]. [`Event`] is one event of a response stream, [`Assembler`] folds
//! events into a [`Message`], and [`respond`] writes responses of our own. One reader serves OpenAI, Azure, OpenRouter,
//! DeepSeek, z.ai, Groq, xAI, Mistral and the compatibility layers of others: what one of them
//! adds is read wherever it stands, and nobody has to say which vendor speaks. Facts come from
//! OpenAI's SDK types, the vendors' documentation, and recordings.

mod chunk;
mod error;
mod message;
mod request;
pub mod respond;
mod usage;

pub use crate::{blame::Blame, bound::AssembleError};
pub use chunk::{CallDelta, Choice, Chunk, Delta, Event, StreamError};
pub use error::{ApiError, ErrorKind};
pub use message::{
    Assembler, Call, CallKind, End, Extra, Finish, Finished, Message, MessageError, Part, Piece,
    pieces,
};
pub use request::{
    Asked, Choice as ToolChoiceKind, Content, MaxTokens, Member, Message as RequestMessage,
    Messages, Part as RequestPart, PartKind, Request, ResponseFormat, Role, StreamOptions, Switch,
    Thinking, Tool, ToolCall, ToolCallKind, ToolChoice, ToolKind, Tools,
};
pub use usage::Usage;
