//! Shapes text in which calls are written, as it streams. Some of its frames go on as they came,
//! some in part and some not at all.
//!
//! The shaper (`softland_wire::tags`) says what passes. Frames wait here until the shaper has
//! decided on all their text. An undecided call holds back what follows it until the verdict.

mod collector;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use softland_core::{Admission, Role};
use softland_wire::json::write_str;
use softland_wire::tags::{ShapeError, Shaper, StopReason};

use super::Relay;
use super::incoming::RelayMode;
use super::visibility::Visibility;
use crate::block_view::BlockView;
use crate::framing::{BlockPart, NewBlock, PartContent, ResponseError, UpstreamEnd};
use crate::out::{Event, Intervention, Output, ShapeNote};
use crate::reply::Reply;
use crate::tags::{TagReader, TaggedTexts, call_id, with_str};
use collector::{FoundPiece, PieceCollector};

/// The shaping of one client message.
#[derive(Debug)]
pub(super) struct Shaping {
    reader: TagReader,
    /// The number of the turn, for the ids of its calls.
    turn: Option<u64>,
    /// The number of calls in the responses before the one under way.
    before: usize,
    shaper: Shaper,
    tagged: TaggedTexts,
    notes: Vec<ShapeNote>,
    /// Bytes of the text under way that are not decided on yet.
    open: usize,
    queue: VecDeque<HeldFrame>,
    /// The first call that waits for the verdict, and all pieces behind it.
    gate: VecDeque<FoundPiece>,
    /// Text behind a call that passes only with the next call.
    between: Option<String>,
    /// The passed part of each text, and the texts of which some part did not pass.
    passed: BTreeMap<usize, String>,
    changed: BTreeSet<usize>,
    failed: Option<ShapeError>,
}

/// A frame of a text.
#[derive(Debug)]
struct HeldFrame {
    slot: usize,
    key: u32,
    begins: bool,
    anew: bool,
    stops: bool,
    again: bool,
    /// True if it came with the message's end.
    late: bool,
    raw: Vec<u8>,
    /// The position and the length of its text in it, as in JSON; `None` in a frame of softland's
    /// own.
    at: Option<(usize, usize)>,
    /// Bytes of its text that are not decided on yet.
    left: usize,
    /// The part of its text that passes, and true if some of it does not.
    passed: String,
    dropped: bool,
}

impl Shaping {
    pub(super) fn new(reader: TagReader, turn: u64) -> Self {
        let shaper = Shaper::new((*reader.shape).clone());
        Self {
            turn: (reader.role == Role::Engine).then_some(turn),
            reader,
            before: 0,
            shaper,
            tagged: TaggedTexts::default(),
            notes: Vec::new(),
            open: 0,
            queue: VecDeque::new(),
            gate: VecDeque::new(),
            between: None,
            passed: BTreeMap::new(),
            changed: BTreeSet::new(),
            failed: None,
        }
    }

    /// Prepares for the next response.
    fn begin_response(&mut self) {
        let fresh = Self::new(self.reader.clone(), self.turn.unwrap_or(0));
        let before = self.before;
        *self = Self { before, turn: self.turn, ..fresh };
        self.tagged.suppress = self.reader.shape.suppress_tail;
    }

    /// Adds text of this block.
    fn push_text(&mut self, block: usize, text: &str) -> Vec<FoundPiece> {
        self.open += text.len();
        let mut found = PieceCollector::new(block, &self.reader, self.before, self.turn);
        let pushed = self
            .shaper
            .push(text, &mut |piece| found.take_piece(&piece, &mut self.tagged, &mut self.notes));
        self.failed = self.failed.or_else(|| pushed.err());
        let items = found.items;
        self.count_decided(items)
    }

    fn advance_clock(&mut self, block: usize, now_ms: u64) -> Vec<FoundPiece> {
        let mut found = PieceCollector::new(block, &self.reader, self.before, self.turn);
        self.shaper
            .tick(now_ms, &mut |piece| found.take_piece(&piece, &mut self.tagged, &mut self.notes));
        let items = found.items;
        self.count_decided(items)
    }

