//! Responses of the Messages API, and messages for it.

pub(crate) mod block;

use softland_core::{Call, Stop};
use softland_wire::anthropic::{
    Assembler, BlockStartKind, Event, Iteration, ResponseBlock as Native, ResponseMessage,
    Stop as WireStop, StreamEnd as WireEnd, Usage, respond, respond::EndChanges,
};
use softland_wire::json::write_str;
use softland_wire::{Api, Tokens};

use crate::block_view::BlockView;
use crate::framing::{
    BlockPart, EventParts, EventView, Framing, JsonBytes, MAX_RESPONSE, MessageEnd, MessageWriter,
    NewBlock, PartContent, PlacedPart, ProtocolForm, ResponseError, ShapedEnd, Speaker,
    UpstreamEnd, for_each_frame,
};
use crate::reply::{Block, NativeResponse, Reply};

/// The Messages API.
#[derive(Debug)]
pub(crate) struct AnthropicFraming {
    assembler: Assembler,
    /// The number of responses that have begun.
    responses: usize,
    /// True if the response has said why it ends.
    stopped: bool,
    /// True if softland wrote the head of the client's message.
    own_head: bool,
}

impl AnthropicFraming {
    pub(crate) fn new() -> Self {
        Self {
            assembler: Assembler::new(MAX_RESPONSE),
            responses: 0,
            stopped: false,
            own_head: false,
        }
    }

    /// Returns the members of the usage that differ from those received: a JSON object. Behind the
    /// head of another response they are all its members, so that the client learns what this
    /// request held.
    fn usage_changes(&self, message: &ResponseMessage, ending: &MessageEnd<'_>) -> String {
        let usage = usage_shown(message, ending);
        if self.responses <= 1 && !self.own_head {
            return usage.changed_members(&message.usage);
        }
        let mut all = Vec::new();
        usage.write_json(&mut all);
        // It is written from text.
        String::from_utf8(all).unwrap_or_default()
    }
}

/// The fixed properties of the protocol.
const FORM: ProtocolForm = ProtocolForm {
    api: Api::Anthropic,
    text_block: new_text,
    write_ping: respond::write_ping,
    marks_ends: true,
    ties_thinking: false,
    numbers_blocks: true,
    ends_with_content: false,
};

fn new_text(text: &str) -> Block {
    Block::Anthropic(Native::Text { text: text.to_owned(), extra: Default::default() })
}

impl Framing for AnthropicFraming {
    fn begin_response(&mut self) {
        self.assembler = Assembler::new(MAX_RESPONSE);
        self.responses += 1;
        self.stopped = false;
    }

    fn rewind_reading(&mut self) {
        self.stopped = false;
    }

