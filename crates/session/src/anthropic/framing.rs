//! Responses of the Messages API, and messages for it.

use softland_core::{Call, Stop};
use softland_wire::Tokens;
use softland_wire::anthropic::{
    Assembler, Block as Native, BlockStartKind, End as WireEnd, Event, Iteration, Message,
    Stop as WireStop, Usage, respond,
};
use softland_wire::json::write_str;

use crate::framing::{
    Begins, Broken, End, Ending, Framing, Json, MAX_RESPONSE, More, Part, Parts, Placed, Read, Who,
};
use crate::reply::{Block, Reply, Rest, Seen};

/// The Messages API.
#[derive(Debug)]
pub(crate) struct Anthropic {
    assembler: Assembler,
}

impl Anthropic {
    pub(crate) fn new() -> Self {
        Self { assembler: Assembler::new(MAX_RESPONSE) }
    }
}

impl Framing for Anthropic {
    fn begin(&mut self) {
        self.assembler = Assembler::new(MAX_RESPONSE);
    }

    fn read<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<Read<'f>>, Broken> {
        let Ok(event) = Event::decode(name, data) else { return Ok(None) };
        if fold {
            self.assembler.push(&event).map_err(Broken::Assemble)?;
        }
        Ok(Some(read(&event)))
    }

    fn so_far(&self) -> Tokens {
        self.assembler.so_far()
    }

    fn finish(&mut self) -> (Reply, End) {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        let end = match finished.end {
            WireEnd::Stop => End::Stop,
            WireEnd::Cut => End::Cut,
            WireEnd::Error { kind, message } => End::Error { kind, message },
        };
        (reply(finished.message), end)
    }

    fn whole(&mut self, body: &[u8]) -> Result<Reply, Broken> {
        Message::from_json(body).map(reply).map_err(Broken::Json)
    }

    fn own(&self, tokens: Tokens) -> Reply {
        let usage = Usage { tokens, ..Usage::default() };
        reply(Message { stop: Some(WireStop::EndTurn), usage, ..Message::default() })
    }

    fn text(&self, text: &str) -> Block {
        Block::Anthropic(Native::Text { text: text.to_owned(), extra: Default::default() })
    }

    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>) {
        respond::write_message_start(out, id, model, &usage_of(reply));
    }

    fn write_event(&mut self, raw: &[u8], parts: &[Placed<'_, '_>], out: &mut Vec<u8>) {
        let moved = parts.iter().find(|placed| placed.part.key != placed.index);
        // The event was read before, so it is an object.
        let written = moved.map(|placed| respond::write_reindexed(out, raw, placed.index));
        if !matches!(written, Some(Ok(()))) {
            out.extend_from_slice(raw);
        }
    }

    /// Returns nothing: every event carries a single part.
    fn alone(&self, _: &Part<'_>) -> Vec<u8> {
        Vec::new()
    }

    fn write_ping(&self, out: &mut Vec<u8>) {
        respond::write_ping(out);
    }

    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>) {
        respond::write_error(out, kind, message);
    }

    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>) {
        let Block::Anthropic(block) = block else { return };
        match block {
            Native::Text { text, .. } => respond::write_text_block(out, index, text),
            Native::ToolUse { input, .. } => {
                let mut bare = block.clone();
                if let Native::ToolUse { input, .. } = &mut bare {
                    "{}".clone_into(input);
                }
                write_start(index, &bare, out);
                respond::write_input_json_delta(out, index, input);
                respond::write_block_stop(out, index);
            }
            _ => {
                write_start(index, block, out);
                respond::write_block_stop(out, index);
            }
        }
    }

    fn write_stop(&mut self, index: u32, out: &mut Vec<u8>) {
        respond::write_block_stop(out, index);
    }

    fn write_end(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>) {
        let Rest::Anthropic(message) = &reply.rest else { return };
        let stop = stop_shown(message, ending);
        let (sequence, details) =
            (message.stop_sequence.as_deref(), message.stop_details.as_deref());
        respond::write_message_delta(out, &stop, sequence, details, &usage_shown(message, ending));
        respond::write_message_stop(out);
    }

    fn write_whole(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>) {
        let Rest::Anthropic(message) = &reply.rest else { return };
        let (id, model) = ending.head.clone();
        let whole = Message {
            id,
            model,
            blocks: natives(ending.blocks).cloned().collect(),
            stop: Some(stop_shown(message, ending)),
            stop_sequence: message.stop_sequence.clone(),
            stop_details: message.stop_details.clone(),
            usage: usage_shown(message, ending),
        };
        respond::write_message(out, &whole);
    }

    fn assistant(&self, blocks: &[Block]) -> Json {
        let mut out = br#"{"role":"assistant","content":["#.to_vec();
        for (n, block) in natives(blocks).enumerate() {
            if n > 0 {
                out.push(b',');
            }
            block.write(&mut out);
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn said(&self, who: Who, text: &str) -> Json {
        let mut out = br#"{"role":"#.to_vec();
        write_str(&mut out, who.role());
        out.extend_from_slice(br#","content":"#);
        write_str(&mut out, text);
        out.push(b'}');
        out
    }

    fn results(&self, answers: &[(Call<'_>, String)]) -> Json {
        let mut out = br#"{"role":"user","content":["#.to_vec();
        for (n, (call, text)) in answers.iter().enumerate() {
            if n > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"type":"tool_result","tool_use_id":"#);
            write_str(&mut out, call.id);
            out.extend_from_slice(br#","content":"#);
            write_str(&mut out, text);
            out.extend_from_slice(br#","is_error":true}"#);
        }
        out.extend_from_slice(b"]}");
        out
    }
}

fn natives(blocks: &[Block]) -> impl Iterator<Item = &Native> {
    blocks.iter().filter_map(|block| match block {
        Block::Anthropic(block) => Some(block),
        Block::Chat(_) | Block::Responses(_) => None,
    })
}

/// Returns the rules' view of a block.
pub(crate) fn seen(block: &Native) -> Seen<'_> {
    match block {
        Native::Text { text, .. } => Seen::Text(text),
        Native::Thinking { thinking, signature, .. } => {
            Seen::Thinking { text: Some(thinking), signed: !signature.is_empty() }
        }
        Native::Redacted { .. } => Seen::Thinking { text: None, signed: true },
        Native::ToolUse { id, name, input, complete, server, .. } => {
            Seen::Call(Call { id, name, input, server: *server }, *complete)
        }
        Native::Other { kind, .. } if kind.ends_with("_tool_result") => Seen::Result,
        Native::Other { .. } => Seen::Other,
    }
}

fn read<'f>(event: &Event<'f>) -> Read<'f> {
    let known = !matches!(event, Event::Unknown { .. });
    let mut read = Read { known, ..Read::default() };
    match event {
        Event::MessageStart(start) => {
            read.head = Some((start.id, start.model));
            let whole = (0..).zip(&start.content).map(|(key, block)| whole(key, &block.kind));
            read.parts = match start.content.as_slice() {
                [] => Parts::None,
                _ => Parts::Many(whole.collect()),
            };
        }
        Event::Ping => read.ping = true,
        Event::MessageDelta(_) => read.closing = true,
        Event::MessageStop | Event::Error { .. } => {
            read.closing = true;
            read.over = true;
        }
        Event::Unknown { .. } => {}
        _ => read.parts = event.index().map_or(Parts::None, |key| Parts::One(part(key, event))),
    }
    read
}

fn part<'f>(key: u32, event: &Event<'f>) -> Part<'f> {
    let (begins, more) = match event {
        Event::BlockStart { block, .. } => begins(&block.kind),
        Event::TextDelta { text, .. } => (None, More::Text(*text)),
        Event::ThinkingDelta { text, .. } => (None, More::Thinking(*text)),
        Event::InputJsonDelta { partial_json, .. } => (None, More::Input(*partial_json)),
        _ => (None, More::Nothing),
    };
    Part {
        key,
        begins,
        anew: begins.is_some(),
        more,
        stops: matches!(event, Event::BlockStop { .. }),
        again: false,
    }
}

fn begins<'f>(kind: &BlockStartKind<'f>) -> (Option<Begins<'f>>, More<'f>) {
    match *kind {
        BlockStartKind::Text { text } => (Some(Begins::Text), More::Text(text)),
        BlockStartKind::Thinking { thinking, .. } => {
            (Some(Begins::Thinking), More::Thinking(thinking))
        }
        BlockStartKind::ToolUse { id, name, server, .. } => {
            (Some(Begins::Call { id, name, server }), More::Nothing)
        }
        BlockStartKind::Redacted { .. } | BlockStartKind::Other { .. } => {
            (Some(Begins::Other), More::Nothing)
        }
    }
}

