//! Reads a message in Anthropic's or OpenAI's form, in one pass.

mod unread;
mod usage;

use std::borrow::Cow;

use crate::content::add_media;
use softland_session::ResultReader;
use softland_session::core::{Digest, NanoUsd, ToolResult};
use softland_session::wire::Tokens;
use softland_session::wire::json::{Cursor, Error, Kind, Str};

use crate::draft::{TurnDraft, parse_stop};
use crate::fields::Fields;
pub(crate) use unread::UnreadParts;
pub(crate) use usage::parse_usage;

/// A message, as it is written.
#[derive(Debug, Default)]
pub(crate) struct Message<'a> {
    pub(crate) role: Option<Str<'a>>,
    pub(crate) id: Option<Str<'a>>,
    pub(crate) model: Option<Str<'a>>,
    pub(crate) stop: Option<Str<'a>>,
    tier: Option<Str<'a>>,
    pub(crate) usage: Option<(Tokens, Option<NanoUsd>)>,
    pub(crate) content: Vec<Block<'a>>,
    calls: Vec<&'a str>,
    function_call: Option<&'a str>,
    /// The call that a tool's message answers.
    pub(crate) call_id: Option<Str<'a>>,
    pub(crate) name: Option<Str<'a>>,
    pub(crate) is_error: bool,
    hidden: bool,
    reasoning: Option<Str<'a>>,
    refusal: Option<Str<'a>>,
    gives: bool,
    /// The first member that holds something in the place of `content`.
    beside: Option<&'static str>,
}

/// Members that hold texts or calls in messages of other programs.
const BESIDE: [&str; 8] =
    ["text", "blocks", "segments", "parts", "message", "value", "body", "tool_uses"];

/// One block of a message's content.
#[derive(Debug, Default)]
pub(crate) struct Block<'a> {
    kind: Option<Str<'a>>,
    text: Option<Str<'a>>,
    id: Option<Str<'a>>,
    name: Option<Str<'a>>,
    input: Option<&'a str>,
    is_error: bool,
    content: Vec<Part<'a>>,
    /// The block as it is written.
    json: &'a str,
}

/// A part of a result: a text, or something else.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Text(Str<'a>),
    /// The part as it is written.
    Media(&'a str),
}

impl<'a> Message<'a> {
    pub(crate) fn from_json(text: &'a str) -> Result<Self, String> {
        let mut cursor = Cursor::new(text);
        let message = Self::from_cursor(&mut cursor).map_err(|error| error.to_string())?;
        cursor.expect_end().map_err(|error| error.to_string())?;
        Ok(message)
    }

    pub(crate) fn from_cursor(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let mut message = Self::default();
        if cursor.peek()? != Kind::Object {
            cursor.skip_value()?;
            return Ok(message);
        }
        cursor
            .read_members(|cursor, member| message.read_member(&member.key.unescape(), cursor))?;
        Ok(message)
    }

