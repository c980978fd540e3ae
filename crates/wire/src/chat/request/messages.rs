//! The messages of a request and their parts.

use super::RequestError;
use crate::json::{Cursor, Error, Kind, MemberKey as Key, Span, Str};

/// `messages`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestMessages<'a> {
    /// The list's span.
    pub span: Span,
    /// The messages, in order.
    pub list: Vec<RequestMessage<'a>>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMessage<'a> {
    /// The message object's span.
    pub span: Span,
    /// The speaker's role.
    pub role: RequestRole,
    /// The content.
    pub content: RequestContent<'a>,
    /// `name` of the participant, or of the function that a `function` message answers.
    pub name: Option<Str<'a>>,
    /// `refusal`, if it is a string.
    pub refusal: Option<Str<'a>>,
    /// The calls of an assistant message.
    pub tool_calls: Vec<ToolCall<'a>>,
    /// `tool_call_id`: the call that a `tool` message answers.
    pub tool_call_id: Option<Str<'a>>,
    /// `reasoning_content` (DeepSeek, z.ai, xAI), unless null.
    pub reasoning_content: Option<Member>,
    /// `reasoning` (OpenRouter, Groq), unless null.
    pub reasoning: Option<Member>,
    /// `reasoning_details` (OpenRouter), unless null.
    pub reasoning_details: Option<Member>,
    /// The number of cache marks on the message and its parts: `cache_control` and OpenAI's
    /// `prompt_cache_breakpoint`.
    pub cache_marks: usize,
}

/// The position of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The value's span.
    pub value: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRole {
    /// `system`
    System,
    /// `developer`
    Developer,
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `tool`
    Tool,
    /// `function`, deprecated.
    Function,
    /// A role this module does not know.
    Other,
}

/// The content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RequestContent<'a> {
    /// No `content` member.
    #[default]
    Absent,
    /// `null`, and its span.
    Null(Span),
    /// A string, and its span with quotes.
    Text(Str<'a>, Span),
    /// A list of parts.
    Parts {
        /// The list's span.
        span: Span,
        /// The parts, in order.
        parts: Vec<RequestPart<'a>>,
    },
}

/// A part of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart<'a> {
    /// The part's span.
    pub span: Span,
    /// The part's kind.
    pub kind: PartKind<'a>,
}

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind<'a> {
    /// `text`: the text, and its span with quotes.
    Text(Str<'a>, Span),
    /// `refusal`: the refusal that the model gave instead of an answer.
    Refusal(Str<'a>),
    /// `image_url`
    Image,
    /// `file`
    File,
    /// `input_audio`
    Audio,
    /// Anything else, by its `type`: Mistral's `thinking`, unknown parts. Empty where absent.
    Other(Str<'a>),
}

/// A call of an assistant message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCall<'a> {
    /// The call object's span.
    pub span: Span,
    /// `id`; empty where absent, as in a deprecated `function_call`.
    pub id: Str<'a>,
    /// The tool's name; empty where absent.
    pub name: Str<'a>,
    /// `function.arguments` or `custom.input`: JSON text, or free text. Empty where absent or not a
    /// string.
    pub arguments: Str<'a>,
    /// The kind of call.
    pub kind: ToolCallKind,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolCallKind {
    /// `function`
    Function,
    /// `custom`
    Custom,
    /// The deprecated `function_call` member, answered by a `function` message.
    Legacy,
}

pub(super) fn read_messages<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<RequestMessages<'a>, RequestError> {
    RequestError::expect_kind(cursor, &[Kind::Array], "messages", "a list of messages")?;
    let mut list = Vec::new();
    let span = cursor.read_elements(|cursor| {
        list.push(read_message(cursor)?);
        Ok::<_, RequestError>(())
    })?;
    Ok(RequestMessages { span, list })
}

/// The members of a message, as they are read.
#[derive(Default)]
struct MessageMembers<'a> {
    role: Option<RequestRole>,
    content: RequestContent<'a>,
    content_marks: usize,
    own_mark: bool,
    name: Option<Str<'a>>,
    refusal: Option<Str<'a>>,
    tool_calls: Vec<ToolCall<'a>>,
    legacy: Option<ToolCall<'a>>,
    tool_call_id: Option<Str<'a>>,
    reasoning_content: Option<Member>,
    reasoning: Option<Member>,
    reasoning_details: Option<Member>,
}

fn read_message<'a>(cursor: &mut Cursor<'a>) -> Result<RequestMessage<'a>, RequestError> {
    RequestError::expect_kind(cursor, &[Kind::Object], "messages[]", "an object")?;
    let mut fields = MessageMembers::default();
    let span = cursor.read_members(|cursor, member| fields.read_member(cursor, member))?;
    let MessageMembers { mut tool_calls, legacy, .. } = fields;
    tool_calls.extend(legacy);
    Ok(RequestMessage {
        span,
        role: fields.role.ok_or(RequestError::Missing { member: "messages[].role" })?,
        content: fields.content,
        name: fields.name,
        refusal: fields.refusal,
        tool_calls,
        tool_call_id: fields.tool_call_id,
        reasoning_content: fields.reasoning_content,
        reasoning: fields.reasoning,
        reasoning_details: fields.reasoning_details,
        cache_marks: fields.content_marks + usize::from(fields.own_mark),
    })
}

