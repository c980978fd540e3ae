//! OpenAI Responses: its responses, and items for it.

mod block;
mod items;
mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use softland_core::{Call, Stop, Text};
use softland_wire::Tokens;
use softland_wire::responses::respond::{self, Changes, EndOf, Head};
use softland_wire::responses::{
    Assembler, Channel, End as WireEnd, Event, EventKind, Failure, OutputItem, OutputKind, Phase,
    Response, Role, Status, StreamItem, StreamItemKind, Usage,
};
use softland_wire::sse::Decoder;

use crate::framing::{
    Asks, Begins, Broken, End, Ending, Framing, Json, MAX_RESPONSE, More, Part, Parts, Placed,
    Read, Who,
};
use crate::reply::{Block, Reply, Rest};
use block::Answered;
use items::{item_id, message_of, no_approval, tool_output};
use numbers::Numbers;

pub(crate) use block::{ResponsesBlock, without_id};

/// The id of a response that failed before it had one.
const UNBEGUN: &str = "resp_softland";

/// The Responses API.
#[derive(Debug)]
pub(crate) struct Responses {
    assembler: Assembler,
    under_way: UnderWay,
    numbers: Numbers,
    /// The client's response as it began. Its end is made of this.
    head: Option<String>,
    /// The items of the client's response that have ended, by their index.
    items: BTreeMap<u32, String>,
    /// The ids of the reasoning that the client has.
    reasoning: BTreeSet<String>,
    /// The form in which each call of the newest response is answered.
    answers: BTreeMap<String, Answered>,
    /// The time of softland's own answers, in seconds since 1970.
    asked_at: u64,
}

/// The response under way.
#[derive(Debug, Default)]
struct UnderWay {
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

impl Responses {
    pub(crate) fn new(asks: Asks) -> Self {
        Self {
            assembler: Assembler::new(MAX_RESPONSE),
            under_way: UnderWay::default(),
            numbers: Numbers::default(),
            head: None,
            items: BTreeMap::new(),
            reasoning: BTreeSet::new(),
            answers: BTreeMap::new(),
            asked_at: asks.at,
        }
    }

    fn reply(&mut self, mut response: Response) -> Reply {
        let blocks = block::of(&mut response);
        self.answers = block::answers(&blocks);
        // A response with a call goes on, whatever else it says.
        let refused = self.answers.is_empty()
            && block::natives(&blocks).any(|block| {
                let OutputKind::Message { refusal: Some(text), .. } = &block.item.kind else {
                    return false;
                };
                !Text::shows_nothing(text)
            });
        Reply {
            id: response.id.clone(),
            model: response.model.clone(),
            blocks,
            stop: if refused { Stop::Refusal } else { stop(&response) },
            whole: response.status == Some(Status::Completed),
            tokens: response.usage.tokens,
            billed: response.usage.tokens,
            rest: Rest::Responses(Box::new(response)),
            tagged: None,
        }
    }

    /// Keeps the items of the response under way that the client has, as they ended.
    fn keep(&mut self, items: &[OutputItem]) {
        for (index, place) in std::mem::take(&mut self.under_way.shown) {
            let Some(item) = items.get(place) else { continue };
            if matches!(item.kind, OutputKind::Reasoning { .. }) {
                self.reasoning.insert(item.id.clone());
            }
            self.items.entry(index).or_insert_with(|| item.raw.clone());
        }
    }

    /// Ends a response that broke off, and returns its items.
    fn break_off(&mut self) -> Vec<OutputItem> {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        assembler.finish().response.items
    }

    /// Takes the items of the client's response, with those of a response that was given up.
    fn take_items(&mut self) -> BTreeMap<u32, String> {
        let items = self.break_off();
        self.keep(&items);
        std::mem::take(&mut self.items)
    }

    /// Writes an event that ends another response as the end of the client's. Returns false, and
    /// writes nothing, where the event is no end.
    fn write_foreign_end(&mut self, name: &str, data: &str, out: &mut Vec<u8>) -> bool {
        let Ok(event) = Event::decode(name, data) else { return false };
        let EventKind::Response { phase, response } = &event.kind else { return false };
        let Some(status) = status_of(*phase) else { return false };
        let head = Response::from_json(self.head_id().as_bytes()).unwrap_or_default();
        let items = self.take_items();
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let changes = Changes { id: Some(&head.id), output: Some(&output), ..Changes::default() };
        let Ok(whole) = respond::changed(response.raw, &changes) else { return false };
        self.numbers.own(|next| respond::write_end(out, next, &status, &whole));
        true
    }