    fn read_event<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<EventView<'f>>, ResponseError> {
        let Ok(event) = Event::from_data(name, data) else { return Ok(None) };
        if fold {
            self.assembler.push(&event).map_err(ResponseError::Assemble)?;
        }
        let mut read = event_view(&event);
        if let Event::MessageDelta(delta) = &event {
            self.stopped |= delta.stop_reason.is_some();
            // Before the reason some servers report usage in this event, too.
            read.closing = self.stopped;
            read.aside = !self.stopped && self.responses <= 1;
        }
        Ok(Some(read))
    }

    fn tokens_so_far(&self) -> Tokens {
        self.assembler.tokens_so_far()
    }

    fn finish_response(&mut self) -> (Reply, UpstreamEnd) {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        let end = match finished.end {
            WireEnd::Stop => UpstreamEnd::Stop,
            WireEnd::Cut => UpstreamEnd::Cut,
            WireEnd::Error { kind, message } => UpstreamEnd::Error { kind, message },
        };
        (build_reply(finished.message), end)
    }

    fn read_whole(&mut self, body: &[u8]) -> Result<Reply, ResponseError> {
        ResponseMessage::from_json(body).map(build_reply).map_err(ResponseError::Json)
    }

    fn own_reply(&self, tokens: Tokens) -> Reply {
        let usage = Usage { tokens, ..Usage::default() };
        build_reply(ResponseMessage {
            stop: Some(WireStop::EndTurn),
            usage,
            ..ResponseMessage::default()
        })
    }

    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>) {
        self.own_head = true;
        respond::write_message_start(out, id, model, &usage_of(reply));
    }

    fn write_event(&mut self, raw: &[u8], parts: &[PlacedPart<'_, '_>], out: &mut Vec<u8>) {
        let moved = parts.iter().find(|placed| placed.part.key != placed.index);
        // The event was read before, so it is an object.
        let written = moved.map(|placed| respond::write_reindexed(out, raw, placed.index));
        if !matches!(written, Some(Ok(()))) {
            out.extend_from_slice(raw);
        }
    }

    /// Returns nothing: every event carries a single part.
    fn split_part(&self, _: &BlockPart<'_>, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>) {
        respond::write_error(out, kind, message);
    }

    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>) {
        let Some(block) = block.as_anthropic() else { return self.write_foreign(out) };
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

    fn write_stop(&mut self, index: u32, _: Option<ShapedEnd<'_>>, out: &mut Vec<u8>) {
        respond::write_block_stop(out, index);
    }

    fn write_end(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        let Some(message) = reply.rest.as_anthropic() else { return self.write_foreign(out) };
        let (stop, usage) = (stop_shown(message, ending), self.usage_changes(message, ending));
        let changes = EndChanges { stop: &stop, usage: &usage };
        let write_reason = |out: &mut Vec<u8>| {
            let (sequence, details) =
                (message.stop_sequence.as_deref(), message.stop_details.as_deref());
            let usage = usage_shown(message, ending);
            respond::write_message_delta(out, &stop, sequence, details, &usage);
        };
        let (mut reasoned, mut stopped) = (false, false);
        for_each_frame(ending.received, |frame| {
            match Event::from_data(frame.event, &frame.data) {
                Ok(Event::MessageDelta(delta)) => {
                    // The event was read before, so it is an object.
                    let written = respond::write_changed_delta(out, frame, &changes);
                    reasoned |= delta.stop_reason.is_some() && written.is_ok();
                }
                Ok(Event::MessageStop) => {
                    if !std::mem::replace(&mut reasoned, true) {
                        write_reason(out);
                    }
                    stopped = true;
                    out.extend_from_slice(frame.raw);
                }
                Ok(Event::Error { .. }) => {}
                _ => out.extend_from_slice(frame.raw),
            }
        });
        if !reasoned {
            write_reason(out);
        }
        if !stopped {
            respond::write_message_stop(out);
        }
    }

    fn write_whole(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        // The host answers an empty message with an error.
        let Some(message) = reply.rest.as_anthropic() else { return };
        let (stop, (id, model)) = (stop_shown(message, ending), ending.head.clone());
        let blocks: Vec<_> =
            ending.blocks.iter().filter_map(Block::as_anthropic).cloned().collect();
        let usage = self.usage_changes(message, ending);
        let changes = EndChanges { stop: &stop, usage: &usage };
        if let Ok(body) = std::str::from_utf8(ending.received)
            && respond::write_changed_message(out, body, (&id, &model), &blocks, &changes).is_ok()
        {
            return;
        }
        let whole = ResponseMessage {
            id,
            model,
            blocks,
            stop: Some(stop),
            stop_sequence: message.stop_sequence.clone(),
            stop_details: message.stop_details.clone(),
            usage: usage_shown(message, ending),
        };
        respond::write_message(out, &whole);
    }
}

