//! Chat Completions: its responses, and messages for it.

pub(crate) mod block;
mod details;
mod end;

use std::collections::BTreeMap;

use softland_core::{Call, Stop, VisibleText};
use softland_wire::chat::respond::{self, CallEdit, ContentEdit, Head, Rewrite};
use softland_wire::chat::{
    Assembler, CallDelta, Chunk, Event, Finish, Finished, Piece, ResponseMessage,
    StreamEnd as WireEnd, Usage, read_pieces,
};
use softland_wire::sse::Decoder;
use softland_wire::{Api, Tokens};

use crate::framing::{
    BlockPart, EventParts, EventView, Framing, JsonBytes, MAX_RESPONSE, MessageEnd, MessageWriter,
    NewBlock, PartContent, PlacedPart, ProtocolForm, ResponseError, ShapedEnd, Speaker,
    StreamTerms, UpstreamEnd, for_each_frame, write_comment,
};
use crate::reply::{Block, NativeResponse, Reply};
use block::{CALLS, ChatBlock, MEMBERS, REASONING, REFUSAL, TEXT, is_nothing};
use end::{finish_shown, usage_shown};

/// Chat Completions, in whatever dialect.
#[derive(Debug)]
pub(crate) struct ChatFraming {
    /// The response under way.
    response: ResponseState,
    /// The number of responses that have begun.
    responses: u32,
    /// The id, time and model in every chunk of the client's stream.
    head: Option<(String, u64, String)>,
    /// The index that the vendor gives its first call: 0, or 1.
    origin: Option<u32>,
    /// True if an index came that is not the call's place behind the first.
    irregular: bool,
    /// The number of calls that the client was shown.
    calls: u32,
    /// The index behind those of all `reasoning_details` so far.
    details: u64,
    /// True if text was shown.
    text: bool,
    terms: StreamTerms,
}

/// The state of one upstream response.
#[derive(Debug)]
struct ResponseState {
    assembler: Assembler,
    reading: ReadingState,
    /// The place of its blocks in the order in which they began, by their keys.
    places: BTreeMap<u32, usize>,
    /// The index by which the client knows each of its calls.
    shown: BTreeMap<u32, u32>,
    /// The first index for its `reasoning_details`.
    details_from: u64,
    /// True if its text needs a gap before it.
    gap: bool,
}

/// The state of one reading of a response: its beginning may be read twice.
#[derive(Debug)]
struct ReadingState {
    /// The assembler that tells which call a piece belongs to.
    placer: Assembler,
    /// True if the response has begun.
    begun: bool,
    /// True if it has said why it ended.
    finished: bool,
}

impl ReadingState {
    fn new() -> Self {
        Self { placer: Assembler::new(MAX_RESPONSE), begun: false, finished: false }
    }
}

impl ResponseState {
    /// Creates the state of a response. `details_from` is the first index for its
    /// `reasoning_details`, and `gap` is true if its text needs a gap before it.
    fn new(details_from: u64, gap: bool) -> Self {
        Self {
            assembler: Assembler::new(MAX_RESPONSE),
            reading: ReadingState::new(),
            places: BTreeMap::new(),
            shown: BTreeMap::new(),
            details_from,
            gap,
        }
    }
}

impl ChatFraming {
    pub(crate) fn new(terms: StreamTerms) -> Self {
        Self {
            response: ResponseState::new(0, false),
            responses: 0,
            head: None,
            origin: None,
            irregular: false,
            calls: 0,
            details: 0,
            text: false,
            terms,
        }
    }