    /// Returns the client's response as an object, with this end.
    fn response(&self, response: &Response, ending: &Ending<'_>, output: &[&[u8]]) -> String {
        let (id, model) = ending.head;
        let mut usage = response.usage;
        usage.tokens.output = ending.output;
        usage.reasoning = usage.reasoning.min(ending.output);
        let reason = response.incomplete_reason.as_deref().unwrap_or("max_output_tokens");
        let status = match response.status {
            Some(Status::Incomplete) => EndOf::Incomplete(reason),
            _ => EndOf::Completed,
        };
        let changes = Changes {
            id: Some(id),
            status: Some(status),
            output: Some(output),
            usage: Some(&usage),
            ..Changes::default()
        };
        let begun = self.head.as_deref().map(|head| respond::changed(head, &changes));
        if let Some(Ok(response)) = begun {
            return response;
        }
        let created_at = response.created_at.unwrap_or(0);
        let head = Head { id, model, created_at, previous_response_id: None };
        respond::response(&head, status, output, Some(&usage))
    }

    /// Returns the id of a block among those that the client has.
    fn id_of(&self, response: &str, index: u32, block: &ResponsesBlock) -> String {
        let known = block.tied.as_ref().is_none_or(|tied| self.reasoning.contains(&**tied));
        match block.item.id.as_str() {
            id if known && !id.is_empty() => id.to_owned(),
            _ => block::own_id(response, index),
        }
    }

    fn head_id(&self) -> &str {
        self.head.as_deref().unwrap_or_default()
    }

