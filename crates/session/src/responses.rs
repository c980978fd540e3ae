//! OpenAI Responses: its responses, and items for it.

pub(crate) mod block;
mod end;
mod items;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use softland_core::{Call, Stop, VisibleText};
use softland_wire::responses::respond::{self, Changes, Head, ResponseEnd};
use softland_wire::responses::{
    Assembler, Channel, Event, EventKind, Failure, OutputItem, OutputKind, Phase, RequestRole,
    Response, Status, StreamEnd as WireEnd, StreamItem, StreamItemKind, Usage,
};
use softland_wire::sse::Decoder;
use softland_wire::{Api, Tokens};

use crate::framing::{
    BlockPart, EventParts, EventView, Framing, JsonBytes, MAX_RESPONSE, MessageEnd, MessageWriter,
    NewBlock, PartContent, PlacedPart, ProtocolForm, ResponseError, ShapedEnd, Speaker,
    StreamTerms, UpstreamEnd, write_comment,
};
use crate::reply::{Block, NativeResponse, Reply};
use block::{AnswerForm, ResponsesBlock};
use items::{format_denied_approval, item_id, read_id_and_text, tool_output};
use numbers::SequenceNumbers;

/// The id of a response that failed before it had one.
const UNBEGUN: &str = "resp_softland";

/// The Responses API.
#[derive(Debug)]
pub(crate) struct ResponsesFraming {
    assembler: Assembler,
    under_way: OngoingResponse,
    numbers: SequenceNumbers,
    /// The client's response as it began. Its end is made of this.
    head: Option<String>,
    /// The items of the client's response that have ended, by their index.
    items: BTreeMap<u32, String>,
    /// The ids of the reasoning that the client has.
    reasoning: BTreeSet<String>,
    /// The form in which each call of the newest response is answered.
    answers: BTreeMap<String, AnswerForm>,
    /// The time of softland's own answers, in seconds since 1970.
    asked_at: u64,
}

/// The response under way.
#[derive(Debug, Default)]
struct OngoingResponse {
    /// Its items by `output_index`: their place, and true if they have ended.
    begun: BTreeMap<u32, (usize, bool)>,
    /// The number of items that have begun.
    count: usize,
    /// The indexes of the texts that came in pieces.
    spoken: BTreeSet<u32>,
    /// The place of each item that the client has, by the index under which the client knows it.
    shown: BTreeMap<u32, usize>,
    /// True if the client has the head of this response.
    heads: bool,
}

impl ResponsesFraming {
    pub(crate) fn new(asks: StreamTerms) -> Self {
        Self {
            assembler: Assembler::new(MAX_RESPONSE),
            under_way: OngoingResponse::default(),
            numbers: SequenceNumbers::new(asks.delays),
            head: None,
            items: BTreeMap::new(),
            reasoning: BTreeSet::new(),
            answers: BTreeMap::new(),
            asked_at: asks.at,
        }
    }

    fn build_reply(&mut self, mut response: Response) -> Reply {
        let blocks = block::read_response_blocks(&mut response);
        self.answers = block::answer_forms(&blocks);
        // A response with a call goes on, whatever else it says.
        let refused = self.answers.is_empty()
            && blocks.iter().any(|block| {
                let OutputKind::Message { refusal: Some(text), .. } = &block.item.kind else {
                    return false;
                };
                !VisibleText::is_invisible_text(text)
            });
        Reply {
            id: response.id.clone(),
            model: response.model.clone(),
            blocks: blocks.into_iter().map(|block| Block::Responses(Box::new(block))).collect(),
            stop: if refused { Stop::Refusal } else { block::stop_reason_of(&response) },
            whole: response.status == Some(Status::Completed),
            tokens: response.usage.tokens,
            billed: response.usage.tokens,
            rest: NativeResponse::Responses(Box::new(response)),
            tagged: None,
        }
    }

    /// Keeps the items of the response under way that the client has, as they ended.
    fn keep_items(&mut self, items: &[OutputItem]) {
        for (index, place) in std::mem::take(&mut self.under_way.shown) {
            let Some(item) = items.get(place) else { continue };
            if matches!(item.kind, OutputKind::Reasoning { .. }) {
                self.reasoning.insert(item.id.clone());
            }
            self.items.entry(index).or_insert_with(|| item.raw.clone());
        }
    }

