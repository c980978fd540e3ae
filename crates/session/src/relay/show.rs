//! The client's side of a relay: which blocks it has, under which index, and how its message ends.

mod settle;
mod written;

use softland_core::VisibleText;
use softland_wire::Tokens;
use softland_wire::json::Str;

use super::MAX_BLANK;
use super::held_thinking::HeldEvent;
use super::slot::{BlockSlot, SlotState};
use super::text_events::TextEvents;
use crate::framing::{BlockPart, Framing, MessageEnd, NewBlock, PartContent, PlacedPart};
use crate::out::{Event, Output};
use crate::reply::{Block, Reply};

/// The most indexes that a provider may leave out.
const MAX_GAP: u32 = 1 << 16;

/// The message that the client has been shown.
#[derive(Debug)]
pub(super) struct ClientMessage {
    pub(super) framing: Box<dyn Framing>,
    /// True if the client reads bytes, as a stream.
    streams: bool,
    head: MessageHead,
    indexes: BlockIndexes,
    likeness: MessageLikeness,
    shown: ShownBlocks,
    pub(super) part: ResponsePart,
    /// The events of texts and calls apart, where calls are written as text.
    text_events: Option<TextEvents>,
}

/// The beginning of the message.
#[derive(Debug, Default)]
struct MessageHead {
    /// True if the message has begun.
    started: bool,
    /// The id and the model that it began with.
    names: (String, String),
    /// The event that began the message and holds a part of it, until it is written.
    owed: Option<Vec<u8>>,
}

/// The counter of the indexes by which the client knows blocks.
#[derive(Debug, Default)]
struct BlockIndexes {
    next: u32,
    /// The number of indexes left out so far, as the provider left them out.
    gaps: u32,
}

/// The likeness of the client's message to the provider's response.
#[derive(Debug, Default)]
struct MessageLikeness {
    responses: u32,
    /// True if what was shown differs from the one upstream response.
    changed: bool,
    /// True if blank text alone was taken out of it.
    thinned: bool,
}

impl MessageLikeness {
    /// True if the message is one upstream response as it came.
    fn is_whole(&self) -> bool {
        !self.changed && self.responses <= 1
    }
}

/// The content that was shown.
#[derive(Debug, Default)]
struct ShownBlocks {
    /// True if visible text was shown.
    visible: bool,
    /// The number of calls for the client to run.
    calls: u32,
    /// The block that has begun and not ended: its index, and true if it is text.
    open: Option<(u32, bool)>,
    /// Shown blocks of the responses that have ended.
    list: Vec<Block>,
}

/// The part of the message that comes of the response under way.
#[derive(Debug, Default)]
pub(super) struct ResponsePart {
    /// True if the response has begun.
    headed: bool,
    /// The number of blocks before it.
    before: usize,
    /// Parts that came with its end.
    pub(super) late: Vec<u8>,
}

/// The end of a response as received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedEnd<'e> {
    /// The closing events of a stream, or the body of a whole response.
    pub(super) closing: &'e [u8],
    /// Half an event behind them.
    pub(super) half: &'e [u8],
    /// True if the response was shown as it came.
    pub(super) live: bool,
}

impl ClientMessage {
    pub(super) fn new(framing: Box<dyn Framing>, streams: bool) -> Self {
        Self {
            framing,
            streams,
            head: MessageHead::default(),
            indexes: BlockIndexes::default(),
            likeness: MessageLikeness::default(),
            shown: ShownBlocks::default(),
            part: ResponsePart::default(),
            text_events: None,
        }
    }

    /// Marks the beginning of the next response.
    pub(super) fn mark_response(&mut self) {
        let before = self.shown.list.len();
        self.part = ResponsePart { before, ..ResponsePart::default() };
    }

    /// Returns the kinds of the blocks shown before that, as letters (`StoredTail::shown`).
    pub(super) fn block_kinds_shown(&self) -> String {
        self.shown.list.iter().take(self.part.before).map(Block::kind_letter).collect()
    }

    pub(super) fn shown_message(&self) -> (&str, &[Block]) {
        (&self.head.names.0, &self.shown.list)
    }

    pub(super) fn has_shown(&self) -> bool {
        self.shown.visible || self.shown.calls > 0
    }

