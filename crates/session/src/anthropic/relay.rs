//! What the client is shown of one or several upstream responses: one valid message, each part
//! forwarded at once or held until it is decided (`governing.md` §3 and §4).
//!
//! The relay knows blocks and bytes. What a turn was, and what follows from it, is decided by the
//! exchange, which then says what of the held part to show.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use softland_core::{Admission, Call, Role, Run};
use softland_wire::Tokens;
use softland_wire::anthropic::{
    AssembleError, Assembler, Block, BlockStartKind, End, Event as Wire, Message, MessageError,
};
use softland_wire::json::Str;
use softland_wire::sse::{Decoder, Frame, SseError};

use crate::out::{Event, Out};

pub(crate) use show::Show;
use show::{Client, Slot};

/// The largest response that is taken, in bytes.
const MAX_RESPONSE: usize = 64 << 20;
/// White space that is held before a text shows.
const MAX_BLANK: usize = 64 << 10;

/// How the response under way is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Each part at once; with `calls` false, calls wait for the verdict.
    Live {
        /// Whether calls pass as they come.
        calls: bool,
    },
    /// Nothing until the verdict; with `until_call`, everything from the first call on.
    Held {
        /// Whether a call ends the holding.
        until_call: bool,
    },
}

/// Why a response cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    Sse(SseError),
    Assemble(AssembleError),
    Json(MessageError),
}

/// Several upstream responses, one message for the client.
#[derive(Debug)]
pub(crate) struct Relay {
    client: Client,
    mode: Mode,
    decoder: Decoder,
    assembler: Assembler,
    /// The blocks of the response under way, in the order they began.
    slots: Vec<Slot>,
    by_index: BTreeMap<u32, usize>,
    /// Frames waiting for the verdict.
    held: Vec<(String, String, Vec<u8>)>,
    /// The closing events of the response under way, as received.
    closing: Vec<u8>,
    /// Calls of the response under way, in order: shown id, name, whether the provider runs it.
    names: Vec<(String, String, bool)>,
    run: Arc<Run>,
    ids: BTreeSet<String>,
    role: Role,
    /// Bytes of the response under way, and whether an event of the protocol's was among them.
    received: usize,
    known: bool,
    /// Whether its message has ended.
    over: bool,
}

/// A response that has ended.
pub(crate) struct Ended {
    pub(crate) message: Message,
    pub(crate) end: End,
    /// Something came, but no event of the protocol's.
    pub(crate) foreign: bool,
}

impl Relay {
    /// `streams`: whether the client reads a stream. `ids`: call ids of the history, which a new
    /// call may not have.
    pub(crate) fn new(role: Role, streams: bool, run: Arc<Run>, ids: BTreeSet<String>) -> Self {
        Self {
            client: Client::new(role == Role::Gateway && streams),
            mode: Mode::Live { calls: true },
            decoder: Decoder::new(MAX_RESPONSE),
            assembler: Assembler::new(MAX_RESPONSE),
            slots: Vec::new(),
            by_index: BTreeMap::new(),
            held: Vec::new(),
            closing: Vec::new(),
            names: Vec::new(),
            run,
            ids,
            role,
            received: 0,
            known: false,
            over: false,
        }
    }

    /// Makes ready for the next upstream response.
    pub(crate) fn begin(&mut self, mode: Mode, out: &mut Out) {
        self.client.end_block(out);
        self.client.mark();
        self.mode = mode;
        self.decoder = Decoder::new(MAX_RESPONSE);
        self.assembler = Assembler::new(MAX_RESPONSE);
        self.slots.clear();
        self.by_index.clear();
        self.held.clear();
        self.closing.clear();
        self.names.clear();
        self.received = 0;
        self.known = false;
        self.over = false;
    }

    /// Takes bytes of an upstream stream.
    pub(crate) fn push(&mut self, bytes: &[u8], out: &mut Out) -> Result<(), Broken> {
        self.received = self.received.saturating_add(bytes.len());
        self.decoder.push(bytes);
        self.drain(out)
    }