    fn read_chunk<'f>(&mut self, chunk: &Chunk<'f>) -> EventView<'f> {
        let mut read = EventView { known: true, ..EventView::default() };
        if !self.response.reading.begun && !chunk.choices.is_empty() {
            self.response.reading.begun = true;
            read.head = Some((chunk.id, chunk.model));
            let (id, model) = (chunk.id.unescape().into_owned(), chunk.model.unescape());
            let head = (id, chunk.created.unwrap_or(0), model.into_owned());
            self.head.get_or_insert(head);
        }
        let mut parts = Vec::new();
        if let Some(choice) = chunk.choices.first() {
            if let Some(list) = choice.delta.reasoning_details {
                let next = self.response.details_from.saturating_add(details::next_index(list));
                self.details = self.details.max(next);
            }
            self.read_parts(&choice.delta, &mut parts);
            read.closing = choice.finish_reason.is_some();
            self.response.reading.finished |= read.closing;
        }
        for part in &parts {
            let place = self.response.places.len();
            self.response.places.entry(part.key).or_insert(place);
        }
        read.parts = match parts.as_slice() {
            [] => EventParts::None,
            [part] => EventParts::One(*part),
            _ => EventParts::Many(parts),
        };
        // Behind an error only `[DONE]` comes, or nothing.
        // Some vendors report usage with each chunk.
        read.closing |=
            (chunk.usage.is_some() && self.response.reading.finished) || chunk.error.is_some();
        read.aside = matches!(read.parts, EventParts::None) && self.responses <= 1;
        read.hidden = self.terms.hidden_usage && chunk.choices.is_empty() && chunk.usage.is_some();
        read
    }

    /// True if a piece of a call has an index that is not its place behind the first call.
    fn is_irregular(&self, chunk: &Chunk<'_>) -> bool {
        let origin = self.origin.unwrap_or(0);
        let pieces = chunk.choices.iter().flat_map(|choice| &choice.delta.tool_calls);
        let own = |place: &Option<usize>| Some(origin.saturating_add((*place)?.try_into().ok()?));
        pieces
            .zip(self.response.reading.placer.placed_calls())
            .any(|(piece, place)| piece.index.is_some() && piece.index != own(place))
    }

    fn read_parts<'f>(
        &self,
        delta: &softland_wire::chat::Delta<'f>,
        parts: &mut Vec<BlockPart<'f>>,
    ) {
        // Members come first. Text, calls and thinking begin behind them, since these may break
        // off.
        for (name, value) in delta.extra.iter().filter(|(_, value)| !is_nothing(value)) {
            parts.push(new_part(MEMBERS, NewBlock::Other, PartContent::Member(*name, value)));
        }
        let thought = [delta.reasoning_content, delta.reasoning];
        let thought = thought.into_iter().flatten().find(|text| !text.is_empty());
        // `reasoning_content` goes back even if it is empty; an empty list of details does not.
        let details = delta.reasoning_details.is_some_and(|list| list.contains('{'));
        if thought.is_some() || delta.reasoning_content.is_some() || details {
            let more = thought.map_or(PartContent::Nothing, PartContent::Thinking);
            parts.push(new_part(REASONING, NewBlock::Thinking, more));
        }
        for piece in delta.parts.map(read_pieces).unwrap_or_default() {
            parts.push(match piece {
                Piece::Thinking(text) => {
                    new_part(REASONING, NewBlock::Thinking, PartContent::Thinking(text))
                }
                Piece::Text(text) if !text.is_empty() => {
                    new_part(TEXT, NewBlock::Text, PartContent::Text(text))
                }
                Piece::Text(_) => continue,
                Piece::Other(_) => new_part(TEXT, NewBlock::Other, PartContent::Nothing),
            });
        }
        for (key, text) in [(TEXT, delta.content), (REFUSAL, delta.refusal)] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                parts.push(new_part(key, NewBlock::Text, PartContent::Text(text)));
            }
        }
        for (piece, place) in
            delta.tool_calls.iter().zip(self.response.reading.placer.placed_calls())
        {
            let Some(place) = place.and_then(|place| u32::try_from(place).ok()) else { continue };
            let (id, name) = (piece.id.unwrap_or_default(), piece.name.unwrap_or_default());
            let more = piece.arguments.map_or(PartContent::Nothing, PartContent::Input);
            let begins = NewBlock::Call { id, name, server: false };
            parts.push(new_part(CALLS.saturating_add(place), begins, more));
        }
    }

    /// Writes the chunk with the only piece of this call in it. Returns false where there are more.
    fn write_own_piece(&self, key: u32, raw: &[u8], out: &mut Vec<u8>) -> bool {
        let place = usize::try_from(key.saturating_sub(CALLS)).ok();
        let own = |placed: &&Option<usize>| place.is_some() && **placed == place;
        let placed = self.response.reading.placer.placed_calls();
        let nth = placed.iter().position(|placed| own(&placed));
        let only = placed.iter().filter(own).count() == 1;
        nth.filter(|_| only).is_some_and(|nth| respond::write_call_alone(out, raw, nth))
    }

    fn build_reply(&self, message: ResponseMessage) -> Reply {
        // A message without a reason is whole if its last call is.
        let half = message.calls.last().is_some_and(|call| !call.complete);
        let cut = message.finish.as_ref().map_or(half, Finish::is_cut);
        let blocks = block::order_blocks(&message, &self.response.places);
        Reply {
            id: message.id.clone(),
            model: message.model.clone(),
            blocks: blocks.into_iter().map(Block::Chat).collect(),
            stop: stop_reason_of(&message),
            whole: !cut,
            tokens: message.usage.tokens,
            billed: message.usage.billed_tokens(),
            rest: NativeResponse::Chat(Box::new(message)),
            tagged: None,
        }
    }

    fn chunk_head(&self) -> Head<'_> {
        self.head.as_ref().map_or_else(Head::default, |(id, created, model)| Head {
            id,
            created: *created,
            model,
        })
    }

    /// Returns the index by which the client knows a call.
    fn call_index(&mut self, key: u32) -> u32 {
        let next = self.calls.saturating_add(self.origin.unwrap_or(0));
        *self.response.shown.entry(key).or_insert_with(|| {
            self.calls += 1;
            next
        })
    }

    /// Raises the indexes of the `reasoning_details` in an event, which was written from `at` on,
    /// behind those of earlier responses.
    fn move_details(&self, raw: &[u8], at: usize, out: &mut Vec<u8>) {
        let mut decoder = Decoder::new(raw.len());
        decoder.push(raw);
        decoder.finish();
        let Some(Ok(frame)) = decoder.next() else { return };
        let Ok(Event::Chunk(chunk)) = Event::from_data(frame.event, &frame.data) else { return };
        let list = chunk.choices.first().and_then(|choice| choice.delta.reasoning_details);
        let written = out.get(at..).and_then(|bytes| std::str::from_utf8(bytes).ok());
        if let (Some(list), Some(written)) = (list, written) {
            // Within a string the list's quotes would be escaped, so it stands here once.
            let moved = written.replacen(
                list,
                &details::raise_indexes(list, self.response.details_from),
                1,
            );
            out.truncate(at);
            out.extend_from_slice(moved.as_bytes());
        }
    }

    /// Returns the gap before a text: empty unless text was shown in an earlier response.
    fn take_gap(&mut self) -> &'static str {
        self.text = true;
        if std::mem::take(&mut self.response.gap) { "\n\n" } else { "" }
    }
}