    pub(super) fn cannot_continue(&self) -> bool {
        let written = self.text_events.as_ref().is_some_and(TextEvents::has_called);
        self.streams
            && (self.shown.calls > 0 || written || self.shown.open.is_some_and(|(_, text)| !text))
    }

    /// Ends a text that was cut, so that something can follow it.
    pub(super) fn end_block(&mut self, out: &mut Output) {
        if let Some((index, _)) = self.shown.open.take() {
            self.likeness.changed = true;
            if !out.quiet {
                let index = self.event_index(index);
                out.events.push(Event::BlockStop { index });
            }
            if self.streams {
                self.framing.write_stop(index, None, &mut out.bytes);
            }
        }
    }

    /// Writes bytes that concern no block.
    pub(super) fn pass_bytes(&mut self, raw: &[u8], out: &mut Output) {
        if self.streams {
            self.framing.write_aside(raw, &mut out.bytes);
        }
    }

    /// Notes a response that is not streamed.
    pub(super) fn note_whole_response(&mut self) {
        self.likeness.responses += 1;
    }

    pub(super) fn show_head(&mut self, id: Str<'_>, model: Str<'_>, raw: &[u8], out: &mut Output) {
        if self.note_beginning(id, model) {
            self.pass_bytes(raw, out);
        }
    }

    /// Notes that a response begins. Returns true if it is the first one.
    pub(super) fn note_beginning(&mut self, id: Str<'_>, model: Str<'_>) -> bool {
        if self.part.headed {
            return false;
        }
        self.part.headed = true;
        self.likeness.responses += 1;
        if self.head.started {
            self.likeness.changed = true;
            return false;
        }
        self.head.started = true;
        self.head.names = (id.unescape().into_owned(), model.unescape().into_owned());
        true
    }

    /// True if a beginning is a second one of the only response: the provider's own.
    pub(super) fn restarts_response(&self) -> bool {
        self.part.headed && self.likeness.responses <= 1
    }

    /// Begins the message where the event itself is not for the client, or not yet.
    pub(super) fn begin_alone(&mut self, id: Str<'_>, model: Str<'_>, out: &mut Output) {
        if self.note_beginning(id, model) {
            self.write_head(out);
        }
    }

    /// Notes that the content of a beginning is not shown with it. The `first` beginning is written
    /// nevertheless.
    pub(super) fn hide_content(&mut self, first: bool, out: &mut Output) {
        self.likeness.changed = true;
        if first {
            self.write_head(out);
        }
    }

    /// Holds back the event that began the message until its content is decided on.
    pub(super) fn hold_head(&mut self, raw: &[u8]) {
        self.head.owed = self.streams.then(|| raw.to_vec());
    }

    /// Begins the message if that is still to be done, unless the bytes of `next` begin it.
    fn write_held_head(&mut self, next: &[u8], out: &mut Output) {
        if self.head.owed.take().is_some_and(|head| !next.starts_with(&head)) {
            self.write_head(out);
        }
    }

    fn write_head(&mut self, out: &mut Output) {
        if self.streams {
            let reply = self.framing.own_reply(Tokens::default());
            self.framing.write_head(&self.head.names.0, &self.head.names.1, &reply, &mut out.bytes);
        }
    }

    /// True if the client has one upstream response as it came.
    pub(super) fn is_untouched(&self) -> bool {
        self.likeness.is_whole()
    }

    /// Writes the parts that came with an end which does not go out as it came.
    pub(super) fn flush_late(&mut self, out: &mut Output) {
        out.bytes.append(&mut self.part.late);
    }

    /// Ends blocks of a stream that does not say where they end.
    pub(super) fn end_unmarked(&mut self, slots: &[BlockSlot], out: &mut Output) {
        if self.framing.form().marks_ends {
            return;
        }
        self.shown.open = None;
        if !out.quiet {
            let without_events = |slot: &&BlockSlot| self.text_events.is_none() || !slot.text;
            let shown: Vec<_> =
                slots.iter().filter(without_events).filter_map(BlockSlot::shown_index).collect();
            for index in shown {
                let index = self.event_index(index);
                out.events.push(Event::BlockStop { index });
            }
        }
    }

