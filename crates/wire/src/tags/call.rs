//! Decoding a complete block into a call, or into the reason it is malformed.
//!
//! The tool is named by an attribute, by a member of a JSON body, by a parameter element, or by the
//! tag itself if the tag is not a generic one. The arguments are a JSON body or its member, the
//! content of an element that holds them all, or one element each. An element's text is the
//! argument as written, except that one line break after its opening tag and one before its closing
//! tag are removed and `<![CDATA[…]]>` is unwrapped. Entities are not resolved, because models
//! write code there.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use serde_json::{Map, Value};

use super::{TagBlock, Tags, body::split_elements, markup::split_attributes};
use crate::json::{self, Cursor, Kind, Str};

/// Members, attributes and elements that name the tool.
pub(super) const NAMES: &[&str] = &["name", "tool_name", "tool", "function", "function_name"];

/// Members and elements that hold all arguments.
const ARGUMENTS: &[&str] =
    &["arguments", "args", "input", "parameters", "params", "tool_input", "tool_arguments"];

/// Tags that only indicate a call. Any other tag without a name inside is itself the tool's name,
/// as in Cline's `<read_file>`.
const GENERAL: &[&str] = &[
    "use_tool",
    "tool_use",
    "usetool",
    "tool_call",
    "toolcall",
    "tool",
    "call",
    "function_call",
    "function_calls",
    "function",
    "invoke",
    "action",
];

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCall {
    /// The tool's name.
    pub name: String,
    /// Its arguments.
    pub input: TextCallInput,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextCallInput {
    /// A JSON object that is valid for every parser.
    Json(String),
    /// Parameter elements by name, each with its text. The schema decides whether `5` is a number.
    Texts(Vec<(String, String)>),
}

impl TextCallInput {
    /// Returns the arguments as a JSON object, for use without a schema. Texts that are JSON
    /// objects or arrays become these, all others become strings. The texts of a repeated name
    /// become an array.
    #[must_use]
    pub fn to_json(&self) -> Cow<'_, str> {
        match self {
            Self::Json(object) => Cow::Borrowed(object),
            Self::Texts(texts) => Cow::Owned(object_from_texts(texts)),
        }
    }
}

/// The reason a block is not a call. The text fits after "The tool call could not be read: ".
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedCall {
    /// The block never ends.
    Unclosed,
    /// The block is empty, and no attribute names a tool.
    Empty,
    /// No tool is named.
    NoName,
    /// The body is neither JSON nor parameter elements.
    Text,
    /// The body or the arguments should be JSON but are not.
    Json(json::Error),
    /// The arguments are JSON but not an object.
    NotObject,
    /// The arguments are JSON that some parsers refuse: half a surrogate pair, a number out of
    /// range.
    Unreadable,
    /// More than one call in one block.
    Several,
    /// There is text between the parameter elements, or an element is not closed.
    Stray,
}

impl fmt::Display for MalformedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unclosed => "its closing tag is missing",
            Self::Empty => "it is empty",
            Self::NoName => "it names no tool",
            Self::Text => "it holds neither a JSON object nor parameter elements",
            Self::Json(error) => return error.fmt(f),
            Self::NotObject => "its arguments are not a JSON object",
            Self::Unreadable => "its arguments hold half a surrogate pair or a number out of range",
            Self::Several => "it holds more than one call; write one block for each",
            Self::Stray => {
                "there is text between its parameter elements, or one of them is not closed"
            }
        })
    }
}

impl std::error::Error for MalformedCall {}

