//! The members of an event's data, collected in one pass and interpreted by type afterwards,
//! because the type may come last.

use super::{
    Channel, Event, EventKind, Phase, Snapshot, StreamError, StreamItem, StreamItemKind, Usage,
};
use crate::{
    ServiceTier,
    json::{Cursor, Error, Kind, MemberKey, Str},
};

/// The members of an event's data.
#[derive(Default)]
pub(super) struct EventFields<'a> {
    kind: Option<Str<'a>>,
    sequence_number: Option<u64>,
    output_index: Option<u32>,
    content_index: Option<u32>,
    summary_index: Option<u32>,
    delta: Option<Str<'a>>,
    text: Option<Str<'a>>,
    refusal: Option<Str<'a>>,
    arguments: Option<Str<'a>>,
    input: Option<Str<'a>>,
    item: Option<StreamItem<'a>>,
    part: Option<&'a str>,
    response: Option<Box<Snapshot<'a>>>,
    /// A nested `error`, and the flat members used in its place.
    error: Option<StreamError<'a>>,
    flat: StreamError<'a>,
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
            "delta" => self.delta = cursor.read_text_or_skip()?,
            "output_index" => self.output_index = cursor.read_index_or_skip()?,
            "content_index" => self.content_index = cursor.read_index_or_skip()?,
            "sequence_number" => self.sequence_number = cursor.read_uint_or_skip()?,
            "summary_index" => self.summary_index = cursor.read_index_or_skip()?,
            "item" => self.item = cursor.read_object_or_skip(read_stream_item)?,
            "part" => {
                self.part =
                    cursor.read_object_or_skip(|c| Ok(c.skip_value()?.slice_of(c.text())))?
            }
            "response" => self.response = cursor.read_object_or_skip(read_snapshot)?,
            "text" => self.text = cursor.read_text_or_skip()?,
            "refusal" => self.refusal = cursor.read_text_or_skip()?,
            "arguments" => self.arguments = cursor.read_text_or_skip()?,
            "input" => self.input = cursor.read_text_or_skip()?,
            "error" if cursor.peek()? == Kind::Object => {
                self.error = cursor.read_object_or_skip(read_error)?;
            }
            "error" => {
                let words = cursor.read_text_or_skip()?;
                let words = words.map(|message| StreamError { message, ..StreamError::default() });
                self.error = words.or(self.error);
            }
            "code" => self.flat.code = cursor.read_text_or_skip()?.unwrap_or_default(),
            "message" => self.flat.message = cursor.read_text_or_skip()?.unwrap_or_default(),
            "param" => self.flat.param = cursor.read_text_or_skip()?.unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    pub(super) fn into_event(self, name: &'a str) -> Event<'a> {
        let kind = self.kind.or_else(|| Str::from_plain(name)).unwrap_or_default();
        let Self { sequence_number, output_index, .. } = self;
        let known = self.into_kind(&kind.unescape(), kind);
        Event { sequence_number, output_index, kind: known.unwrap_or(EventKind::Unknown { kind }) }
    }

    /// Returns `None` if the event is not known, or is known but lacks a required member.
    #[inline]
    fn into_kind(self, name: &str, kind: Str<'a>) -> Option<EventKind<'a>> {
        let Some(event) = name.strip_prefix("response.") else {
            return match name {
                "error" => Some(EventKind::Error(self.error.unwrap_or(self.flat))),
                // Servers of other protocols tell of errors without a type.
                "" => self.error.map(EventKind::Error),
                "ping" | "keepalive" => Some(EventKind::Ping),
                _ => None,
            };
        };
        if let Some(channel) = event.strip_suffix(".delta").and_then(Channel::from_name) {
            let at = self.part_index(channel);
            return self.delta.map(|text| EventKind::Delta { channel, at, text });
        }
        if let Some(channel) = event.strip_suffix(".done").and_then(Channel::from_name) {
            let at = self.part_index(channel);
            return self.whole_text(channel).map(|text| EventKind::Done { channel, at, text });
        }
        if let Some(phase) = Phase::from_name(event) {
            return self.response.map(|response| EventKind::Response { phase, response });
        }
        let part_at = self.content_index.or(self.summary_index).unwrap_or_default();
        match event {
            "output_item.added" => self.item.map(EventKind::ItemAdded),
            "output_item.done" => self.item.map(EventKind::ItemDone),
            "content_part.added" | "reasoning_summary_part.added" => {
                self.part.map(|raw| EventKind::PartAdded { at: part_at, raw })
            }
            "content_part.done" | "reasoning_summary_part.done" => {
                self.part.map(|raw| EventKind::PartDone { at: part_at, raw })
            }
            "output_text.annotation.added" => Some(EventKind::Annotation),
            _ => is_progress(event).then_some(EventKind::Progress { kind }),
        }
    }

    fn part_index(&self, channel: Channel) -> u32 {
        match channel {
            Channel::Text | Channel::Refusal | Channel::Reasoning => self.content_index,
            Channel::Summary => self.summary_index,
            Channel::Arguments | Channel::Input => None,
        }
        .unwrap_or_default()
    }

    const fn whole_text(&self, channel: Channel) -> Option<Str<'a>> {
        match channel {
            Channel::Text | Channel::Summary | Channel::Reasoning => self.text,
            Channel::Refusal => self.refusal,
            Channel::Arguments => self.arguments,
            Channel::Input => self.input,
        }
    }
}

