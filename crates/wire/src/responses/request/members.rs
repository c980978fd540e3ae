//! The top-level members of a request, except for its input.

use crate::json::{Cursor, Error, Kind, Span, Str};

/// A whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberMember {
    /// The value.
    pub value: u64,
    /// The value's span.
    pub span: Span,
}

/// A boolean and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagMember {
    /// The value.
    pub value: bool,
    /// The value's span.
    pub span: Span,
}

/// `tools`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTools<'a> {
    /// The list's span.
    pub span: Span,
    /// The tools, in order.
    pub list: Vec<RequestTool<'a>>,
}

/// An entry of `tools`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTool<'a> {
    /// `type`: `function` and `custom` are the client's, `namespace` contains tools of the client,
    /// others are built in. Empty where absent.
    pub kind: Str<'a>,
    /// `name`; empty where absent (built-in tools have none).
    pub name: Str<'a>,
    /// The entry's span.
    pub span: Span,
    /// The tools of a `namespace`; empty for any other tool.
    pub tools: Vec<Self>,
}

/// `tool_choice`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestToolChoice<'a> {
    /// The tools that may or must be called.
    pub kind: RequestToolChoiceKind<'a>,
    /// The value's span.
    pub span: Span,
}

/// The kind of a `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestToolChoiceKind<'a> {
    /// `none`
    None,
    /// `auto`
    Auto,
    /// `required`
    Required,
    /// `function`, with the tool's name.
    Function(Str<'a>),
    /// `custom`, with the tool's name.
    Custom(Str<'a>),
    /// `allowed_tools`
    AllowedTools {
        /// `mode`: `auto` or `required`; empty where absent.
        mode: Str<'a>,
    },
    /// `mcp`
    Mcp,
    /// A built-in tool, by its type.
    Hosted(Str<'a>),
    /// Neither one of these words nor an object with a `type`.
    Other,
}

/// `reasoning`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasoning<'a> {
    /// `effort`
    pub effort: Option<Str<'a>>,
    /// The value's span.
    pub span: Span,
}

/// `include`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Include {
    /// True if `reasoning.encrypted_content` is requested.
    pub encrypted_reasoning: bool,
    /// The value's span.
    pub span: Span,
}

/// `conversation`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversation<'a> {
    /// The conversation's id, given as a string or as the object's `id`.
    pub id: Option<Str<'a>>,
    /// The value's span.
    pub span: Span,
}

/// The depth to which nested namespaces are read. Deeper ones are listed without their tools.
const NAMESPACES: usize = 2;

pub(super) fn read_count(
    cursor: &mut Cursor<'_>,
    at: Option<Span>,
) -> Result<Option<NumberMember>, Error> {
    let value = cursor.read_uint_or_skip()?;
    Ok(value.zip(at).map(|(value, span)| NumberMember { value, span }))
}

pub(super) fn read_flag(
    cursor: &mut Cursor<'_>,
    at: Option<Span>,
) -> Result<Option<FlagMember>, Error> {
    let value = cursor.read_bool_or_skip()?;
    Ok(value.zip(at).map(|(value, span)| FlagMember { value, span }))
}

pub(super) fn read_tools<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(Option<RequestTools<'a>>, Span), Error> {
    if cursor.peek()? != Kind::Array {
        return Ok((None, cursor.skip_value()?));
    }
    let tools = read_tool_list(cursor, NAMESPACES)?;
    let span = tools.span;
    Ok((Some(tools), span))
}

fn read_tool_list<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<RequestTools<'a>, Error> {
    let mut list = Vec::new();
    let span = cursor.read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            list.push(read_tool(cursor, depth)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(RequestTools { span, list })
}

fn read_tool<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<RequestTool<'a>, Error> {
    let (mut kind, mut name) = (Str::default(), Str::default());
    let mut tools = Vec::new();
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "name" => name = cursor.read_text_or_skip()?.unwrap_or_default(),
            "tools" if depth > 1 && cursor.peek()? == Kind::Array => {
                tools = read_tool_list(cursor, depth - 1)?.list;
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    if !kind.eq_str("namespace") {
        tools.clear();
    }
    Ok(RequestTool { kind, name, span, tools })
}

pub(super) fn read_tool_choice<'a>(
    cursor: &mut Cursor<'a>,
    at: Option<Span>,
) -> Result<Option<RequestToolChoice<'a>>, Error> {
    let Some(span) = at else { return Ok(None) };
    let kind = match cursor.peek()? {
        Kind::String => match &*cursor.read_string()?.0.unescape() {
            "none" => RequestToolChoiceKind::None,
            "auto" => RequestToolChoiceKind::Auto,
            "required" => RequestToolChoiceKind::Required,
            _ => RequestToolChoiceKind::Other,
        },
        Kind::Object => read_choice_object(cursor)?,
        _ => RequestToolChoiceKind::Other,
    };
    Ok(Some(RequestToolChoice { kind, span }))
}

fn read_choice_object<'a>(cursor: &mut Cursor<'a>) -> Result<RequestToolChoiceKind<'a>, Error> {
    let (mut kind, mut name, mut mode) = (Str::default(), Str::default(), Str::default());
    cursor.read_members(|cursor, member| {
        let target = match &*member.key.unescape() {
            "type" => &mut kind,
            "name" => &mut name,
            "mode" => &mut mode,
            _ => return Ok(()),
        };
        *target = cursor.read_text_or_skip()?.unwrap_or_default();
        Ok::<_, Error>(())
    })?;
    Ok(match &*kind.unescape() {
        "" => RequestToolChoiceKind::Other,
        "function" => RequestToolChoiceKind::Function(name),
        "custom" => RequestToolChoiceKind::Custom(name),
        "allowed_tools" => RequestToolChoiceKind::AllowedTools { mode },
        "mcp" => RequestToolChoiceKind::Mcp,
        _ => RequestToolChoiceKind::Hosted(kind),
    })
}

pub(super) fn read_reasoning<'a>(
    cursor: &mut Cursor<'a>,
    at: Option<Span>,
) -> Result<Option<Reasoning<'a>>, Error> {
    let effort = cursor.read_member_text_or_skip("effort")?;
    Ok(at.map(|span| Reasoning { effort, span }))
}

pub(super) fn read_include(
    cursor: &mut Cursor<'_>,
    at: Option<Span>,
) -> Result<Option<Include>, Error> {
    let mut encrypted_reasoning = false;
    if cursor.peek()? == Kind::Array {
        cursor.read_elements(|cursor| {
            let word = cursor.read_text_or_skip()?;
            encrypted_reasoning |= word.is_some_and(|w| w.eq_str("reasoning.encrypted_content"));
            Ok::<_, Error>(())
        })?;
    }
    Ok(at.map(|span| Include { encrypted_reasoning, span }))
}

pub(super) fn read_conversation<'a>(
    cursor: &mut Cursor<'a>,
    at: Option<Span>,
) -> Result<Option<Conversation<'a>>, Error> {
    let id = match cursor.peek()? {
        Kind::String => cursor.read_text_or_skip()?,
        _ => cursor.read_member_text_or_skip("id")?,
    };
    Ok(at.map(|span| Conversation { id, span }))
}

pub(super) fn read_text_format<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Str<'a>>, Error> {
    if cursor.peek()? != Kind::Object {
        return Ok(None);
    }
    let mut found = None;
    cursor.read_members(|cursor, member| {
        if member.key.eq_str("format") {
            found = cursor.read_member_text_or_skip("type")?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(found)
}
