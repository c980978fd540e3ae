//! OpenAI Responses: requests, streams, whole responses, errors and usage.
//!
//! [`RequestBody`] is a view of a request body in the terms of this protocol; edits are made
//! through the view shared by all protocols, [`crate::request`]. [`Event`] is an event of a
//! response stream, [`Assembler`] assembles events into a [`Response`], and [`respond`] writes
//! softland's own responses and input items. Facts about the API come from the vendor's SDK types
//! and from recordings of it and of its dialects.

mod error;
mod native;
mod request;
pub mod respond;
mod response;
mod stream;
mod usage;

pub use crate::bound::AssembleError;
pub use error::ApiError;
pub use native::native_input;
pub use request::{
    Call, Conversation, FlagMember, Include, Input, Item, ItemKind, Items, Member, NumberMember,
    Output, Reasoning, RequestBody, RequestContent, RequestPart, RequestRole, RequestTool,
    RequestToolChoice, RequestToolChoiceKind, RequestTools,
};
pub use response::{
    Assembler, Failure, Finished, OutputItem, OutputKind, Response, ResponseError, Status,
    StreamEnd,
};
pub use stream::{
    Channel, Event, EventKind, Phase, Snapshot, StreamError, StreamItem, StreamItemKind,
};
pub use usage::Usage;
