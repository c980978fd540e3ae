//! Assembling the events of a stream into a message.

use std::collections::BTreeMap;

use super::{
    ResponseMessage, Stop,
    block::{ResponseBlock, UnreadMembers, for_each_member, replace_input},
};
use crate::{
    anthropic::stream::{BlockStart, BlockStartKind, Event, MessageDelta, MessageStart},
    bound::{AssembleError, SizeBound},
    json::{Str, write_str},
    tokens::Tokens,
};

/// Assembles events into a [`ResponseMessage`], within a size limit.
///
/// Broken upstreams are handled with the least loss:
/// - A second `message_start` before any block announces the same message again. After blocks it is
///   a second message spliced into the stream (a proxy retried silently): its blocks are appended
///   to the existing ones, and so are blocks with an index that begins a second time. The first id
///   and model stay. Both cases count in [`Finished::restarts`].
/// - Text or thinking for an index that never began opens a block. Any other delta that does not
///   fit its block is left out. Both count in [`Finished::strays`].
/// - Anything after an `error` event or `message_stop` is left out and counts there too, except for
///   a restart and for pings.
/// - A call in a block that was not closed is incomplete, whatever its input.
#[derive(Clone, Debug)]
pub struct Assembler {
    message: ResponseMessage,
    open: Vec<OpenBlock>,
    /// Position in `open` of the newest block of each index.
    by_index: BTreeMap<u32, usize>,
    end: StreamEnd,
    started: bool,
    restarts: u32,
    strays: u32,
    /// The bytes of the message that the model itself has written.
    written: usize,
    bound: SizeBound,
}

/// A block that is being assembled.
#[derive(Clone, Debug)]
struct OpenBlock {
    block: ResponseBlock,
    /// The concatenated `partial_json`.
    json: String,
    citations: Vec<String>,
    /// Deltas that set members of the block.
    deltas: Vec<String>,
    closed: bool,
}

/// The result of assembling a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The message, as far as it arrived.
    pub message: ResponseMessage,
    /// The end of the stream.
    pub end: StreamEnd,
    /// The number of restarts of the stream.
    pub restarts: u32,
    /// The number of events that fit nowhere.
    pub strays: u32,
}

/// The end of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// Ended by `message_stop`.
    Stop,
    /// Ended without it: the connection was cut.
    Cut,
    /// Ended by an `error` event.
    Error {
        /// The error's type.
        kind: String,
        /// The error's message.
        message: String,
    },
}

/// The memory cost of a block beside its text, counted against the limit.
const BLOCK_COST: usize = 256;

