//! Calls and results that stand in the texts of a history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use softland_core::tables::FlatFormat;
use softland_core::{Digest, Role, lines};
use softland_wire::request::{BlockKind, Content, Message as RequestMessage};
use softland_wire::tags::{self, Shape, Tags};

use super::{TagCall, call_id, flat, opening_tag, read_call};

/// The reader of calls in the texts of a history.
#[derive(Clone, Debug)]
pub(crate) struct TagReader {
    pub(crate) shape: Arc<Shape>,
    pub(crate) role: Role,
}

impl TagReader {
    /// Returns the calls of a turn that are written as text, as they are counted. A block that was
    /// not closed is a call in an engine's own history only: there it was answered.
    pub(crate) fn read_calls(&self, message: &RequestMessage<'_>) -> Vec<TagCall> {
        calls_in_message(message, &self.shape.tags, self.role)
    }
}

fn calls_in_message(message: &RequestMessage<'_>, tags: &Tags, role: Role) -> Vec<TagCall> {
    let mut calls = Vec::new();
    match &message.content {
        Content::Text(text, _) if may_hold(text.raw()) => {
            read_text(&text.unescape(), tags, role, &mut calls);
        }
        Content::Text(..) => {}
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                if let BlockKind::Text { text, .. } = &block.kind
                    && may_hold(text.raw())
                {
                    read_text(&text.unescape(), tags, role, &mut calls);
                }
            }
        }
    }
    calls
}

/// True if a text, escaped as in JSON, may hold a tag.
fn may_hold(raw: &str) -> bool {
    raw.contains('<') || raw.contains("\\u003")
}

fn read_text(text: &str, tags: &Tags, role: Role, calls: &mut Vec<TagCall>) {
    let reading = tags::parse_text(text, tags);
    for found in &reading.blocks {
        let id = call_id(None, calls.len());
        calls.push(read_call(&found.call, found.block.tag(), tags, id));
    }
    if let Some(open) = reading.open.filter(|_| role == Role::Engine) {
        let (id, name) =
            (call_id(None, calls.len()), opening_tag(open.slice_of(text), tags).to_owned());
        calls.push(TagCall { id, name, input: "{}".to_owned(), unfit: None });
    }
}

/// The calls of the newest turn, which wait for their results.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingCalls {
    /// Their ids.
    ids: Vec<String>,
    names: Vec<String>,
    /// The format of the calls, where a client has flattened them.
    flat: Option<&'static FlatFormat>,
    /// Texts that stood beside results. A text that comes each time was written by no person.
    beside: BTreeSet<Digest>,
}

/// The content of a message that answers waiting calls.
#[derive(Debug, Default)]
pub(crate) struct GivenAnswers {
    /// The results, one for each call: the call's id, and the text of its result.
    pub(crate) results: Vec<(String, String)>,
    /// Texts beside the results that a person may have written.
    pub(crate) beside: Vec<String>,
    /// True if the results tell of an error.
    pub(crate) failed: bool,
}

impl WaitingCalls {
    /// Takes the calls of a turn that are written as text, in order. `next` is the message behind
    /// the turn. `reader` reads the calls, where models write them as text.
    pub(crate) fn await_results(
        &mut self,
        reader: Option<&TagReader>,
        turn: &RequestMessage<'_>,
        next: Option<&RequestMessage<'_>>,
    ) -> Vec<TagCall> {
        let mut calls = reader.map(|reader| reader.read_calls(turn)).unwrap_or_default();
        self.flat = None;
        if calls.is_empty()
            && let Some((flat, flattened)) = flat::calls_of(turn, next)
        {
            (self.flat, calls) = (Some(flat), flattened);
        }
        self.ids = calls.iter().map(|call| call.id.clone()).collect();
        self.names = calls.iter().map(|call| call.name.clone()).collect();
        calls
    }

