//! The messages of a request and their blocks.

use std::borrow::Cow;

use crate::json::{Span, Str};

/// `messages`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Messages<'a> {
    /// The list's span; of an input that is one string, the string's.
    pub span: Span,
    /// Whether they are no list, but one string that says what one user message would.
    pub string: bool,
    /// The messages, in order.
    pub list: Vec<Message<'a>>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: Role,
    /// `name` of Chat Completions: which participant speaks.
    pub name: Option<Str<'a>>,
    /// The message object's span.
    pub span: Span,
    /// What is said.
    pub content: Content<'a>,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `system`, in mid-conversation.
    System,
    /// A role this module does not know.
    Other,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// A string, and its span with the quotes.
    Text(Str<'a>, Span),
    /// A list of blocks.
    Blocks {
        /// The list's span.
        span: Span,
        /// The blocks, in order.
        blocks: Vec<Block<'a>>,
    },
}

/// One content block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The block object's span.
    pub span: Span,
    /// Whether the block ends a cached prefix.
    pub cache_control: bool,
    /// What it is.
    pub kind: BlockKind<'a>,
}

/// What a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind<'a> {
    /// `text`
    Text {
        /// The text.
        text: Str<'a>,
        /// The text value's span, quotes included.
        span: Span,
    },
    /// `tool_use`, or with `server` `server_tool_use` and `mcp_tool_use`.
    ToolUse {
        /// `id`; empty where absent.
        id: Str<'a>,
        /// `name`; empty where absent.
        name: Str<'a>,
        /// What it is called with.
        input: Input<'a>,
        /// Whether the provider runs it.
        server: bool,
    },
    /// `tool_result`
    ToolResult(ToolResult<'a>),
    /// `thinking`
    Thinking,
    /// `redacted_thinking`
    RedactedThinking,
    /// Anything else: images, documents, server tools' results, what is not known.
    Other {
        /// `type`; empty where absent.
        kind: Str<'a>,
    },
}

/// What a tool is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// A JSON value in its place; the span is empty where it is absent.
    Json(Span),
    /// JSON text, or any text, within a string.
    Text(Str<'a>),
}

impl<'a> Input<'a> {
    /// The input's text. `text` is the body that it stands in.
    #[must_use]
    pub fn of(self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Json(span) => Cow::Borrowed(span.of(text)),
            Self::Text(text) => text.unescape(),
        }
    }
}

/// A client tool's result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResult<'a> {
    /// The call it answers; empty where absent.
    pub tool_use_id: Str<'a>,
    /// `is_error`, false where absent.
    pub is_error: bool,
    /// What the tool said.
    pub content: ResultContent<'a>,
}

/// The content of a tool result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultContent<'a> {
    /// No content. The span is that of a literal `null`, where one is written.
    Absent(Option<Span>),
    /// Neither text nor parts, such as a computer's screenshot.
    Opaque,
    /// A string, and its span with the quotes.
    Text(Str<'a>, Span),
    /// A list of parts.
    Parts {
        /// The list's span.
        span: Span,
        /// The parts, in order.
        parts: Vec<Part<'a>>,
    },
}

/// One part of a tool result's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'a> {
    /// The part's span.
    pub span: Span,
    /// `type`; empty where absent.
    pub kind: Str<'a>,
    /// The text of a `text` part, and its span with the quotes.
    pub text: Option<(Str<'a>, Span)>,
}