    fn read_member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        let target = match key {
            "role" => &mut self.role,
            "id" | "tool_call_id" => {
                let id = read_id(cursor)?;
                *(if key == "id" { &mut self.id } else { &mut self.call_id }) = id;
                return Ok(());
            }
            "model" => &mut self.model,
            "stop_reason" | "finish_reason" => &mut self.stop,
            "service_tier" => &mut self.tier,
            "name" => &mut self.name,
            "reasoning_content" | "reasoning" => &mut self.reasoning,
            "refusal" => &mut self.refusal,
            "content" => {
                self.content = read_blocks(cursor)?;
                return Ok(());
            }
            "usage" => {
                let raw = cursor.skip_value()?.slice_of(cursor.text());
                self.usage = parse_usage(raw);
                return Ok(());
            }
            "tool_calls" if cursor.peek()? == Kind::Array => {
                let text = cursor.text();
                cursor.read_elements(|cursor| {
                    self.calls.push(cursor.skip_value()?.slice_of(text));
                    Ok::<_, Error>(())
                })?;
                return Ok(());
            }
            // SWE-agent's.
            "tool_call_ids" if cursor.peek()? == Kind::Array => {
                cursor.read_elements(|cursor| {
                    self.call_id = cursor.read_string_or_skip()?.map(|(text, _)| text);
                    Ok::<_, Error>(())
                })?;
                return Ok(());
            }
            "function_call" if cursor.peek()? == Kind::Object => {
                self.function_call = Some(cursor.skip_value()?.slice_of(cursor.text()));
                return Ok(());
            }
            "audio" => {
                self.gives |= cursor.peek()? == Kind::Object;
                return Ok(());
            }
            "reasoning_details" | "thinking_blocks" => {
                self.hidden |= cursor.peek()? == Kind::Array;
                return Ok(());
            }
            "is_error" => {
                self.is_error = cursor.read_bool_or_skip()? == Some(true);
                return Ok(());
            }
            _ => return self.note_member(key, cursor),
        };
        *target = cursor.read_string_or_skip()?.map(|(text, _)| text);
        Ok(())
    }

    /// Notes a member that may hold what `content` does elsewhere.
    fn note_member(&mut self, key: &str, cursor: &mut Cursor<'a>) -> Result<(), Error> {
        let Some(known) = BESIDE.iter().find(|known| **known == key) else { return Ok(()) };
        let value = cursor.skip_value()?.slice_of(cursor.text());
        let inner = value.get(1..value.len().saturating_sub(1)).unwrap_or_default();
        if value.starts_with(['"', '[', '{']) && !inner.trim().is_empty() {
            self.beside.get_or_insert(known);
        }
        Ok(())
    }

    /// Returns the member that holds what the message says, if its `content` holds nothing and none
    /// of the members that are read does.
    fn unread_member(&self) -> Option<&'static str> {
        let is_blank = |block: &Block<'_>| {
            block.text.map_or(block.json.is_empty(), |text| text.is_empty()) && block.kind.is_none()
        };
        let read = self.refusal.is_some()
            || self.gives
            || self.function_call.is_some()
            || !self.calls.is_empty()
            || !self.content.iter().all(is_blank);
        self.beside.filter(|_| self.role.is_some() && !read)
    }

    pub(crate) fn has_role(&self, role: &str) -> bool {
        self.role.is_some_and(|found| found.eq_str(role))
    }

    /// Returns true if the message is an output item of the Responses API.
    pub(crate) fn is_output(&self) -> bool {
        self.content.iter().any(|block| block.is_kind("output_text"))
    }

    /// Adds the message to a turn. `function` is the id for a call in the deprecated function form.
    pub(crate) fn add_to(&self, draft: &mut TurnDraft, function: &str) -> Result<(), String> {
        for block in &self.content {
            block.add_to(draft);
        }
        if let Some(text) = self.refusal.filter(|text| !text.is_empty()) {
            draft.add_text(text);
        }
        if let Some(text) = self.reasoning.filter(|text| !text.is_empty()) {
            draft.add_hidden(Some(text));
        }
        draft.hidden |= self.hidden;
        draft.gives |= self.gives || self.unread_member().is_some();
        for call in &self.calls {
            let call = Fields::from_json(call)?;
            let inner = call.object("function").or_else(|| call.object("custom"));
            let of = inner.as_ref().unwrap_or(&call);
            let name = of.owned_text("name").unwrap_or_default();
            let input = of.raw("arguments").or_else(|| of.raw("input")).map(decode_plain);
            let input = input.unwrap_or_else(|| "{}".into()).into_owned();
            draft.add_call(call.id("id").unwrap_or_default(), name, input, false);
        }
        if let Some(call) = self.function_call {
            let call = Fields::from_json(call)?;
            let input =
                call.raw("arguments").map_or_else(|| "{}".into(), decode_plain).into_owned();
            draft.add_call(
                function.to_owned(),
                call.owned_text("name").unwrap_or_default(),
                input,
                false,
            );
        }
        if let Some(model) = self.model {
            draft.model = Some(model.unescape().into_owned());
        }
        if let Some(tier) = self.tier {
            draft.note_tier(&tier.unescape());
        }
        if let Some(word) = self.stop {
            draft.stop = Some(parse_stop(&word.unescape()));
        }
        Ok(())
    }

    /// Returns the results in the message, its texts, and the digest of its media, if it holds any.
    pub(crate) fn collect_contents(
        &self,
    ) -> (Vec<(String, ToolResult<'static>)>, Vec<String>, Option<Digest>) {
        let (mut results, mut texts, mut media) = (Vec::new(), Vec::new(), None);
        for block in &self.content {
            if block.is_kind("tool_result") {
                let id = block.id.map(|id| id.unescape().into_owned()).unwrap_or_default();
                results.push((id, read_result(&block.content, block.is_error)));
            } else if let Some(text) = block.text {
                texts.push(text.unescape().into_owned());
            } else {
                add_media(&mut media, block.json);
            }
        }
        (results, texts, media)
    }

    /// Returns the single result of a tool's message.
    pub(crate) fn tool_result(&self) -> ToolResult<'static> {
        let parts: Vec<_> = self.content.iter().map(Block::as_part).collect();
        read_result(&parts, self.is_error)
    }

    /// Returns the text of the message, if it has any.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        let mut texts = self.content.iter().filter_map(|block| block.text);
        let first = texts.next()?.unescape();
        Some(texts.fold(first, |mut all, next| {
            all.to_mut().push('\n');
            next.push_to(all.to_mut());
            all
        }))
    }
}

