//! The client's side of a relay: which blocks it has, under which index, and how its message ends.

use softland_core::{Admission, Call, Text};
use softland_wire::Tokens;
use softland_wire::json::Str;

use super::MAX_BLANK;
use crate::framing::{Begins, Ending, Framing, More, Part, Placed};
use crate::out::{Event, Out};
use crate::reply::{Block, Reply, Seen};

/// How much of what was held is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Every block; calls as they are admitted.
    All,
    /// Visible text only: thinking is signed over a tail that the client never sees.
    Text,
    /// All but calls; of these the answer tool's.
    Landed,
    /// Visible text and the answer tool's call.
    Answer,
    /// Nothing more.
    Nothing,
}

/// A block of the upstream response under way.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    state: State,
    call: Option<String>,
}

#[derive(Clone, Debug)]
enum State {
    /// Text that is blank so far: its frames, with a ping that came between them, and its
    /// characters.
    Blank { frames: Vec<(u32, Vec<u8>)>, ping: Option<(usize, Vec<u8>)>, text: String },
    /// To be shown from its first event on.
    Fresh,
    /// Shown, under this index.
    Shown(u32),
    /// Not shown, or not yet.
    Hidden,
}

impl Slot {
    pub(super) fn blank_text() -> Self {
        Self {
            state: State::Blank { frames: Vec::new(), ping: None, text: String::new() },
            call: None,
        }
    }

    pub(super) fn shown() -> Self {
        Self { state: State::Fresh, call: None }
    }

    pub(super) fn call(id: String, passes: bool) -> Self {
        let state = if passes { State::Fresh } else { State::Hidden };
        Self { state, call: Some(id) }
    }

    /// Keeps a ping in its place among frames that are held: the first one only, since the next
    /// may be the client's only sign of life.
    pub(super) fn hold_ping(&mut self, raw: &[u8]) -> bool {
        let State::Blank { frames, ping: ping @ None, .. } = &mut self.state else { return false };
        *ping = Some((frames.len(), raw.to_vec()));
        true
    }

    fn is_shown(&self) -> bool {
        matches!(self.state, State::Shown(_))
    }

    /// Whether its parts go out as they come.
    pub(super) fn passes(&self) -> bool {
        matches!(self.state, State::Fresh | State::Shown(_))
    }

    /// The index that the client knows it by.
    pub(super) fn index(&self) -> Option<u32> {
        match self.state {
            State::Shown(index) => Some(index),
            State::Blank { .. } | State::Fresh | State::Hidden => None,
        }
    }
}

/// What the client has been shown.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) framing: Box<dyn Framing>,
    /// Whether bytes are wanted, as a stream.
    streams: bool,
    started: bool,
    head: (String, String),
    next_index: u32,
    /// Whether what was shown differs from the one upstream response.
    changed: bool,
    responses: u32,
    visible: bool,
    calls: u32,
    /// The block that has begun and not ended: its index, and whether it is text.
    open: Option<(u32, bool)>,
    /// Shown blocks of the responses that have ended.
    blocks: Vec<Block>,
    /// How many of them came before the response under way.
    before: usize,
    /// Parts that came with the end of the response under way.
    pub(super) late: Vec<u8>,
    original: Option<Vec<u8>>,
}

impl Client {
    pub(super) fn new(framing: Box<dyn Framing>, streams: bool) -> Self {
        Self {
            framing,
            streams,
            started: false,
            head: (String::new(), String::new()),
            next_index: 0,
            changed: false,
            responses: 0,
            visible: false,
            calls: 0,
            open: None,
            blocks: Vec::new(),
            before: 0,
            late: Vec::new(),
            original: None,
        }
    }

    /// The next response begins.
    pub(super) fn mark(&mut self) {
        self.before = self.blocks.len();
    }

    /// The kinds of the blocks shown before it, as letters (`KeptTail::shown`).
    pub(super) fn shown_before(&self) -> String {
        self.blocks.iter().take(self.before).map(Block::letter).collect()
    }

