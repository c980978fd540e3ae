//! The members of an event's data, collected in one pass and interpreted by type afterwards,
//! because the type may come last.

use super::{BlockStart, BlockStartKind, Event, MessageDelta, MessageStart};
use crate::{
    anthropic::usage::UsageUpdate,
    json::{Cursor, Error, Kind, MemberKey, Str},
};

/// The members of an event's data.
#[derive(Default)]
pub(super) struct EventFields<'a> {
    kind: Option<Str<'a>>,
    index: Option<u32>,
    delta: Option<Delta<'a>>,
    block: Option<BlockStart<'a>>,
    message: Option<Box<MessageStart<'a>>>,
    usage: Option<Box<UsageUpdate>>,
    error: Option<(Str<'a>, Str<'a>)>,
    /// The text of an error whose members stand in the event itself.
    words: Str<'a>,
}

/// The members of a `delta`.
#[derive(Default)]
struct Delta<'a> {
    kind: Str<'a>,
    /// `text`, `thinking`, `signature` or `partial_json`: a delta has only one of them.
    text: Option<Str<'a>>,
    citation: &'a str,
    stop_reason: Option<Str<'a>>,
    stop_sequence: Option<Str<'a>>,
    stop_details: Option<&'a str>,
    raw: &'a str,
}

impl<'a> EventFields<'a> {
    #[inline]
    pub(super) fn read_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: MemberKey<'a>,
    ) -> Result<(), Error> {
        match &*member.key.unescape() {
            "type" => self.kind = cursor.read_text_or_skip()?,
            "index" => {
                self.index = cursor.read_index_or_skip()?;
            }
            "delta" => self.delta = cursor.read_object_or_skip(read_delta)?,
            "content_block" => self.block = cursor.read_object_or_skip(read_block_start)?,
            "message" if cursor.peek()? == Kind::Object => {
                self.message = cursor.read_object_or_skip(read_message_start)?;
            }
            "message" | "detail" => self.words = cursor.read_text_or_skip()?.unwrap_or(self.words),
            "usage" => self.usage = Some(Box::new(UsageUpdate::from_cursor(cursor)?)),
            "error" if cursor.peek()? == Kind::Object => {
                self.error = cursor.read_object_or_skip(read_error)?;
            }
            "error" => {
                let words = cursor.read_text_or_skip()?;
                self.error = words.map(|words| (Str::default(), words)).or(self.error);
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    pub(super) fn into_event(self, name: &'a str) -> Event<'a> {
        let kind = self.kind.or_else(|| Str::from_plain(name)).unwrap_or_default();
        let unknown = Event::Unknown { kind };
        let type_name = kind.unescape();
        match (&*type_name, self.index, self.delta) {
            ("content_block_delta", Some(index), Some(delta)) => delta.into_event(index),
            ("content_block_stop", Some(index), _) => Event::BlockStop { index },
            ("content_block_start", Some(index), _) => {
                self.block.map_or(unknown, |block| Event::BlockStart { index, block })
            }
            ("message_start", ..) => self.message.map_or(unknown, Event::MessageStart),
            ("message_delta", _, delta) => {
                Event::MessageDelta(build_message_delta(delta.unwrap_or_default(), self.usage))
            }
            ("message_stop", ..) => Event::MessageStop,
            ("ping", ..) => Event::Ping,
            ("error", ..) => {
                build_error(self.error.unwrap_or_else(|| (Str::default(), self.words)))
            }
            // Servers of other protocols tell of errors without a type.
            ("", ..) => self.error.map_or(unknown, build_error),
            _ => unknown,
        }
    }
}

impl<'a> Delta<'a> {
    #[inline]
    fn into_event(self, index: u32) -> Event<'a> {
        let other = Event::OtherDelta { index, kind: self.kind, raw: self.raw };
        let kind = self.kind.unescape();
        match (&*kind, self.text) {
            ("text_delta", Some(text)) => Event::TextDelta { index, text },
            ("input_json_delta", Some(partial_json)) => {
                Event::InputJsonDelta { index, partial_json }
            }
            ("thinking_delta", Some(text)) => Event::ThinkingDelta { index, text },
            ("signature_delta", Some(signature)) => Event::SignatureDelta { index, signature },
            ("citations_delta", _) if !self.citation.is_empty() => {
                Event::CitationsDelta { index, citation: self.citation }
            }
            _ => other,
        }
    }
}

fn build_error<'a>((kind, message): (Str<'a>, Str<'a>)) -> Event<'a> {
    Event::Error { kind, message }
}

#[inline]
fn read_delta<'a>(cursor: &mut Cursor<'a>) -> Result<Delta<'a>, Error> {
    let mut delta = Delta::default();
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => delta.kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "text" | "partial_json" | "thinking" | "signature" => {
                delta.text = cursor.read_text_or_skip()?
            }
            "citation" => delta.citation = cursor.skip_value()?.slice_of(whole),
            "stop_reason" => delta.stop_reason = cursor.read_text_or_skip()?,
            "stop_sequence" => delta.stop_sequence = cursor.read_text_or_skip()?,
            "stop_details" => {
                delta.stop_details = cursor.skip_unless_null()?.map(|span| span.slice_of(whole))
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    delta.raw = span.slice_of(whole);
    Ok(delta)
}

fn build_message_delta<'a>(
    delta: Delta<'a>,
    usage: Option<Box<UsageUpdate>>,
) -> Box<MessageDelta<'a>> {
    Box::new(MessageDelta {
        stop_reason: delta.stop_reason,
        stop_sequence: delta.stop_sequence,
        stop_details: delta.stop_details,
        usage: usage.map(|usage| *usage).unwrap_or_default(),
    })
}