impl From<json::Error> for MalformedCall {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

/// The tool's name as far as it is known before the body is read.
#[derive(Clone, Copy, Debug)]
enum OuterName<'a> {
    /// Not known.
    No,
    /// Named by the tag itself. A body that names a tool and holds arguments takes precedence.
    Tag(&'a str),
    /// Named by an attribute.
    Attribute(&'a str),
}

impl<'a> OuterName<'a> {
    fn from_block(block: &TagBlock<'a>) -> Self {
        let mut named = split_attributes(block.opening()).filter(|(key, _)| NAMES.contains(key));
        match named.next().map(|(_, value)| value.trim()) {
            Some(name) if !name.is_empty() => Self::Attribute(name),
            _ if !GENERAL.contains(&block.tag()) => Self::Tag(block.tag()),
            _ => Self::No,
        }
    }

    const fn name(self) -> Option<&'a str> {
        match self {
            Self::No => None,
            Self::Tag(name) | Self::Attribute(name) => Some(name),
        }
    }
}

pub(super) fn decode_block(block: &TagBlock<'_>) -> Result<TextCall, MalformedCall> {
    let outside = OuterName::from_block(block);
    let body = strip_fence(block.inner().trim_ascii());
    match body.as_bytes().first() {
        None => {
            let name = outside.name().ok_or(MalformedCall::Empty)?;
            Ok(TextCall { name: name.to_owned(), input: TextCallInput::Json("{}".to_owned()) })
        }
        Some(b'{') => decode_object(body, outside),
        Some(b'[') => decode_array(body, outside),
        Some(b'<') if block.stray => Err(MalformedCall::Stray),
        Some(b'<') => decode_elements(block, body, outside),
        Some(_) => Err(MalformedCall::Text),
    }
}

/// Removes the fence of a body that is a single fenced code block.
fn strip_fence(body: &str) -> &str {
    let inside = || {
        let rest = body.strip_prefix("```")?.strip_suffix("```")?;
        let (info, rest) = rest.split_once('\n')?;
        info.trim().bytes().all(|b| b.is_ascii_alphanumeric()).then(|| rest.trim())
    };
    inside().unwrap_or(body)
}

fn decode_array(body: &str, outside: OuterName<'_>) -> Result<TextCall, MalformedCall> {
    let mut cursor = Cursor::new(body);
    let mut items = Vec::new();
    cursor.read_elements(|cursor| {
        items.push(cursor.skip_value()?.slice_of(body));
        Ok::<_, json::Error>(())
    })?;
    cursor.expect_end()?;
    match items.as_slice() {
        [] => Err(MalformedCall::Empty),
        [only] if only.starts_with('{') => decode_object(only, outside),
        [_] => Err(MalformedCall::NotObject),
        _ => Err(MalformedCall::Several),
    }
}

/// The members of a call as JSON.
#[derive(Default)]
struct CallMembers<'a> {
    name: Option<Str<'a>>,
    /// `{"function": {"name": …, "arguments": …}}`
    inner: Option<&'a str>,
    arguments: Option<&'a str>,
    /// All other members: keys and values as written.
    rest: Vec<(&'a str, &'a str)>,
}

fn decode_object(body: &str, outside: OuterName<'_>) -> Result<TextCall, MalformedCall> {
    let members = read_call_members(body)?;
    let name = members.name.map(|name| name.unescape().trim().to_owned());
    let name = name.filter(|name| !name.is_empty());
    // If the name is given outside, the whole object is the arguments, unless the object is a call.
    let whole = match outside {
        OuterName::No => None,
        OuterName::Tag(tag) => (name.is_none() || members.arguments.is_none()).then_some(tag),
        OuterName::Attribute(given) => {
            let again = name.as_deref() == Some(given) && members.arguments.is_some();
            (!again).then_some(given)
        }
    };
    if let Some(name) = whole {
        return Ok(TextCall {
            name: name.to_owned(),
            input: TextCallInput::Json(to_strict_object(body)?),
        });
    }
    let Some(name) = name else {
        // Only two levels: a `function` within the inner object is ignored.
        let inner = members.inner.ok_or(MalformedCall::NoName)?;
        let members = read_call_members(inner)?;
        let name = members.name.map(|name| name.unescape().trim().to_owned());
        let name = name.filter(|name| !name.is_empty()).ok_or(MalformedCall::NoName)?;
        return Ok(TextCall { name, input: TextCallInput::Json(members.to_arguments()?) });
    };
    Ok(TextCall { name, input: TextCallInput::Json(members.to_arguments()?) })
}

fn read_call_members(body: &str) -> Result<CallMembers<'_>, MalformedCall> {
    let mut cursor = Cursor::new(body);
    let mut found = CallMembers::default();
    cursor.read_members(|cursor, member| {
        let key = member.key.unescape();
        let kind = cursor.peek()?;
        let text = cursor.text();
        if NAMES.contains(&&*key) && kind == Kind::String && found.name.is_none() {
            found.name = Some(cursor.read_string()?.0);
            return Ok(());
        }
        let value = cursor.skip_value()?.slice_of(text);
        if &*key == "function" && kind == Kind::Object {
            found.inner = Some(value);
        } else if ARGUMENTS.contains(&&*key) && found.arguments.is_none() {
            found.arguments = Some(value);
        } else {
            found.rest.push((member.span.slice_of(text), value));
        }
        Ok::<_, json::Error>(())
    })?;
    cursor.expect_end()?;
    Ok(found)
}

impl CallMembers<'_> {
    /// Returns the arguments: the member that holds them, otherwise the members beside the name.
    fn to_arguments(&self) -> Result<String, MalformedCall> {
        let Some(value) = self.arguments else {
            let rest: Vec<_> =
                self.rest.iter().map(|(key, value)| format!("{key}:{value}")).collect();
            return to_strict_object(&format!("{{{}}}", rest.join(",")));
        };
        let mut cursor = Cursor::new(value);
        match cursor.peek()? {
            Kind::Null => Ok("{}".to_owned()),
            // The form of OpenAI's API: JSON within a string.
            Kind::String => match cursor.read_string()?.0.unescape().trim_ascii() {
                "" => Ok("{}".to_owned()),
                text => to_strict_object(text),
            },
            Kind::Object | Kind::Array | Kind::Number | Kind::Bool => to_strict_object(value),
        }
    }
}