/// Returns the part of a block that stands whole in the message's first event.
fn whole<'f>(key: u32, kind: &BlockStartKind<'f>) -> Part<'f> {
    let (begins, more) = begins(kind);
    Part { begins, more, stops: true, ..Part::bare(key) }
}

fn reply(mut message: Message) -> Reply {
    let blocks = std::mem::take(&mut message.blocks).into_iter().map(Block::Anthropic).collect();
    let cut = matches!(
        message.stop,
        None | Some(WireStop::MaxTokens | WireStop::ContextWindowExceeded | WireStop::Refusal)
    );
    Reply {
        id: std::mem::take(&mut message.id),
        model: std::mem::take(&mut message.model),
        blocks,
        stop: stop(message.stop.as_ref()),
        whole: !cut,
        tokens: message.usage.tokens,
        billed: message.usage.billed(),
        rest: Rest::Anthropic(Box::new(message)),
        tagged: None,
    }
}

fn stop(stop: Option<&WireStop>) -> Stop {
    match stop {
        Some(WireStop::EndTurn | WireStop::ToolUse) => Stop::Natural,
        Some(WireStop::MaxTokens) => Stop::Length,
        Some(WireStop::StopSequence) => Stop::Sequence,
        Some(WireStop::PauseTurn) => Stop::Pause,
        Some(WireStop::Refusal) => Stop::Refusal,
        Some(WireStop::ContextWindowExceeded) => Stop::ContextFull,
        _ => Stop::Unknown,
    }
}