impl Assembler {
    /// Creates an assembler for messages of at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            message: ResponseMessage::default(),
            open: Vec::new(),
            by_index: BTreeMap::new(),
            end: StreamEnd::Cut,
            started: false,
            restarts: 0,
            strays: 0,
            written: 0,
            bound: SizeBound::new(limit_bytes),
        }
    }

    /// Adds the next event.
    ///
    /// # Errors
    /// Returns [`AssembleError`], and again at every later call. The message stays as it was
    /// before.
    pub fn push(&mut self, event: &Event<'_>) -> Result<(), AssembleError> {
        self.bound.check_failure()?;
        self.bound.add_bytes(held_bytes(event))?;
        self.written = self.written.saturating_add(written_bytes(event));
        if self.end != StreamEnd::Cut && !matches!(event, Event::MessageStart(_) | Event::Ping) {
            self.strays += 1;
            return Ok(());
        }
        match event {
            Event::MessageStart(start) => self.start_message(start),
            Event::BlockStart { index, block } => self.begin_block(*index, block),
            Event::MessageDelta(delta) => self.apply_message_delta(delta),
            Event::MessageStop => self.end = StreamEnd::Stop,
            Event::Error { kind, message } => {
                let (kind, message) =
                    (kind.unescape().into_owned(), message.unescape().into_owned());
                self.end = StreamEnd::Error { kind, message };
            }
            Event::Ping | Event::Unknown { .. } => {}
            _ => {
                let placed = event.index().is_some_and(|index| self.apply_delta(index, event));
                self.strays += u32::from(!placed);
            }
        }
        Ok(())
    }

    /// Returns true if `message_stop` or an `error` event arrived.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end != StreamEnd::Cut
    }

    /// Returns the tokens of the message so far, for a message that may never end: the tokens it
    /// reports, but at least one output token for each four bytes that the model has written, since
    /// output is reported at the end.
    #[must_use]
    pub fn tokens_so_far(&self) -> Tokens {
        let billed = self.message.usage.billed_tokens();
        if self.end == StreamEnd::Stop || !self.started {
            return billed;
        }
        Tokens { output: billed.output.max(self.written as u64 / 4), ..billed }
    }

    /// Returns the message as far as it arrived. Call this at the end of the stream, however it
    /// ended.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        let open = std::mem::take(&mut self.open);
        self.message.blocks = open.into_iter().map(OpenBlock::into_block).collect();
        Finished {
            message: self.message,
            end: self.end,
            restarts: self.restarts,
            strays: self.strays,
        }
    }

    fn start_message(&mut self, start: &MessageStart<'_>) {
        if self.started {
            self.restarts += 1;
            self.by_index.clear();
            self.end = StreamEnd::Cut;
            self.message.stop = None;
            self.message.stop_sequence = None;
            self.message.stop_details = None;
        } else {
            self.message.id = start.id.unescape().into_owned();
            self.message.model = start.model.unescape().into_owned();
        }
        self.started = true;
        self.message.usage.apply_update(&start.usage);
        self.set_stop(start.stop_reason, start.stop_sequence);
        for (index, block) in (0..).zip(&start.content) {
            self.add_block(index, ResponseBlock::from_whole(block), true);
        }
    }

    fn set_stop(&mut self, reason: Option<Str<'_>>, sequence: Option<Str<'_>>) {
        if let Some(reason) = reason {
            self.message.stop = Some(Stop::from_name(&reason.unescape()));
        }
        if let Some(sequence) = sequence {
            self.message.stop_sequence = Some(sequence.unescape().into_owned());
        }
    }

    fn begin_block(&mut self, index: u32, start: &BlockStart<'_>) {
        self.restarts += u32::from(self.by_index.contains_key(&index));
        self.add_block(index, ResponseBlock::from_start(start), false);
    }

    fn add_block(&mut self, index: u32, block: ResponseBlock, closed: bool) {
        self.message.usage.tokens.beside.count_block(&block);
        self.by_index.insert(index, self.open.len());
        let (json, citations, deltas) = (String::new(), Vec::new(), Vec::new());
        self.open.push(OpenBlock { block, json, citations, deltas, closed });
    }

    fn apply_message_delta(&mut self, delta: &MessageDelta<'_>) {
        self.set_stop(delta.stop_reason, delta.stop_sequence);
        if let Some(details) = delta.stop_details {
            self.message.stop_details = Some(details.to_owned());
        }
        self.message.usage.apply_update(&delta.usage);
    }

    /// Adds an event to its block. Returns false if it does not fit there.
    fn apply_delta(&mut self, index: u32, event: &Event<'_>) -> bool {
        let known = self.by_index.get(&index).copied();
        match known.and_then(|at| self.open.get_mut(at)) {
            Some(building) => building.apply_event(event),
            None => {
                self.open_stray_block(index, event);
                false
            }
        }
    }

    /// Opens a block for text or thinking that no start announced.
    fn open_stray_block(&mut self, index: u32, event: &Event<'_>) {
        let block = match event {
            Event::TextDelta { text, .. } => ResponseBlock::Text {
                text: text.unescape().into_owned(),
                extra: UnreadMembers::new(),
            },
            Event::ThinkingDelta { text, .. } => ResponseBlock::Thinking {
                thinking: text.unescape().into_owned(),
                signature: String::new(),
                extra: UnreadMembers::new(),
            },
            _ => return,
        };
        self.add_block(index, block, false);
    }
}

impl OpenBlock {
    /// Adds an event to the block. Returns false if it does not fit.
    fn apply_event(&mut self, event: &Event<'_>) -> bool {
        match (event, &mut self.block) {
            (Event::TextDelta { text: more, .. }, ResponseBlock::Text { text, .. }) => {
                more.push_to(text)
            }
            (Event::ThinkingDelta { text: more, .. }, ResponseBlock::Thinking { thinking, .. }) => {
                more.push_to(thinking);
            }
            (
                Event::SignatureDelta { signature: s, .. },
                ResponseBlock::Thinking { signature, .. },
            ) => {
                *signature = s.unescape().into_owned();
            }
            (Event::InputJsonDelta { partial_json, .. }, ResponseBlock::ToolUse { .. }) => {
                partial_json.push_to(&mut self.json);
            }
            (Event::CitationsDelta { citation, .. }, ResponseBlock::Text { .. }) => {
                self.citations.push((*citation).to_owned());
            }
            (Event::OtherDelta { kind, raw: delta, .. }, ResponseBlock::Other { .. })
                if *kind == "compaction_delta" =>
            {
                self.deltas.push((*delta).to_owned());
            }
            (Event::BlockStop { .. }, _) => self.closed = true,
            _ => return false,
        }
        true
    }

