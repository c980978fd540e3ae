//! The top-level members of a request, apart from its messages.

use super::RequestError;
use crate::json::{Cursor, Error, Kind, Span, Str};

/// `max_tokens`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTokens {
    /// The value, in tokens.
    pub value: u64,
    /// The value's span.
    pub span: Span,
    /// From the key's quote to the end of the value.
    pub member: Span,
}

/// `tools`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools<'a> {
    /// The list's span.
    pub span: Span,
    /// The tools, in order.
    pub list: Vec<Tool<'a>>,
}

/// One entry of `tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool<'a> {
    /// `name`; empty where absent (a toolset).
    pub name: Str<'a>,
    /// `type`, where there is one. Absent and `custom` are the client's tools, others Anthropic's.
    pub kind: Option<Str<'a>>,
    /// The entry's span.
    pub span: Span,
    /// Whether the entry ends a cached prefix.
    pub cache_control: bool,
}

/// `tool_choice`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChoice<'a> {
    /// Which tools may or must be called.
    pub kind: ToolChoiceKind<'a>,
    /// `disable_parallel_tool_use`, false where absent.
    pub disable_parallel: bool,
    /// The value's span.
    pub span: Span,
    /// From the key's quote to the end of the value.
    pub member: Span,
}

/// The `type` of a `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolChoiceKind<'a> {
    /// `auto`
    Auto,
    /// `any`
    Any,
    /// `none`
    None,
    /// `tool`, with its name.
    Tool(Str<'a>),
    /// Something this module does not know.
    Other(Str<'a>),
}

/// `thinking`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thinking {
    /// The mode asked for.
    pub mode: ThinkingMode,
    /// The value's span, where there is one.
    pub span: Option<Span>,
}

/// The `type` of `thinking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThinkingMode {
    /// No `thinking` member: the model's default.
    #[default]
    Absent,
    /// `disabled`
    Disabled,
    /// `enabled`, with `budget_tokens` (0 where absent).
    Enabled {
        /// The budget, in tokens.
        budget: u64,
    },
    /// `adaptive`
    Adaptive,
    /// Something this module does not know.
    Other,
}

/// `thread`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thread<'a> {
    /// `previous_message_id`: what the request goes on from.
    pub previous: Option<Str<'a>>,
}

pub(super) fn thread<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Thread<'a>>, Error> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut thread = Thread::default();
    cursor.members(|cursor, member| {
        if member.key.eq_str("previous_message_id") {
            thread.previous = cursor.string_or_skip()?.map(|(id, _)| id);
        } else {
            cursor.skip_value()?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(thread))
}

/// The value's span, unless it is `null`.
pub(super) fn not_null(cursor: &mut Cursor<'_>) -> Result<Option<Span>, RequestError> {
    let kind = cursor.peek()?;
    let span = cursor.skip_value()?;
    Ok((kind != Kind::Null).then_some(span))
}

pub(super) fn max_tokens(
    cursor: &mut Cursor<'_>,
    key: Span,
) -> Result<Option<MaxTokens>, RequestError> {
    let span = cursor.clone().skip_value()?;
    let value = cursor.uint_or_skip()?;
    let member = Span::new(key.start, span.end);
    Ok(value.map(|value| MaxTokens { value, span, member }))
}

pub(super) fn tools<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Tools<'a>>, RequestError> {
    if cursor.peek()? != Kind::Array {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut list = Vec::new();
    let span = cursor.elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            list.push(tool(cursor)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(Tools { span, list }))
}

fn tool<'a>(cursor: &mut Cursor<'a>) -> Result<Tool<'a>, Error> {
    let mut name = Str::default();
    let mut kind = None;
    let mut cache_control = false;
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "name" => name = cursor.string_or_skip()?.unwrap_or_default().0,
            "type" => kind = cursor.string_or_skip()?.map(|(kind, _)| kind),
            "cache_control" => cache_control = cursor.peek()? != Kind::Null,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(Tool { name, kind, span, cache_control })
}

pub(super) fn tool_choice<'a>(
    cursor: &mut Cursor<'a>,
    key: Span,
) -> Result<Option<ToolChoice<'a>>, RequestError> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let (mut kind, mut name, mut disable_parallel) = (Str::default(), Str::default(), false);
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.string_or_skip()?.unwrap_or_default().0,
            "name" => name = cursor.string_or_skip()?.unwrap_or_default().0,
            "disable_parallel_tool_use" => disable_parallel = cursor.bool_or_skip()? == Some(true),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let kind = match &*kind.unescape() {
        "auto" => ToolChoiceKind::Auto,
        "any" => ToolChoiceKind::Any,
        "none" => ToolChoiceKind::None,
        "tool" => ToolChoiceKind::Tool(name),
        _ => ToolChoiceKind::Other(kind),
    };
    let member = Span::new(key.start, span.end);
    Ok(Some(ToolChoice { kind, disable_parallel, span, member }))
}

pub(super) fn thinking(cursor: &mut Cursor<'_>) -> Result<Thinking, RequestError> {
    if cursor.peek()? != Kind::Object {
        let span = not_null(cursor)?;
        let mode = if span.is_some() { ThinkingMode::Other } else { ThinkingMode::Absent };
        return Ok(Thinking { mode, span });
    }
    let (mut kind, mut budget) = (Str::default(), 0);
    let span = cursor.members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.string_or_skip()?.unwrap_or_default().0,
            "budget_tokens" => budget = cursor.uint_or_skip()?.unwrap_or(0),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let mode = match &*kind.unescape() {
        "disabled" => ThinkingMode::Disabled,
        "enabled" => ThinkingMode::Enabled { budget },
        "adaptive" => ThinkingMode::Adaptive,
        _ => ThinkingMode::Other,
    };
    Ok(Thinking { mode, span: Some(span) })
}

pub(super) fn user_id<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Str<'a>>, RequestError> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut found = None;
    cursor.members(|cursor, member| {
        if member.key == "user_id" {
            found = cursor.string_or_skip()?.map(|(id, _)| id);
        }
        Ok::<_, Error>(())
    })?;
    Ok(found)
}