    /// Ends a response that broke off, and returns its items.
    fn end_with_error_event(&mut self) -> Vec<OutputItem> {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        assembler.finish().response.items
    }

    /// Takes the items of the client's response, with those of a response that was given up.
    fn take_items(&mut self) -> BTreeMap<u32, String> {
        let items = self.end_with_error_event();
        self.keep_items(&items);
        std::mem::take(&mut self.items)
    }

    /// Writes an event that ends another response as the end of the client's. Returns false, and
    /// writes nothing, where the event is no end.
    fn write_foreign_end(&mut self, name: &str, data: &str, out: &mut Vec<u8>) -> bool {
        let Ok(event) = Event::from_data(name, data) else { return false };
        let EventKind::Response { phase, response } = &event.kind else { return false };
        let Some(status) = status_of(*phase) else { return false };
        let head = Response::from_json(self.head_id().as_bytes()).unwrap_or_default();
        let items = self.take_items();
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let changes = Changes { id: Some(&head.id), output: Some(&output), ..Changes::default() };
        let Ok(whole) = respond::apply_changes(response.raw, &changes) else { return false };
        self.numbers.write_own(|next| respond::write_end(out, next, &status, &whole));
        true
    }

    /// Returns the id of a block among those that the client has.
    fn shown_id(&self, response: &str, index: u32, block: &ResponsesBlock) -> String {
        let known = block.tied.as_ref().is_none_or(|tied| self.reasoning.contains(&**tied));
        match block.item.id.as_str() {
            id if known && !id.is_empty() => id.to_owned(),
            _ => block::own_id(response, index),
        }
    }

    fn head_id(&self) -> &str {
        self.head.as_deref().unwrap_or_default()
    }

    /// Writes the end of a text that was shaped. `raw` is its end, if that came.
    fn write_text_end(&mut self, index: u32, raw: Option<&[u8]>, text: &str, out: &mut Vec<u8>) {
        let known = raw.and_then(item_id).or_else(|| {
            if !self.items.contains_key(&index) {
                let items = self.end_with_error_event();
                self.keep_items(&items);
            }
            Some(read_id_and_text(self.items.get(&index)?).0)
        });
        let Some(id) = known else { return };
        self.numbers.write_own(|next| respond::write_text_end(out, next, index, &id, text));
        let item = respond::text_item(&id, text);
        // The item is written from text.
        self.items.insert(index, String::from_utf8(item).unwrap_or_default());
    }

    fn write_item(&mut self, index: u32, block: &ResponsesBlock, out: &mut Vec<u8>) -> String {
        let id = self.shown_id(self.head_id(), index, block);
        let item = match &block.item.kind {
            OutputKind::Message { text, refusal: None, .. } => {
                self.numbers.write_own(|n| respond::write_text_item(out, n, index, &id, text));
                respond::text_item(&id, text)
            }
            OutputKind::Call {
                call_id, name, arguments, custom: false, namespace: None, ..
            } => {
                let call = (call_id.as_str(), name.as_str(), arguments.as_str());
                self.numbers.write_own(|n| respond::write_call_item(out, n, index, &id, call));
                respond::call_item(&id, call_id, name, arguments)
            }
            _ => {
                let item = block.with_id(Some(&id)).into_bytes();
                self.numbers.write_own(|n| {
                    respond::write_item_added(out, n, index, &item);
                    respond::write_item_done(out, n, index, &item);
                });
                item
            }
        };
        // The item is written from text.
        String::from_utf8(item).unwrap_or_default()
    }
}

/// The fixed properties of the protocol.
const FORM: ProtocolForm = ProtocolForm {
    api: Api::Responses,
    text_block: new_text,
    write_ping: write_comment,
    marks_ends: true,
    ties_thinking: true,
    numbers_blocks: true,
    ends_with_content: true,
};

fn new_text(text: &str) -> Block {
    Block::Responses(Box::new(ResponsesBlock::from_text(text)))
}

impl Framing for ResponsesFraming {
    fn begin_response(&mut self) {
        let items = self.end_with_error_event();
        self.keep_items(&items);
        self.under_way = OngoingResponse::default();
        self.numbers.begin_response();
    }