    pub(super) fn shown(&self) -> (&str, &[Block]) {
        (&self.head.0, &self.blocks)
    }

    pub(super) fn has_shown(&self) -> bool {
        self.visible || self.calls > 0
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.streams && (self.calls > 0 || self.open.is_some_and(|(_, text)| !text))
    }

    /// Ends a text that was cut, so that something can follow it.
    pub(super) fn end_block(&mut self, out: &mut Out) {
        if let Some((index, _)) = self.open.take() {
            self.changed = true;
            out.events.push(Event::BlockStop { index });
            if self.streams {
                self.framing.write_stop(index, &mut out.bytes);
            }
        }
    }

    /// Bytes that concern no block.
    pub(super) fn pass(&mut self, raw: &[u8], out: &mut Out) {
        if self.streams {
            self.framing.write_aside(raw, &mut out.bytes);
        }
    }

    /// A whole response as received, for a client that does not stream.
    pub(super) fn original(&mut self, body: &[u8]) {
        self.responses += 1;
        self.original = (self.responses == 1).then(|| body.to_vec());
    }

    pub(super) fn head(&mut self, id: Str<'_>, model: Str<'_>, raw: &[u8], out: &mut Out) {
        if self.begun(id, model) {
            self.pass(raw, out);
        }
    }

    /// A response begins with an event that says more than that; whether it is the first one.
    pub(super) fn begun(&mut self, id: Str<'_>, model: Str<'_>) -> bool {
        self.responses += 1;
        if self.started {
            self.changed = true;
            return false;
        }
        self.started = true;
        self.head = (id.unescape().into_owned(), model.unescape().into_owned());
        true
    }

    /// The same where the event itself is not for the client, or not yet.
    pub(super) fn head_alone(&mut self, id: Str<'_>, model: Str<'_>, out: &mut Out) {
        if self.begun(id, model) && self.streams {
            let reply = self.framing.own(Tokens::default());
            self.framing.write_head(&self.head.0, &self.head.1, &reply, &mut out.bytes);
        }
    }

    /// Parts that came with a message's end which does not go out as it came.
    pub(super) fn flush(&mut self, out: &mut Out) {
        out.bytes.append(&mut self.late);
    }

    /// Shows what is blank, where that is legal.
    pub(super) fn keep_blanks(&mut self, slots: &mut [Slot], out: &mut Out) {
        if !self.framing.keeps_blank() {
            return;
        }
        for slot in slots {
            if let State::Blank { frames, text, .. } = &mut slot.state
                && !frames.is_empty()
            {
                let (frames, text) = (std::mem::take(frames), std::mem::take(text));
                self.unveil(slot, frames, None, text, out);
            }
        }
    }

    /// Ends blocks of a stream that does not say where they end.
    pub(super) fn end_unmarked(&mut self, slots: &[Slot], out: &mut Out) {
        if self.framing.marks_ends() {
            return;
        }
        self.open = None;
        if !out.quiet {
            let shown = slots.iter().filter_map(Slot::index);
            out.events.extend(shown.map(|index| Event::BlockStop { index }));
        }
    }

    /// A part of a block.
    pub(super) fn block(&mut self, slot: &mut Slot, part: &Part<'_>, raw: &[u8], out: &mut Out) {
        match &mut slot.state {
            State::Hidden => self.changed = true,
            State::Shown(index) => {
                let index = *index;
                self.write(&[Placed { part, index }], raw, out);
                self.tell(slot.call.as_deref(), index, part, out);
            }
            State::Fresh => {
                let index = self.take_index();
                slot.state = State::Shown(index);
                self.write(&[Placed { part, index }], raw, out);
                self.tell(slot.call.as_deref(), index, part, out);
            }
            State::Blank { frames, ping, text } => {
                if let More::Text(more) = part.more {
                    more.push_to(text);
                }
                frames.push((part.key, raw.to_vec()));
                let blank = Text::of(text).is_blank() && text.len() <= MAX_BLANK;
                if blank {
                    if part.stops {
                        if let Some((_, ping)) = ping {
                            self.pass(ping, out);
                        }
                        slot.state = State::Hidden;
                        self.changed = true;
                    }
                    return;
                }
                let ping = ping.take();
                let (frames, text) = (std::mem::take(frames), std::mem::take(text));
                self.unveil(slot, frames, ping, text, out);
            }
        }
    }

