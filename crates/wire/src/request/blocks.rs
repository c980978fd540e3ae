//! The messages of a request and their blocks.

use std::borrow::Cow;

use crate::json::{Span, Str};
use crate::responses::native_input;

/// `messages`
pub type Messages<'a> = MessagesOf<Str<'a>>;

/// A message.
pub type Message<'a> = MessageOf<Str<'a>>;

/// The content of a message.
pub type Content<'a> = ContentOf<Str<'a>>;

/// A content block.
pub type Block<'a> = BlockOf<Str<'a>>;

/// The kind of a block.
pub type BlockKind<'a> = BlockKindOf<Str<'a>>;

/// The arguments of a call.
pub type CallInput<'a> = CallInputOf<Str<'a>>;

/// The result of a client's tool.
pub type ToolResult<'a> = ToolResultOf<Str<'a>>;

/// The content of a tool result.
pub type ResultContent<'a> = ResultContentOf<Str<'a>>;

/// A part of a tool result's content.
pub type Part<'a> = PartOf<Str<'a>>;

/// The form of [`Messages`] with strings of a kind `S`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagesOf<S> {
    /// The list's span. For an input that is a single string, the span of the string.
    pub span: Span,
    /// True if there is no list, but a single string that stands for one user message.
    pub string: bool,
    /// The messages, in order.
    pub list: Vec<MessageOf<S>>,
}

/// The form of [`Message`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageOf<S> {
    /// The speaker's role.
    pub role: Role,
    /// `name` of Chat Completions: the participant who speaks.
    pub name: Option<S>,
    /// The message object's span.
    pub span: Span,
    /// The content.
    pub content: ContentOf<S>,
}

impl<'a> Message<'a> {
    /// Returns the texts of the message, in order, without those in its results.
    pub fn texts(&self) -> impl Iterator<Item = Str<'a>> {
        let (alone, blocks) = match &self.content {
            Content::Text(text, _) => (Some(*text), &[][..]),
            Content::Blocks { blocks, .. } => (None, blocks.as_slice()),
        };
        let among = blocks.iter().filter_map(|block| match &block.kind {
            BlockKind::Text { text, .. } => Some(*text),
            _ => None,
        });
        alone.into_iter().chain(among)
    }
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

/// The form of [`Content`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContentOf<S> {
    /// A string, and its span with quotes.
    Text(S, Span),
    /// A list of blocks.
    Blocks {
        /// The list's span.
        span: Span,
        /// The blocks, in order.
        blocks: Vec<BlockOf<S>>,
    },
}

/// The form of [`Block`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockOf<S> {
    /// The block object's span.
    pub span: Span,
    /// True if the block ends a cached prefix.
    pub cache_control: bool,
    /// The block's kind and its members.
    pub kind: BlockKindOf<S>,
}

/// The form of [`BlockKind`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKindOf<S> {
    /// `text`
    Text {
        /// The text.
        text: S,
        /// The text value's span, quotes included.
        span: Span,
    },
    /// `tool_use`. If `server` is true, `server_tool_use` or `mcp_tool_use`.
    ToolUse {
        /// `id`; empty where absent.
        id: S,
        /// `name`; empty where absent.
        name: S,
        /// The arguments of the call.
        input: CallInputOf<S>,
        /// True if the provider runs the tool.
        server: bool,
        /// True if code that the model wrote made the call and reads its result (`caller`).
        by_code: bool,
    },
    /// `tool_result`
    ToolResult(ToolResultOf<S>),
    /// `thinking`
    Thinking,
    /// `redacted_thinking`
    RedactedThinking,
    /// Anything else: images, documents, results of server tools, unknown blocks.
    Other {
        /// `type`; empty where absent.
        kind: S,
    },
}

/// The form of [`CallInput`] with strings of a kind `S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallInputOf<S> {
    /// A JSON value in place. The span is empty if the value is absent.
    Json(Span),
    /// JSON text, or any other text, within a string.
    Text(S),
    /// An item of the Responses API that is a call of a tool of its own: the input is what the model
    /// asks for in it ([`responses::native_input`](crate::responses::native_input)).
    Item(Span),
}

impl<'a> CallInputOf<Str<'a>> {
    /// Returns the input's text. `text` is the body that contains it.
    #[must_use]
    pub fn text_in(self, text: &'a str) -> Cow<'a, str> {
        match self {
            Self::Json(span) => Cow::Borrowed(span.slice_of(text)),
            Self::Text(text) => text.unescape(),
            Self::Item(span) => native_input(span.slice_of(text)),
        }
    }
}

/// The form of [`ToolResult`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolResultOf<S> {
    /// The id of the call that the result answers; empty where absent.
    pub tool_use_id: S,
    /// `is_error`, false where absent.
    pub is_error: bool,
    /// The tool's output.
    pub content: ResultContentOf<S>,
    /// The room that it has for more text.
    pub room: TextRoom,
}

/// The room for text in a tool result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextRoom {
    /// A text may be added to it.
    #[default]
    Text,
    /// Its form has no place for a text, or code that the model wrote reads it.
    Closed,
}

/// The form of [`ResultContent`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultContentOf<S> {
    /// No content. The span is that of a literal `null`, if one is written.
    Absent(Option<Span>),
    /// Neither text nor parts, such as a computer's screenshot; the value's span.
    Opaque(Span),
    /// A string, and its span with quotes.
    Text(S, Span),
    /// A list of parts.
    Parts {
        /// The list's span.
        span: Span,
        /// The parts, in order.
        parts: Vec<PartOf<S>>,
    },
}

/// The form of [`Part`] with strings of a kind `S`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOf<S> {
    /// The part's span.
    pub span: Span,
    /// `type`; empty where absent.
    pub kind: S,
    /// The text of a `text` part, or the `stdout` of a shell's, and its span with quotes.
    pub text: Option<(S, Span)>,
}
