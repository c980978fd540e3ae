//! The events of a response stream, typed and borrowed.
//!
//! [`Event::decode`] reads the data of one server-sent event in one pass over its bytes, in any
//! order of keys. Strings stay as they are in the JSON until they are asked for. Unknown events
//! and items come out as such, never as errors. It keeps no state: what events add up to is the
//! [`Assembler`](super::Assembler)'s business.

mod fields;
#[cfg(test)]
mod tests;

use fields::Fields;
pub(super) use fields::{snapshot, stream_item};

use super::usage::Usage;
use crate::{
    Served,
    json::{Cursor, Error, Str},
};

/// One event of a response stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// `sequence_number`; some dialects have none.
    pub sequence_number: Option<u64>,
    /// `output_index`: the position of the item that the event is about. Items are told apart by
    /// it, not by their ids, which proxies change from event to event (recorded).
    pub output_index: Option<u32>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The response in one of its phases; `response.completed`, `.incomplete` and `.failed` are the
    /// last of their stream.
    Response {
        /// Which phase.
        phase: Phase,
        /// The response as it is then.
        response: Box<Snapshot<'a>>,
    },
    /// `response.output_item.added`
    ItemAdded(StreamItem<'a>),
    /// `response.output_item.done`
    ItemDone(StreamItem<'a>),
    /// `response.content_part.added` or `response.reasoning_summary_part.added`
    PartAdded {
        /// The part's place in its item: `content_index` or `summary_index`.
        at: u32,
        /// The part as received.
        raw: &'a str,
    },
    /// `response.content_part.done` or `response.reasoning_summary_part.done`
    PartDone {
        /// The part's place in its item: `content_index` or `summary_index`.
        at: u32,
        /// The part as received.
        raw: &'a str,
    },
    /// More of something: one of the `….delta` events of [`Channel`].
    Delta {
        /// Of what.
        channel: Channel,
        /// `content_index` or `summary_index`; 0 where there is none.
        at: u32,
        /// The piece.
        text: Str<'a>,
    },
    /// All of something: one of the `….done` events of [`Channel`].
    Done {
        /// Of what.
        channel: Channel,
        /// `content_index` or `summary_index`; 0 where there is none.
        at: u32,
        /// The whole.
        text: Str<'a>,
    },
    /// `response.output_text.annotation.added`
    Annotation,
    /// The progress of a built-in tool's call: `response.web_search_call.searching` and its like.
    Progress {
        /// The event's type.
        kind: Str<'a>,
    },
    /// `error`. Recorded under HTTP 200, with `response.failed` behind it.
    Error(StreamError<'a>),
    /// `keepalive` or `ping`, which some servers send.
    Ping,
    /// An event this module does not know, or one of a known type without what it must hold.
    Unknown {
        /// Its type; where the data has none, empty.
        kind: Str<'a>,
    },
}

/// The phase of a response that an event announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// `response.created`
    Created,
    /// `response.queued`
    Queued,
    /// `response.in_progress`
    InProgress,
    /// `response.completed`
    Completed,
    /// `response.incomplete`
    Incomplete,
    /// `response.failed`
    Failed,
}

/// What is streamed in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// `response.output_text`
    Text,
    /// `response.refusal`
    Refusal,
    /// `response.reasoning_summary_text`
    Summary,
    /// `response.reasoning_text`
    Reasoning,
    /// `response.function_call_arguments`
    Arguments,
    /// `response.custom_tool_call_input`
    Input,
}

/// A response object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// The response's id.
    pub id: Str<'a>,
    /// The model that answers.
    pub model: Str<'a>,
    /// `status`
    pub status: Option<Str<'a>>,
    /// `created_at`, in seconds since the epoch.
    pub created_at: Option<u64>,
    /// `incomplete_details.reason`
    pub incomplete_reason: Option<Str<'a>>,
    /// `error`, of a response that failed.
    pub error: Option<StreamError<'a>>,
    /// `usage`, on the last event.
    pub usage: Option<Usage>,
    /// `service_tier`: what was asked for, and on the last event how it was served.
    pub served: Served,
    /// The list `output` as received; empty where it is none.
    pub output: &'a str,
    /// The object as received.
    pub raw: &'a str,
}

/// An error in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamError<'a> {
    /// The error's `type`, such as `server_error`; empty where there is none.
    pub kind: Str<'a>,
    /// Its `code`; empty where there is none.
    pub code: Str<'a>,
    /// Its message.
    pub message: Str<'a>,
    /// `param`; empty where there is none.
    pub param: Str<'a>,
}

/// An output item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamItem<'a> {
    /// `id`; empty where absent.
    pub id: Str<'a>,
    /// `status`: `in_progress`, `completed` or `incomplete`; empty where absent.
    pub status: Str<'a>,
    /// What it is.
    pub kind: StreamItemKind<'a>,
    /// The item object as received.
    pub raw: &'a str,
}

/// What an output item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamItemKind<'a> {
    /// `message`
    Message {
        /// `phase`: `commentary` or `final_answer`.
        phase: Option<Str<'a>>,
    },
    /// `function_call`, or with `custom` `custom_tool_call`.
    Call {
        /// What the output must name.
        call_id: Str<'a>,
        /// The tool's name.
        name: Str<'a>,
        /// The tool's namespace, where it has one.
        namespace: Option<Str<'a>>,
        /// `arguments`, or the `input` of a custom tool; usually empty until the item is done.
        arguments: Str<'a>,
        /// Whether it is a custom tool.
        custom: bool,
    },
    /// `reasoning`
    Reasoning {
        /// Whether there is an `encrypted_content`.
        encrypted: bool,
    },
    /// Any other item.
    Other {
        /// Its type.
        kind: Str<'a>,
        /// `call_id`; empty where absent.
        call_id: Str<'a>,
    },
}

impl<'a> Event<'a> {
    /// Reads one event. `name` is the frame's `event:` value; it counts only where the data has
    /// no `type`.
    ///
    /// # Errors
    /// When the data is not a JSON object.
    pub fn decode(name: &'a str, data: &'a str) -> Result<Self, Error> {
        let mut cursor = Cursor::new(data);
        let mut fields = Fields::default();
        cursor.members(|cursor, member| fields.read(cursor, member))?;
        cursor.end()?;
        Ok(fields.into_event(name))
    }
}

impl Phase {
    /// Whether nothing follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Completed | Self::Incomplete | Self::Failed)
    }

    /// The event's type.
    #[must_use]
    pub const fn event(self) -> &'static str {
        match self {
            Self::Created => "response.created",
            Self::Queued => "response.queued",
            Self::InProgress => "response.in_progress",
            Self::Completed => "response.completed",
            Self::Incomplete => "response.incomplete",
            Self::Failed => "response.failed",
        }
    }
}