    /// Shows a text that was held.
    fn unveil(
        &mut self,
        slot: &mut Slot,
        frames: Vec<(u32, Vec<u8>)>,
        ping: Option<(usize, Vec<u8>)>,
        text: String,
        out: &mut Out,
    ) {
        let index = self.take_index();
        slot.state = State::Shown(index);
        self.visible |= !Text::of(&text).is_blank();
        self.open = Some((index, true));
        for (n, (key, frame)) in frames.iter().enumerate() {
            if let Some((_, ping)) = ping.as_ref().filter(|(at, _)| *at == n) {
                self.pass(ping, out);
            }
            self.write(&[Placed { part: &Part::bare(*key), index }], frame, out);
        }
        out.events.push(Event::TextStart);
        out.events.push(Event::TextDelta(text));
    }

    fn take_index(&mut self) -> u32 {
        let index = self.next_index;
        self.next_index += 1;
        index
    }

    /// A received event; nothing where it is written elsewhere.
    pub(super) fn write(&mut self, parts: &[Placed<'_, '_>], raw: &[u8], out: &mut Out) {
        if self.streams && !raw.is_empty() {
            self.framing.write_event(raw, parts, &mut out.bytes);
        }
    }

    /// The event for whoever watches.
    fn tell(&mut self, call: Option<&str>, index: u32, part: &Part<'_>, out: &mut Out) {
        if part.begins.is_some() {
            self.open = Some((index, false));
        }
        if let Some(Begins::Call { server: false, .. }) = part.begins {
            self.calls += 1;
        }
        if part.stops {
            self.open = None;
        }
        if out.quiet {
            return;
        }
        let id = || call.unwrap_or_default().to_owned();
        match part.begins {
            Some(Begins::Thinking) => out.events.push(Event::ThinkingStart),
            Some(Begins::Call { name, .. }) => {
                let name = name.unescape().into_owned();
                out.events.push(Event::ToolStart { id: id(), name });
            }
            Some(Begins::Text | Begins::Other) | None => {}
        }
        match part.more {
            More::Text(text) => out.events.push(Event::TextDelta(text.unescape().into_owned())),
            More::Thinking(text) if !text.is_empty() => {
                out.events.push(Event::ThinkingDelta(text.unescape().into_owned()));
            }
            More::Input(json) => {
                let partial_json = json.unescape().into_owned();
                out.events.push(Event::ToolInputDelta { id: id(), partial_json });
            }
            More::Thinking(_) | More::Nothing => {}
        }
        if part.stops {
            out.events.push(Event::BlockStop { index });
        }
    }

    /// Shows what was held, as far as the verdict says.
    pub(super) fn settle(
        &mut self,
        reply: &Reply,
        show: Show,
        admissions: &[Admission],
        slots: &[Slot],
        out: &mut Out,
    ) {
        if self.head.0.is_empty() {
            self.head = (reply.id.clone(), reply.model.clone());
        }
        let mut admissions = admissions.iter();
        for (n, block) in reply.blocks.iter().enumerate() {
            let admission = matches!(block.seen(), Seen::Call(..)).then(|| admissions.next());
            let shown = slots.get(n).is_some_and(Slot::is_shown);
            if shown {
                self.blocks.push(block.clone());
                continue;
            }
            if !passes(block, show, admission.flatten()) {
                self.changed = true;
                continue;
            }
            self.emit(block, out);
        }
    }

