//! Anthropic Messages: requests, streams, whole responses, errors and usage.
//!
//! [`Event`] is an event of a response stream, [`Assembler`] assembles events into a
//! [`ResponseMessage`], and [`respond`] writes softland's own responses. Requests are read and
//! edited through the view shared by all protocols, [`crate::request`], which has the form of this
//! protocol. Facts about the API come from the vendor's documentation, its SDK types, and
//! recordings.

mod error;
mod message;
pub mod respond;
mod stream;
mod usage;

pub use crate::bound::AssembleError;
pub use error::ApiError;
pub use message::{
    Assembler, Finished, MessageError, ResponseBlock, ResponseMessage, Stop, StreamEnd,
    UnreadMembers,
};
pub use stream::{BlockStart, BlockStartKind, Event, MessageDelta, MessageStart};
pub(crate) use usage::is_country;
pub use usage::{Iteration, Usage, UsageUpdate};
