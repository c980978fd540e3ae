//! A response as a stream of numbered events.

use super::output::{FAILED, Item, Output};
use super::request::Prompt;
use crate::events::{self, Event};
use crate::json::{Json, json_object};
use crate::models::open::Dialect;
use crate::reply::Chunk;
use crate::turn::Turn;

/// Writes a response as a stream, with the delays and the fault of its turn. With `rotates`, every
/// event has another item id.
pub(super) fn write_stream(
    output: &Output,
    prompt: &Prompt<'_>,
    turn: &Turn,
    rotates: bool,
) -> Vec<Chunk> {
    let mut writer = Writer { output, prompt, rotates, next: 0, events: Vec::new() };
    writer.write_events();
    let events = std::mem::take(&mut writer.events);
    events::send_events(events, turn, |sent| writer.failure_events(sent as u64))
}

struct Writer<'a> {
    output: &'a Output,
    prompt: &'a Prompt<'a>,
    rotates: bool,
    /// The next `sequence_number`.
    next: u64,
    events: Vec<Event>,
}

impl Writer<'_> {
    fn write_events(&mut self) {
        let pending =
            |status| vec![("response".to_owned(), self.output.pending_json(self.prompt, status))];
        let first = if self.prompt.background { "queued" } else { "in_progress" };
        let (created, queued, begun) = (pending(first), pending("queued"), pending("in_progress"));
        self.push_event("response.created", created);
        if self.prompt.background {
            self.push_event("response.queued", queued);
        }
        self.push_event("response.in_progress", begun);
        for (index, item) in self.output.items.iter().enumerate() {
            self.write_item(item, index);
        }
        let kind = match self.output.incomplete {
            Some(_) => "response.incomplete",
            None => "response.completed",
        };
        let items =
            self.output.items.iter().map(|item| item.done_json(&self.item_id(item))).collect();
        let whole = self.output.finished_json(self.prompt, items);
        self.push_event(kind, vec![("response".to_owned(), whole)]);
    }

    fn write_item(&mut self, item: &Item, index: usize) {
        let at = || ("output_index".to_owned(), Json::from(index as u64));
        let added = item.added_json(&self.item_id(item));
        self.push_event("response.output_item.added", vec![at(), ("item".to_owned(), added)]);
        for step in item.to_events() {
            let mut fields = vec![("item_id".to_owned(), self.item_id(item).into()), at()];
            fields.extend(step.fields);
            if step.is_delta && self.adds_padding() {
                let pad = "sim0pad1sim2pad3".get(..1 + self.events.len() * 7 % 15);
                fields.push(("obfuscation".to_owned(), pad.unwrap_or("").into()));
            }
            self.push_event(step.kind, fields);
        }
        let done = item.done_json(&self.item_id(item));
        self.push_event("response.output_item.done", vec![at(), ("item".to_owned(), done)]);
    }

    /// Returns the id of an item in the next event.
    fn item_id(&self, item: &Item) -> String {
        if self.rotates { format!("it_{}_{}", item.id, self.next) } else { item.id.clone() }
    }

    fn adds_padding(&self) -> bool {
        let options = self.prompt.body.get("stream_options");
        let wish = options.and_then(|o| o.get("include_obfuscation")).and_then(Json::as_bool);
        wish != Some(false) && self.prompt.model.dialect == Dialect::OpenAi
    }

    fn push_event(&mut self, kind: &str, fields: Vec<(String, Json)>) {
        let event = to_event(kind, fields, self.next);
        self.next += 1;
        self.events.push(event);
    }

    /// Returns an error and the failed response, both under status 200. `sent` events came before.
    fn failure_events(&self, sent: u64) -> Vec<Event> {
        let error = json_object([
            ("type", "server_error".into()),
            ("code", "server_error".into()),
            ("message", FAILED.into()),
            ("param", Json::Null),
        ]);
        let failed = self.output.failed_json(self.prompt);
        vec![
            to_event("error", vec![("error".to_owned(), error)], sent),
            to_event("response.failed", vec![("response".to_owned(), failed)], sent + 1),
        ]
    }
}

fn to_event(kind: &str, fields: Vec<(String, Json)>, number: u64) -> Event {
    let mut data = vec![("type".to_owned(), kind.into())];
    data.extend(fields);
    data.push(("sequence_number".to_owned(), number.into()));
    let is_delta = kind.ends_with(".delta");
    Event::new(format!("event: {kind}\ndata: {}\n\n", Json::Map(data).to_text()), is_delta)
}