/// The fixed properties of the protocol.
const FORM: ProtocolForm = ProtocolForm {
    api: Api::Chat,
    text_block: new_text,
    write_ping: write_comment,
    marks_ends: false,
    ties_thinking: false,
    numbers_blocks: false,
    ends_with_content: false,
};

fn new_text(text: &str) -> Block {
    Block::Chat(ChatBlock::Text(text.to_owned()))
}

impl Framing for ChatFraming {
    fn begin_response(&mut self) {
        self.response = ResponseState::new(self.details, self.text);
        self.responses += 1;
    }

    fn rewind_reading(&mut self) {
        self.response.reading = ReadingState::new();
    }

    fn read_event<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<EventView<'f>>, ResponseError> {
        let Ok(event) = Event::from_data(name, data) else { return Ok(None) };
        let too_much =
            |error: softland_wire::chat::AssembleError| ResponseError::Other(error.to_string());
        if fold {
            self.response.assembler.push(&event).map_err(too_much)?;
        }
        let Event::Chunk(chunk) = &event else {
            return Ok(Some(EventView {
                known: true,
                closing: true,
                over: true,
                ..EventView::default()
            }));
        };
        let mut pieces = chunk.choices.iter().flat_map(|choice| &choice.delta.tool_calls);
        let calls = pieces.next();
        if let Some(piece) = calls {
            self.origin = self.origin.or_else(|| piece.index.filter(|_| self.responses <= 1));
            self.response.reading.placer.push(&event).map_err(too_much)?;
            self.irregular |= self.is_irregular(chunk);
        }
        let placed = calls.is_some();
        let mut read = self.read_chunk(chunk);
        // A chunk without pieces leaves those of an earlier chunk in the placer.
        if !placed
            && matches!(
                read.parts,
                EventParts::One(BlockPart { begins: Some(NewBlock::Call { .. }), .. })
            )
        {
            read.parts = EventParts::None;
        }
        Ok(Some(read))
    }

    fn tokens_so_far(&self) -> Tokens {
        self.response.assembler.tokens_so_far()
    }

    fn finish_response(&mut self) -> (Reply, UpstreamEnd) {
        let assembler =
            std::mem::replace(&mut self.response.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        let end = match finished.end {
            WireEnd::Stop => UpstreamEnd::Stop,
            WireEnd::Cut => UpstreamEnd::Cut,
            WireEnd::Error(error) => {
                UpstreamEnd::Error { kind: error.kind.clone(), message: error.message.clone() }
            }
        };
        (self.build_reply(finished.message), end)
    }

    fn read_whole(&mut self, body: &[u8]) -> Result<Reply, ResponseError> {
        let finished =
            Finished::from_json(body).map_err(|error| ResponseError::Other(error.to_string()))?;
        if let WireEnd::Error(error) = finished.end {
            return Err(ResponseError::Other(format!("it is an error: {error}")));
        }
        let message = finished.message;
        let head = (message.id.clone(), message.created, message.model.clone());
        self.head.get_or_insert(head);
        Ok(self.build_reply(message))
    }

    fn own_reply(&self, tokens: Tokens) -> Reply {
        let usage = Usage { tokens, present: true, ..Usage::default() };
        let (finish, created) = (Some(Finish::Stop), self.terms.at);
        self.build_reply(ResponseMessage { finish, usage, created, ..ResponseMessage::default() })
    }

    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>) {
        let created = reply.rest.as_chat().map_or(0, |message| message.created);
        let head = (id.to_owned(), created, model.to_owned());
        self.head.get_or_insert(head);
        respond::write_role(out, self.chunk_head());
    }

    /// Writes chunks under the id of an earlier response, if there was one.
    fn write_aside(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        if self.responses <= 1 || self.head.is_none() {
            return out.extend_from_slice(raw);
        }
        let mut decoder = Decoder::new(raw.len());
        decoder.push(raw);
        decoder.finish();
        while let Some(Ok(frame)) = decoder.next() {
            let chunk = matches!(Event::from_data(frame.event, &frame.data), Ok(Event::Chunk(_)));
            match chunk && !frame.data.is_empty() {
                true => self.write_event(frame.raw, &[], out),
                false => out.extend_from_slice(frame.raw),
            }
        }
    }

    fn write_event(&mut self, raw: &[u8], parts: &[PlacedPart<'_, '_>], out: &mut Vec<u8>) {
        let first = self.responses <= 1;
        let origin = self.origin.unwrap_or(0);
        let mut indexes = Vec::new();
        let (mut before_text, mut moved) = ("", self.irregular);
        for placed in parts {
            match placed.part.key {
                TEXT | REFUSAL => before_text = self.take_gap(),
                REASONING | MEMBERS => {}
                call => {
                    let own = self.call_index(call);
                    moved |= own != origin.saturating_add(call.saturating_sub(CALLS));
                    indexes.push(own);
                }
            }
        }
        if first && before_text.is_empty() && (indexes.is_empty() || !moved) {
            return out.extend_from_slice(raw);
        }
        let head = self.chunk_head();
        let mut rewrite = Rewrite { before_text, ..Rewrite::default() };
        if !first {
            (rewrite.id, rewrite.model) = (Some(head.id), Some(head.model));
            rewrite.created = Some(head.created);
        }
        let mut indexes = indexes.into_iter();
        let place = |piece: &CallDelta<'_>| match (indexes.next(), piece.index) {
            (Some(own), Some(index)) if own != index => CallEdit::At(own),
            // Without an index, the client tells calls apart as the vendor's own clients do.
            (Some(own), None) if !first => CallEdit::At(own),
            _ => CallEdit::Keep,
        };
        let at = out.len();
        // The event was read before, so it is JSON.
        if respond::write_rewritten(out, raw, &rewrite, place).is_err() {
            out.truncate(at);
            out.extend_from_slice(raw);
        }
        if self.response.details_from > 0 && parts.iter().any(|placed| placed.part.key == REASONING)
        {
            self.move_details(raw, at, out);
        }
    }

    fn split_part(&self, part: &BlockPart<'_>, raw: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let head = self.chunk_head();
        match (part.key, part.more) {
            (REASONING, PartContent::Thinking(text)) => {
                respond::write_reasoning(&mut out, head, "reasoning_content", &text.unescape());
            }
            (REFUSAL, PartContent::Text(text)) => {
                respond::write_refusal(&mut out, head, &text.unescape());
            }
            (_, PartContent::Text(text)) => respond::write_text(&mut out, head, &text.unescape()),
            (_, PartContent::Member(name, value)) => {
                respond::write_members(&mut out, head, [(&*name.unescape(), value)]);
            }
            (key, _) if key >= CALLS && self.write_own_piece(key, raw, &mut out) => {}
            (key, more) if key >= CALLS => {
                let index = key - CALLS;
                if let Some(NewBlock::Call { id, name, .. }) = part.begins {
                    let (id, name) = (id.unescape(), name.unescape());
                    respond::write_call_start(&mut out, head, index, &id, &name);
                }
                if let PartContent::Input(piece) = more {
                    respond::write_call_arguments(&mut out, head, index, &piece.unescape());
                }
            }
            _ => {}
        }
        out
    }

    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>) {
        respond::write_error(out, kind, message, None);
    }

    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>) {
        let Some(block) = block.as_chat() else { return self.write_foreign(out) };
        match block {
            ChatBlock::Reasoning { text, content, details } => {
                if let Some(content) = content {
                    respond::write_reasoning(out, self.chunk_head(), "reasoning_content", content);
                } else if !text.is_empty() {
                    respond::write_reasoning(out, self.chunk_head(), "reasoning", text);
                }
                if !details.is_empty() {
                    let details =
                        details::raise_detail_indexes(details, self.response.details_from);
                    respond::write_reasoning_details(out, self.chunk_head(), &details);
                }
            }
            ChatBlock::Text(text) => {
                let text = [self.take_gap(), text].concat();
                respond::write_text(out, self.chunk_head(), &text);
            }
            ChatBlock::Refusal(text) => respond::write_refusal(out, self.chunk_head(), text),
            ChatBlock::Members(members) => {
                let members = members.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                respond::write_members(out, self.chunk_head(), members);
            }
            ChatBlock::Call(call) => {
                // No block of a stream has this key.
                let own = self.call_index(u32::MAX - index);
                respond::write_call(out, self.chunk_head(), own, call);
            }
        }
    }

    fn write_stop(&mut self, _: u32, _: Option<ShapedEnd<'_>>, _: &mut Vec<u8>) {}

    fn write_end(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        let Some(message) = reply.rest.as_chat() else { return self.write_foreign(out) };
        let changes = end::EndChanges::new(message, ending);
        let mut written = end::WrittenEnd::default();
        for_each_frame(ending.received, |frame| {
            self.write_end_event(frame, &changes, &mut written, out);
        });
        if !written.done {
            self.complete_end(&changes, written, out);
            respond::write_done(out);
        }
    }

    fn write_whole(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        // The host answers an empty message with an error.
        let Some(message) = reply.rest.as_chat() else { return };
        let (id, model) = ending.head.clone();
        let changes = end::EndChanges::new(message, ending);
        let content = block::build_message(ending.blocks.iter().filter_map(Block::as_chat));
        let head = Head { id: &id, created: message.created, model: &model };
        let rewrite = Rewrite {
            content: ContentEdit::Message(&content),
            ..changes.as_rewrite(Some(head).filter(|_| self.responses > 1))
        };
        if !ending.received.is_empty()
            && respond::write_rewritten_body(out, ending.received, &rewrite).is_ok()
        {
            return;
        }
        let whole = ResponseMessage {
            id,
            model,
            created: self.chunk_head().created.max(message.created),
            finish: Some(finish_shown(message, ending)),
            usage: usage_shown(message, ending),
            ..content
        };
        respond::write_completion(out, &whole);
    }
}

