//! The messages of a request and their blocks.

use std::borrow::Cow;

use super::RequestError;
use crate::json::{Cursor, Error, Kind, Member, Span, Str};

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

pub(super) fn messages<'a>(cursor: &mut Cursor<'a>) -> Result<Messages<'a>, RequestError> {
    expect(cursor, &[Kind::Array], "messages", "a list of messages")?;
    let mut list = Vec::new();
    let span = cursor.elements(|cursor| {
        list.push(message(cursor)?);
        Ok::<_, RequestError>(())
    })?;
    Ok(Messages { span, string: false, list })
}

/// Names the member when the next value is none of `kinds`.
fn expect(
    cursor: &mut Cursor<'_>,
    kinds: &[Kind],
    member: &'static str,
    allowed: &'static str,
) -> Result<(), RequestError> {
    if kinds.contains(&cursor.peek()?) {
        return Ok(());
    }
    let at = cursor.skip_value()?.start;
    Err(RequestError::Shape { member, allowed, at })
}

fn message<'a>(cursor: &mut Cursor<'a>) -> Result<Message<'a>, RequestError> {
    expect(cursor, &[Kind::Object], "messages[]", "an object")?;
    let (mut role, mut content) = (None, None);
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "role" => role = cursor.string_or_skip()?.map(|(role, _)| read_role(role)),
            "content" => content = Some(read_content(cursor)?),
            _ => {}
        }
        Ok::<_, RequestError>(())
    })?;
    Ok(Message {
        role: role.ok_or(RequestError::Missing { member: "messages[].role" })?,
        span,
        content: content.ok_or(RequestError::Missing { member: "messages[].content" })?,
    })
}

fn read_role(role: Str<'_>) -> Role {
    match &*role.unescape() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Other,
    }
}

fn read_content<'a>(cursor: &mut Cursor<'a>) -> Result<Content<'a>, RequestError> {
    const ALLOWED: &str = "a string or a list of blocks";
    expect(cursor, &[Kind::String, Kind::Array], "messages[].content", ALLOWED)?;
    if cursor.peek()? == Kind::String {
        let (text, span) = cursor.string()?;
        return Ok(Content::Text(text, span));
    }
    // Most messages have one block or two; the default growth would make room for four.
    let mut blocks = Vec::with_capacity(2);
    let span = cursor.elements(|cursor| {
        expect(cursor, &[Kind::Object], "messages[].content[]", "an object")?;
        blocks.push(block(cursor)?);
        Ok::<_, RequestError>(())
    })?;
    Ok(Content::Blocks { span, blocks })
}

/// A block's members, whatever its type: the type may come last.
#[derive(Default)]
struct Fields<'a> {
    kind: Str<'a>,
    text: Option<(Str<'a>, Span)>,
    id: Str<'a>,
    name: Str<'a>,
    input: Span,
    tool_use_id: Str<'a>,
    is_error: bool,
    cache_control: bool,
    content: Option<ResultContent<'a>>,
}

fn block<'a>(cursor: &mut Cursor<'a>) -> Result<Block<'a>, Error> {
    let mut fields = Fields::default();
    let span = cursor.members(|cursor, member| fields.read(cursor, member))?;
    Ok(Block { span, cache_control: fields.cache_control, kind: fields.into_kind() })
}

impl<'a> Fields<'a> {
    fn read(&mut self, cursor: &mut Cursor<'a>, member: Member<'a>) -> Result<(), Error> {
        match &*member.key.unescape() {
            "type" => self.kind = cursor.string_or_skip()?.unwrap_or_default().0,
            "text" => self.text = cursor.string_or_skip()?,
            "id" => self.id = cursor.string_or_skip()?.unwrap_or_default().0,
            "name" => self.name = cursor.string_or_skip()?.unwrap_or_default().0,
            "input" => self.input = cursor.skip_value()?,
            "tool_use_id" => self.tool_use_id = cursor.string_or_skip()?.unwrap_or_default().0,
            "is_error" => self.is_error = cursor.bool_or_skip()? == Some(true),
            "cache_control" => self.cache_control = cursor.peek()? != Kind::Null,
            "content" => self.content = result_content(cursor)?,
            _ => {}
        }
        Ok(())
    }

    fn into_kind(self) -> BlockKind<'a> {
        let Self { kind, id, name, input, .. } = self;
        match (&*kind.unescape(), self.text) {
            ("text", Some((text, span))) => BlockKind::Text { text, span },
            ("tool_use", _) => {
                BlockKind::ToolUse { id, name, input: Input::Json(input), server: false }
            }
            ("server_tool_use" | "mcp_tool_use", _) => {
                BlockKind::ToolUse { id, name, input: Input::Json(input), server: true }
            }
            ("tool_result", _) => BlockKind::ToolResult(ToolResult {
                tool_use_id: self.tool_use_id,
                is_error: self.is_error,
                content: self.content.unwrap_or(ResultContent::Absent(None)),
            }),
            ("thinking", _) => BlockKind::Thinking,
            ("redacted_thinking", _) => BlockKind::RedactedThinking,
            _ => BlockKind::Other { kind },
        }
    }
}

/// `None` for what no client tool's result may be; only such results are looked at.
fn result_content<'a>(cursor: &mut Cursor<'a>) -> Result<Option<ResultContent<'a>>, Error> {
    match cursor.peek()? {
        Kind::String => {
            let (text, span) = cursor.string()?;
            Ok(Some(ResultContent::Text(text, span)))
        }
        Kind::Array => {
            let mut parts = Vec::new();
            let span = cursor.elements(|cursor| {
                parts.push(part(cursor)?);
                Ok::<_, Error>(())
            })?;
            Ok(Some(ResultContent::Parts { span, parts }))
        }
        Kind::Null => Ok(Some(ResultContent::Absent(Some(cursor.skip_value()?)))),
        Kind::Object | Kind::Number | Kind::Bool => {
            cursor.skip_value()?;
            Ok(None)
        }
    }
}

fn part<'a>(cursor: &mut Cursor<'a>) -> Result<Part<'a>, Error> {
    if cursor.peek()? != Kind::Object {
        let span = cursor.skip_value()?;
        return Ok(Part { span, kind: Str::default(), text: None });
    }
    let (mut kind, mut text) = (Str::default(), None);
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.string_or_skip()?.unwrap_or_default().0,
            "text" => text = cursor.string_or_skip()?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(Part { span, kind, text: text.filter(|_| kind == "text") })
}