    /// True if no call waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Reads the next user message. No call waits afterwards.
    pub(crate) fn take_results(
        &mut self,
        reader: Option<&TagReader>,
        texts: &[&str],
    ) -> GivenAnswers {
        let (ids, names) = (std::mem::take(&mut self.ids), std::mem::take(&mut self.names));
        let mut given = GivenAnswers::default();
        if texts.is_empty() {
            return given;
        }
        let mut left: Vec<Option<String>> = vec![None; names.len()];
        if let Some(flat) = self.flat.take() {
            let whole = self.flattened_results(texts, flat, &mut given);
            if let Some(last) = left.last_mut() {
                *last = Some(whole);
            }
        } else if let Some(reader) = reader {
            left = self.place_results(&names, texts, &reader.shape.tags, &mut given);
        }
        let whole = left.last().is_some_and(Option::is_some);
        if !whole && let Some(last) = left.last_mut() {
            *last = Some(String::new());
        }
        given.results =
            ids.into_iter().zip(left.into_iter().map(Option::unwrap_or_default)).collect();
        given
    }

    /// Returns the results of a message whose client has flattened them: one text for all.
    fn flattened_results(
        &mut self,
        texts: &[&str],
        flat: &FlatFormat,
        given: &mut GivenAnswers,
    ) -> String {
        let mut whole = Vec::new();
        for text in texts {
            let Some(result) = flat.parse_results(text) else {
                self.note_aside(text, given);
                continue;
            };
            given.failed |= result.failed;
            whole.push(result.text);
            result.said.into_iter().for_each(|said| self.note_aside(said, given));
        }
        whole.join("\n")
    }

    /// Returns the results of these calls, where the model writes both as text.
    fn place_results(
        &mut self,
        names: &[String],
        texts: &[&str],
        tags: &Tags,
        given: &mut GivenAnswers,
    ) -> Vec<Option<String>> {
        let read: Vec<_> = texts.iter().map(|text| tags::parse_results(text, tags)).collect();
        let mut places = ResultPlaces::from_names(names);
        if read.iter().any(|results| results.apart) {
            for (text, results) in texts.iter().zip(&read) {
                if !results.apart {
                    self.note_aside(text, given);
                    continue;
                }
                for answer in &results.answers {
                    places.give_result(answer.name, answer.content);
                }
                results.beside.iter().for_each(|span| self.note_aside(span.slice_of(text), given));
            }
        } else if let Some(last) = places.left.last_mut() {
            // One text answers all calls: it becomes the result of the last call.
            *last = Some(texts.join("\n"));
        }
        places.left
    }

    fn note_aside(&mut self, text: &str, given: &mut GivenAnswers) {
        let new = self.beside.insert(Digest::from_bytes(text.trim().as_bytes()));
        if new && !lines::ends_in_line(text) {
            given.beside.push(text.to_owned());
        }
    }
}

/// The calls of a turn, in order, and the results that were given to them.
struct ResultPlaces<'n> {
    /// The result of each call.
    left: Vec<Option<String>>,
    /// The calls of each name, in the order in which they get a result.
    named: BTreeMap<&'n str, VecDeque<usize>>,
    /// The first call that may have no result: every call before it has one.
    free: usize,
}

impl<'n> ResultPlaces<'n> {
    fn from_names(names: &'n [String]) -> Self {
        let mut named: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            named.entry(name).or_default().push_back(at);
        }
        Self { left: vec![None; names.len()], named, free: 0 }
    }

    /// Gives a result to its call: the first one of its name that has none, else the first without
    /// any. If every call has a result, adds it to the last one's.
    fn give_result(&mut self, name: Option<&str>, content: &str) {
        match self.next_call(name).and_then(|at| self.left.get_mut(at)) {
            Some(slot) => *slot = Some(content.to_owned()),
            None => {
                if let Some(last) = self.left.last_mut().and_then(Option::as_mut) {
                    last.push('\n');
                    last.push_str(content);
                }
            }
        }
    }

    /// Returns the call that gets the next result of that name.
    fn next_call(&mut self, name: Option<&str>) -> Option<usize> {
        let is_given = |left: &[Option<String>], at| left.get(at).is_some_and(Option::is_some);
        if let Some(named) = name.and_then(|name| self.named.get_mut(name)) {
            while let Some(at) = named.pop_front() {
                if !is_given(&self.left, at) {
                    return Some(at);
                }
            }
        }
        while is_given(&self.left, self.free) {
            self.free += 1;
        }
        (self.free < self.left.len()).then_some(self.free)
    }
}