/// Returns the stop reason for the client. `tool_use` is true only of a message with a call in it.
fn stop_shown(message: &Message, ending: &Ending<'_>) -> WireStop {
    match &message.stop {
        Some(WireStop::ToolUse) if ending.calls == 0 => WireStop::EndTurn,
        Some(stop) => stop.clone(),
        None => WireStop::EndTurn,
    }
}

fn usage_of(reply: &Reply) -> Usage {
    match &reply.rest {
        Rest::Anthropic(message) => message.usage.clone(),
        Rest::Chat(_) | Rest::Responses(_) => Usage { tokens: reply.tokens, ..Usage::default() },
    }
}

/// Returns the usage for the client: the context size of the last request, and the output that the
/// client got. The iterations list each request, where there were several or where the client did
/// not get all of the only one.
fn usage_shown(message: &Message, ending: &Ending<'_>) -> Usage {
    let mut usage = message.usage.clone();
    usage.tokens.output = ending.output;
    let hidden = match ending.billed {
        [] => false,
        [one] => usage.iterations.is_empty() && one.output != ending.output,
        _ => true,
    };
    if hidden {
        let iteration = |tokens: &Tokens| Iteration {
            kind: "message".to_owned(),
            model: None,
            tokens: *tokens,
        };
        usage.iterations = ending.billed.iter().map(iteration).collect();
    }
    usage
}

fn write_start(index: u32, block: &Native, out: &mut Vec<u8>) {
    let mut json = Vec::new();
    block.write(&mut json);
    // Blocks are written from text, so they are UTF-8.
    let json = String::from_utf8(json).unwrap_or_default();
    respond::write_block_start(out, index, &json);
}