impl MessageWriter for ChatFraming {
    fn form(&self) -> &'static ProtocolForm {
        &FORM
    }

    fn assistant_message(&self, blocks: &[Block]) -> JsonBytes {
        let mut out = Vec::new();
        block::build_message(blocks.iter().filter_map(Block::as_chat)).write_back(&mut out);
        out
    }

    fn text_message(&self, who: Speaker, text: &str) -> JsonBytes {
        respond::request_message(who.role_name(), text)
    }

    fn result_messages(&self, answers: &[(Call<'_>, String)]) -> JsonBytes {
        let messages = answers.iter().map(|(call, text)| respond::tool_message(call.id, text));
        messages.collect::<Vec<_>>().join(b",".as_slice())
    }
}

fn new_part<'f>(key: u32, begins: NewBlock<'f>, more: PartContent<'f>) -> BlockPart<'f> {
    BlockPart { key, begins: Some(begins), anew: false, more, stops: false, again: false }
}

fn stop_reason_of(message: &ResponseMessage) -> Stop {
    match &message.finish {
        // A refusal comes with `stop` and says so in a member of its own.
        _ if is_refusal(message) => Stop::Refusal,
        Some(Finish::Stop | Finish::ToolCalls | Finish::FunctionCall) => Stop::Natural,
        Some(Finish::ContentFilter) => Stop::Refusal,
        Some(finish) if finish.is_cut() => Stop::Length,
        Some(_) => Stop::Other,
        None => Stop::Unknown,
    }
}

/// True if a message has a refusal that says something, and no call: a turn with a call goes on.
fn is_refusal(message: &ResponseMessage) -> bool {
    let says = message.refusal.as_deref().is_some_and(|text| !VisibleText::is_invisible_text(text));
    says && message.calls.is_empty()
}
