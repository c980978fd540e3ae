//! Shows one or several upstream responses to the client as one valid message. Each part is
//! forwarded at once, or held until it is decided on (`docs/governing.md` §3 and §4).
//!
//! The relay knows blocks and bytes. The exchange decides what a turn was and what follows from it,
//! and then says how much of the held part to show.

mod event_parts;
mod held_thinking;
mod incoming;
mod shape;
mod show;
mod slot;
mod text_events;
mod visibility;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use softland_core::{Admission, AdmittedCalls, Call, Role, Run};
use softland_wire::json::{self, Str};
use softland_wire::sse::{Decoder, Frame, write_event};
use softland_wire::{Tokens, find_error_words};

use crate::framing::{
    BlockPart, EventParts, EventView, Framing, NewBlock, ResponseError, UpstreamEnd,
};
use crate::out::{Event, Output};
use crate::reply::{Block, Reply};
use crate::tags::TagReader;

pub(crate) use incoming::RelayMode;
use incoming::{CallIds, IncomingResponse};
use shape::Shaping;
use show::{ClientMessage, ReceivedEnd};
use slot::BlockSlot;
pub(crate) use visibility::Visibility;

/// The most white space that is held before a text shows, in bytes.
const MAX_BLANK: usize = 64 << 10;

/// Several upstream responses, one message for the client.
#[derive(Debug)]
pub(crate) struct Relay {
    client: ClientMessage,
    incoming: IncomingResponse,
    run: Arc<Run>,
    role: Role,
    ids: CallIds,
    /// The shaping of texts that calls are written in.
    shaping: Option<Box<Shaping>>,
}

/// A response that has ended.
pub(crate) struct EndedResponse {
    pub(crate) reply: Reply,
    pub(crate) end: UpstreamEnd,
    /// True if something came, but no event of the protocol's.
    pub(crate) foreign: bool,
    /// The words of its last event, if it is none of the protocol's.
    pub(crate) words: Option<String>,
}

/// The most characters that are quoted of an event which cannot be read.
const QUOTED: usize = 200;

impl Relay {
    /// Creates a relay. `streams` is true if the client reads a stream. `ids` are the call ids of
    /// the history, which a new call may not have.
    pub(crate) fn new(
        framing: Box<dyn Framing>,
        role: Role,
        streams: bool,
        run: Arc<Run>,
        ids: BTreeSet<String>,
    ) -> Self {
        Self {
            client: ClientMessage::new(framing, role == Role::Gateway && streams),
            incoming: IncomingResponse::new(RelayMode::Live { calls: true }),
            run,
            role,
            ids: CallIds::new(ids),
            shaping: None,
        }
    }

    /// Reads calls that are written as text by `reader`, as those of this turn.
    pub(crate) fn shape_by(&mut self, reader: TagReader, turn: u64) {
        self.client.report_apart();
        self.shaping = Some(Box::new(Shaping::new(reader, turn)));
    }

    /// Prepares for the next upstream response.
    pub(crate) fn begin_response(&mut self, mode: RelayMode, out: &mut Output) {
        self.client.flush_late(out);
        self.begin_shaping(out);
        self.client.end_block(out);
        self.client.mark_response();
        self.client.framing.begin_response();
        self.incoming = IncomingResponse::new(match mode {
            // The calls in a text are known when it has ended.
            RelayMode::Held { .. } if self.shaping.is_some() => {
                RelayMode::Held { until_call: false }
            }
            mode => mode,
        });
    }

    /// Takes bytes of an upstream stream.
    pub(crate) fn push_bytes(
        &mut self,
        bytes: &[u8],
        out: &mut Output,
    ) -> Result<(), ResponseError> {
        self.incoming.received = self.incoming.received.saturating_add(bytes.len());
        if self.stop_reason().is_some() {
            return Ok(());
        }
        self.incoming.decoder.push(bytes);
        self.drain_decoder(out)
    }

    fn drain_decoder(&mut self, out: &mut Output) -> Result<(), ResponseError> {
        // Frames borrow from the decoder, so it is taken out until all are read.
        let mut decoder = std::mem::replace(&mut self.incoming.decoder, Decoder::new(0));
        let mut read = Ok(());
        while let (Ok(()), None, Some(frame)) = (&read, self.stop_reason(), decoder.next()) {
            read = frame.map_err(ResponseError::Sse).and_then(|frame| self.take_frame(&frame, out));
        }
        self.incoming.decoder = decoder;
        read
    }