impl<'a> MessageMembers<'a> {
    fn read_member(&mut self, cursor: &mut Cursor<'a>, key: Key<'a>) -> Result<(), RequestError> {
        match &*key.key.unescape() {
            "role" => self.role = cursor.read_text_or_skip()?.map(read_role),
            "content" => (self.content, self.content_marks) = read_content(cursor)?,
            "name" => self.name = cursor.read_text_or_skip()?,
            "refusal" => self.refusal = cursor.read_text_or_skip()?,
            "tool_calls" => self.tool_calls = read_calls(cursor)?,
            "function_call" => self.legacy = read_legacy_call(cursor)?,
            "tool_call_id" => self.tool_call_id = cursor.read_text_or_skip()?,
            "reasoning_content" => self.reasoning_content = read_nonnull_member(cursor, key.span)?,
            "reasoning" => self.reasoning = read_nonnull_member(cursor, key.span)?,
            "reasoning_details" => self.reasoning_details = read_nonnull_member(cursor, key.span)?,
            "cache_control" | "prompt_cache_breakpoint" => {
                self.own_mark = cursor.peek()? != Kind::Null;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Reads a member that is not null.
fn read_nonnull_member(cursor: &mut Cursor<'_>, key: Span) -> Result<Option<Member>, Error> {
    let value = cursor.skip_unless_null()?;
    Ok(value.map(|value| Member { value, member: Span::new(key.start, value.end) }))
}

fn read_role(role: Str<'_>) -> RequestRole {
    match &*role.unescape() {
        "system" => RequestRole::System,
        "developer" => RequestRole::Developer,
        "user" => RequestRole::User,
        "assistant" => RequestRole::Assistant,
        "tool" => RequestRole::Tool,
        "function" => RequestRole::Function,
        _ => RequestRole::Other,
    }
}

/// Reads the content. Also returns the number of parts with a cache mark.
fn read_content<'a>(cursor: &mut Cursor<'a>) -> Result<(RequestContent<'a>, usize), RequestError> {
    const ALLOWED: &str = "a string, null or a list of parts";
    let kinds = [Kind::String, Kind::Array, Kind::Null];
    RequestError::expect_kind(cursor, &kinds, "messages[].content", ALLOWED)?;
    match cursor.peek()? {
        Kind::String => {
            let (text, span) = cursor.read_string()?;
            Ok((RequestContent::Text(text, span), 0))
        }
        Kind::Null => Ok((RequestContent::Null(cursor.skip_value()?), 0)),
        _ => {
            // Most lists have one or two parts. The default growth would make room for four.
            let (mut parts, mut marks) = (Vec::with_capacity(2), 0);
            let span = cursor.read_elements(|cursor| {
                let (part, marked) = read_part(cursor)?;
                parts.push(part);
                marks += usize::from(marked);
                Ok::<_, Error>(())
            })?;
            Ok((RequestContent::Parts { span, parts }, marks))
        }
    }
}

/// Reads a part. Also returns true if it carries a cache mark.
fn read_part<'a>(cursor: &mut Cursor<'a>) -> Result<(RequestPart<'a>, bool), Error> {
    if cursor.peek()? != Kind::Object {
        let span = cursor.skip_value()?;
        return Ok((RequestPart { span, kind: PartKind::Other(Str::default()) }, false));
    }
    let (mut kind, mut said, mut refusal) = (Str::default(), None, None);
    let mut marked = false;
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "text" => said = cursor.read_string_or_skip()?,
            "refusal" => refusal = cursor.read_text_or_skip()?,
            "cache_control" | "prompt_cache_breakpoint" => marked |= cursor.peek()? != Kind::Null,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let kind = match (&*kind.unescape(), said, refusal) {
        ("text", Some((text, span)), _) => PartKind::Text(text, span),
        ("refusal", _, Some(refusal)) => PartKind::Refusal(refusal),
        ("image_url", ..) => PartKind::Image,
        ("file", ..) => PartKind::File,
        ("input_audio", ..) => PartKind::Audio,
        _ => PartKind::Other(kind),
    };
    Ok((RequestPart { span, kind }, marked))
}

fn read_calls<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<ToolCall<'a>>, Error> {
    let mut calls = Vec::new();
    if cursor.peek()? == Kind::Array {
        cursor.read_elements(|cursor| {
            if cursor.peek()? == Kind::Object {
                calls.push(read_call(cursor)?);
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(calls)
}

fn read_call<'a>(cursor: &mut Cursor<'a>) -> Result<ToolCall<'a>, Error> {
    let (mut id, mut inner, mut kind) = (Str::default(), None, ToolCallKind::Function);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "id" => id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "function" => inner = read_name_and_arguments(cursor)?.or(inner),
            "custom" => {
                if let Some(custom) = read_name_and_arguments(cursor)? {
                    (inner, kind) = (Some(custom), ToolCallKind::Custom);
                }
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let (name, arguments) = inner.unwrap_or_default();
    Ok(ToolCall { span, id, name, arguments, kind })
}

fn read_legacy_call<'a>(cursor: &mut Cursor<'a>) -> Result<Option<ToolCall<'a>>, Error> {
    let span = cursor.clone().skip_value()?;
    let named = read_name_and_arguments(cursor)?;
    Ok(named.map(|(name, arguments)| {
        let (id, kind) = (Str::default(), ToolCallKind::Legacy);
        ToolCall { span, id, name, arguments, kind }
    }))
}

/// Reads the `name` and `arguments` (or `input`) of an object.
fn read_name_and_arguments<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<Option<(Str<'a>, Str<'a>)>, Error> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut found = (Str::default(), Str::default());
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "name" => found.0 = cursor.read_text_or_skip()?.unwrap_or_default(),
            "arguments" | "input" => found.1 = cursor.read_text_or_skip()?.unwrap_or_default(),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(found))
}
