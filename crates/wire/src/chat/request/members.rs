//! The top-level members of a request, except for its messages and its thinking settings.

use crate::json::{Cursor, Error, Kind, Span, Str};

/// `max_tokens` or `max_completion_tokens`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxTokens {
    /// The value, in tokens.
    pub value: u64,
    /// The value's span.
    pub span: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// A boolean and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The value.
    pub value: bool,
    /// The value's span.
    pub span: Span,
}

/// `stream_options`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The object's span.
    pub span: Span,
    /// `include_usage`, if it is a boolean.
    pub include_usage: Option<Flag>,
}

/// `tools`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTools<'a> {
    /// The list's span.
    pub span: Span,
    /// The tools, in order.
    pub list: Vec<RequestTool<'a>>,
}

/// An entry of `tools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestTool<'a> {
    /// `function.name`, `custom.name`, or `name` in the flat form that some clients send; empty
    /// where absent.
    pub name: Str<'a>,
    /// The kind of tool.
    pub kind: ToolKind<'a>,
    /// The entry's span.
    pub span: Span,
    /// True if the entry ends a cached prefix (`cache_control`, OpenRouter).
    pub cache_control: bool,
}

/// The `type` of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolKind<'a> {
    /// `function`, also if no type is given.
    Function,
    /// `custom`: the input is free text.
    Custom,
    /// A tool of the provider.
    Other(Str<'a>),
}

/// `tool_choice`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestToolChoice<'a> {
    /// The tools that may or must be called.
    pub kind: RequestToolChoiceKind<'a>,
    /// The value's span.
    pub span: Span,
    /// The span from the key's opening quote to the end of the value.
    pub member: Span,
}

/// The kind of a `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestToolChoiceKind<'a> {
    /// `none`
    None,
    /// `auto`
    Auto,
    /// `required`, or Mistral's `any`, which means the same.
    Required,
    /// `{"type":"function"}`, with the tool's name.
    Function(Str<'a>),
    /// `{"type":"custom"}`, with the tool's name.
    Custom(Str<'a>),
    /// `{"type":"allowed_tools"}`
    AllowedTools {
        /// True if one of the tools must be called (`mode` is `required`).
        required: bool,
    },
    /// A value this module does not know: the string, or the object's `type`.
    Other(Str<'a>),
}

impl RequestToolChoiceKind<'_> {
    /// Returns true if a tool must be called.
    #[must_use]
    pub const fn is_forced(&self) -> bool {
        matches!(
            self,
            Self::Required
                | Self::Function(_)
                | Self::Custom(_)
                | Self::AllowedTools { required: true }
        )
    }
}

/// `response_format`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseFormat<'a> {
    /// `type`: `text`, `json_object`, `json_schema`; empty where absent.
    pub kind: Str<'a>,
    /// The value's span.
    pub span: Span,
}

pub(super) fn read_flag(cursor: &mut Cursor<'_>) -> Result<Option<Flag>, Error> {
    let span = cursor.clone().skip_value()?;
    Ok(cursor.read_bool_or_skip()?.map(|value| Flag { value, span }))
}

pub(super) fn read_max_tokens(
    cursor: &mut Cursor<'_>,
    key: Span,
) -> Result<Option<MaxTokens>, Error> {
    let span = cursor.clone().skip_value()?;
    let value = cursor.read_uint_or_skip()?;
    let member = Span::new(key.start, span.end);
    Ok(value.map(|value| MaxTokens { value, span, member }))
}

pub(super) fn read_stream_options(cursor: &mut Cursor<'_>) -> Result<Option<StreamOptions>, Error> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut include_usage = None;
    let span = cursor.read_members(|cursor, member| {
        if member.key == "include_usage" {
            include_usage = read_flag(cursor)?;
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(StreamOptions { span, include_usage }))
}

pub(super) fn read_tools<'a>(cursor: &mut Cursor<'a>) -> Result<Option<RequestTools<'a>>, Error> {
    if cursor.peek()? != Kind::Array {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut list = Vec::new();
    let span = cursor.read_elements(|cursor| {
        if cursor.peek()? == Kind::Object {
            list.push(read_tool(cursor)?);
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(RequestTools { span, list }))
}

fn read_tool<'a>(cursor: &mut Cursor<'a>) -> Result<RequestTool<'a>, Error> {
    let (mut kind, mut flat, mut nested) = (None, None, None);
    let mut cache_control = false;
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?,
            "name" => flat = cursor.read_text_or_skip()?,
            "function" | "custom" => nested = cursor.read_member_text_or_skip("name")?.or(nested),
            "cache_control" => cache_control = cursor.peek()? != Kind::Null,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let kind = match kind {
        None => ToolKind::Function,
        Some(kind) if kind == "function" => ToolKind::Function,
        Some(kind) if kind == "custom" => ToolKind::Custom,
        Some(kind) => ToolKind::Other(kind),
    };
    Ok(RequestTool { name: nested.or(flat).unwrap_or_default(), kind, span, cache_control })
}

pub(super) fn read_tool_choice<'a>(
    cursor: &mut Cursor<'a>,
    key: Span,
) -> Result<Option<RequestToolChoice<'a>>, Error> {
    let (kind, span) = match cursor.peek()? {
        Kind::String => {
            let (word, span) = cursor.read_string()?;
            (parse_choice(word), span)
        }
        Kind::Object => read_choice_object(cursor)?,
        Kind::Array | Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip_value()?;
            return Ok(None);
        }
    };
    let member = Span::new(key.start, span.end);
    Ok(Some(RequestToolChoice { kind, span, member }))
}

fn parse_choice(word: Str<'_>) -> RequestToolChoiceKind<'_> {
    match &*word.unescape() {
        "none" => RequestToolChoiceKind::None,
        "auto" => RequestToolChoiceKind::Auto,
        "required" | "any" => RequestToolChoiceKind::Required,
        _ => RequestToolChoiceKind::Other(word),
    }
}

fn read_choice_object<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<(RequestToolChoiceKind<'a>, Span), Error> {
    let (mut kind, mut flat, mut name) = (Str::default(), None, None);
    let mut required = false;
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "name" => flat = cursor.read_text_or_skip()?,
            "function" | "custom" => name = cursor.read_member_text_or_skip("name")?.or(name),
            // OpenAI nests `mode`. Its other API and some clients do not.
            "mode" => required = cursor.read_text_or_skip()?.is_some_and(|mode| mode == "required"),
            "allowed_tools" => {
                required =
                    cursor.read_member_text_or_skip("mode")?.is_some_and(|mode| mode == "required")
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let name = name.or(flat).unwrap_or_default();
    let choice = match &*kind.unescape() {
        "function" => RequestToolChoiceKind::Function(name),
        "custom" => RequestToolChoiceKind::Custom(name),
        "allowed_tools" => RequestToolChoiceKind::AllowedTools { required },
        _ => RequestToolChoiceKind::Other(kind),
    };
    Ok((choice, span))
}

pub(super) fn read_response_format<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<Option<ResponseFormat<'a>>, Error> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let mut kind = Str::default();
    let span = cursor.read_members(|cursor, member| {
        if member.key == "type" {
            kind = cursor.read_text_or_skip()?.unwrap_or_default();
        }
        Ok::<_, Error>(())
    })?;
    Ok(Some(ResponseFormat { kind, span }))
}
