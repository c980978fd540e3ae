//! Anthropic Messages: requests, streams, whole responses, errors and usage.
//!
//! [`Request`] is a view into a request body, [`Splice`](crate::Splice) edits that body in place,
//! [`Event`] is one event of a response stream, [`Assembler`] folds events into a [`Message`],
//! and [`respond`] writes responses of our own. Facts about the API come from the vendor's
//! documentation and SDK types and from recordings of it.

mod edit;
mod error;
mod message;
mod request;
pub mod respond;
mod stream;
mod usage;

pub use error::{ApiError, Blame, ErrorKind};
pub use message::{
    AssembleError, Assembler, Block, End, Extra, Finished, Message, MessageError, Stop,
};
pub use request::{
    Block as RequestBlock, BlockKind, Content, Input, MaxTokens, Message as RequestMessage,
    Messages, Part, Request, RequestError, ResultContent, Role, Thinking, ThinkingMode, Thread,
    Tool, ToolChoice, ToolChoiceKind, ToolResult, Tools,
};
pub use stream::{BlockStart, BlockStartKind, Event, MessageDelta, MessageStart};
pub use usage::{Iteration, Usage, UsageUpdate};