    fn into_block(mut self) -> ResponseBlock {
        if self.closed {
            self.block.close_with(&self.json);
        } else if let ResponseBlock::ToolUse { input, .. } = &mut self.block {
            replace_input(input, &self.json);
        }
        if let (ResponseBlock::Other { raw, .. }, false) = (&mut self.block, self.deltas.is_empty())
        {
            *raw = merge_deltas(raw, &self.deltas);
        }
        if let (ResponseBlock::Text { extra, .. }, false) =
            (&mut self.block, self.citations.is_empty())
        {
            let list = extra.entry("citations".to_owned()).or_default();
            *list = append_elements(list, &self.citations);
        }
        self.block
    }
}

/// Returns the bytes of an event that the model has written. They are billed as output, unlike the
/// framing.
fn written_bytes(event: &Event<'_>) -> usize {
    match event {
        Event::TextDelta { text, .. } | Event::ThinkingDelta { text, .. } => text.raw().len(),
        // If thinking is not shown, the signature is all there is.
        Event::SignatureDelta { signature, .. } => signature.raw().len(),
        Event::InputJsonDelta { partial_json, .. } => partial_json.raw().len(),
        Event::BlockStart { block, .. } => match block.kind {
            BlockStartKind::Text { text } => text.raw().len(),
            BlockStartKind::Thinking { thinking, .. } => thinking.raw().len(),
            BlockStartKind::Redacted { data } => data.raw().len(),
            BlockStartKind::ToolUse { name, input, .. } => name.raw().len() + input.len(),
            BlockStartKind::Other { .. } => 0,
        },
        _ => 0,
    }
}

/// Returns the number of bytes that an event adds to the memory held.
fn held_bytes(event: &Event<'_>) -> usize {
    match event {
        Event::MessageStart(start) => start.raw.len(),
        Event::BlockStart { block, .. } => block.raw.len() + BLOCK_COST,
        Event::TextDelta { text, .. } | Event::ThinkingDelta { text, .. } => text.raw().len(),
        Event::SignatureDelta { signature, .. } => signature.raw().len(),
        Event::InputJsonDelta { partial_json, .. } => partial_json.raw().len(),
        Event::CitationsDelta { citation, .. } => citation.len() + BLOCK_COST,
        Event::OtherDelta { raw, .. } => raw.len(),
        Event::MessageDelta(delta) => delta.stop_details.map_or(0, str::len),
        Event::Error { kind, message } => kind.raw().len() + message.raw().len(),
        Event::BlockStop { .. } | Event::MessageStop | Event::Ping | Event::Unknown { .. } => 0,
    }
}

/// Appends elements to the JSON list `list`, or to an empty list if it is not a list.
fn append_elements(list: &str, more: &[String]) -> String {
    let inner = list.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let inner = inner.map(str::trim).filter(|inner| !inner.is_empty());
    let all: Vec<&str> = inner.into_iter().chain(more.iter().map(String::as_str)).collect();
    format!("[{}]", all.join(","))
}

/// Sets the members of `deltas`, except for their types, in the object `block`. Of a repeated
/// member the last value wins.
fn merge_deltas(block: &str, deltas: &[String]) -> String {
    let mut members: Vec<(String, String)> = Vec::new();
    let mut last: BTreeMap<String, usize> = BTreeMap::new();
    for_each_member(block, |key, value| {
        last.insert(key.to_owned(), members.len());
        members.push((key.to_owned(), value.to_owned()));
    });
    for delta in deltas {
        for_each_member(delta, |key, value| {
            if key != "type" {
                last.insert(key.to_owned(), members.len());
                members.push((key.to_owned(), value.to_owned()));
            }
        });
    }
    let mut out = Vec::new();
    let stands = |(at, (name, _)): &(usize, &(String, String))| last.get(name) == Some(at);
    for (_, (name, value)) in members.iter().enumerate().filter(stands) {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_str(&mut out, name);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_else(|_| block.to_owned())
}
