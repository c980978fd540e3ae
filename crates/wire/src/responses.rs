//! OpenAI Responses: requests, streams, whole responses, errors and usage.
//!
//! [`Request`] is a view into a request body, in this protocol's words; edits go by the view of all
//! protocols, [`crate::request`]. [`Event`] is one event of a response stream, [`Assembler`] folds
//! events into a [`Response`], and [`respond`] writes responses and input items of our own. Facts
//! about the API come from the vendor's SDK types and from recordings of it and of its dialects.

mod error;
mod request;
pub mod respond;
mod response;
mod stream;
mod usage;

pub use crate::{blame::Blame, bound::AssembleError};
pub use error::{ApiError, ErrorKind};
pub use request::{
    Call, Content, Conversation, Count, Flag, Include, Input, Item, ItemKind, Items, Member,
    Output, Part, Reasoning, Request, Role, Tool, ToolChoice, ToolChoiceKind, Tools,
};
pub use response::{
    Assembler, End, Failure, Finished, OutputItem, OutputKind, Response, ResponseError, Status,
};
pub use stream::{
    Channel, Event, EventKind, Phase, Snapshot, StreamError, StreamItem, StreamItemKind,
};
pub use usage::Usage;