    fn rewind_reading(&mut self) {
        let heads = self.under_way.heads;
        self.under_way = OngoingResponse { heads, ..OngoingResponse::default() };
    }

    fn read_event<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<EventView<'f>>, ResponseError> {
        let Ok(event) = Event::from_data(name, data) else { return Ok(None) };
        if fold {
            let pushed = self.assembler.push(&event);
            pushed.map_err(|error| ResponseError::Other(error.to_string()))?;
            self.numbers.note_number(event.sequence_number);
        }
        if let EventKind::Response { phase: Phase::Created, response } = &event.kind
            && self.head.is_none()
        {
            self.head = Some(response.raw.to_owned());
            self.under_way.heads = true;
        }
        Ok(Some(self.under_way.event_view(&event)))
    }

    fn tokens_so_far(&self) -> Tokens {
        self.assembler.tokens_so_far()
    }

    fn finish_response(&mut self) -> (Reply, UpstreamEnd) {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        self.keep_items(&finished.response.items);
        let end = match finished.end {
            WireEnd::Stop => UpstreamEnd::Stop,
            WireEnd::Cut => UpstreamEnd::Cut,
            WireEnd::Error(failure) => {
                let kind = [failure.kind, failure.code].into_iter().find(|word| !word.is_empty());
                UpstreamEnd::Error { kind: kind.unwrap_or_default(), message: failure.message }
            }
        };
        (self.build_reply(finished.response), end)
    }

    fn read_whole(&mut self, body: &[u8]) -> Result<Reply, ResponseError> {
        let response =
            Response::from_json(body).map_err(|error| ResponseError::Other(error.to_string()))?;
        if response.status == Some(Status::Failed) {
            let why = response.error.as_ref().map(|error| error.message.as_str());
            return Err(ResponseError::Other(format!(
                "it failed: {}",
                why.unwrap_or("no reason is given")
            )));
        }
        self.head.get_or_insert_with(|| response.raw.clone());
        Ok(self.build_reply(response))
    }

    fn own_reply(&self, tokens: Tokens) -> Reply {
        let usage = Usage { tokens, reasoning: 0 };
        let (status, created_at) = (Some(Status::Completed), Some(self.asked_at));
        let response = Response { status, created_at, usage, ..Response::default() };
        Reply {
            id: String::new(),
            model: String::new(),
            blocks: Vec::new(),
            stop: Stop::Natural,
            whole: true,
            tokens,
            billed: tokens,
            rest: NativeResponse::Responses(Box::new(response)),
            tagged: None,
        }
    }

    fn note_shown_late(&mut self, index: u32, block: &Block) {
        let Some(block) = block.as_responses() else { return };
        if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
            self.reasoning.insert(block.item.id.clone());
        }
        self.items.insert(index, block.item.raw.clone());
    }

    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>) {
        let created_at = reply.rest.as_responses().and_then(|response| response.created_at);
        let created_at = created_at.unwrap_or(0);
        let head = Head { id, model, created_at, previous_response_id: None };
        let response = respond::format_response(&head, ResponseEnd::InProgress, &[], None);
        self.numbers.write_own(|next| respond::write_head(out, next, &response));
        self.head.get_or_insert(response);
    }

    fn write_aside(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        if self.under_way.heads || self.head.is_none() {
            return self.numbers.write_all(raw, out);
        }
        // This ends the client's response, and not the one that broke.
        let mut decoder = Decoder::new(raw.len());
        decoder.push(raw);
        decoder.finish();
        while let Some(Ok(frame)) = decoder.next() {
            if frame.data.is_empty() || !self.write_foreign_end(frame.event, &frame.data, out) {
                self.numbers.write_all(frame.raw, out);
            }
        }
    }

    fn write_event(&mut self, raw: &[u8], parts: &[PlacedPart<'_, '_>], out: &mut Vec<u8>) {
        let mut moved = None;
        if let Some(placed) = parts.first() {
            let (key, index) = (placed.part.key, placed.index);
            moved = (key != index).then_some(index);
            if let Some((place, _)) = self.under_way.begun.get(&key) {
                self.under_way.shown.entry(index).or_insert(*place);
            }
        }
        self.numbers.write_event(raw, moved, out);
    }

    /// Returns nothing: every event carries a single part.
    fn split_part(&self, _: &BlockPart<'_>, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }

    /// Writes the error, and the failed response: some clients read only how the response ended.
    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>) {
        let failure =
            Failure { kind: kind.to_owned(), code: kind.to_owned(), message: message.to_owned() };
        self.numbers.write_own(|next| respond::write_error(out, next, &failure));
        let items = std::mem::take(&mut self.items);
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let (status, output) = (ResponseEnd::Failed(&failure), output.as_slice());
        let changes = Changes { status: Some(status), output: Some(output), ..Changes::default() };
        let begun =
            self.head.as_deref().and_then(|head| respond::apply_changes(head, &changes).ok());
        let whole = begun.unwrap_or_else(|| {
            let head = Head {
                id: UNBEGUN,
                model: "",
                created_at: self.asked_at,
                previous_response_id: None,
            };
            respond::format_response(&head, status, output, None)
        });
        self.numbers.write_own(|next| respond::write_end(out, next, &Status::Failed, &whole));
    }

    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>) {
        let Some(block) = block.as_responses() else { return self.write_foreign(out) };
        if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
            self.reasoning.insert(block.item.id.clone());
        }
        let item = self.write_item(index, block, out);
        self.items.insert(index, item);
    }

    fn write_stop(&mut self, index: u32, shaped: Option<ShapedEnd<'_>>, out: &mut Vec<u8>) {
        if let Some(ShapedEnd { raw, text }) = shaped {
            return self.write_text_end(index, raw, text, out);
        }
        let items = self.end_with_error_event();
        self.keep_items(&items);
        let Some(raw) = self.items.get(&index) else { return };
        let (id, text) = read_id_and_text(raw);
        self.numbers.write_own(|next| respond::write_text_end(out, next, index, &id, &text));
        let item = respond::text_item(&id, &text);
        // The item is written from text.
        self.items.insert(index, String::from_utf8(item).unwrap_or_default());
    }

    fn write_end(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        let Some(response) = reply.rest.as_responses() else { return self.write_foreign(out) };
        let items = self.take_items();
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let whole = self.response_object(response, ending, &output);
        let status = response.status.clone().unwrap_or(Status::Completed);
        self.numbers.write_own(|next| respond::write_end(out, next, &status, &whole));
    }

    fn write_whole(&mut self, reply: &Reply, ending: &MessageEnd<'_>, out: &mut Vec<u8>) {
        // The host answers an empty message with an error.
        let Some(response) = reply.rest.as_responses() else { return };
        for block in ending.blocks.iter().filter_map(Block::as_responses) {
            if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
                self.reasoning.insert(block.item.id.clone());
            }
        }
        let items = (0..).zip(ending.blocks.iter().filter_map(Block::as_responses)).map(
            |(index, block)| {
                let id = self.shown_id(&ending.head.0, index, block);
                if id == block.item.id { block.item.raw.clone() } else { block.with_id(Some(&id)) }
            },
        );
        let items: Vec<String> = items.collect();
        let output: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
        out.extend_from_slice(self.response_object(response, ending, &output).as_bytes());
    }
}