    /// Ends a text. Any rest of it is dropped.
    fn end_text(&mut self, block: usize) -> Vec<FoundPiece> {
        let mut found = PieceCollector::new(block, &self.reader, self.before, self.turn);
        let ended = self
            .shaper
            .end_text(&mut |piece| found.take_piece(&piece, &mut self.tagged, &mut self.notes));
        self.failed = self.failed.or_else(|| ended.err());
        let items = found.items;
        let mut items = self.count_decided(items);
        if self.open > 0 {
            items.push(FoundPiece::Drop(std::mem::take(&mut self.open)));
        }
        items
    }

    /// Ends the response.
    fn finish_response(&mut self) {
        let mut found = PieceCollector::new(0, &self.reader, self.before, self.turn);
        let ended = self
            .shaper
            .finish(&mut |piece| found.take_piece(&piece, &mut self.tagged, &mut self.notes));
        self.failed = self.failed.or_else(|| ended.err());
    }

    fn count_decided(&mut self, mut items: Vec<FoundPiece>) -> Vec<FoundPiece> {
        let said: usize = items.iter().map(FoundPiece::len).sum();
        self.open = self.open.saturating_sub(said);
        if self.tagged.stop.is_some() && self.open > 0 {
            items.push(FoundPiece::Drop(std::mem::take(&mut self.open)));
        }
        items
    }
}

impl Relay {
    /// Prepares the shaping for the next response. A text of this one that has not ended is ended.
    pub(super) fn begin_shaping(&mut self, out: &mut Output) {
        self.end_shown(out);
        if let Some(shaping) = &mut self.shaping {
            shaping.begin_response();
        }
    }

    /// Returns the error if a text could not be shaped.
    pub(super) fn shape_failure(&self) -> Result<(), ResponseError> {
        let failed = self.shaping.as_ref().and_then(|shaping| shaping.failed);
        failed.map_or(Ok(()), |error| Err(ResponseError::Other(error.to_string())))
    }

    /// Returns the reason to end the response before its end, if there is one.
    pub(crate) fn stop_reason(&self) -> Option<StopReason> {
        self.shaping.as_ref().and_then(|shaping| shaping.tagged.stop)
    }

    /// True if text is held back.
    pub(crate) fn holds_text(&self) -> bool {
        self.shaping.as_ref().is_some_and(|shaping| {
            shaping.shaper.held_bytes() > 0 || !shaping.queue.is_empty() || !shaping.gate.is_empty()
        })
    }

    /// Returns the time at which to end the response if no further call begins, in milliseconds.
    pub(crate) fn shape_deadline_ms(&self) -> Option<u64> {
        self.shaping.as_ref().and_then(|shaping| shaping.shaper.deadline_ms())
    }

    /// Sets the time, in milliseconds.
    pub(crate) fn advance_clock(&mut self, now_ms: u64, out: &mut Output) {
        let Some(mut shaping) = self.shaping.take() else { return };
        let block = self.incoming.slots.len().saturating_sub(1);
        let found = shaping.advance_clock(block, now_ms);
        self.process_pieces(&mut shaping, found, out);
        self.shaping = Some(shaping);
    }

    /// True if a block that begins now waits for the verdict with the call before it.
    pub(super) fn is_gated(&self) -> bool {
        self.shaping.as_ref().is_some_and(|shaping| !shaping.gate.is_empty())
    }

    /// Takes a part of a text.
    pub(super) fn shape_part(
        &mut self,
        at: usize,
        part: &BlockPart<'_>,
        raw: &[u8],
        late: bool,
        out: &mut Output,
    ) {
        let Some(mut shaping) = self.shaping.take() else { return };
        let text = match part.more {
            PartContent::Text(text) => text.unescape(),
            _ => "".into(),
        };
        let place = match part.more {
            PartContent::Text(text) => place_in(raw, text.raw()),
            _ => None,
        };
        shaping.queue.push_back(HeldFrame {
            slot: at,
            key: part.key,
            begins: part.begins.is_some(),
            anew: part.anew,
            stops: part.stops,
            again: part.again,
            late,
            raw: raw.to_vec(),
            at: place,
            left: text.len(),
            passed: String::new(),
            dropped: false,
        });
        let mut found = shaping.push_text(at, &text);
        if part.stops {
            found.extend(shaping.end_text(at));
        }
        self.process_pieces(&mut shaping, found, out);
        self.shaping = Some(shaping);
    }