/// Returns a JSON object that every parser accepts, with the same values. Line breaks and other
/// control characters that models leave in strings are escaped.
fn to_strict_object(text: &str) -> Result<String, MalformedCall> {
    json::check_text(text)?;
    let mut out = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        if inside && c < ' ' {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
        inside ^= c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
    }
    match json::is_strict_object(&out) {
        true => Ok(out),
        false if text.trim_ascii_start().starts_with('{') => Err(MalformedCall::Unreadable),
        false => Err(MalformedCall::NotObject),
    }
}

fn decode_elements(
    block: &TagBlock<'_>,
    body: &str,
    outside: OuterName<'_>,
) -> Result<TextCall, MalformedCall> {
    let tags = Tags(vec![block.tag().to_owned()]);
    let mut found = split_named_elements(body, &tags)?;
    let named = found.iter().position(|(key, _)| NAMES.contains(key));
    let called = found.len() == 2 && found.iter().any(|(key, _)| ARGUMENTS.contains(key));
    let named = match outside {
        OuterName::No => named,
        OuterName::Tag(_) => named.filter(|_| called),
        OuterName::Attribute(given) => named.filter(|&at| {
            called && found.get(at).is_some_and(|(_, content)| content.trim() == given)
        }),
    };
    let name = match named {
        Some(at) => found.remove(at).1.trim(),
        None => outside.name().ok_or(MalformedCall::NoName)?,
    };
    if name.is_empty() {
        return Err(MalformedCall::NoName);
    }
    let input = match found.as_slice() {
        [] => TextCallInput::Json("{}".to_owned()),
        [(key, content)] if ARGUMENTS.contains(key) => decode_all_arguments(content, &tags)?,
        _ => collect_texts(&found),
    };
    Ok(TextCall { name: name.to_owned(), input })
}

/// Splits a text into its elements, by name.
fn split_named_elements<'t>(
    text: &'t str,
    tags: &Tags,
) -> Result<Vec<(&'t str, &'t str)>, MalformedCall> {
    let found = split_elements(text, tags).ok_or(MalformedCall::Stray)?;
    Ok(found.into_iter().map(|(opening, content)| (element_name(opening), content)).collect())
}

/// Returns an element's name: the value of its `name` attribute, as in `<parameter name="path">`,
/// or the name of its tag.
pub(super) fn element_name(opening: &str) -> &str {
    if let Some((_, value)) = split_attributes(opening).find(|(key, _)| *key == "name") {
        return value;
    }
    let rest = opening.get(1..).unwrap_or_default();
    rest.split(|c: char| c.is_ascii_whitespace() || c == '>' || c == '/').next().unwrap_or_default()
}

/// Reads the content of an element that holds all arguments.
fn decode_all_arguments(content: &str, tags: &Tags) -> Result<TextCallInput, MalformedCall> {
    let text = strip_fence(trim_argument(content).trim_ascii());
    match text.as_bytes().first() {
        None => Ok(TextCallInput::Json("{}".to_owned())),
        Some(b'<') => Ok(collect_texts(&split_named_elements(text, tags)?)),
        Some(_) => to_strict_object(text).map(TextCallInput::Json),
    }
}

fn collect_texts(elements: &[(&str, &str)]) -> TextCallInput {
    let text =
        |(key, content): &(&str, &str)| ((*key).to_owned(), trim_argument(content).to_owned());
    TextCallInput::Texts(elements.iter().map(text).collect())
}

/// Returns an element's text without the whitespace of its layout.
fn trim_argument(content: &str) -> &str {
    let whole = content.trim_ascii();
    let cdata = whole.strip_prefix("<![CDATA[").and_then(|rest| rest.strip_suffix("]]>"));
    if let Some(inside) = cdata.filter(|inside| !inside.contains("]]>")) {
        return inside;
    }
    let content = content.strip_prefix('\r').unwrap_or(content);
    let content = content.strip_prefix('\n').unwrap_or(content);
    let content = content.strip_suffix('\n').unwrap_or(content);
    content.strip_suffix('\r').unwrap_or(content)
}

/// Builds a JSON object from texts by name.
fn object_from_texts(texts: &[(String, String)]) -> String {
    let mut members = Map::new();
    for (key, text) in texts {
        let trimmed = text.trim_ascii();
        let parsed = match trimmed.as_bytes().first() {
            Some(b'{' | b'[') => serde_json::from_str::<Value>(trimmed).ok(),
            _ => None,
        };
        let value = parsed.unwrap_or_else(|| Value::String(text.clone()));
        match members.get_mut(key) {
            None => {
                members.insert(key.clone(), value);
            }
            Some(earlier) => {
                // Values of the same name are joined: two lists, or a list and a later value,
                // become one list.
                let mut all = match earlier.take() {
                    Value::Array(all) => all,
                    other => vec![other],
                };
                all.push(value);
                *earlier = Value::Array(all);
            }
        }
    }
    Value::Object(members).to_string()
}
