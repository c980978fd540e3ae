//! The events of a response stream, typed and borrowed.
//!
//! [`Event::from_data`] reads the data of a server-sent event in one pass over its bytes, with keys
//! in any order. Strings stay as they are in the JSON until they are requested. Unknown events,
//! blocks and deltas are returned as such, never as errors. This module keeps no state: the
//! [`Assembler`](super::Assembler) combines events.

mod fields;

pub(super) use fields::read_blocks;
#[cfg(test)]
mod tests;

use fields::EventFields;

use super::usage::UsageUpdate;
use crate::json::{Cursor, Error, Str};

/// An event of a response stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// `message_start`
    MessageStart(Box<MessageStart<'a>>),
    /// `content_block_start`
    BlockStart {
        /// The block's index.
        index: u32,
        /// The block as it starts.
        block: BlockStart<'a>,
    },
    /// A `text_delta`.
    TextDelta {
        /// The block's index.
        index: u32,
        /// More text.
        text: Str<'a>,
    },
    /// A `thinking_delta`.
    ThinkingDelta {
        /// The block's index.
        index: u32,
        /// More thinking; empty if its display is omitted.
        text: Str<'a>,
    },
    /// A `signature_delta`.
    SignatureDelta {
        /// The block's index.
        index: u32,
        /// The whole signature of the thinking block.
        signature: Str<'a>,
    },
    /// An `input_json_delta`.
    InputJsonDelta {
        /// The block's index.
        index: u32,
        /// More of the call's input, a piece of JSON text.
        partial_json: Str<'a>,
    },
    /// A `citations_delta`.
    CitationsDelta {
        /// The block's index.
        index: u32,
        /// A citation, a JSON object as received.
        citation: &'a str,
    },
    /// Any other delta.
    OtherDelta {
        /// The block's index.
        index: u32,
        /// The delta's type.
        kind: Str<'a>,
        /// The delta object as received.
        raw: &'a str,
    },
    /// `content_block_stop`
    BlockStop {
        /// The block's index.
        index: u32,
    },
    /// `message_delta`
    MessageDelta(Box<MessageDelta<'a>>),
    /// `message_stop`
    MessageStop,
    /// `ping`
    Ping,
    /// `error`, within a stream: nothing follows.
    Error {
        /// The error's type, such as `overloaded_error`.
        kind: Str<'a>,
        /// The error's message.
        message: Str<'a>,
    },
    /// An event this module does not know, or one of a known type that lacks a required member.
    Unknown {
        /// The event's type; empty if the data has none.
        kind: Str<'a>,
    },
}

/// The content of `message_start`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageStart<'a> {
    /// The message's id.
    pub id: Str<'a>,
    /// The model that answers.
    pub model: Str<'a>,
    /// A first, provisional usage.
    pub usage: UsageUpdate,
    /// Whole blocks, usually none. The continuation of a programmatic tool call arrives this way: a
    /// `message_start` with the next call and its stop reason, then `message_stop` (recorded).
    pub content: Vec<BlockStart<'a>>,
    /// The stop reason, if the start states it.
    pub stop_reason: Option<Str<'a>>,
    /// The stop sequence met, if the start states it.
    pub stop_sequence: Option<Str<'a>>,
    /// The message object as received.
    pub raw: &'a str,
}

/// The content of `message_delta`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageDelta<'a> {
    /// The stop reason.
    pub stop_reason: Option<Str<'a>>,
    /// The stop sequence met.
    pub stop_sequence: Option<Str<'a>>,
    /// Details of a refusal, an object as received.
    pub stop_details: Option<&'a str>,
    /// The usage so far, cumulative.
    pub usage: UsageUpdate,
}

/// A block as it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStart<'a> {
    /// The block's kind.
    pub kind: BlockStartKind<'a>,
    /// True if the block has members beyond its type and those in `kind`.
    pub extended: bool,
    /// The block object as received.
    pub raw: &'a str,
}

/// The kind of a block that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStartKind<'a> {
    /// `text`
    Text {
        /// Its first text, usually empty.
        text: Str<'a>,
    },
    /// `thinking`
    Thinking {
        /// Its first thinking, usually empty.
        thinking: Str<'a>,
        /// Its signature, usually still empty.
        signature: Str<'a>,
    },
    /// `redacted_thinking`, whole.
    Redacted {
        /// The encrypted thinking.
        data: Str<'a>,
    },
    /// `tool_use`. If `server` is true, `server_tool_use` or `mcp_tool_use`.
    ToolUse {
        /// The call's id.
        id: Str<'a>,
        /// The tool's name.
        name: Str<'a>,
        /// `input` as received, usually `{}`, but it may be a whole input. Empty where absent.
        input: &'a str,
        /// True if the provider runs the tool.
        server: bool,
        /// The block's type, one of the three.
        kind: &'static str,
    },
    /// Any other block.
    Other {
        /// The block's type.
        kind: Str<'a>,
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

    /// Returns the index of the block to which the event belongs.
    #[must_use]
    pub const fn index(&self) -> Option<u32> {
        match self {
            Self::BlockStart { index, .. }
            | Self::TextDelta { index, .. }
            | Self::ThinkingDelta { index, .. }
            | Self::SignatureDelta { index, .. }
            | Self::InputJsonDelta { index, .. }
            | Self::CitationsDelta { index, .. }
            | Self::OtherDelta { index, .. }
            | Self::BlockStop { index } => Some(*index),
            Self::MessageStart(_)
            | Self::MessageDelta(_)
            | Self::MessageStop
            | Self::Ping
            | Self::Error { .. }
            | Self::Unknown { .. } => None,
        }
    }
}