    /// Ends the text under way at the end of the stream.
    pub(super) fn end_shaping(&mut self, out: &mut Output) {
        let Some(mut shaping) = self.shaping.take() else { return };
        if self.incoming.is_live() {
            let block = shaping.queue.back().map_or(0, |last| last.slot);
            let found = shaping.end_text(block);
            self.process_pieces(&mut shaping, found, out);
        }
        if shaping.gate.is_empty() {
            self.client.report_text_end(out);
        }
        self.shaping = Some(shaping);
    }

    /// Carries out the pieces that were found, up to a call that is not decided on.
    fn process_pieces(&mut self, shaping: &mut Shaping, found: Vec<FoundPiece>, out: &mut Output) {
        for item in found {
            if !shaping.gate.is_empty() {
                shaping.gate.push_back(item);
                continue;
            }
            let passes = match &item {
                FoundPiece::Call(place, _) => self.decide_call(shaping, *place),
                _ => Some(true),
            };
            match passes {
                Some(passes) => self.carry_out(shaping, &item, passes, out),
                None => shaping.gate.push_back(item),
            }
        }
        self.flush_empty(shaping, out);
    }

    /// Returns true if a call passes; `None` if that is decided only when the turn has ended.
    fn decide_call(&mut self, shaping: &Shaping, place: usize) -> Option<bool> {
        if self.incoming.mode == (RelayMode::Live { calls: false }) {
            return None;
        }
        if self.role == Role::Engine {
            return Some(true);
        }
        let name = shaping.tagged.calls.get(place).map_or("", |call| call.name.as_str());
        Some(!self.admit_next(name, false).is_refused())
    }

    fn carry_out(
        &mut self,
        shaping: &mut Shaping,
        item: &FoundPiece,
        passes: bool,
        out: &mut Output,
    ) {
        match item {
            FoundPiece::Text(text) => match &mut shaping.between {
                Some(between) => between.push_str(text),
                None => {
                    self.advance_text(shaping, text, true, out);
                    self.client.report_text(text, out);
                }
            },
            FoundPiece::Call(place, raw) => {
                let between = shaping.between.take().unwrap_or_default();
                self.advance_text(shaping, &between, passes, out);
                self.advance_text(shaping, raw, passes, out);
                if shaping.tagged.suppress {
                    shaping.between = Some(String::new());
                }
                if let Some(call) = shaping.tagged.calls.get(*place).filter(|_| passes) {
                    self.client.report_text(&between, out);
                    self.client.report_call(call, out);
                }
            }
            FoundPiece::Open(raw) => {
                self.advance_text(shaping, raw, true, out);
                if self.role == Role::Gateway {
                    self.client.report_text(raw, out);
                }
            }
            FoundPiece::Repeated(bytes) => {
                if let Some(between) = &mut shaping.between {
                    let between = std::mem::take(between);
                    self.advance_text(shaping, &between, true, out);
                    self.client.report_text(&between, out);
                }
                self.skip_bytes(shaping, *bytes, out);
            }
            FoundPiece::Drop(bytes) => self.skip_bytes(shaping, *bytes, out),
        }
    }

    /// Lets the next bytes of text pass, or skips them. A frame goes on once all of its text is
    /// decided on; it goes on as it came if all of its text passes.
    fn advance_text(&mut self, shaping: &mut Shaping, text: &str, passes: bool, out: &mut Output) {
        if !passes {
            return self.skip_bytes(shaping, text.len(), out);
        }
        let mut text = text;
        while !text.is_empty() {
            self.flush_empty(shaping, out);
            let Some(front) = shaping.queue.front_mut() else { return };
            let taken = front.left.min(text.len());
            let Some((piece, rest)) = text.split_at_checked(taken) else { return };
            front.left -= taken;
            front.passed.push_str(piece);
            text = rest;
            self.show_decided(shaping, out);
        }
    }