    fn take_frame(&mut self, frame: &Frame<'_>, out: &mut Output) -> Result<(), ResponseError> {
        if let (Some(_), Cow::Owned(data)) = (&self.shaping, &frame.data) {
            // The shaping looks texts up in the frame, where this frame's data stands in several
            // pieces.
            let mut raw = Vec::new();
            write_event(&mut raw, frame.event, &data.replace('\n', " "));
            let mut decoder = Decoder::new(raw.len());
            decoder.push(&raw);
            decoder.finish();
            return match decoder.next() {
                Some(Ok(frame)) if matches!(frame.data, Cow::Borrowed(_)) => {
                    self.take_frame(&frame, out)
                }
                _ => Ok(()),
            };
        }
        let read = match frame.data.is_empty() {
            true => None,
            false => self.client.framing.read_event(frame.event, &frame.data, true)?,
        };
        let is_ping = read.as_ref().is_some_and(|read| read.ping);
        self.incoming.heard += usize::from(!frame.data.is_empty() && !is_ping);
        if !frame.data.is_empty() && !is_ping {
            let foreign = read.as_ref().is_none_or(|read| !read.known);
            self.incoming.words =
                foreign.then(|| find_error_words(frame.data.as_bytes())).flatten();
        }
        let Some(mut read) = read else { return self.take_foreign(frame, out) };
        self.incoming.known |= read.known && !frame.unframed;
        if self.incoming.mode == (RelayMode::Held { until_call: true }) && self.first_to_pass(&read)
        {
            self.incoming.mode = RelayMode::Live { calls: true };
            self.client.framing.rewind_reading();
            for (name, data, raw) in std::mem::take(&mut self.incoming.held) {
                if let Some(read) = self.client.framing.read_event(&name, &data, false)? {
                    self.show_event(&read, &raw, out);
                }
            }
            let again = self.client.framing.read_event(frame.event, &frame.data, false)?;
            // The second reading does not see the response begin: the head is that of the first.
            read = EventView { head: read.head, ..again.unwrap_or_default() };
        }
        match self.incoming.mode {
            RelayMode::Held { .. } => self.hold_event(&read, frame, out),
            RelayMode::Live { .. } => self.show_event(&read, frame.raw, out),
        }
        self.shape_failure()
    }

    /// Takes a comment or an unknown event. Its bytes are the client's. An event that would be one
    /// of the protocol's if it were whole is an error: clients fail at it, so the stream has broken
    /// there.
    fn take_foreign(&mut self, frame: &Frame<'_>, out: &mut Output) -> Result<(), ResponseError> {
        let governs = self.role == Role::Gateway && !self.run.policy().is_observing();
        if governs && !frame.cut && !self.incoming.over && is_garbled(frame) {
            let words: String = frame.data.trim().chars().take(QUOTED).collect();
            return Err(ResponseError::Other(format!("the data of an event is no JSON: {words}")));
        }
        if frame.cut {
            // Half a frame is kept back until it is clear that nothing else follows.
            self.incoming.half = frame.raw.to_vec();
            self.incoming.torn |= !frame.data.is_empty();
        } else if self.incoming.is_live() || frame.data.is_empty() {
            // A held response shows no unknown event, neither now nor later.
            self.pass_aside(frame.raw, out);
        }
        Ok(())
    }

    /// Passes on bytes of no block, in their place. Behind closing events that are kept back, they
    /// are kept back too.
    fn pass_aside(&mut self, raw: &[u8], out: &mut Output) {
        if self.incoming.closing.is_empty() {
            self.client.pass_bytes(raw, out);
        } else {
            self.incoming.closing.extend_from_slice(raw);
            self.incoming.bare.extend_from_slice(raw);
        }
    }

    /// True if a call begins that passes, the first one of a held response. A call that is refused
    /// again shows nothing: the thinking before it is signed over a tail that is never shown.
    fn first_to_pass(&mut self, read: &EventView<'_>) -> bool {
        read.parts.as_slice().iter().any(|part| {
            let Some(NewBlock::Call { name, server, .. }) = part.begins else { return false };
            // Where a protocol does not mark the beginning of a call, the call's first part begins
            // it.
            let known = self.incoming.by_key.contains_key(&part.key)
                || !self.incoming.asked.insert(part.key);
            if known && !part.anew {
                return false;
            }
            let passes = match self.admit_next(&name.unescape(), server) {
                Admission::Run => true,
                // The answer tool's call waits for the verdict, as text does.
                Admission::Answer | Admission::Server => false,
                Admission::Refused(_) | Admission::ToolRefused(_) => self.role == Role::Engine,
            };
            if passes {
                // The held events are read again.
                self.incoming.admitted = AdmittedCalls::default();
            }
            passes
        })
    }