    fn write_item(&mut self, index: u32, block: &ResponsesBlock, out: &mut Vec<u8>) -> String {
        let id = self.id_of(self.head_id(), index, block);
        let item = match &block.item.kind {
            OutputKind::Message { text, refusal: None, .. } => {
                self.numbers.own(|n| respond::write_text_item(out, n, index, &id, text));
                respond::text_item(&id, text)
            }
            OutputKind::Call {
                call_id, name, arguments, custom: false, namespace: None, ..
            } => {
                let call = (call_id.as_str(), name.as_str(), arguments.as_str());
                self.numbers.own(|n| respond::write_call_item(out, n, index, &id, call));
                respond::call_item(&id, call_id, name, arguments)
            }
            _ => {
                let item = block.under(Some(&id)).into_bytes();
                self.numbers.own(|n| {
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

impl Framing for Responses {
    fn begin(&mut self) {
        let items = self.break_off();
        self.keep(&items);
        self.under_way = UnderWay::default();
        self.numbers.begin();
    }

    fn rewind(&mut self) {
        let heads = self.under_way.heads;
        self.under_way = UnderWay { heads, ..UnderWay::default() };
    }

    fn read<'f>(
        &mut self,
        name: &'f str,
        data: &'f str,
        fold: bool,
    ) -> Result<Option<Read<'f>>, Broken> {
        let Ok(event) = Event::decode(name, data) else { return Ok(None) };
        if fold {
            let pushed = self.assembler.push(&event);
            pushed.map_err(|error| Broken::Other(error.to_string()))?;
            self.numbers.note(event.sequence_number);
        }
        if let EventKind::Response { phase: Phase::Created, response } = &event.kind
            && self.head.is_none()
        {
            self.head = Some(response.raw.to_owned());
            self.under_way.heads = true;
        }
        Ok(Some(self.under_way.read(&event)))
    }

    fn so_far(&self) -> Tokens {
        self.assembler.so_far()
    }

    fn finish(&mut self) -> (Reply, End) {
        let assembler = std::mem::replace(&mut self.assembler, Assembler::new(MAX_RESPONSE));
        let finished = assembler.finish();
        self.keep(&finished.response.items);
        let end = match finished.end {
            WireEnd::Stop => End::Stop,
            WireEnd::Cut => End::Cut,
            WireEnd::Error(failure) => {
                let kind = [failure.kind, failure.code].into_iter().find(|word| !word.is_empty());
                End::Error { kind: kind.unwrap_or_default(), message: failure.message }
            }
        };
        (self.reply(finished.response), end)
    }

    fn whole(&mut self, body: &[u8]) -> Result<Reply, Broken> {
        let response =
            Response::from_json(body).map_err(|error| Broken::Other(error.to_string()))?;
        if response.status == Some(Status::Failed) {
            let why = response.error.as_ref().map(|error| error.message.as_str());
            return Err(Broken::Other(format!(
                "it failed: {}",
                why.unwrap_or("no reason is given")
            )));
        }
        self.head.get_or_insert_with(|| response.raw.clone());
        Ok(self.reply(response))
    }

    fn own(&self, tokens: Tokens) -> Reply {
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
            rest: Rest::Responses(Box::new(response)),
            tagged: None,
        }
    }

    fn text(&self, text: &str) -> Block {
        Block::Responses(Box::new(ResponsesBlock::text(text)))
    }

    fn ends_with_content(&self) -> bool {
        true
    }

    fn ties_thinking(&self) -> bool {
        true
    }

    fn shown_late(&mut self, index: u32, block: &Block) {
        let Block::Responses(block) = block else { return };
        if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
            self.reasoning.insert(block.item.id.clone());
        }
        self.items.insert(index, block.item.raw.clone());
    }

    fn write_head(&mut self, id: &str, model: &str, reply: &Reply, out: &mut Vec<u8>) {
        let created_at = match &reply.rest {
            Rest::Responses(response) => response.created_at.unwrap_or(0),
            Rest::Anthropic(_) | Rest::Chat(_) => 0,
        };
        let head = Head { id, model, created_at, previous_response_id: None };
        let response = respond::response(&head, EndOf::InProgress, &[], None);
        self.numbers.own(|next| respond::write_head(out, next, &response));
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

    fn write_event(&mut self, raw: &[u8], parts: &[Placed<'_, '_>], out: &mut Vec<u8>) {
        let mut moved = None;
        if let Some(placed) = parts.first() {
            let (key, index) = (placed.part.key, placed.index);
            moved = (key != index).then_some(index);
            if let Some((place, _)) = self.under_way.begun.get(&key) {
                self.under_way.shown.entry(index).or_insert(*place);
            }
        }
        self.numbers.write(raw, moved, out);
    }

    /// Returns nothing: every event carries a single part.
    fn alone(&self, _: &Part<'_>) -> Vec<u8> {
        Vec::new()
    }

    /// Writes the error, and the failed response: some clients read only how the response ended.
    fn write_error(&mut self, kind: &str, message: &str, out: &mut Vec<u8>) {
        let failure =
            Failure { kind: kind.to_owned(), code: kind.to_owned(), message: message.to_owned() };
        self.numbers.own(|next| respond::write_error(out, next, &failure));
        let items = std::mem::take(&mut self.items);
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let (status, output) = (EndOf::Failed(&failure), output.as_slice());
        let changes = Changes { status: Some(status), output: Some(output), ..Changes::default() };
        let begun = self.head.as_deref().and_then(|head| respond::changed(head, &changes).ok());
        let whole = begun.unwrap_or_else(|| {
            let head = Head {
                id: UNBEGUN,
                model: "",
                created_at: self.asked_at,
                previous_response_id: None,
            };
            respond::response(&head, status, output, None)
        });
        self.numbers.own(|next| respond::write_end(out, next, &Status::Failed, &whole));
    }

    fn write_block(&mut self, index: u32, block: &Block, out: &mut Vec<u8>) {
        let Block::Responses(block) = block else { return };
        if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
            self.reasoning.insert(block.item.id.clone());
        }
        let item = self.write_item(index, block, out);
        self.items.insert(index, item);
    }

    fn write_stop(&mut self, index: u32, out: &mut Vec<u8>) {
        let items = self.break_off();
        self.keep(&items);
        let Some(raw) = self.items.get(&index) else { return };
        let (id, text) = message_of(raw);
        self.numbers.own(|next| respond::write_text_end(out, next, index, &id, &text));
        let item = respond::text_item(&id, &text);
        // The item is written from text.
        self.items.insert(index, String::from_utf8(item).unwrap_or_default());
    }

    fn delay(&mut self) {
        self.numbers.delay();
    }

    fn write_text_end(&mut self, index: u32, raw: Option<&[u8]>, text: &str, out: &mut Vec<u8>) {
        let known = raw.and_then(item_id).or_else(|| {
            if !self.items.contains_key(&index) {
                let items = self.break_off();
                self.keep(&items);
            }
            Some(message_of(self.items.get(&index)?).0)
        });
        let Some(id) = known else { return };
        self.numbers.own(|next| respond::write_text_end(out, next, index, &id, text));
        let item = respond::text_item(&id, text);
        // The item is written from text.
        self.items.insert(index, String::from_utf8(item).unwrap_or_default());
    }

    fn write_end(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>) {
        let Rest::Responses(response) = &reply.rest else { return };
        let items = self.take_items();
        let output: Vec<&[u8]> = items.values().map(String::as_bytes).collect();
        let whole = self.response(response, ending, &output);
        let status = response.status.clone().unwrap_or(Status::Completed);
        self.numbers.own(|next| respond::write_end(out, next, &status, &whole));
    }

    fn write_whole(&mut self, reply: &Reply, ending: &Ending<'_>, out: &mut Vec<u8>) {
        let Rest::Responses(response) = &reply.rest else { return };
        for block in block::natives(ending.blocks) {
            if matches!(block.item.kind, OutputKind::Reasoning { .. }) {
                self.reasoning.insert(block.item.id.clone());
            }
        }
        let items = (0..).zip(block::natives(ending.blocks)).map(|(index, block)| {
            let id = self.id_of(&ending.head.0, index, block);
            if id == block.item.id { block.item.raw.clone() } else { block.under(Some(&id)) }
        });
        let items: Vec<String> = items.collect();
        let output: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
        out.extend_from_slice(self.response(response, ending, &output).as_bytes());
    }

    fn assistant(&self, blocks: &[Block]) -> Json {
        block::items(blocks).join(",").into_bytes()
    }

    fn said(&self, who: Who, text: &str) -> Json {
        let role = match who {
            Who::Assistant => Role::Assistant,
            Who::User => Role::User,
            Who::System => Role::System,
        };
        respond::message(role, text)
    }

    fn results(&self, answers: &[(Call<'_>, String)]) -> Json {
        let items = answers.iter().map(|(call, text)| match self.answers.get(call.id) {
            Some(Answered::Custom) => respond::custom_tool_call_output(call.id, text),
            Some(Answered::Approval) => no_approval(call.id, text),
            Some(Answered::Tool(kind)) => tool_output(kind, call.id, text),
            Some(Answered::Function) | None => respond::function_call_output(call.id, text),
        });
        items.collect::<Vec<_>>().join(b",".as_slice())
    }
}

impl UnderWay {
    fn read<'f>(&mut self, event: &Event<'f>) -> Read<'f> {
        let mut read = Read { known: true, ..Read::default() };
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
                Some(index) => read.parts = Parts::One(self.part(index, kind)),
                None => read.aside = self.heads,
            },
        }
        read
    }

