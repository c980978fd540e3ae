//! A response as a stream of numbered events.

use super::output::{FAILED, Item, Output};
use super::request::Prompt;
use crate::events::{self, Event};
use crate::json::{Json, map};
use crate::models::open::Dialect;
use crate::reply::Chunk;
use crate::turn::Turn;

/// Writes a response as a stream, with the delays and the fault of its turn. With `rotates`, every
/// event has another item id.
pub(super) fn write(
    output: &Output,
    prompt: &Prompt<'_>,
    turn: &Turn,
    rotates: bool,
) -> Vec<Chunk> {
    let mut writer = Writer { output, prompt, rotates, next: 0, events: Vec::new() };
    writer.all();
    let events = std::mem::take(&mut writer.events);
    events::send(events, turn, |sent| writer.failure(sent as u64))
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
    fn all(&mut self) {
        let pending =
            |status| vec![("response".to_owned(), self.output.pending(self.prompt, status))];
        let first = if self.prompt.background { "queued" } else { "in_progress" };
        let (created, queued, begun) = (pending(first), pending("queued"), pending("in_progress"));
        self.push("response.created", created);
        if self.prompt.background {
            self.push("response.queued", queued);
        }
        self.push("response.in_progress", begun);
        for (index, item) in self.output.items.iter().enumerate() {
            self.item(item, index);
        }
        let kind = match self.output.incomplete {
            Some(_) => "response.incomplete",
            None => "response.completed",
        };
        let items = self.output.items.iter().map(|item| item.done(&self.id(item))).collect();
        let whole = self.output.finished(self.prompt, items);
        self.push(kind, vec![("response".to_owned(), whole)]);
    }

    fn item(&mut self, item: &Item, index: usize) {
        let at = || ("output_index".to_owned(), Json::from(index as u64));
        let added = item.added(&self.id(item));
        self.push("response.output_item.added", vec![at(), ("item".to_owned(), added)]);
        for step in item.steps() {
            let mut fields = vec![("item_id".to_owned(), self.id(item).into()), at()];
            fields.extend(step.fields);
            if step.is_delta && self.pads() {
                let pad = "sim0pad1sim2pad3".get(..1 + self.events.len() * 7 % 15);
                fields.push(("obfuscation".to_owned(), pad.unwrap_or("").into()));
            }
            self.push(step.kind, fields);
        }
        let done = item.done(&self.id(item));
        self.push("response.output_item.done", vec![at(), ("item".to_owned(), done)]);
    }

    /// Returns the id of an item in the next event.
    fn id(&self, item: &Item) -> String {
        if self.rotates { format!("it_{}_{}", item.id, self.next) } else { item.id.clone() }
    }

    fn pads(&self) -> bool {
        let options = self.prompt.body.get("stream_options");
        let wish = options.and_then(|o| o.get("include_obfuscation")).and_then(Json::as_bool);
        wish != Some(false) && self.prompt.model.dialect == Dialect::OpenAi
    }

    fn push(&mut self, kind: &str, fields: Vec<(String, Json)>) {
        let event = event(kind, fields, self.next);
        self.next += 1;
        self.events.push(event);
    }

    /// Returns an error and the failed response, both under status 200. `sent` events came before.
    fn failure(&self, sent: u64) -> Vec<Event> {
        let error = map([
            ("type", "server_error".into()),
            ("code", "server_error".into()),
            ("message", FAILED.into()),
            ("param", Json::Null),
        ]);
        let failed = self.output.failed(self.prompt);
        vec![
            event("error", vec![("error".to_owned(), error)], sent),
            event("response.failed", vec![("response".to_owned(), failed)], sent + 1),
        ]
    }
}

fn event(kind: &str, fields: Vec<(String, Json)>, number: u64) -> Event {
    let mut data = vec![("type".to_owned(), kind.into())];
    data.extend(fields);
    data.push(("sequence_number".to_owned(), number.into()));
    let is_delta = kind.ends_with(".delta");
    Event::new(format!("event: {kind}\ndata: {}\n\n", Json::Map(data).text()), is_delta)
}