impl Channel {
    #[inline]
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "output_text" => Self::Text,
            "function_call_arguments" => Self::Arguments,
            "reasoning_summary_text" => Self::Summary,
            "reasoning_text" => Self::Reasoning,
            "custom_tool_call_input" => Self::Input,
            "refusal" => Self::Refusal,
            _ => return None,
        })
    }
}

impl Phase {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "created" => Self::Created,
            "queued" => Self::Queued,
            "in_progress" => Self::InProgress,
            "completed" => Self::Completed,
            "incomplete" => Self::Incomplete,
            "failed" => Self::Failed,
            _ => return None,
        })
    }
}

/// Returns true for events of built-in tools, by the families in the vendor's SDK types.
fn is_progress(event: &str) -> bool {
    const FAMILIES: [&str; 10] = [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "code_interpreter_call_code",
        "image_generation_call",
        "mcp_call",
        "mcp_call_arguments",
        "mcp_list_tools",
        "compaction",
        "audio",
    ];
    let family = event.split_once('.').map_or(event, |(family, _)| family);
    FAMILIES.contains(&family) || family.starts_with("shell_call_")
}

/// Reads a response object.
pub(in crate::responses) fn read_snapshot<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<Box<Snapshot<'a>>, Error> {
    let mut found = Box::<Snapshot<'a>>::default();
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "id" => found.id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "model" => found.model = cursor.read_text_or_skip()?.unwrap_or_default(),
            "status" => found.status = cursor.read_text_or_skip()?,
            "created_at" => found.created_at = cursor.read_uint_or_skip()?,
            "incomplete_details" => {
                found.incomplete_reason = cursor.read_member_text_or_skip("reason")?
            }
            "error" => found.error = cursor.read_object_or_skip(read_error)?,
            "usage" => found.usage = Usage::from_cursor(cursor)?,
            "service_tier" => {
                let tier = cursor.read_text_or_skip()?.unwrap_or_default();
                found.served = ServiceTier::from_tier(&tier.unescape(), false);
            }
            "output" => {
                let list = cursor.peek()? == Kind::Array;
                let raw = cursor.skip_value()?.slice_of(whole);
                found.output = if list { raw } else { "" };
            }
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    found.raw = span.slice_of(whole);
    Ok(found)
}

fn read_error<'a>(cursor: &mut Cursor<'a>) -> Result<StreamError<'a>, Error> {
    let mut found = StreamError::default();
    cursor.read_members(|cursor, member| {
        let target = match &*member.key.unescape() {
            "type" => &mut found.kind,
            "code" => &mut found.code,
            "message" => &mut found.message,
            "param" => &mut found.param,
            _ => return Ok(()),
        };
        *target = cursor.read_text_or_skip()?.unwrap_or_default();
        Ok::<_, Error>(())
    })?;
    Ok(found)
}

/// The members of an item that determine its kind.
#[derive(Default)]
struct ItemFields<'a> {
    kind: Str<'a>,
    id: Str<'a>,
    status: Str<'a>,
    phase: Option<Str<'a>>,
    call_id: Str<'a>,
    name: Str<'a>,
    namespace: Option<Str<'a>>,
    arguments: Str<'a>,
    input: Str<'a>,
    encrypted: bool,
}

/// Reads an output item.
pub(in crate::responses) fn read_stream_item<'a>(
    cursor: &mut Cursor<'a>,
) -> Result<StreamItem<'a>, Error> {
    let mut fields = ItemFields::default();
    let whole = cursor.text();
    let span = cursor.read_members(|cursor, member| {
        let target = match &*member.key.unescape() {
            "type" => &mut fields.kind,
            "id" => &mut fields.id,
            "status" => &mut fields.status,
            "call_id" => &mut fields.call_id,
            "name" => &mut fields.name,
            "arguments" => &mut fields.arguments,
            "input" => &mut fields.input,
            "phase" => {
                fields.phase = cursor.read_text_or_skip()?;
                return Ok(());
            }
            "namespace" => {
                fields.namespace = cursor.read_text_or_skip()?;
                return Ok(());
            }
            "encrypted_content" => {
                fields.encrypted =
                    cursor.read_text_or_skip()?.is_some_and(|content| !content.is_empty());
                return Ok(());
            }
            _ => return Ok(()),
        };
        *target = cursor.read_text_or_skip()?.unwrap_or_default();
        Ok::<_, Error>(())
    })?;
    let (id, status, raw) = (fields.id, fields.status, span.slice_of(whole));
    Ok(StreamItem { id, status, kind: fields.into_kind(), raw })
}

impl<'a> ItemFields<'a> {
    fn into_kind(self) -> StreamItemKind<'a> {
        let Self { kind, phase, call_id, name, namespace, .. } = self;
        let call = |arguments, custom| StreamItemKind::Call {
            call_id,
            name,
            namespace,
            arguments,
            custom,
        };
        match &*kind.unescape() {
            "message" => StreamItemKind::Message { phase },
            "function_call" => call(self.arguments, false),
            "custom_tool_call" => call(self.input, true),
            "reasoning" => StreamItemKind::Reasoning { encrypted: self.encrypted },
            _ => StreamItemKind::Other { kind, call_id },
        }
    }
}
