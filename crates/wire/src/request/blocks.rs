//! The messages of a request and their blocks.

use std::borrow::Cow;

use crate::json::{Span, Str};

/// `messages`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages<'a> {
    /// The list's span. For an input that is a single string, the span of the string.
    pub span: Span,
    /// True if there is no list, but a single string that stands for one user message.
    pub string: bool,
    /// The messages, in order.
    pub list: Vec<Message<'a>>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The speaker's role.
    pub role: Role,
    /// `name` of Chat Completions: the participant who speaks.
    pub name: Option<Str<'a>>,
    /// The message object's span.
    pub span: Span,
    /// The content.
    pub content: Content<'a>,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `system`, within a conversation.
    System,
    /// A role this module does not know.
    Other,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A string, and its span with quotes.
    Text(Str<'a>, Span),
    /// A list of blocks.
    Blocks {
        /// The list's span.
        span: Span,
        /// The blocks, in order.
        blocks: Vec<Block<'a>>,
    },
}

/// A content block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The block object's span.
    pub span: Span,
    /// True if the block ends a cached prefix.
    pub cache_control: bool,
    /// The block's kind and its members.
    pub kind: BlockKind<'a>,
}

/// The kind of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind<'a> {
    /// `text`
    Text {
        /// The text.
        text: Str<'a>,
        /// The text value's span, quotes included.
        span: Span,
    },
    /// `tool_use`. If `server` is true, `server_tool_use` or `mcp_tool_use`.
    ToolUse {
        /// `id`; empty where absent.
        id: Str<'a>,
        /// `name`; empty where absent.
        name: Str<'a>,
        /// The arguments of the call.
        input: CallInput<'a>,
        /// True if the provider runs the tool.
        server: bool,
    },
    /// `tool_result`
    ToolResult(ToolResult<'a>),
    /// `thinking`
    Thinking,
    /// `redacted_thinking`
    RedactedThinking,
    /// Anything else: images, documents, results of server tools, unknown blocks.
    Other {
        /// `type`; empty where absent.
        kind: Str<'a>,
    },
}

/// The arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallInput<'a> {
    /// A JSON value in place. The span is empty if the value is absent.
    Json(Span),
    /// JSON text, or any other text, within a string.
    Text(Str<'a>),
}

impl<'a> CallInput<'a> {
    /// Returns the input's text. `text` is the body that contains it.
    #[must_use]
    pub fn text_in(self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Json(span) => Cow::Borrowed(span.slice_of(text)),
            Self::Text(text) => text.unescape(),
        }
    }
}

/// The result of a client's tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult<'a> {
    /// The id of the call that the result answers; empty where absent.
    pub tool_use_id: Str<'a>,
    /// `is_error`, false where absent.
    pub is_error: bool,
    /// The tool's output.
    pub content: ResultContent<'a>,
}

/// The content of a tool result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultContent<'a> {
    /// No content. The span is that of a literal `null`, if one is written.
    Absent(Option<Span>),
    /// Neither text nor parts, such as a computer's screenshot.
    Opaque,
    /// A string, and its span with quotes.
    Text(Str<'a>, Span),
    /// A list of parts.
    Parts {
        /// The list's span.
        span: Span,
        /// The parts, in order.
        parts: Vec<Part<'a>>,
    },
}

/// A part of a tool result's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The part's span.
    pub span: Span,
    /// `type`; empty where absent.
    pub kind: Str<'a>,
    /// The text of a `text` part, and its span with quotes.
    pub text: Option<(Str<'a>, Span)>,
}