/// Reads an id; some recordings write numbers.
fn read_id<'a>(cursor: &mut Cursor<'a>) -> Result<Option<Str<'a>>, Error> {
    if cursor.peek()? == Kind::Number {
        return Ok(Str::from_plain(cursor.skip_value()?.slice_of(cursor.text())));
    }
    Ok(cursor.read_string_or_skip()?.map(|(text, _)| text))
}

/// Returns the decoded value if it is a string, else the value as written.
fn decode_plain(raw: &str) -> Cow<'_, str> {
    crate::fields::decode_string(raw).map_or(Cow::Borrowed(raw), |text| text.unescape())
}

fn read_result(parts: &[Part<'_>], is_error: bool) -> ToolResult<'static> {
    let mut read = ResultReader::new(is_error);
    for part in parts {
        match part {
            Part::Text(text) => read.add_text(*text),
            Part::Media(json) => read.add_media(json),
        }
    }
    read.to_facts()
}

fn read_blocks<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Block<'a>>, Error> {
    let mut list = Vec::new();
    match cursor.peek()? {
        Kind::String => {
            let (text, _) = cursor.read_string()?;
            list.push(Block { text: Some(text), ..Block::default() });
        }
        Kind::Array => {
            cursor.read_elements(|cursor| {
                list.push(Block::from_cursor(cursor)?);
                Ok::<_, Error>(())
            })?;
        }
        // One block without a list around it.
        Kind::Object => list.push(Block::from_cursor(cursor)?),
        Kind::Number | Kind::Bool | Kind::Null => {
            cursor.skip_value()?;
        }
    }
    Ok(list)
}

impl<'a> Block<'a> {
    fn from_cursor(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let mut block = Self::default();
        match cursor.peek()? {
            Kind::Object => {}
            Kind::String => {
                let (text, _) = cursor.read_string()?;
                return Ok(Self { text: Some(text), ..block });
            }
            Kind::Array | Kind::Number | Kind::Bool | Kind::Null => {
                cursor.skip_value()?;
                return Ok(block);
            }
        }
        let span = cursor.read_members(|cursor, member| {
            let target = match &*member.key.unescape() {
                "type" => &mut block.kind,
                "text" | "thinking" | "refusal" => &mut block.text,
                "id" | "tool_use_id" => {
                    block.id = read_id(cursor)?;
                    return Ok(());
                }
                "name" => &mut block.name,
                "input" => {
                    block.input = Some(cursor.skip_value()?.slice_of(cursor.text()));
                    return Ok(());
                }
                "is_error" => {
                    block.is_error = cursor.read_bool_or_skip()? == Some(true);
                    return Ok(());
                }
                "content" => {
                    block.content = read_parts(cursor)?;
                    return Ok(());
                }
                _ => return Ok(()),
            };
            *target = cursor.read_string_or_skip()?.map(|(text, _)| text);
            Ok::<_, Error>(())
        })?;
        block.json = span.slice_of(cursor.text());
        Ok(block)
    }

    fn as_part(&self) -> Part<'a> {
        self.text.map_or(Part::Media(self.json), Part::Text)
    }

    fn is_kind(&self, kind: &str) -> bool {
        self.kind.is_some_and(|found| found.eq_str(kind))
    }

    fn add_to(&self, draft: &mut TurnDraft) {
        if self.is_kind("tool_use")
            || self.is_kind("server_tool_use")
            || self.is_kind("mcp_tool_use")
        {
            let own = |text: Option<Str<'_>>| text.map(|t| t.unescape().into_owned());
            let id = own(self.id).unwrap_or_default();
            let input = self.input.unwrap_or("{}").to_owned();
            draft.add_call(
                id,
                own(self.name).unwrap_or_default(),
                input,
                !self.is_kind("tool_use"),
            );
        } else if self.is_kind("thinking") {
            draft.add_hidden(self.text);
        } else if let Some(text) = self.text {
            draft.add_text(text);
        } else if unread::name_unread(self).is_some() {
            // It may be a text or a call, and is no silence.
            draft.gives = true;
        } else {
            draft.hidden = true;
        }
    }
}

fn read_parts<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Part<'a>>, Error> {
    let mut list = Vec::new();
    for block in read_blocks(cursor)? {
        list.push(block.as_part());
    }
    Ok(list)
}