    fn part<'f>(&mut self, key: u32, kind: &EventKind<'f>) -> Part<'f> {
        let begins = begins(kind);
        let mut part = Part::bare(key);
        let known = self.begun.contains_key(&key);
        if let Some(begins) = begins.filter(|_| !known || matches!(kind, EventKind::ItemAdded(_))) {
            (part.begins, part.anew) = (Some(begins), true);
            self.begun.insert(key, (self.count, false));
            self.count += 1;
            self.spoken.remove(&key);
        }
        part.more = self.more(key, kind);
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
    fn more<'f>(&mut self, key: u32, kind: &EventKind<'f>) -> More<'f> {
        let (channel, text) = match kind {
            EventKind::Delta { channel, text, .. } => {
                self.spoken.insert(key);
                (channel, *text)
            }
            EventKind::Done { channel, text, .. } if self.spoken.insert(key) => (channel, *text),
            _ => return More::Nothing,
        };
        match channel {
            Channel::Text | Channel::Refusal => More::Text(text),
            Channel::Summary | Channel::Reasoning => More::Thinking(text),
            Channel::Arguments | Channel::Input => More::Input(text),
        }
    }
}

/// Returns the kind of block that an event begins, if its item has not begun.
fn begins<'f>(kind: &EventKind<'f>) -> Option<Begins<'f>> {
    match kind {
        EventKind::ItemAdded(item) | EventKind::ItemDone(item) => Some(begins_item(item)),
        EventKind::Delta { channel, .. } | EventKind::Done { channel, .. } => match channel {
            Channel::Text | Channel::Refusal => Some(Begins::Text),
            Channel::Summary | Channel::Reasoning => Some(Begins::Thinking),
            Channel::Arguments | Channel::Input => None,
        },
        _ => None,
    }
}

fn begins_item<'f>(item: &StreamItem<'f>) -> Begins<'f> {
    match item.kind {
        StreamItemKind::Message { .. } => Begins::Text,
        StreamItemKind::Reasoning { .. } => Begins::Thinking,
        StreamItemKind::Call { call_id: id, name, .. } => Begins::Call { id, name, server: false },
        StreamItemKind::Other { kind, call_id } => {
            match block::other(&kind.unescape(), &call_id.unescape()) {
                Some(server) => {
                    let id = if call_id.is_empty() { item.id } else { call_id };
                    Begins::Call { id, name: kind, server }
                }
                None => Begins::Other,
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

fn stop(response: &Response) -> Stop {
    match (&response.status, response.incomplete_reason.as_deref()) {
        (Some(Status::Completed), _) => Stop::Natural,
        (Some(Status::Incomplete), Some("content_filter")) => Stop::Refusal,
        (Some(Status::Incomplete), _) => Stop::Length,
        _ => Stop::Unknown,
    }
}
