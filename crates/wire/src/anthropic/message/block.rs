//! A block of a response, and its form in the next request.

use std::collections::BTreeMap;

use crate::{
    anthropic::stream::{BlockStart, BlockStartKind},
    json::{Cursor, Error, Span, is_strict_object, write_str},
};

/// Members of a block that this crate does not read, by name, each value as received: `citations`,
/// `caller` and later additions.
pub type UnreadMembers = BTreeMap<String, String>;

/// A content block of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseBlock {
    /// `text`
    Text {
        /// The text.
        text: String,
        /// Further members.
        extra: UnreadMembers,
    },
    /// `thinking`
    Thinking {
        /// The thinking; empty if its display is omitted.
        thinking: String,
        /// The signature by which the API verifies the thinking. It goes back unchanged.
        signature: String,
        /// Further members.
        extra: UnreadMembers,
    },
    /// `redacted_thinking`
    Redacted {
        /// The encrypted thinking; goes back unchanged.
        data: String,
        /// Further members.
        extra: UnreadMembers,
    },
    /// `tool_use`, `server_tool_use` or `mcp_tool_use`.
    ToolUse {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
        /// The input: JSON text as received, or `{}` if there was none.
        input: String,
        /// True if the input is whole: the block was closed and the input is a JSON object that
        /// every parser accepts. An incomplete call must never be run.
        complete: bool,
        /// True if the provider runs the tool.
        server: bool,
        /// The block's `type`.
        kind: &'static str,
        /// Further members.
        extra: UnreadMembers,
    },
    /// Any other block.
    Other {
        /// The block's `type`.
        kind: String,
        /// The block: a JSON object as received.
        raw: String,
    },
}

impl ResponseBlock {
    /// Appends the block as JSON, in the form that goes back to the API: thinking with its
    /// signature, inputs and unknown blocks byte for byte. The input of an incomplete call, which
    /// is not a JSON object, is wrapped as `{"INVALID_JSON": "…"}`.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text { text, extra } => {
                write_block_object(out, "text", &[("text", text)], extra);
            }
            Self::Thinking { thinking, signature, extra } => {
                let members = [("thinking", thinking.as_str()), ("signature", signature)];
                write_block_object(out, "thinking", &members, extra);
            }
            Self::Redacted { data, extra } => {
                write_block_object(out, "redacted_thinking", &[("data", data)], extra);
            }
            Self::ToolUse { id, name, input, kind, extra, .. } => {
                write_object_start(out, kind, &[("id", id), ("name", name)]);
                write_input(out, input);
                write_object_end(out, extra);
            }
            Self::Other { raw, .. } => out.extend_from_slice(raw.as_bytes()),
        }
    }

    /// Creates the block that a start describes, whole or not.
    pub(super) fn from_start(start: &BlockStart<'_>) -> Self {
        match start.kind {
            BlockStartKind::Text { text } => {
                Self::Text { text: text.into_string(), extra: collect_extra(start, &["text"]) }
            }
            BlockStartKind::Thinking { thinking, signature } => Self::Thinking {
                thinking: thinking.into_string(),
                signature: signature.into_string(),
                extra: collect_extra(start, &["thinking", "signature"]),
            },
            BlockStartKind::Redacted { data } => {
                Self::Redacted { data: data.into_string(), extra: collect_extra(start, &["data"]) }
            }
            BlockStartKind::ToolUse { id, name, input, server, kind } => Self::ToolUse {
                id: id.into_string(),
                name: name.into_string(),
                input: if input.is_empty() { "{}".to_owned() } else { input.to_owned() },
                complete: false,
                server,
                kind,
                extra: collect_extra(start, &["id", "name", "input"]),
            },
            BlockStartKind::Other { kind } => {
                Self::Other { kind: kind.into_string(), raw: start.raw.to_owned() }
            }
        }
    }

    /// Creates a block of a whole response.
    pub(super) fn from_whole(start: &BlockStart<'_>) -> Self {
        let mut block = Self::from_start(start);
        block.close_with("");
        block
    }

    /// Closes the block: `streamed` input, if any, replaces that of the start, and a call's input
    /// is checked.
    pub(super) fn close_with(&mut self, streamed: &str) {
        if let Self::ToolUse { input, complete, .. } = self {
            replace_input(input, streamed);
            *complete = is_strict_object(input);
        }
    }
}

/// Replaces the start's input by the streamed input, unless nothing was streamed.
pub(super) fn replace_input(input: &mut String, streamed: &str) {
    if !streamed.trim().is_empty() {
        streamed.clone_into(input);
    }
}

/// Collects the members of a block that are neither `type` nor among `known`.
fn collect_extra(start: &BlockStart<'_>, known: &[&str]) -> UnreadMembers {
    let mut extra = UnreadMembers::new();
    // Most blocks have none, and are not read a second time.
    if start.extended {
        for_each_member(start.raw, |key, value| {
            if key != "type" && !known.contains(&key) {
                extra.insert(key.to_owned(), value.to_owned());
            }
        });
    }
    extra
}

/// Calls `each` with the name and raw value of every member of an object that was scanned before.
pub(super) fn for_each_member(raw: &str, mut each: impl FnMut(&str, &str)) {
    // The object was scanned before, so there is no error to report.
    let _: Result<Span, Error> = Cursor::new(raw).read_members(|cursor, member| {
        let value = cursor.skip_value()?.slice_of(raw);
        each(&member.key.unescape(), value);
        Ok(())
    });
}

fn write_block_object(
    out: &mut Vec<u8>,
    kind: &str,
    members: &[(&str, &str)],
    extra: &UnreadMembers,
) {
    write_object_start(out, kind, members);
    write_object_end(out, extra);
}

fn write_object_start(out: &mut Vec<u8>, kind: &str, members: &[(&str, &str)]) {
    out.extend_from_slice(br#"{"type":"#);
    write_str(out, kind);
    for (name, value) in members {
        out.push(b',');
        write_str(out, name);
        out.push(b':');
        write_str(out, value);
    }
}

fn write_object_end(out: &mut Vec<u8>, extra: &UnreadMembers) {
    for (name, value) in extra {
        out.push(b',');
        write_str(out, name);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
}

fn write_input(out: &mut Vec<u8>, input: &str) {
    out.extend_from_slice(br#","input":"#);
    if is_strict_object(input) {
        out.extend_from_slice(input.as_bytes());
    } else {
        out.extend_from_slice(br#"{"INVALID_JSON":"#);
        write_str(out, input);
        out.push(b'}');
    }
}