    fn hold_event(&mut self, read: &EventView<'_>, frame: &Frame<'_>, out: &mut Output) {
        if read.closing && !read.hidden && !self.incoming.over {
            self.incoming.closing.extend_from_slice(frame.raw);
        }
        self.incoming.over |= read.over;
        match (read.head, &read.parts) {
            (Some((id, model)), EventParts::None) if !read.closing => {
                self.client.show_head(id, model, frame.raw, out);
                return;
            }
            // The rest of the event is held. The client gets a beginning nevertheless.
            (Some((id, model)), _) => self.client.begin_alone(id, model, out),
            (None, _) => {}
        }
        if read.ping {
            self.client.pass_bytes(frame.raw, out);
        } else if !read.closing && self.incoming.mode == (RelayMode::Held { until_call: true }) {
            self.incoming.held.push((
                frame.event.to_owned(),
                frame.data.to_string(),
                frame.raw.to_vec(),
            ));
        }
    }

    fn show_event(&mut self, read: &EventView<'_>, raw: &[u8], out: &mut Output) {
        let parts = read.parts.as_slice();
        if let Some((id, model)) = read.head {
            if parts.is_empty() && !read.closing {
                if self.client.restarts_response() {
                    match self.incoming.over {
                        true => self.client.mark_changed(),
                        false => self.pass_aside(raw, out),
                    }
                    return;
                }
                return self.client.show_head(id, model, raw, out);
            }
            let first = self.client.note_beginning(id, model);
            if !parts.is_empty() && parts.iter().all(|part| part.stops) {
                return self.show_whole_blocks(first, parts, raw, out);
            }
            if first {
                self.client.hold_head(raw);
            }
        }
        if read.closing {
            // Nothing behind its end belongs to the message.
            if !self.incoming.over {
                self.incoming.over = read.over;
                if !read.hidden {
                    self.incoming.closing.extend_from_slice(raw);
                }
                if !read.hidden && parts.is_empty() {
                    self.incoming.bare.extend_from_slice(raw);
                }
                self.take_late_parts(parts, raw, out);
            }
        } else if let [part] = parts {
            self.show_part(part, raw, out);
        } else if !parts.is_empty() {
            self.show_parts(parts, raw, out);
        } else if !(((read.ping || read.aside)
            && self.incoming.slots.last_mut().is_some_and(|slot| slot.hold_ping(raw)))
            || read.hidden)
            && (read.ping || read.aside || !read.known)
        {
            self.pass_aside(raw, out);
        }
    }

    fn show_part(&mut self, part: &BlockPart<'_>, raw: &[u8], out: &mut Output) {
        let part = self.open_part(part);
        if part.begins.is_some() {
            self.release_thinking(out);
        }
        if self.is_shaped(&part) {
            return self.shape_by_key(&part, raw, false, out);
        }
        self.forward_part(&part, raw, out);
    }

    fn forward_part(&mut self, part: &BlockPart<'_>, raw: &[u8], out: &mut Output) {
        let slot =
            self.incoming.by_key.get(&part.key).and_then(|at| self.incoming.slots.get_mut(*at));
        if let Some(slot) = slot {
            self.client.take_part(slot, part, raw, out);
        }
    }

    /// True if a part belongs to a text that calls may be written in.
    fn is_shaped(&self, part: &BlockPart<'_>) -> bool {
        let slot = self.incoming.by_key.get(&part.key).and_then(|at| self.incoming.slots.get(*at));
        self.shaping.is_some() && slot.is_some_and(BlockSlot::is_text)
    }

    fn shape_by_key(&mut self, part: &BlockPart<'_>, raw: &[u8], late: bool, out: &mut Output) {
        if let Some(at) = self.incoming.by_key.get(&part.key).copied() {
            self.shape_part(at, part, raw, late, out);
        }
    }

