//! Readers for the top-level members of a Messages request, except for its messages.

use crate::{
    json::{Cursor, Error, Kind, Span, Str},
    request::{
        OutputLimit, Thinking, ThinkingMode, Thread, Tool, ToolChoice, ToolChoiceKind, Tools,
    },
};

pub(super) fn read_thread<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Thread<'a>>, Error> {
    let object = cursor.peek()? == Kind::Object;
    let previous = cursor.read_member_text_or_skip("previous_message_id")?;
    Ok(object.then_some(Thread { previous }))
}

pub(super) fn read_max_tokens(
    cursor: &mut Cursor<'_>,
    key: Span,
) -> Result<Option<OutputLimit>, Error> {
    let span = cursor.clone().skip_value()?;
    let value = cursor.read_uint_or_skip()?;
    let member = Span::new(key.start, span.end);
    Ok(value.map(|value| OutputLimit { value, span, member }))
}

pub(super) fn read_tools<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Tools<'a>>, Error> {
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
    Ok(Some(Tools { span, list }))
}

fn read_tool<'a>(cursor: &mut Cursor<'a>) -> Result<Tool<'a>, Error> {
    let mut name = Str::default();
    let mut kind = None;
    let mut cache_control = false;
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "name" => name = cursor.read_text_or_skip()?.unwrap_or_default(),
            "type" => kind = cursor.read_text_or_skip()?,
            "cache_control" => cache_control = cursor.peek()? != Kind::Null,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(Tool { name, kind, span, cache_control })
}

pub(super) fn read_tool_choice<'a>(
    cursor: &mut Cursor<'a>,
    key: Span,
) -> Result<Option<ToolChoice<'a>>, Error> {
    if cursor.peek()? != Kind::Object {
        cursor.skip_value()?;
        return Ok(None);
    }
    let (mut kind, mut name, mut disable_parallel) = (Str::default(), Str::default(), false);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "name" => name = cursor.read_text_or_skip()?.unwrap_or_default(),
            "disable_parallel_tool_use" => {
                disable_parallel = cursor.read_bool_or_skip()? == Some(true)
            }
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

pub(super) fn read_thinking(cursor: &mut Cursor<'_>) -> Result<Thinking, Error> {
    if cursor.peek()? != Kind::Object {
        let span = cursor.skip_unless_null()?;
        let mode = if span.is_some() { ThinkingMode::Other } else { ThinkingMode::Absent };
        return Ok(Thinking { mode, span });
    }
    let (mut kind, mut budget) = (Str::default(), 0);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "budget_tokens" => budget = cursor.read_uint_or_skip()?.unwrap_or(0),
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
