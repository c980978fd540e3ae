//! A choice of a chunk, and its delta.

use super::{StreamError, read_error_member};
use crate::{
    chat::usage::Usage,
    json::{Cursor, Error, Kind, MemberKey, Str},
};

/// A choice of a chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice<'a> {
    /// `index`, 0 where absent.
    pub index: u32,
    /// The delta. For a whole response, the message.
    pub delta: Delta<'a>,
    /// `finish_reason`, unless null or empty. It may be repeated; the last one applies.
    pub finish_reason: Option<Str<'a>>,
    /// `native_finish_reason` (OpenRouter), as stated by the vendor behind it.
    pub native_finish_reason: Option<Str<'a>>,
}

/// The content that a choice adds. Null counts as absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta<'a> {
    /// `role`
    pub role: Option<Str<'a>>,
    /// `content`, if it is a string.
    pub content: Option<Str<'a>>,
    /// `content`, if it is a list of parts, as received (Mistral).
    pub parts: Option<&'a str>,
    /// `refusal`
    pub refusal: Option<Str<'a>>,
    /// `reasoning` (OpenRouter, Groq).
    pub reasoning: Option<Str<'a>>,
    /// `reasoning_content` (DeepSeek, z.ai, xAI).
    pub reasoning_content: Option<Str<'a>>,
    /// `reasoning_details`, a list as received (OpenRouter).
    pub reasoning_details: Option<&'a str>,
    /// `tool_calls`
    pub tool_calls: Vec<CallDelta<'a>>,
    /// The deprecated `function_call`.
    pub function_call: Option<Box<CallDelta<'a>>>,
    /// Further members, by name, each value as received.
    pub extra: Vec<(Str<'a>, &'a str)>,
}

/// The content that a delta adds to a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallDelta<'a> {
    /// `index`; some vendors leave it out.
    pub index: Option<u32>,
    /// `id`, unless empty.
    pub id: Option<Str<'a>>,
    /// The tool's name, unless empty.
    pub name: Option<Str<'a>>,
    /// A piece of the arguments' JSON text, or of a custom tool's input.
    pub arguments: Option<Str<'a>>,
    /// The arguments, if they come as an object instead of text.
    pub object: Option<&'a str>,
    /// True if the tool is a custom tool.
    pub custom: bool,
    /// Further members, by name, each value as received: `extra_content` of Gemini's layer.
    pub extra: Vec<(Str<'a>, &'a str)>,
}

/// A choice with the usage and the error found within it.
pub(super) type ChoiceParts<'a> = (Choice<'a>, Option<Box<Usage>>, Option<Box<StreamError<'a>>>);

pub(super) fn read_choice<'a>(cursor: &mut Cursor<'a>) -> Result<ChoiceParts<'a>, Error> {
    let mut choice = Choice::default();
    let (mut usage, mut failed) = (None, None);
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "index" => choice.index = cursor.read_index_or_skip()?.unwrap_or(0),
            "delta" | "message" if cursor.peek()? == Kind::Object => {
                choice.delta = read_delta(cursor)?;
            }
            "finish_reason" => choice.finish_reason = read_nonempty(cursor)?,
            "native_finish_reason" => choice.native_finish_reason = read_nonempty(cursor)?,
            "usage" => usage = Usage::from_cursor(cursor)?.map(Box::new),
            "error" => failed = read_error_member(cursor)?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok((choice, usage, failed))
}

#[inline]
fn read_delta<'a>(cursor: &mut Cursor<'a>) -> Result<Delta<'a>, Error> {
    let mut delta = Delta::default();
    cursor.read_members(|cursor, member| delta.read_member(cursor, member))?;
    Ok(delta)
}

impl<'a> Delta<'a> {
    #[inline]
    fn read_member(&mut self, cursor: &mut Cursor<'a>, member: MemberKey<'a>) -> Result<(), Error> {
        match &*member.key.unescape() {
            "role" => self.role = cursor.read_text_or_skip()?,
            "content" => match cursor.peek()? {
                Kind::Array => self.parts = Some(cursor.skip_value()?.slice_of(cursor.text())),
                _ => self.content = cursor.read_text_or_skip()?,
            },
            "refusal" => self.refusal = cursor.read_text_or_skip()?,
            "reasoning" => self.reasoning = cursor.read_text_or_skip()?,
            "reasoning_content" => self.reasoning_content = cursor.read_text_or_skip()?,
            "reasoning_details" => {
                let list = cursor.peek()? == Kind::Array;
                let raw = cursor.skip_value()?.slice_of(cursor.text());
                self.reasoning_details = list.then_some(raw);
            }
            "tool_calls" => self.tool_calls = read_calls(cursor)?,
            "function_call" => {
                if cursor.peek()? == Kind::Object {
                    let mut call = CallDelta::default();
                    call.read_inner(cursor)?;
                    self.function_call = Some(Box::new(call));
                }
            }
            _ => push_extra(&mut self.extra, cursor, member)?,
        }
        Ok(())
    }
}

/// Records a member that is not null.
fn push_extra<'a>(
    extra: &mut Vec<(Str<'a>, &'a str)>,
    cursor: &mut Cursor<'a>,
    member: MemberKey<'a>,
) -> Result<(), Error> {
    let kind = cursor.peek()?;
    let raw = cursor.skip_value()?.slice_of(cursor.text());
    if kind != Kind::Null {
        extra.push((member.key, raw));
    }
    Ok(())
}

fn read_calls<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<CallDelta<'a>>, Error> {
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

/// Reads an element of `tool_calls`.
pub(in crate::chat) fn read_call<'a>(cursor: &mut Cursor<'a>) -> Result<CallDelta<'a>, Error> {
    let mut call = CallDelta::default();
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "index" => call.index = cursor.read_index_or_skip()?,
            // Mistral is known to have sent `"null"` (guarded against in LangChain's client).
            "id" => call.id = read_nonempty(cursor)?.filter(|id| *id != "null"),
            "type" => {
                call.custom |= cursor.read_text_or_skip()?.is_some_and(|kind| kind == "custom")
            }
            "function" | "custom" => {
                if cursor.peek()? == Kind::Object {
                    call.custom |= member.key == "custom";
                    call.read_inner(cursor)?;
                }
            }
            _ => push_extra(&mut call.extra, cursor, member)?,
        }
        Ok::<_, Error>(())
    })?;
    Ok(call)
}

impl<'a> CallDelta<'a> {
    /// Reads a `function` or `custom` object.
    fn read_inner(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        cursor.read_members(|cursor, member| {
            match &*member.key.unescape() {
                "name" => self.name = read_nonempty(cursor)?,
                "arguments" | "input" => match cursor.peek()? {
                    Kind::Object => {
                        self.object = Some(cursor.skip_value()?.slice_of(cursor.text()))
                    }
                    _ => self.arguments = cursor.read_text_or_skip()?,
                },
                _ => {}
            }
            Ok::<_, Error>(())
        })?;
        Ok(())
    }
}

fn read_nonempty<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Str<'a>>, Error> {
    Ok(cursor.read_text_or_skip()?.filter(|text| !text.is_empty()))
}