    fn drain(&mut self, out: &mut Out) -> Result<(), Broken> {
        // Frames borrow from the decoder; it is put back when all is read.
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(0));
        let mut read = Ok(());
        while let (Ok(()), Some(frame)) = (&read, decoder.next()) {
            read = frame.map_err(Broken::Sse).and_then(|frame| self.frame(&frame, out));
        }
        self.decoder = decoder;
        read
    }

    fn frame(&mut self, frame: &Frame<'_>, out: &mut Out) -> Result<(), Broken> {
        let event = match Wire::decode(frame.event, &frame.data) {
            Ok(event) if !frame.data.is_empty() => event,
            // A comment, or no JSON: the bytes are the client's. Half a frame is kept back until
            // it is clear that nothing else follows.
            _ if frame.cut => {
                self.closing.extend_from_slice(frame.raw);
                return Ok(());
            }
            // What is held is not to be seen, and no event that could be shown later.
            _ if matches!(self.mode, Mode::Held { .. }) && !frame.data.is_empty() => return Ok(()),
            _ => {
                self.client.pass(frame.raw, out);
                return Ok(());
            }
        };
        self.known |= !matches!(event, Wire::Unknown { .. });
        self.assembler.push(&event).map_err(Broken::Assemble)?;
        if self.mode == (Mode::Held { until_call: true }) && self.first_to_pass(&event) {
            self.mode = Mode::Live { calls: true };
            for (name, data, raw) in std::mem::take(&mut self.held) {
                if let Ok(event) = Wire::decode(&name, &data) {
                    self.live(&event, &raw, out);
                }
            }
        }
        match self.mode {
            Mode::Held { .. } => self.hold(&event, frame, out),
            Mode::Live { .. } => self.live(&event, frame.raw, out),
        }
        Ok(())
    }

    /// Whether this is a call that passes, the first one of a held response. A call that is refused
    /// again shows nothing: what stands before it is signed over a tail that is never shown.
    fn first_to_pass(&mut self, event: &Wire<'_>) -> bool {
        let Wire::BlockStart { block, .. } = event else { return false };
        let BlockStartKind::ToolUse { name, server, .. } = block.kind else { return false };
        self.names.push((String::new(), name.unescape().into_owned(), server));
        // The answer tool's call waits for the verdict, as text does.
        let answers = self.run.answer_tool() == Some(&*name.unescape());
        let passes = !server && !answers && (self.role == Role::Engine || self.last_passes());
        if passes {
            self.names.clear();
        }
        passes
    }

    fn hold(&mut self, event: &Wire<'_>, frame: &Frame<'_>, out: &mut Out) {
        match event {
            Wire::MessageStart(start) => self.client.head(start, frame.raw, out),
            Wire::Ping => self.client.pass(frame.raw, out),
            Wire::MessageStop | Wire::MessageDelta(_) | Wire::Error { .. } => {}
            _ if self.mode == (Mode::Held { until_call: true }) => {
                self.held.push((
                    frame.event.to_owned(),
                    frame.data.to_string(),
                    frame.raw.to_vec(),
                ));
            }
            _ => {}
        }
    }

    fn live(&mut self, event: &Wire<'_>, raw: &[u8], out: &mut Out) {
        match event {
            Wire::MessageStart(start) => self.client.head(start, raw, out),
            // Behind its end nothing is of the message.
            Wire::MessageDelta(_) | Wire::MessageStop | Wire::Error { .. } if self.over => {}
            Wire::MessageDelta(_) | Wire::MessageStop | Wire::Error { .. } => {
                self.over = !matches!(event, Wire::MessageDelta(_));
                self.closing.extend_from_slice(raw);
            }
            Wire::BlockStart { index, block } => {
                let slot = self.open(block.kind);
                self.by_index.insert(*index, self.slots.len());
                self.slots.push(slot);
                self.in_block(*index, event, raw, out);
            }
            Wire::Ping if self.slots.last_mut().is_some_and(|slot| slot.hold_ping(raw)) => {}
            Wire::Ping | Wire::Unknown { .. } => self.client.pass(raw, out),
            _ => {
                if let Some(index) = event.index() {
                    self.in_block(index, event, raw, out);
                }
            }
        }
    }

    fn in_block(&mut self, index: u32, event: &Wire<'_>, raw: &[u8], out: &mut Out) {
        let slot = self.by_index.get(&index).and_then(|at| self.slots.get_mut(*at));
        if let Some(slot) = slot {
            self.client.block(slot, event, raw, out);
        }
    }

    /// How a block that begins is shown.
    fn open(&mut self, kind: BlockStartKind<'_>) -> Slot {
        match kind {
            BlockStartKind::Text { .. } => Slot::blank_text(),
            BlockStartKind::ToolUse { id, name, server, .. } => self.open_call(id, name, server),
            BlockStartKind::Thinking { .. }
            | BlockStartKind::Redacted { .. }
            | BlockStartKind::Other { .. } => Slot::shown(),
        }
    }

    fn open_call(&mut self, id: Str<'_>, name: Str<'_>, server: bool) -> Slot {
        let shown_id = self.own_id(&id.unescape());
        self.names.push((shown_id.clone(), name.unescape().into_owned(), server));
        let passes = match self.mode {
            Mode::Live { calls: false } => false,
            _ if self.role == Role::Engine || server => true,
            _ => self.last_passes(),
        };
        Slot::call(shown_id, passes)
    }

    /// Whether the newest call passes, as far as the calls so far decide it. Later calls can only
    /// take from `batch = "none"`, whose calls all wait ([`Mode::Live`] without calls).
    fn last_passes(&self) -> bool {
        let calls: Vec<_> = self
            .names
            .iter()
            .map(|(_, name, server)| Call { id: "", name, input: "{}", server: *server })
            .collect();
        let admissions = self.run.admit(&calls);
        admissions.last().is_none_or(|admission| {
            matches!(admission, Admission::Run | Admission::Answer | Admission::Server)
        })
    }

    /// The id a call is shown under: its own, unless the engine has met it before or there is none.
    fn own_id(&mut self, id: &str) -> String {
        let mut own = id.to_owned();
        if self.role == Role::Engine {
            let mut n = self.ids.len();
            while own.is_empty() || self.ids.contains(&own) {
                let stem = if id.is_empty() { "toolu_softland" } else { id };
                own = format!("{stem}_{n}");
                n += 1;
            }
            self.ids.insert(own.clone());
        }
        own
    }

    /// The upstream stream has ended.
    pub(crate) fn finish(&mut self, out: &mut Out) -> Result<Ended, Broken> {
        self.decoder.finish();
        self.drain(out)?;
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        let mut message = finished.message;
        self.rename(&mut message);
        out.events.push(Event::Usage(message.usage.billed()));
        Ok(Ended { message, end: finished.end, foreign: self.received > 0 && !self.known })
    }

    /// A whole response, not streamed. It is shown at the verdict.
    pub(crate) fn whole(&mut self, body: &[u8], out: &mut Out) -> Result<Ended, Broken> {
        let mut message = Message::from_json(body).map_err(Broken::Json)?;
        self.mode = Mode::Held { until_call: false };
        self.rename(&mut message);
        self.client.original(body);
        out.events.push(Event::Usage(message.usage.billed()));
        Ok(Ended { message, end: End::Stop, foreign: false })
    }

    /// Gives calls the ids they are shown under.
    fn rename(&mut self, message: &mut Message) {
        let names = std::mem::take(&mut self.names);
        let mut shown = names.into_iter().map(|(id, ..)| id).filter(|id| !id.is_empty());
        for block in &mut message.blocks {
            if let Block::ToolUse { id, .. } = block {
                let own = shown.next();
                *id = own.unwrap_or_else(|| self.own_id(id));
            }
        }
    }

    /// Shows what was held of a response, as far as the verdict says.
    pub(crate) fn settle(
        &mut self,
        message: &Message,
        show: Show,
        admissions: &[Admission],
        out: &mut Out,
    ) {
        self.client.settle(message, show, admissions, &self.slots, out);
    }

    /// Ends the client's message after the response of which this is the end.
    /// `billed` is the usage of each response, in order.
    pub(crate) fn close(
        &mut self,
        message: &Message,
        output: u64,
        billed: &[Tokens],
        out: &mut Out,
    ) {
        let closing = std::mem::take(&mut self.closing);
        self.client.close(message, output, billed, &closing, out);
    }

    /// Ends the client's message with an answer of softland's.
    pub(crate) fn close_local(
        &mut self,
        id: &str,
        model: &str,
        text: &str,
        used: Tokens,
        out: &mut Out,
    ) {
        self.client.local(id, model, text, used, out);
    }

    /// The upstream failed and nothing stands in its place: what came is passed on as it came.
    pub(crate) fn abandon(&mut self, out: &mut Out) {
        let closing = std::mem::take(&mut self.closing);
        self.client.pass(&closing, out);
    }

    /// Whether the client has what nothing else can follow: a call, which is its turn, or half of a
    /// block of thinking, without its signature.
    pub(crate) fn is_stuck(&self) -> bool {
        self.client.is_stuck()
    }

    /// Whether the newest response was shown as it came, if only from its first call on.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.mode, Mode::Live { .. })
    }

    /// What the response under way has cost so far.
    pub(crate) fn so_far(&self) -> Tokens {
        self.assembler.so_far()
    }

    /// The kinds of the blocks that the client had before the response under way.
    pub(crate) fn shown_before(&self) -> String {
        self.client.shown_before()
    }

    /// Whether anything visible, or a call, was shown.
    pub(crate) fn has_shown(&self) -> bool {
        self.client.has_shown()
    }
}
