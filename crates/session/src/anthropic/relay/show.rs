//! The client's side of a relay: which blocks it has, under which index, and how its message ends.

use softland_core::{Admission, Text};
use softland_wire::Tokens;
use softland_wire::anthropic::{
    Block, BlockStartKind, Event as Wire, Iteration, Message, MessageStart, Stop, Usage, respond,
};

use super::MAX_BLANK;
use crate::out::{Event, Out};

/// How much of what was held is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    /// Every block; calls as they are admitted.
    All,
    /// Visible text only: thinking is signed over a tail that the client never sees.
    Text,
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
    Blank { frames: Vec<Vec<u8>>, ping: Option<(usize, Vec<u8>)>, text: String },
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
}

/// What the client has been shown.
#[derive(Debug)]
pub(super) struct Client {
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
    original: Option<Vec<u8>>,
}

impl Client {
    pub(super) fn new(streams: bool) -> Self {
        Self {
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
            original: None,
        }
    }

    /// The next response begins.
    pub(super) fn mark(&mut self) {
        self.before = self.blocks.len();
    }

    /// The kinds of the blocks shown before it, as letters (`KeptTail::shown`).
    pub(super) fn shown_before(&self) -> String {
        let letters = self.blocks.iter().take(self.before).map(|block| match block {
            Block::Text { .. } => 't',
            Block::Thinking { .. } | Block::Redacted { .. } => 'k',
            Block::ToolUse { .. } => 'c',
            Block::Other { .. } => 'o',
        });
        letters.collect()
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
                respond::write_block_stop(&mut out.bytes, index);
            }
        }
    }

    /// Bytes that concern no block.
    pub(super) fn pass(&self, raw: &[u8], out: &mut Out) {
        if self.streams {
            out.bytes.extend_from_slice(raw);
        }
    }

    /// A whole response as received, for a client that does not stream.
    pub(super) fn original(&mut self, body: &[u8]) {
        self.responses += 1;
        self.original = (self.responses == 1).then(|| body.to_vec());
    }

    pub(super) fn head(&mut self, start: &MessageStart<'_>, raw: &[u8], out: &mut Out) {
        self.responses += 1;
        if self.started {
            self.changed = true;
            return;
        }
        self.started = true;
        self.head = (start.id.unescape().into_owned(), start.model.unescape().into_owned());
        self.pass(raw, out);
    }

    /// An event of a block.
    pub(super) fn block(&mut self, slot: &mut Slot, event: &Wire<'_>, raw: &[u8], out: &mut Out) {
        match &mut slot.state {
            State::Hidden => self.changed = true,
            State::Shown(index) => {
                let index = *index;
                self.write(index, event, raw, out);
                self.tell(slot.call.as_deref(), index, event, out);
            }
            State::Fresh => {
                let index = self.take_index();
                slot.state = State::Shown(index);
                self.write(index, event, raw, out);
                self.tell(slot.call.as_deref(), index, event, out);
            }
            State::Blank { frames, ping, text } => {
                push_text(event, text);
                frames.push(raw.to_vec());
                let blank = Text::of(text).is_blank() && text.len() <= MAX_BLANK;
                if blank {
                    if matches!(event, Wire::BlockStop { .. }) {
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
                let index = self.take_index();
                slot.state = State::Shown(index);
                self.visible = true;
                self.open = Some((index, true));
                for (n, frame) in frames.iter().enumerate() {
                    if let Some((_, ping)) = ping.as_ref().filter(|(at, _)| *at == n) {
                        self.pass(ping, out);
                    }
                    self.reindexed(index, frame, out);
                }
                out.events.push(Event::TextStart);
                out.events.push(Event::TextDelta(text));
            }
        }
    }

    fn take_index(&mut self) -> u32 {
        let index = self.next_index;
        self.next_index += 1;
        index
    }

    fn write(&self, index: u32, event: &Wire<'_>, raw: &[u8], out: &mut Out) {
        if event.index() == Some(index) {
            self.pass(raw, out);
        } else {
            self.reindexed(index, raw, out);
        }
    }

    fn reindexed(&self, index: u32, raw: &[u8], out: &mut Out) {
        if self.streams && respond::write_reindexed(&mut out.bytes, raw, index).is_err() {
            // It was decoded before, so it is an object.
            out.bytes.extend_from_slice(raw);
        }
    }

    /// The event for whoever watches.
    fn tell(&mut self, call: Option<&str>, index: u32, event: &Wire<'_>, out: &mut Out) {
        match event {
            Wire::BlockStart { .. } => self.open = Some((index, false)),
            Wire::BlockStop { .. } => self.open = None,
            _ => {}
        }
        if out.quiet {
            if let Wire::BlockStart { block, .. } = event {
                let call = matches!(block.kind, BlockStartKind::ToolUse { server: false, .. });
                self.calls += u32::from(call);
            }
            return;
        }
        match event {
            Wire::BlockStart { block, .. } => match block.kind {
                BlockStartKind::Thinking { thinking, .. } => {
                    out.events.push(Event::ThinkingStart);
                    if !thinking.is_empty() {
                        out.events.push(Event::ThinkingDelta(thinking.unescape().into_owned()));
                    }
                }
                BlockStartKind::ToolUse { name, server, .. } => {
                    self.calls += u32::from(!server);
                    let id = call.unwrap_or_default().to_owned();
                    out.events.push(Event::ToolStart { id, name: name.unescape().into_owned() });
                }
                BlockStartKind::Text { .. }
                | BlockStartKind::Redacted { .. }
                | BlockStartKind::Other { .. } => {}
            },
            Wire::TextDelta { text, .. } => {
                out.events.push(Event::TextDelta(text.unescape().into_owned()));
            }
            Wire::ThinkingDelta { text, .. } if !text.is_empty() => {
                out.events.push(Event::ThinkingDelta(text.unescape().into_owned()));
            }
            Wire::InputJsonDelta { partial_json, .. } => out.events.push(Event::ToolInputDelta {
                id: call.unwrap_or_default().to_owned(),
                partial_json: partial_json.unescape().into_owned(),
            }),
            Wire::BlockStop { .. } => out.events.push(Event::BlockStop { index }),
            _ => {}
        }
    }

    /// Shows what was held, as far as the verdict says.
    pub(super) fn settle(
        &mut self,
        message: &Message,
        show: Show,
        admissions: &[Admission],
        slots: &[Slot],
        out: &mut Out,
    ) {
        if self.head.0.is_empty() {
            self.head = (message.id.clone(), message.model.clone());
        }
        let mut admissions = admissions.iter();
        for (n, block) in message.blocks.iter().enumerate() {
            let admission = matches!(block, Block::ToolUse { .. }).then(|| admissions.next());
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
        match block {
            Block::Text { text, .. } => {
                self.visible = true;
                out.events.extend([Event::TextStart, Event::TextDelta(text.clone())]);
            }
            Block::Thinking { thinking, .. } => {
                out.events.push(Event::ThinkingStart);
                out.events.push(Event::ThinkingDelta(thinking.clone()));
            }
            Block::ToolUse { id, name, input, server, .. } => {
                self.calls += u32::from(!server);
                out.events.push(Event::ToolStart { id: id.clone(), name: name.clone() });
                let (id, partial_json) = (id.clone(), input.clone());
                out.events.push(Event::ToolInputDelta { id, partial_json });
            }
            Block::Redacted { .. } | Block::Other { .. } => {}
        }
        out.events.push(Event::BlockStop { index });
        if self.streams {
            write_block(index, block, out);
        }
        self.blocks.push(block.clone());
    }

    /// Ends the client's message after the upstream response of which this is the end.
    pub(super) fn close(
        &mut self,
        message: &Message,
        output: u64,
        billed: &[Tokens],
        closing: &[u8],
        out: &mut Out,
    ) {
        let untouched = !self.changed && self.responses <= 1;
        if self.streams {
            if untouched && !closing.is_empty() {
                out.bytes.extend_from_slice(closing);
            } else {
                self.end(message, output, billed, out);
            }
            return;
        }
        match self.original.take() {
            Some(body) if untouched => out.bytes.extend_from_slice(&body),
            _ => self.write_whole(message, output, billed, out),
        }
    }

    fn end(&mut self, message: &Message, output: u64, billed: &[Tokens], out: &mut Out) {
        let usage = shown_usage(message, output, billed);
        let stop = self.stop(message);
        let (sequence, details) =
            (message.stop_sequence.as_deref(), message.stop_details.as_deref());
        self.ensure_head(&usage, out);
        respond::write_message_delta(&mut out.bytes, &stop, sequence, details, &usage);
        respond::write_message_stop(&mut out.bytes);
    }

    fn ensure_head(&mut self, usage: &Usage, out: &mut Out) {
        if !self.started {
            self.started = true;
            respond::write_message_start(&mut out.bytes, &self.head.0, &self.head.1, usage);
        }
    }

    fn write_whole(&self, message: &Message, output: u64, billed: &[Tokens], out: &mut Out) {
        let whole = Message {
            id: self.head.0.clone(),
            model: self.head.1.clone(),
            blocks: self.blocks.clone(),
            stop: Some(self.stop(message)),
            stop_sequence: message.stop_sequence.clone(),
            stop_details: message.stop_details.clone(),
            usage: shown_usage(message, output, billed),
        };
        respond::write_message(&mut out.bytes, &whole);
    }

    /// `tool_use` is true only of a message with a call in it.
    fn stop(&self, message: &Message) -> Stop {
        match &message.stop {
            Some(Stop::ToolUse) if self.calls == 0 => Stop::EndTurn,
            Some(stop) => stop.clone(),
            None => Stop::EndTurn,
        }
    }

    /// An answer of softland's, at the end of whatever was shown.
    pub(super) fn local(&mut self, id: &str, model: &str, text: &str, used: Tokens, out: &mut Out) {
        if self.head.0.is_empty() {
            self.head = (id.to_owned(), model.to_owned());
        }
        self.changed = true;
        let usage = Usage { tokens: used, ..Usage::default() };
        let text = Block::Text { text: text.to_owned(), extra: Default::default() };
        let message =
            Message { stop: Some(Stop::EndTurn), usage: usage.clone(), ..Message::default() };
        self.end_block(out);
        if self.streams {
            self.ensure_head(&usage, out);
        }
        self.emit(&text, out);
        self.close(&message, used.output, &[], &[], out);
    }
}

fn push_text(event: &Wire<'_>, text: &mut String) {
    match event {
        Wire::BlockStart { block, .. } => {
            if let BlockStartKind::Text { text: first } = block.kind {
                first.push_to(text);
            }
        }
        Wire::TextDelta { text: more, .. } => more.push_to(text),
        _ => {}
    }
}

fn passes(block: &Block, show: Show, admission: Option<&Admission>) -> bool {
    match block {
        Block::Text { text, .. } => show != Show::Nothing && !Text::of(text).is_blank(),
        Block::ToolUse { .. } => match (show, admission) {
            (Show::All, Some(admission)) => {
                !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
            }
            (Show::All, None) => true,
            (Show::Answer, Some(admission)) => *admission == Admission::Answer,
            (Show::Answer | Show::Text | Show::Nothing, _) => false,
        },
        Block::Thinking { .. } | Block::Redacted { .. } | Block::Other { .. } => show == Show::All,
    }
}

/// Context size as the last request had it, and what the client got; behind several requests, each
/// of them among the iterations.
fn shown_usage(message: &Message, output: u64, billed: &[Tokens]) -> Usage {
    let mut usage = message.usage.clone();
    usage.tokens.output = output;
    if billed.len() > 1 {
        let iteration = |tokens: &Tokens| Iteration {
            kind: "message".to_owned(),
            model: None,
            tokens: *tokens,
        };
        usage.iterations = billed.iter().map(iteration).collect();
    }
    usage
}

fn write_block(index: u32, block: &Block, out: &mut Out) {
    match block {
        Block::Text { text, .. } => respond::write_text_block(&mut out.bytes, index, text),
        Block::ToolUse { input, .. } => {
            let mut bare = block.clone();
            if let Block::ToolUse { input, .. } = &mut bare {
                "{}".clone_into(input);
            }
            write_start(index, &bare, out);
            respond::write_input_json_delta(&mut out.bytes, index, input);
            respond::write_block_stop(&mut out.bytes, index);
        }
        _ => {
            write_start(index, block, out);
            respond::write_block_stop(&mut out.bytes, index);
        }
    }
}

fn write_start(index: u32, block: &Block, out: &mut Out) {
    let mut json = Vec::new();
    block.write(&mut json);
    // Blocks are written from text.
    let json = String::from_utf8(json).unwrap_or_default();
    respond::write_block_start(&mut out.bytes, index, &json);
}
