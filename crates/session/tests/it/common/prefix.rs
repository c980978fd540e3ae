//! What went upstream, turn by turn.
//!
//! Let U be the messages that a turn of the history answered: the governed history, and for a turn
//! of the run behind a tail that tail. In every later request in which the client's own messages
//! before that turn are what they were, byte for byte, the governed history begins with U, byte for
//! byte; where the client writes the same in another way (a string as a list, a cache mark that
//! moves), it begins with U but for that. Where the client edits them, each result that is still
//! there has the line that it had.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use softland_core::Rung;
use softland_session::Done;
use softland_wire::{Api, request::Request};

use super::native;

/// Asserts that a body upstream has the client's `system`, its `tools` but for the number of uses of
/// those that the provider runs, and, except on a rung, its `tool_choice`.
pub(crate) fn assert_head_kept(sent: &[u8], upstream: &[u8], rung: Option<Rung>) {
    let read = |body: &[u8]| serde_json::from_slice::<Value>(body).unwrap();
    let (mut sent, mut upstream) = (read(sent), read(upstream));
    for body in [&mut sent, &mut upstream] {
        for tool in body["tools"].as_array_mut().into_iter().flatten() {
            tool.as_object_mut().unwrap().remove("max_uses");
        }
    }
    for key in ["system", "instructions", "tools"] {
        assert_eq!(upstream[key], sent[key], "`{key}` was changed");
    }
    if rung.is_none() {
        assert_eq!(upstream["tool_choice"], sent["tool_choice"], "changed without a rung");
    }
}

pub(crate) struct Prefixes {
    api: Api,
    bases: Vec<Base>,
    /// The base that the newest turn will stand behind, if it is adopted.
    adopted: Option<Vec<u8>>,
    /// The line of each result, by the id of its call.
    lines: BTreeMap<String, String>,
}

struct Base {
    /// Messages of the client's history.
    held: usize,
    /// Them, as the client wrote them, and as they went upstream: without the closing bracket.
    sent: Vec<u8>,
    governed: Vec<u8>,
    /// The same, with the tail that a turn behind it answered.
    went: Vec<u8>,
}

impl Prefixes {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, bases: Vec::new(), adopted: None, lines: BTreeMap::new() }
    }

    /// The client has edited its history. Without the `store` that knew its results, their lines
    /// may be others, too.
    pub(crate) fn forget(&mut self, store: bool) {
        self.bases.clear();
        if !store {
            self.lines.clear();
        }
    }

    /// The client has gone back to so many messages.
    pub(crate) fn truncate(&mut self, held: usize) {
        self.bases.retain(|base| base.held <= held);
        if let Some(base) = self.bases.last_mut().filter(|base| base.held == held) {
            base.went.clone_from(&base.governed);
        }
    }

    /// Takes one client request: what was sent, governed, and answered at last. Says what it met.
    pub(crate) fn turn(
        &mut self,
        held: usize,
        (sent, governed, last): (&[u8], &[u8], Option<&[u8]>),
        done: &Done,
    ) -> Vec<&'static str> {
        let mut met = Vec::new();
        self.lines(sent, governed);
        let list = |body| open(messages(self.api, body));
        let (sent, governed) = (list(sent), list(governed));
        if let Some(base) = self.bases.last() {
            if sent.starts_with(&base.sent) {
                assert!(
                    governed.starts_with(&base.went),
                    "the prefix changed:\n{}\n---\n{}",
                    text_of(&base.went),
                    text_of(governed)
                );
                met.push("prefix kept");
            } else if plain(sent).starts_with(&plain(&base.sent)) {
                let (before, now) = (plain(&base.went), plain(governed));
                assert_eq!(before[..], now[..before.len().min(now.len())], "the prefix changed");
                met.push("prefix kept but for its writing");
            }
        }
        if count(governed) > count(sent) {
            met.push("behind a tail");
        }
        let last = last.map(|last| open(messages(self.api, last)));
        let goes_on = done.ended.is_none() && !done.calls.is_empty();
        let behind = last.is_some_and(|last| last != governed);
        let tail = done.tail.is_some();
        assert!(tail == behind || !goes_on, "a tail that calls stand behind is kept");
        assert!(behind || !tail, "and no other");
        if tail {
            met.push("tail kept");
        }
        self.adopted = last.filter(|_| tail).map(<[u8]>::to_vec);
        let (governed, went) = (governed.to_vec(), governed.to_vec());
        self.bases.push(Base { held, sent: sent.to_vec(), governed, went });
        met
    }

    /// The client keeps the newest turn.
    pub(crate) fn adopted(&mut self) {
        if let (Some(went), Some(base)) = (self.adopted.take(), self.bases.last_mut()) {
            base.went = went;
        }
    }

    /// The line of a result stays, whatever the client does to its text.
    fn lines(&mut self, sent: &[u8], governed: &[u8]) {
        let (before, after) = (results(self.api, sent), results(self.api, governed));
        for (id, text) in &before {
            let line = after[id].strip_prefix(text.as_str()).unwrap().trim_start().to_owned();
            let known = self.lines.entry(id.clone()).or_insert_with(|| line.clone());
            assert_eq!(*known, line, "the line of {id} changed");
        }
    }
}

/// The messages of a body.
pub(crate) fn messages(api: Api, body: &[u8]) -> &[u8] {
    let span = Request::from_body(api, body).unwrap().messages.span;
    &body[span.start..span.end]
}

pub(crate) fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("(not UTF-8)")
}

fn open(messages: &[u8]) -> &[u8] {
    messages.strip_suffix(b"]").unwrap()
}

fn list(open: &[u8]) -> Vec<Value> {
    serde_json::from_slice(&[open, b"]"].concat()).unwrap()
}

fn count(open: &[u8]) -> usize {
    list(open).len()
}

/// The messages but for how they are written.
fn plain(open: &[u8]) -> Vec<Value> {
    let mut messages = list(open);
    for message in &mut messages {
        if let Some(text) = message["content"].as_str() {
            message["content"] = json!([{"type": "text", "text": text}]);
        }
        for block in message["content"].as_array_mut().into_iter().flatten() {
            let block = block.as_object_mut().unwrap();
            block.remove("cache_control");
            if block.get("type").is_some_and(|kind| kind == "input_text") {
                block.insert("type".to_owned(), json!("text"));
            }
        }
    }
    messages
}

/// The text of every result, by the id of its call.
fn results(api: Api, body: &[u8]) -> BTreeMap<String, String> {
    let list = list(open(messages(api, body)));
    let results = list.iter().flat_map(native::results_of);
    results.map(|(id, content)| (id.to_owned(), native::text_of(content))).collect()
}