    fn skip_bytes(&mut self, shaping: &mut Shaping, bytes: usize, out: &mut Output) {
        let mut bytes = bytes;
        while bytes > 0 {
            self.flush_empty(shaping, out);
            let Some(front) = shaping.queue.front_mut() else { return };
            let taken = front.left.min(bytes);
            front.left -= taken;
            front.dropped = true;
            bytes -= taken;
            shaping.changed.insert(front.slot);
            self.client.mark_changed();
            self.show_decided(shaping, out);
        }
    }

    /// Shows the first frame, if all of its text is decided on.
    fn show_decided(&mut self, shaping: &mut Shaping, out: &mut Output) {
        let Some(frame) = shaping.queue.pop_front_if(|front| front.left == 0) else { return };
        if frame.passed.is_empty() {
            return;
        }
        shaping.passed.entry(frame.slot).or_default().push_str(&frame.passed);
        let Some(slot) = self.incoming.slots.get_mut(frame.slot) else { return };
        let client = &mut self.client;
        let before = std::mem::take(&mut out.bytes);
        with_str(&frame.passed, |text| {
            let part = BlockPart {
                key: frame.key,
                begins: Some(NewBlock::Text).filter(|_| frame.begins),
                anew: frame.anew,
                more: PartContent::Text(text),
                stops: false,
                again: false,
            };
            match frame.at {
                _ if !frame.dropped => client.take_part(slot, &part, &frame.raw, out),
                Some(at) => {
                    client.take_part(slot, &part, &splice_text(&frame.raw, at, &frame.passed), out);
                }
                None => {
                    let own = client.framing.split_part(&part, &[]);
                    client.take_part(slot, &part, &own, out);
                }
            }
        });
        let shown = std::mem::replace(&mut out.bytes, before);
        if frame.late {
            self.client.part.late.extend(shown);
        } else {
            out.bytes.extend(shown);
        }
    }

    /// Shows frames without text, once all text before them is decided on.
    fn flush_empty(&mut self, shaping: &mut Shaping, out: &mut Output) {
        while let Some(frame) = shaping.queue.pop_front_if(|front| front.left == 0) {
            let Some(slot) = self.incoming.slots.get_mut(frame.slot) else { continue };
            if frame.stops {
                self.client.report_text_end(out);
            }
            let replaced = frame.again && shaping.changed.contains(&frame.slot);
            match slot.shown_index().filter(|_| replaced) {
                Some(index) if frame.stops => {
                    let text = shaping.passed.get(&frame.slot).map_or("", String::as_str);
                    self.client.end_text(index, Some(&frame.raw), text, out);
                }
                Some(_) => {}
                None => {
                    let begins = Some(NewBlock::Text).filter(|_| frame.begins);
                    let (anew, stops) = (frame.anew, frame.stops);
                    let part = BlockPart { begins, anew, stops, ..BlockPart::with_key(frame.key) };
                    self.client.take_part(slot, &part, &frame.raw, out);
                }
            }
        }
    }

    /// Ends a text that was shown and whose end has not come.
    fn end_shown(&mut self, out: &mut Output) {
        let Some(shaping) = &self.shaping else { return };
        let Some(index) = self.client.open_text() else { return };
        let slot = self.incoming.slots.iter().position(|slot| slot.shown_index() == Some(index));
        let text = slot.and_then(|slot| shaping.passed.get(&slot)).map_or("", String::as_str);
        self.client.mark_changed();
        self.client.report_text_end(out);
        self.client.end_text(index, None, text, out);
    }