    /// A whole block.
    fn emit(&mut self, block: &Block, out: &mut Out) {
        let index = self.take_index();
        match block.seen() {
            Seen::Text(_) => self.visible = true,
            Seen::Call(Call { server, .. }, _) => self.calls += u32::from(!server),
            Seen::Thinking { .. } | Seen::Result | Seen::Other => {}
        }
        if !out.quiet {
            tell_whole(index, block, out);
        }
        if self.streams {
            self.framing.write_block(index, block, &mut out.bytes);
        }
        self.blocks.push(block.clone());
    }

    /// Ends the client's message after the upstream response of which this is the end.
    pub(super) fn close(
        &mut self,
        reply: &Reply,
        output: u64,
        billed: &[Tokens],
        closing: &[u8],
        out: &mut Out,
    ) {
        let untouched = !self.changed && self.responses <= 1;
        match self.original.take() {
            _ if self.streams && untouched && !closing.is_empty() => {
                self.late.clear();
                self.framing.write_aside(closing, &mut out.bytes);
                return;
            }
            Some(body) if !self.streams && untouched => {
                out.bytes.extend_from_slice(&body);
                return;
            }
            _ => {}
        }
        if self.streams {
            self.flush(out);
            self.ensure_head(reply, out);
        }
        let (head, blocks, calls) = (&self.head, &self.blocks, self.calls);
        let ending = Ending { head, blocks, calls, output, billed };
        if self.streams {
            self.framing.write_end(reply, &ending, &mut out.bytes);
        } else {
            self.framing.write_whole(reply, &ending, &mut out.bytes);
        }
    }

    fn ensure_head(&mut self, reply: &Reply, out: &mut Out) {
        if !self.started {
            self.started = true;
            self.framing.write_head(&self.head.0, &self.head.1, reply, &mut out.bytes);
        }
    }

    /// An answer of softland's, at the end of whatever was shown.
    pub(super) fn local(&mut self, id: &str, model: &str, text: &str, used: Tokens, out: &mut Out) {
        if self.head.0.is_empty() {
            self.head = (id.to_owned(), model.to_owned());
        }
        self.changed = true;
        self.flush(out);
        let reply = self.framing.own(used);
        self.end_block(out);
        if self.streams {
            self.ensure_head(&reply, out);
        }
        let text = self.framing.text(text);
        self.emit(&text, out);
        self.close(&reply, used.output, &[], &[], out);
    }
}

/// The events for whoever watches.
fn tell_whole(index: u32, block: &Block, out: &mut Out) {
    match block.seen() {
        Seen::Text(text) => {
            out.events.extend([Event::TextStart, Event::TextDelta(text.to_owned())]);
        }
        Seen::Thinking { text: Some(thinking), .. } => {
            out.events.push(Event::ThinkingStart);
            out.events.push(Event::ThinkingDelta(thinking.to_owned()));
        }
        Seen::Call(Call { id, name, input, .. }, _) => {
            out.events.push(Event::ToolStart { id: id.to_owned(), name: name.to_owned() });
            let (id, partial_json) = (id.to_owned(), input.to_owned());
            out.events.push(Event::ToolInputDelta { id, partial_json });
        }
        Seen::Thinking { text: None, .. } | Seen::Result | Seen::Other => {}
    }
    out.events.push(Event::BlockStop { index });
}

fn passes(block: &Block, show: Show, admission: Option<&Admission>) -> bool {
    match block.seen() {
        Seen::Text(text) => show != Show::Nothing && !Text::of(text).is_blank(),
        Seen::Call(..) => match (show, admission) {
            (Show::All, Some(admission)) => {
                !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
            }
            (Show::All, None) => true,
            (Show::Landed | Show::Answer, Some(admission)) => *admission == Admission::Answer,
            (Show::Landed | Show::Answer | Show::Text | Show::Nothing, _) => false,
        },
        Seen::Thinking { .. } | Seen::Result | Seen::Other => {
            matches!(show, Show::All | Show::Landed)
        }
    }
}