    /// Takes a part of a block: shows it, or holds it back.
    pub(super) fn take_part(
        &mut self,
        slot: &mut BlockSlot,
        part: &BlockPart<'_>,
        raw: &[u8],
        out: &mut Output,
    ) {
        match &mut slot.state {
            SlotState::Hidden => self.likeness.changed = true,
            SlotState::Waiting(events) => events.push(HeldEvent::new(part, raw)),
            SlotState::Shown(index) => {
                let index = *index;
                self.write_parts(&[PlacedPart { part, index }], raw, out);
                self.report_part(slot.call.as_deref(), index, part, out);
            }
            SlotState::Fresh => {
                let index = self.take_index(slot.gap);
                slot.state = SlotState::Shown(index);
                self.write_parts(&[PlacedPart { part, index }], raw, out);
                self.report_part(slot.call.as_deref(), index, part, out);
            }
            SlotState::Blank { frames, ping, text } => {
                // The text before is known to be blank.
                let from = text.len();
                if let PartContent::Text(more) = part.more {
                    more.push_to(text);
                }
                frames.push((part.key, raw.to_vec()));
                let new = text.get(from..).unwrap_or_default();
                let blank = VisibleText::is_invisible_text(new) && text.len() <= MAX_BLANK;
                if blank {
                    if part.stops {
                        if let Some((_, ping)) = ping {
                            self.pass_bytes(ping, out);
                        }
                        slot.state = SlotState::Hidden;
                        self.likeness.thinned = true;
                    }
                    return;
                }
                let ping = ping.take();
                let (frames, text) = (std::mem::take(frames), std::mem::take(text));
                self.show_held_text(slot, frames, ping, text, out);
            }
        }
    }

    /// Shows the held text of a block that is blank no more with this part.
    pub(super) fn show_if_visible(
        &mut self,
        slot: &mut BlockSlot,
        part: &BlockPart<'_>,
        out: &mut Output,
    ) {
        if !slot.becomes_visible(part) {
            return;
        }
        if let SlotState::Blank { frames, ping, text } = &mut slot.state {
            let (frames, ping) = (std::mem::take(frames), ping.take());
            let text = std::mem::take(text);
            self.show_held_text(slot, frames, ping, text, out);
            self.shown.visible = true;
        }
    }

    /// Shows a text that was held.
    fn show_held_text(
        &mut self,
        slot: &mut BlockSlot,
        frames: Vec<(u32, Vec<u8>)>,
        ping: Option<(usize, Vec<u8>)>,
        text: String,
        out: &mut Output,
    ) {
        let index = self.take_index(slot.gap);
        slot.state = SlotState::Shown(index);
        self.shown.visible |= !VisibleText::is_invisible_text(&text);
        self.shown.open = Some((index, true));
        for (n, (key, frame)) in frames.iter().enumerate() {
            if let Some((_, ping)) = ping.as_ref().filter(|(at, _)| *at == n) {
                self.pass_bytes(ping, out);
            }
            self.write_parts(&[PlacedPart { part: &BlockPart::with_key(*key), index }], frame, out);
        }
        if self.text_events.is_none() && !out.quiet {
            out.events.push(Event::TextStart);
            if !text.is_empty() {
                out.events.push(Event::TextDelta(text));
            }
        }
    }

    /// Returns the next index. In the first response it leaves out the numbers that the provider
    /// did.
    fn take_index(&mut self, gap: u32) -> u32 {
        if self.likeness.responses <= 1 && self.framing.form().numbers_blocks && gap <= MAX_GAP {
            self.indexes.next += gap.saturating_sub(self.indexes.gaps);
            self.indexes.gaps = self.indexes.gaps.max(gap);
        }
        let index = self.indexes.next;
        self.indexes.next += 1;
        index
    }

    /// Writes a received event. An empty one is written elsewhere.
    pub(super) fn write_parts(
        &mut self,
        parts: &[PlacedPart<'_, '_>],
        raw: &[u8],
        out: &mut Output,
    ) {
        if self.streams && !raw.is_empty() {
            self.write_held_head(raw, out);
            self.framing.write_event(raw, parts, &mut out.bytes);
        }
    }