    /// Notes in a reply what its texts hold, once the response has ended.
    pub(super) fn complete_reply(
        &mut self,
        reply: &mut Reply,
        end: &mut UpstreamEnd,
        out: &mut Output,
    ) {
        let Some(mut shaping) = self.shaping.take() else { return };
        if !self.incoming.is_live() {
            for (at, block) in reply.blocks.iter().enumerate() {
                if let BlockView::Text(text) = block.as_view() {
                    shaping.push_text(at, text);
                    shaping.end_text(at);
                }
            }
        }
        shaping.finish_response();
        let mut tagged = std::mem::take(&mut shaping.tagged);
        let (turn, before) = (shaping.turn, shaping.before);
        let ended = reply.whole;
        tagged.judge_calls(&shaping.reader, ended, &|place| call_id(turn, before + place));
        shaping.before += tagged.calls.len();
        let mut texts = tagged.block_texts(true, |_| true);
        for (at, block) in reply.blocks.iter_mut().enumerate() {
            let BlockView::Text(old) = block.as_view() else { continue };
            let new = texts.remove(&at).unwrap_or_default();
            if new != old {
                block.set_text(&new);
                self.client.mark_changed();
            }
        }
        let trimmed = tagged.trimmed > 0 && !tagged.calls.is_empty();
        if tagged.stop.is_some() || (trimmed && !reply.whole) {
            *end = UpstreamEnd::Stop;
            reply.end_here();
            self.client.mark_changed();
        }
        report_shaping(&tagged, &mut shaping.notes, out);
        reply.tagged = Some(Box::new(tagged));
        self.shaping = Some(shaping);
    }

    /// Shows what was held behind an undecided call, as far as the verdict says. Returns the
    /// response as the client gets it, where its text differs.
    pub(super) fn settle_shaped(
        &mut self,
        reply: &Reply,
        show: Visibility,
        admissions: &[Admission],
        out: &mut Output,
    ) -> Option<Reply> {
        let mut shaping = self.shaping.take()?;
        let shows = |place: usize| show.shows_call(admissions.get(place));
        for item in std::mem::take(&mut shaping.gate) {
            match &item {
                // The text before the first call has passed, wherever its frame ends.
                _ if show == Visibility::Nothing => self.skip_bytes(&mut shaping, item.len(), out),
                FoundPiece::Call(place, _) => {
                    self.carry_out(&mut shaping, &item, shows(*place), out);
                }
                _ => self.carry_out(&mut shaping, &item, true, out),
            }
        }
        self.flush_empty(&mut shaping, out);
        self.client.report_text_end(out);
        let mut shown = None;
        if let Some(tagged) = reply.tagged.as_ref().filter(|tagged| !tagged.calls.is_empty()) {
            let mut own = reply.clone();
            own.set_texts(&tagged.block_texts(true, shows));
            if (0..tagged.calls.len()).any(|place| !shows(place)) {
                self.client.mark_changed();
            }
            shown = Some(own);
        }
        self.shaping = Some(shaping);
        if reply.tagged.as_ref().is_some_and(|tagged| tagged.stop.is_some()) {
            self.end_shown(out);
        }
        shown
    }
}

/// Reports what the shaping did.
fn report_shaping(tagged: &TaggedTexts, notes: &mut Vec<ShapeNote>, out: &mut Output) {
    out.events.extend(notes.drain(..).map(Event::Shaped));
    if tagged.trimmed > 0 {
        out.events.push(Event::Intervention {
            intervention: Intervention::TrimTail,
            because: None,
            text: Some(format!("{} bytes dropped", tagged.trimmed)),
        });
    }
}

/// Returns the position and the length of a text in the frame that it was read from.
fn place_in(raw: &[u8], text: &str) -> Option<(usize, usize)> {
    let at = (text.as_ptr() as usize).checked_sub(raw.as_ptr() as usize)?;
    let found = raw.get(at..at.checked_add(text.len())?)?;
    let quoted = at.checked_sub(1).and_then(|before| raw.get(before)) == Some(&b'"');
    (quoted && found == text.as_bytes()).then_some((at, text.len()))
}

/// Returns a frame with another text.
fn splice_text(raw: &[u8], (at, length): (usize, usize), text: &str) -> Vec<u8> {
    let mut out = raw.get(..at.saturating_sub(1)).unwrap_or_default().to_vec();
    write_str(&mut out, text);
    out.extend_from_slice(raw.get(at + length + 1..).unwrap_or_default());
    out
}