impl MessageWriter for ResponsesFraming {
    fn form(&self) -> &'static ProtocolForm {
        &FORM
    }

    fn assistant_message(&self, blocks: &[Block]) -> JsonBytes {
        let blocks = blocks.iter().filter_map(Block::as_responses);
        block::history_items(blocks.collect()).join(",").into_bytes()
    }

    fn text_message(&self, who: Speaker, text: &str) -> JsonBytes {
        let role = match who {
            Speaker::Assistant => RequestRole::Assistant,
            Speaker::User => RequestRole::User,
            Speaker::System => RequestRole::System,
        };
        respond::request_message(role, text)
    }

    fn result_messages(&self, answers: &[(Call<'_>, String)]) -> JsonBytes {
        let items = answers.iter().map(|(call, text)| match self.answers.get(call.id) {
            Some(AnswerForm::Custom) => respond::custom_tool_call_output(call.id, text),
            Some(AnswerForm::Approval) => format_denied_approval(call.id, text),
            Some(AnswerForm::Tool(kind)) => tool_output(kind, call.id, text),
            Some(AnswerForm::Function) | None => respond::function_call_output(call.id, text),
        });
        items.collect::<Vec<_>>().join(b",".as_slice())
    }
}

impl OngoingResponse {
    fn event_view<'f>(&mut self, event: &Event<'f>) -> EventView<'f> {
        let mut read = EventView { known: true, ..EventView::default() };
        match &event.kind {
            EventKind::Response { phase: Phase::Created, response } => {
                read.head = Some((response.id, response.model));
                self.begun.clear();
            }
            EventKind::Response { phase, .. } if phase.is_last() => {
                (read.closing, read.over) = (true, true);
            }
            // The event belongs to the head.
            EventKind::Response { .. } => read.aside = self.heads,
            // The failed response follows.
            EventKind::Error(_) => read.closing = true,
            EventKind::Ping => read.ping = true,
            EventKind::Unknown { .. } => read.known = false,
            kind => match event.output_index {
                Some(index) => read.parts = EventParts::One(self.part_of_event(index, kind)),
                None => read.aside = self.heads,
            },
        }
        read
    }

    fn part_of_event<'f>(&mut self, key: u32, kind: &EventKind<'f>) -> BlockPart<'f> {
        let begins = new_block(kind);
        let mut part = BlockPart::with_key(key);
        let known = self.begun.contains_key(&key);
        if let Some(begins) = begins.filter(|_| !known || matches!(kind, EventKind::ItemAdded(_))) {
            (part.begins, part.anew) = (Some(begins), true);
            self.begun.insert(key, (self.count, false));
            self.count += 1;
            self.spoken.remove(&key);
        }
        part.more = self.part_content(key, kind);
        part.again = matches!(
            kind,
            EventKind::PartDone { .. }
                | EventKind::ItemDone(_)
                | EventKind::Done { channel: Channel::Text | Channel::Refusal, .. }
        );
        if let (EventKind::ItemDone(_), Some((_, ended))) = (kind, self.begun.get_mut(&key)) {
            part.stops = !*ended;
            *ended = true;
        }
        part
    }

    /// Returns the content that an event adds to its item. Whole content that came in pieces before
    /// adds nothing.
    fn part_content<'f>(&mut self, key: u32, kind: &EventKind<'f>) -> PartContent<'f> {
        let (channel, text) = match kind {
            EventKind::Delta { channel, text, .. } => {
                self.spoken.insert(key);
                (channel, *text)
            }
            EventKind::Done { channel, text, .. } if self.spoken.insert(key) => (channel, *text),
            _ => return PartContent::Nothing,
        };
        match channel {
            Channel::Text | Channel::Refusal => PartContent::Text(text),
            Channel::Summary | Channel::Reasoning => PartContent::Thinking(text),
            Channel::Arguments | Channel::Input => PartContent::Input(text),
        }
    }
}