    /// Reports a part to an observer.
    fn report_part(
        &mut self,
        call: Option<&str>,
        index: u32,
        part: &BlockPart<'_>,
        out: &mut Output,
    ) {
        if part.begins.is_some() {
            self.shown.open = Some((index, matches!(part.begins, Some(NewBlock::Text))));
        }
        if let Some(NewBlock::Call { server: false, .. }) = part.begins {
            self.shown.calls += 1;
        }
        let of_text = self.shown.open.is_some_and(|(open, text)| open == index && text);
        if part.stops {
            self.shown.open = None;
        }
        // Content of a text is reported as it is taken apart.
        if out.quiet || (of_text && self.text_events.is_some()) {
            return;
        }
        let id = || call.unwrap_or_default().to_owned();
        match part.begins {
            Some(NewBlock::Thinking) => out.events.push(Event::ThinkingStart),
            Some(NewBlock::Call { name, .. }) => {
                let name = name.unescape().into_owned();
                out.events.push(Event::ToolStart { id: id(), name });
            }
            Some(NewBlock::Text | NewBlock::Other) | None => {}
        }
        match part.more {
            PartContent::Text(text) => {
                out.events.push(Event::TextDelta(text.unescape().into_owned()))
            }
            PartContent::Thinking(text) if !text.is_empty() => {
                out.events.push(Event::ThinkingDelta(text.unescape().into_owned()));
            }
            PartContent::Input(json) => {
                let partial_json = json.unescape().into_owned();
                out.events.push(Event::ToolInputDelta { id: id(), partial_json });
            }
            PartContent::Thinking(_) | PartContent::Member(..) | PartContent::Nothing => {}
        }
        if part.stops {
            let index = self.event_index(index);
            out.events.push(Event::BlockStop { index });
        }
    }

    /// Ends the client's message with the end of this upstream response.
    pub(super) fn close_message(
        &mut self,
        reply: &Reply,
        output: u64,
        billed: &[Tokens],
        received: ReceivedEnd<'_>,
        out: &mut Output,
    ) {
        let ReceivedEnd { closing, half, live } = received;
        let thinned =
            self.likeness.thinned && (!self.streams || self.framing.form().ends_with_content);
        let as_it_came = self.is_untouched() && !thinned && !closing.is_empty();
        if self.streams && live && as_it_came {
            let closing = [closing, half].concat();
            self.part.late.clear();
            self.write_held_head(&closing, out);
            self.framing.write_aside(&closing, &mut out.bytes);
            return;
        }
        if !self.streams && as_it_came {
            return out.bytes.extend_from_slice(closing);
        }
        if self.streams {
            self.flush_late(out);
            self.ensure_head(reply, out);
        }
        let (head, blocks, calls) = (&self.head.names, &self.shown.list, self.shown.calls);
        let ending = MessageEnd { head, blocks, calls, output, billed, received: closing };
        if self.streams {
            self.framing.write_end(reply, &ending, &mut out.bytes);
        } else {
            self.framing.write_whole(reply, &ending, &mut out.bytes);
        }
    }

    fn ensure_head(&mut self, reply: &Reply, out: &mut Output) {
        if !self.head.started {
            self.head.started = true;
            self.framing.write_head(&self.head.names.0, &self.head.names.1, reply, &mut out.bytes);
        }
        self.write_held_head(&[], out);
    }

    /// Writes an answer of softland's at the end of whatever was shown.
    pub(super) fn answer_locally(
        &mut self,
        (id, model): (&str, &str),
        text: &str,
        used: Tokens,
        billed: &[Tokens],
        out: &mut Output,
    ) {
        if self.head.names.0.is_empty() {
            self.head.names = (id.to_owned(), model.to_owned());
        }
        self.likeness.changed = true;
        self.flush_late(out);
        let reply = self.framing.own_reply(used);
        self.end_block(out);
        if self.streams {
            self.ensure_head(&reply, out);
        }
        let block = (self.framing.form().text_block)(text);
        self.show_block(&block, out);
        self.report_text(text, out);
        self.report_text_end(out);
        self.close_message(&reply, used.output, billed, ReceivedEnd::default(), out);
    }
}
