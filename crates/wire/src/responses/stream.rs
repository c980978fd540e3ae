//! The events of a response stream, typed and borrowed.
//!
//! [`Event::from_data`] reads the data of a server-sent event in one pass over its bytes, with keys
//! in any order. Strings stay as they are in the JSON until they are requested. Unknown events and
//! items are returned as such, never as errors. This module keeps no state: the
//! [`Assembler`](super::Assembler) combines events.

mod fields;
#[cfg(test)]
mod tests;

use fields::EventFields;
pub(super) use fields::{read_snapshot, read_stream_item};

use super::usage::Usage;
use crate::{
    ServiceTier,
    json::{Cursor, Error, Str},
};

/// An event of a response stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// `sequence_number`; absent in some dialects.
    pub sequence_number: Option<u64>,
    /// `output_index`: the position of the item to which the event belongs. It identifies items,
    /// because proxies change their ids from event to event (recorded).
    pub output_index: Option<u32>,
    /// The event's kind and content.
    pub kind: EventKind<'a>,
}

/// The kind of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// The response in one of its phases. `response.completed`, `.incomplete` and `.failed` are the
    /// last events of their stream.
    Response {
        /// The phase.
        phase: Phase,
        /// The response at that time.
        response: Box<Snapshot<'a>>,
    },
    /// `response.output_item.added`
    ItemAdded(StreamItem<'a>),
    /// `response.output_item.done`
    ItemDone(StreamItem<'a>),
    /// `response.content_part.added` or `response.reasoning_summary_part.added`
    PartAdded {
        /// The part's position in its item: `content_index` or `summary_index`.
        at: u32,
        /// The part as received.
        raw: &'a str,
    },
    /// `response.content_part.done` or `response.reasoning_summary_part.done`
    PartDone {
        /// The part's position in its item: `content_index` or `summary_index`.
        at: u32,
        /// The part as received.
        raw: &'a str,
    },
    /// A piece of streamed content: one of the `….delta` events of [`Channel`].
    Delta {
        /// The kind of content.
        channel: Channel,
        /// `content_index` or `summary_index`, or 0 if there is none.
        at: u32,
        /// The piece.
        text: Str<'a>,
    },
    /// The whole of streamed content: one of the `….done` events of [`Channel`].
    Done {
        /// The kind of content.
        channel: Channel,
        /// `content_index` or `summary_index`, or 0 if there is none.
        at: u32,
        /// The whole text.
        text: Str<'a>,
    },
    /// `response.output_text.annotation.added`
    Annotation,
    /// The progress of a built-in tool's call: `response.web_search_call.searching` and similar
    /// events.
    Progress {
        /// The event's type.
        kind: Str<'a>,
    },
    /// `error`. Recorded with HTTP status 200 and followed by `response.failed`.
    Error(StreamError<'a>),
    /// `keepalive` or `ping`, which some servers send.
    Ping,
    /// An event this module does not know, or one of a known type that lacks a required member.
    Unknown {
        /// The event's type; empty if the data has none.
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

/// The kinds of content that are streamed in pieces.
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
    /// `error` of a response that failed.
    pub error: Option<StreamError<'a>>,
    /// `usage`, in the last event.
    pub usage: Option<Usage>,
    /// `service_tier`: the tier requested and, in the last event, the tier used.
    pub served: ServiceTier,
    /// The list `output` as received; empty if it is not a list.
    pub output: &'a str,
    /// The object as received.
    pub raw: &'a str,
}

/// An error in a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamError<'a> {
    /// The error's `type`, such as `server_error`; empty if there is none.
    pub kind: Str<'a>,
    /// The error's `code`; empty if there is none.
    pub code: Str<'a>,
    /// The error's message.
    pub message: Str<'a>,
    /// `param`; empty if there is none.
    pub param: Str<'a>,
}

/// An output item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamItem<'a> {
    /// `id`; empty where absent.
    pub id: Str<'a>,
    /// `status`: `in_progress`, `completed` or `incomplete`; empty where absent.
    pub status: Str<'a>,
    /// The item's kind.
    pub kind: StreamItemKind<'a>,
    /// The item object as received.
    pub raw: &'a str,
}

/// The kind of an output item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamItemKind<'a> {
    /// `message`
    Message {
        /// `phase`: `commentary` or `final_answer`.
        phase: Option<Str<'a>>,
    },
    /// `function_call`. If `custom` is true, `custom_tool_call`.
    Call {
        /// The id that the call's output must name.
        call_id: Str<'a>,
        /// The tool's name.
        name: Str<'a>,
        /// The tool's namespace, if it has one.
        namespace: Option<Str<'a>>,
        /// `arguments`, or the `input` of a custom tool. Usually empty until the item is done.
        arguments: Str<'a>,
        /// True if the tool is a custom tool.
        custom: bool,
    },
    /// `reasoning`
    Reasoning {
        /// True if there is an `encrypted_content`.
        encrypted: bool,
    },
    /// Any other item.
    Other {
        /// The item's type.
        kind: Str<'a>,
        /// `call_id`; empty where absent.
        call_id: Str<'a>,
    },
}

impl<'a> Event<'a> {
    /// Reads an event. `name` is the frame's `event:` value, used only if the data has no `type`.
    ///
    /// # Errors
    /// Fails if the data is not a JSON object.
    pub fn from_data(name: &'a str, data: &'a str) -> Result<Self, Error> {
        let mut cursor = Cursor::new(data);
        let mut fields = EventFields::default();
        cursor.read_members(|cursor, member| fields.read_member(cursor, member))?;
        cursor.expect_end()?;
        Ok(fields.into_event(name))
    }
}

impl Phase {
    /// Returns true if no further event follows.
    #[must_use]
    pub const fn is_last(self) -> bool {
        matches!(self, Self::Completed | Self::Incomplete | Self::Failed)
    }

    /// Returns the event's type.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
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