/// Returns the kind of block that an event begins, if its item has not begun.
fn new_block<'f>(kind: &EventKind<'f>) -> Option<NewBlock<'f>> {
    match kind {
        EventKind::ItemAdded(item) | EventKind::ItemDone(item) => Some(new_item_block(item)),
        EventKind::Delta { channel, .. } | EventKind::Done { channel, .. } => match channel {
            Channel::Text | Channel::Refusal => Some(NewBlock::Text),
            Channel::Summary | Channel::Reasoning => Some(NewBlock::Thinking),
            Channel::Arguments | Channel::Input => None,
        },
        _ => None,
    }
}

fn new_item_block<'f>(item: &StreamItem<'f>) -> NewBlock<'f> {
    match item.kind {
        StreamItemKind::Message { .. } => NewBlock::Text,
        StreamItemKind::Reasoning { .. } => NewBlock::Thinking,
        StreamItemKind::Call { call_id: id, name, .. } => {
            NewBlock::Call { id, name, server: false }
        }
        StreamItemKind::Other { kind, call_id } => {
            match block::runs_on_server(&kind.unescape(), &call_id.unescape()) {
                Some(server) => {
                    let id = if call_id.is_empty() { item.id } else { call_id };
                    NewBlock::Call { id, name: kind, server }
                }
                None => NewBlock::Other,
            }
        }
    }
}

/// Returns the status in which an event ends a response, if it does.
fn status_of(phase: Phase) -> Option<Status> {
    match phase {
        Phase::Completed => Some(Status::Completed),
        Phase::Incomplete => Some(Status::Incomplete),
        Phase::Failed => Some(Status::Failed),
        _ => None,
    }
}