impl MessageWriter for AnthropicFraming {
    fn form(&self) -> &'static ProtocolForm {
        &FORM
    }

    fn assistant_message(&self, blocks: &[Block]) -> JsonBytes {
        let mut out = br#"{"role":"assistant","content":["#.to_vec();
        for (n, block) in blocks.iter().filter_map(Block::as_anthropic).enumerate() {
            if n > 0 {
                out.push(b',');
            }
            block.write_json(&mut out);
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn text_message(&self, who: Speaker, text: &str) -> JsonBytes {
        let mut out = br#"{"role":"#.to_vec();
        write_str(&mut out, who.role_name());
        out.extend_from_slice(br#","content":"#);
        write_str(&mut out, text);
        out.push(b'}');
        out
    }

    fn result_messages(&self, answers: &[(Call<'_>, String)]) -> JsonBytes {
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

fn event_view<'f>(event: &Event<'f>) -> EventView<'f> {
    let known = !matches!(event, Event::Unknown { .. });
    let mut read = EventView { known, ..EventView::default() };
    match event {
        Event::MessageStart(start) => {
            read.head = Some((start.id, start.model));
            let whole = (0..).zip(&start.content).map(|(key, block)| whole_part(key, &block.kind));
            read.parts = match start.content.as_slice() {
                [] => EventParts::None,
                _ => EventParts::Many(whole.collect()),
            };
        }
        Event::Ping => read.ping = true,
        Event::MessageStop | Event::Error { .. } => {
            read.closing = true;
            read.over = true;
        }
        Event::Unknown { .. } => {}
        _ => {
            read.parts = event
                .index()
                .map_or(EventParts::None, |key| EventParts::One(part_of_event(key, event)))
        }
    }
    read
}

fn part_of_event<'f>(key: u32, event: &Event<'f>) -> BlockPart<'f> {
    let (begins, more) = match event {
        Event::BlockStart { block, .. } => new_block(&block.kind),
        Event::TextDelta { text, .. } => (None, PartContent::Text(*text)),
        Event::ThinkingDelta { text, .. } => (None, PartContent::Thinking(*text)),
        Event::InputJsonDelta { partial_json, .. } => (None, PartContent::Input(*partial_json)),
        _ => (None, PartContent::Nothing),
    };
    BlockPart {
        key,
        begins,
        anew: begins.is_some(),
        more,
        stops: matches!(event, Event::BlockStop { .. }),
        again: false,
    }
}

fn new_block<'f>(kind: &BlockStartKind<'f>) -> (Option<NewBlock<'f>>, PartContent<'f>) {
    match *kind {
        BlockStartKind::Text { text } => (Some(NewBlock::Text), PartContent::Text(text)),
        BlockStartKind::Thinking { thinking, .. } => {
            (Some(NewBlock::Thinking), PartContent::Thinking(thinking))
        }
        BlockStartKind::ToolUse { id, name, server, .. } => {
            (Some(NewBlock::Call { id, name, server }), PartContent::Nothing)
        }
        BlockStartKind::Redacted { .. } | BlockStartKind::Other { .. } => {
            (Some(NewBlock::Other), PartContent::Nothing)
        }
    }
}

/// Returns the part of a block that stands whole in the message's first event.
fn whole_part<'f>(key: u32, kind: &BlockStartKind<'f>) -> BlockPart<'f> {
    let (begins, more) = new_block(kind);
    BlockPart { begins, more, stops: true, ..BlockPart::with_key(key) }
}

fn build_reply(mut message: ResponseMessage) -> Reply {
    let blocks: Vec<_> =
        std::mem::take(&mut message.blocks).into_iter().map(Block::Anthropic).collect();
    let cut = match &message.stop {
        Some(stop) => matches!(
            stop,
            WireStop::MaxTokens | WireStop::ContextWindowExceeded | WireStop::Refusal
        ),
        // A message without a reason is whole if its last call is.
        None => ends_in_half_a_call(&blocks),
    };
    Reply {
        id: std::mem::take(&mut message.id),
        model: std::mem::take(&mut message.model),
        blocks,
        stop: stop_reason_of(message.stop.as_ref()),
        whole: !cut,
        tokens: message.usage.tokens,
        billed: message.usage.billed_tokens(),
        rest: NativeResponse::Anthropic(Box::new(message)),
        tagged: None,
    }
}

fn stop_reason_of(stop: Option<&WireStop>) -> Stop {
    match stop {
        Some(WireStop::EndTurn | WireStop::ToolUse) => Stop::Natural,
        Some(WireStop::MaxTokens) => Stop::Length,
        Some(WireStop::StopSequence) => Stop::Sequence,
        Some(WireStop::PauseTurn) => Stop::Pause,
        Some(WireStop::Refusal) => Stop::Refusal,
        Some(WireStop::ContextWindowExceeded) => Stop::ContextFull,
        Some(_) => Stop::Other,
        None => Stop::Unknown,
    }
}

fn ends_in_half_a_call(blocks: &[Block]) -> bool {
    matches!(blocks.last().map(Block::as_view), Some(BlockView::Call(_, false)))
}

/// Returns the stop reason for the client. `tool_use` is true only of a message with a call in it.
fn stop_shown(message: &ResponseMessage, ending: &MessageEnd<'_>) -> WireStop {
    match &message.stop {
        Some(WireStop::ToolUse) if ending.calls == 0 => WireStop::EndTurn,
        Some(stop) => stop.clone(),
        None if ending.calls > 0 => WireStop::ToolUse,
        None => WireStop::EndTurn,
    }
}

fn usage_of(reply: &Reply) -> Usage {
    reply.rest.as_anthropic().map(|message| message.usage.clone()).unwrap_or_default()
}

/// Returns the usage for the client: the context size of the last request, and the output that the
/// client got. The iterations list each request, where there were several or where the client did
/// not get all of the only one.
fn usage_shown(message: &ResponseMessage, ending: &MessageEnd<'_>) -> Usage {
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
    block.write_json(&mut json);
    // Blocks are written from text, so they are UTF-8.
    let json = String::from_utf8(json).unwrap_or_default();
    respond::write_block_start(out, index, &json);
}