    /// Opens the block that a part begins, if the block is new. Returns the part, which begins its
    /// block only then.
    fn open_part<'f>(&mut self, part: &BlockPart<'f>) -> BlockPart<'f> {
        let new = part.anew || !self.incoming.by_key.contains_key(&part.key);
        let begins = part.begins.filter(|_| new);
        if let Some(begins) = begins {
            let slot = self.open_block(begins).with_gap(part.key, self.incoming.slots.len());
            self.incoming.by_key.insert(part.key, self.incoming.slots.len());
            self.incoming.slots.push(slot);
        }
        BlockPart { begins, ..*part }
    }

    /// Returns the slot for a block that begins.
    fn open_block(&mut self, begins: NewBlock<'_>) -> BlockSlot {
        match begins {
            NewBlock::Text => BlockSlot::blank_text(),
            NewBlock::Call { id, name, server } => self.open_call(id, name, server),
            NewBlock::Thinking | NewBlock::Other if self.is_gated() => BlockSlot::hidden_block(),
            NewBlock::Thinking if self.holds_thinking() => BlockSlot::waiting_block(),
            NewBlock::Thinking | NewBlock::Other => BlockSlot::fresh_block(),
        }
    }

    fn open_call(&mut self, id: Str<'_>, name: Str<'_>, server: bool) -> BlockSlot {
        let id = id.unescape();
        let shown_id = self.own_id(&id).unwrap_or_else(|| id.into_owned());
        self.incoming.shown_ids.push(shown_id.clone());
        let admission = self.admit_next(&name.unescape(), server);
        let passes = match self.incoming.mode {
            RelayMode::Live { calls: false } => false,
            _ if self.is_gated() => false,
            _ => self.role == Role::Engine || server || !admission.is_refused(),
        };
        BlockSlot::new_call(shown_id, passes)
    }

    /// Decides on the next call, as far as the calls so far do. Later calls can change that only
    /// under `batch = "none"`, where all calls wait ([`RelayMode::Live`] without calls).
    fn admit_next(&mut self, name: &str, server: bool) -> Admission {
        let call = Call { id: "", name, input: "{}", server };
        self.run.admit_next(&call, &mut self.incoming.admitted)
    }

    /// Returns the id under which an engine shows a call; `None` in a gateway. The id is a new one
    /// if the call has none, or if the engine has met it before.
    fn own_id(&mut self, id: &str) -> Option<String> {
        if self.role != Role::Engine {
            return None;
        }
        Some(self.ids.take_id(id))
    }

    /// Returns the number of events of the response under way, without signs of life.
    pub(crate) fn count_events(&self) -> usize {
        self.incoming.heard
    }

    /// Notes that the connection of the response under way broke.
    pub(crate) fn note_broken(&mut self) {
        self.incoming.torn = true;
    }

    /// Ends the upstream stream.
    pub(crate) fn finish_response(
        &mut self,
        out: &mut Output,
    ) -> Result<EndedResponse, ResponseError> {
        self.incoming.decoder.finish();
        self.drain_decoder(out)?;
        self.end_shaping(out);
        self.shape_failure()?;
        self.client.end_unmarked(&self.incoming.slots, out);
        let so_far = self.stop_reason().map(|_| self.client.framing.tokens_so_far());
        let (mut reply, mut end) = self.client.framing.finish_response();
        self.client.framing.form().check_reply(&reply)?;
        if end == UpstreamEnd::Stop && self.breaks_before_end() {
            // The message said why it ended, and then the stream broke before its own end: the
            // client is not told of an end.
            end = UpstreamEnd::Cut;
            self.incoming.closing.clear();
            self.incoming.bare.clear();
            self.client.mark_changed();
        }
        self.rename_calls(&mut reply);
        self.complete_reply(&mut reply, &mut end, out);
        self.shape_failure()?;
        if let Some(so_far) = so_far {
            (reply.tokens, reply.billed) = (so_far, so_far);
        }
        out.events.push(Event::Usage(reply.billed));
        Ok(EndedResponse {
            reply,
            end,
            foreign: self.incoming.received > 0 && !self.incoming.known,
            words: self.incoming.words.take(),
        })
    }

    /// True if a response that a gateway passes on broke behind the reason for its end, and before
    /// the end. One that is held back gets an end of softland's.
    fn breaks_before_end(&self) -> bool {
        let passes = self.role == Role::Gateway && self.is_live();
        let torn = self.incoming.torn && !self.incoming.over;
        passes && torn && !self.run.policy().is_observing()
    }

    /// Takes a whole response that was not streamed. It is shown at the verdict.
    pub(crate) fn push_whole(
        &mut self,
        body: &[u8],
        out: &mut Output,
    ) -> Result<EndedResponse, ResponseError> {
        let mut reply = self.client.framing.read_whole(body)?;
        self.client.framing.form().check_reply(&reply)?;
        self.incoming.mode = RelayMode::Held { until_call: false };
        self.rename_calls(&mut reply);
        self.client.note_whole_response();
        self.incoming.closing = body.to_vec();
        self.complete_reply(&mut reply, &mut UpstreamEnd::Stop, out);
        self.shape_failure()?;
        out.events.push(Event::Usage(reply.billed));
        Ok(EndedResponse { reply, end: UpstreamEnd::Stop, foreign: false, words: None })
    }

    /// Gives calls the ids under which they are shown.
    fn rename_calls(&mut self, reply: &mut Reply) {
        let shown = std::mem::take(&mut self.incoming.shown_ids);
        let mut shown = shown.into_iter().filter(|id| !id.is_empty());
        for block in &mut reply.blocks {
            block.set_call_id(|id| shown.next().or_else(|| self.own_id(id)));
        }
    }

    /// Shows the held part of a response, as far as the verdict says.
    pub(crate) fn settle_response(
        &mut self,
        reply: &Reply,
        show: Visibility,
        admissions: &[Admission],
        out: &mut Output,
    ) {
        let shaped = self.settle_shaped(reply, show, admissions, out);
        self.client.settle_blocks(
            shaped.as_ref().unwrap_or(reply),
            show,
            admissions,
            &mut self.incoming.slots,
            out,
        );
    }

    /// Ends the client's message with the end of this response. `billed` is the usage of each
    /// response, in order.
    pub(crate) fn close_message(
        &mut self,
        reply: &Reply,
        output: u64,
        billed: &[Tokens],
        out: &mut Output,
    ) {
        let closing = std::mem::take(&mut self.incoming.closing);
        // Half an event ends no message without another end.
        let half = match closing.is_empty() {
            true => Vec::new(),
            false => std::mem::take(&mut self.incoming.half),
        };
        let received = ReceivedEnd { closing: &closing, half: &half, live: self.is_live() };
        self.client.close_message(reply, output, billed, received, out);
    }

    /// Ends the client's message with an answer of softland's. `used` is what the newest request
    /// held, and the output that the client has; `billed` is as for [`close_message`](Self::close_message).
    pub(crate) fn close_local(
        &mut self,
        head: (&str, &str),
        text: &str,
        used: Tokens,
        billed: &[Tokens],
        out: &mut Output,
    ) {
        self.client.answer_locally(head, text, used, billed, out);
    }

    /// True if the client has something of the newest response.
    pub(crate) fn has_shown_newest_response(&self) -> bool {
        self.incoming.slots.iter().any(BlockSlot::is_shown)
    }

    /// Ends the message of a failed upstream response that nothing replaces. What came is passed on
    /// as it came, except for half an event, which would swallow the error that follows.
    pub(crate) fn abandon_message(&mut self, out: &mut Output) {
        let (mut closing, bare) =
            (std::mem::take(&mut self.incoming.closing), std::mem::take(&mut self.incoming.bare));
        if !self.is_live() {
            closing.clear();
        }
        if self.client.is_untouched() {
            self.client.part.late.clear();
            self.client.pass_bytes(&closing, out);
        } else {
            // The parts that came with the end stand before it.
            self.client.flush_late(out);
            self.client.pass_bytes(&bare, out);
        }
    }

    /// True if nothing can follow what the client has: a call, which is its turn, or half of a
    /// block of thinking, without its signature.
    pub(crate) fn cannot_continue(&self) -> bool {
        self.client.cannot_continue()
    }

    /// True if the newest response was shown as it came, if only from its first call on.
    pub(crate) fn is_live(&self) -> bool {
        self.incoming.is_live()
    }

    /// Returns the tokens of the response under way so far.
    pub(crate) fn tokens_so_far(&self) -> Tokens {
        self.client.framing.tokens_so_far()
    }

    /// Returns the kinds of the blocks that the client had before the response under way.
    pub(crate) fn block_kinds_shown(&self) -> String {
        self.client.block_kinds_shown()
    }

    /// Returns the id of the client's message, and its blocks.
    pub(crate) fn shown_message(&self) -> (&str, &[Block]) {
        self.client.shown_message()
    }

    /// Returns the framing of the protocol.
    pub(crate) fn framing_mut(&mut self) -> &mut dyn Framing {
        &mut *self.client.framing
    }

    pub(crate) fn framing(&self) -> &dyn Framing {
        &*self.client.framing
    }

    /// True if anything visible, or a call, was shown.
    pub(crate) fn has_shown(&self) -> bool {
        self.client.has_shown()
    }
}

/// True if clients of the protocol read such an event and cannot read its data. `[DONE]` ends
/// streams of Chat Completions, and other streams where a proxy adds it.
fn is_garbled(frame: &Frame<'_>) -> bool {
    const READ: [&str; 3] = ["message", "content_block_", "response."];
    let name = frame.event;
    let is_read = name.is_empty() || name == "error" || READ.iter().any(|of| name.starts_with(of));
    let data = frame.data.trim_ascii();
    is_read && !data.is_empty() && data != "[DONE]" && json::check_text(data).is_err()
}