fn read_message_start<'a>(cursor: &mut Cursor<'a>) -> Result<Box<MessageStart<'a>>, Error> {
    let mut start = Box::<MessageStart<'a>>::default();
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "id" => start.id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "model" => start.model = cursor.read_text_or_skip()?.unwrap_or_default(),
            "usage" => start.usage = UsageUpdate::from_cursor(cursor)?,
            "content" => {
                start.content.clear();
                read_blocks(cursor, |block| start.content.push(block))?;
            }
            "stop_reason" => start.stop_reason = cursor.read_text_or_skip()?,
            "stop_sequence" => start.stop_sequence = cursor.read_text_or_skip()?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    start.raw = span.slice_of(whole);
    Ok(start)
}

fn read_error<'a>(cursor: &mut Cursor<'a>) -> Result<(Str<'a>, Str<'a>), Error> {
    let mut found = (Str::default(), Str::default());
    cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => found.0 = cursor.read_text_or_skip()?.unwrap_or_default(),
            "message" => found.1 = cursor.read_text_or_skip()?.unwrap_or_default(),
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(found)
}

/// The members of a block that determine its kind.
#[derive(Default)]
struct BlockFields<'a> {
    kind: Str<'a>,
    text: Str<'a>,
    thinking: Str<'a>,
    signature: Str<'a>,
    data: Str<'a>,
    id: Str<'a>,
    name: Str<'a>,
    input: &'a str,
    /// The members that are present, a bit for each.
    present: u16,
}

const KIND: u16 = 1;
const TEXT: u16 = 1 << 1;
const THINKING: u16 = 1 << 2;
const SIGNATURE: u16 = 1 << 3;
const DATA: u16 = 1 << 4;
const ID: u16 = 1 << 5;
const NAME: u16 = 1 << 6;
const INPUT: u16 = 1 << 7;
const UNKNOWN: u16 = 1 << 8;

/// Reads the `content` of a response, block by block. Returns false if it is not a list.
pub(in crate::anthropic) fn read_blocks<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(BlockStart<'a>),
) -> Result<bool, Error> {
    if cursor.peek()? != Kind::Array {
        cursor.skip_value()?;
        return Ok(false);
    }
    cursor.read_elements(|cursor| {
        if let Some(block) = cursor.read_object_or_skip(read_block_start)? {
            each(block);
        }
        Ok::<_, Error>(())
    })?;
    Ok(true)
}

fn read_block_start<'a>(cursor: &mut Cursor<'a>) -> Result<BlockStart<'a>, Error> {
    let mut fields = BlockFields::default();
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        let (bit, target) = match &*member.key.unescape() {
            "type" => (KIND, &mut fields.kind),
            "text" => (TEXT, &mut fields.text),
            "thinking" => (THINKING, &mut fields.thinking),
            "signature" => (SIGNATURE, &mut fields.signature),
            "data" => (DATA, &mut fields.data),
            "id" => (ID, &mut fields.id),
            "name" => (NAME, &mut fields.name),
            "input" => {
                fields.present |= INPUT;
                fields.input = cursor.skip_value()?.slice_of(whole);
                return Ok(());
            }
            _ => {
                fields.present |= UNKNOWN;
                return Ok(());
            }
        };
        *target = cursor.read_text_or_skip()?.unwrap_or_default();
        fields.present |= bit;
        Ok::<_, Error>(())
    })?;
    let present = fields.present;
    let (kind, known) = fields.into_kind();
    Ok(BlockStart { kind, extended: present & !(KIND | known) != 0, raw: span.slice_of(whole) })
}

impl<'a> BlockFields<'a> {
    /// Returns the block's kind, and the members from which it is read.
    fn into_kind(self) -> (BlockStartKind<'a>, u16) {
        let Self { kind, text, thinking, signature, data, id, name, input, .. } = self;
        let call = |kind, server| {
            (BlockStartKind::ToolUse { id, name, input, server, kind }, ID | NAME | INPUT)
        };
        match &*kind.unescape() {
            "text" => (BlockStartKind::Text { text }, TEXT),
            "thinking" => (BlockStartKind::Thinking { thinking, signature }, THINKING | SIGNATURE),
            "redacted_thinking" => (BlockStartKind::Redacted { data }, DATA),
            "tool_use" => call("tool_use", false),
            "server_tool_use" => call("server_tool_use", true),
            "mcp_tool_use" => call("mcp_tool_use", true),
            _ => (BlockStartKind::Other { kind }, 0),
        }
    }
}
