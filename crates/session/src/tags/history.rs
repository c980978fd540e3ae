//! Calls and results that stand in the texts of a history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use softland_core::{Digest, Role, lines};
use softland_wire::request::{BlockKind, Content, Message as RequestMessage};
use softland_wire::tags::{self, Shape, Tags};

use super::{TagCall, id_of, opened, read_call};

/// How the texts of a history are read.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) shape: Arc<Shape>,
    pub(crate) role: Role,
}

impl Reader {
    /// The calls of a turn that are written as text, as they are counted. A block that was not
    /// closed is one in an engine's own history only: there it was answered.
    pub(crate) fn calls(&self, message: &RequestMessage<'_>) -> Vec<TagCall> {
        calls_of(message, &self.shape.tags, self.role)
    }

    /// Reads the next user message: nothing waits any more.
    pub(crate) fn take(&self, waiting: &mut Waiting, texts: &[&str]) -> Given {
        waiting.take(texts, &self.shape.tags)
    }
}

fn calls_of(message: &RequestMessage<'_>, tags: &Tags, role: Role) -> Vec<TagCall> {
    let mut calls = Vec::new();
    match &message.content {
        Content::Text(text, _) if may_hold(text.raw()) => {
            read(&text.unescape(), tags, role, &mut calls);
        }
        Content::Text(..) => {}
        Content::Blocks { blocks, .. } => {
            for block in blocks {
                if let BlockKind::Text { text, .. } = &block.kind
                    && may_hold(text.raw())
                {
                    read(&text.unescape(), tags, role, &mut calls);
                }
            }
        }
    }
    calls
}

/// Whether a text, escaped as in JSON, may hold a tag.
fn may_hold(raw: &str) -> bool {
    raw.contains('<') || raw.contains("\\u003")
}

fn read(text: &str, tags: &Tags, role: Role, calls: &mut Vec<TagCall>) {
    let reading = tags::read(text, tags);
    for found in &reading.blocks {
        let id = id_of(None, calls.len());
        calls.push(read_call(&found.call, found.block.tag(), tags, id));
    }
    if let Some(open) = reading.open.filter(|_| role == Role::Engine) {
        let (id, name) = (id_of(None, calls.len()), opened(open.of(text), tags).to_owned());
        calls.push(TagCall { id, name, input: "{}".to_owned(), unfit: None });
    }
}

/// The calls of the newest turn, which wait for their results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    names: Vec<String>,
    /// Texts that stood beside results: what comes each time was written by no person.
    beside: BTreeSet<Digest>,
}

/// What a message gives to the calls that waited for it.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// The results, one for each call: its id, and the text of its result.
    pub(crate) results: Vec<(String, String)>,
    /// What a person may have said beside them.
    pub(crate) beside: Vec<String>,
}

impl Waiting {
    /// A turn's calls, in order.
    pub(crate) fn wait(&mut self, calls: &[TagCall]) {
        self.names.clear();
        self.names.extend(calls.iter().map(|call| call.name.clone()));
    }

    /// Whether no call waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    fn take(&mut self, texts: &[&str], tags: &Tags) -> Given {
        let names = std::mem::take(&mut self.names);
        let mut given = Given::default();
        if texts.is_empty() {
            return given;
        }
        let read: Vec<_> = texts.iter().map(|text| tags::results(text, tags)).collect();
        let mut places = Places::of(&names);
        if read.iter().any(|results| results.apart) {
            for (text, results) in texts.iter().zip(&read) {
                if !results.apart {
                    self.aside(text, &mut given);
                    continue;
                }
                for answer in &results.answers {
                    places.give(answer.name, answer.content);
                }
                results.beside.iter().for_each(|span| self.aside(span.of(text), &mut given));
            }
        } else if let Some(last) = places.left.last_mut() {
            // One text for all: it is the last one's, when all have been run.
            *last = Some(texts.join("\n"));
        }
        let mut left = places.left;
        let whole = left.last().is_some_and(Option::is_some);
        if !whole && let Some(last) = left.last_mut() {
            *last = Some(String::new());
        }
        let ids = (0..).map(|place| id_of(None, place));
        given.results = ids.zip(left.into_iter().map(Option::unwrap_or_default)).collect();
        given
    }

    fn aside(&mut self, text: &str, given: &mut Given) {
        let new = self.beside.insert(Digest::of(text.trim().as_bytes()));
        if new && !lines::ends_in_line(text) {
            given.beside.push(text.to_owned());
        }
    }
}

/// The calls of a turn, in order, and the results that were given to them.
struct Places<'n> {
    /// The result of each call.
    left: Vec<Option<String>>,
    /// The calls of each name, the next one to be given a result first.
    named: BTreeMap<&'n str, VecDeque<usize>>,
    /// Before this one every call has a result.
    free: usize,
}

impl<'n> Places<'n> {
    fn of(names: &'n [String]) -> Self {
        let mut named: BTreeMap<&str, VecDeque<usize>> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            named.entry(name).or_default().push_back(at);
        }
        Self { left: vec![None; names.len()], named, free: 0 }
    }

    /// Gives a result to its call: the first one of its name that has none, else the first without
    /// any, else it is added to the last one's.
    fn give(&mut self, name: Option<&str>, content: &str) {
        match self.next(name).and_then(|at| self.left.get_mut(at)) {
            Some(slot) => *slot = Some(content.to_owned()),
            None => {
                if let Some(last) = self.left.last_mut().and_then(Option::as_mut) {
                    last.push('\n');
                    last.push_str(content);
                }
            }
        }
    }

    /// The call that the next result of that name is given to.
    fn next(&mut self, name: Option<&str>) -> Option<usize> {
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
