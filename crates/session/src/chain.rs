//! Histories of which the provider keeps a part (`previous_response_id` of the Responses API).
//!
//! A request then shows only what is new. [`Chain::join`] puts what stands before it in front, so
//! that it is governed like any other; what goes upstream is cut back to what is new, since the
//! provider has the rest as it was sent to it before, lines and all. A response that the client was
//! shown is not always one that the provider may go on from: what stood behind a run's limit is
//! never sent again (`governing.md` §1). A [`Link`] says from which one to go on, and with what.
//!
//! Whose store it is, and how long it keeps links, is not known here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use softland_wire::json::{Span, write_str};
use softland_wire::request::Request;
use softland_wire::{Api, Splice};

/// What a store keeps of one response that a client was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The shown response before it.
    pub before: Option<String>,
    /// What the client sent and was shown since then: items, JSON objects with commas between.
    pub items: String,
    /// The response that the provider goes on from; `None` from none.
    pub upstream: Option<String>,
    /// What comes between that response and what is new: items, with commas between.
    pub add: String,
}

/// A response that was shown, to be remembered under each of its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The ids that the client knows it by.
    pub ids: Vec<String>,
    /// What goes on from it.
    pub link: Link,
}

/// A request whose history was joined from links.
#[derive(Clone, Debug)]
pub struct Chain {
    /// What the client sent.
    original: Bytes,
    /// Its `previous_response_id`, and where that stands in it.
    id: (String, Span),
    /// In the joined body: what was put in front, and where the id was.
    front: Span,
    null: Span,
    upstream: Option<String>,
    add: String,
}

impl Chain {
    /// Joins a request with what stands before it: `links`, oldest first. Returns the whole, and
    /// what is needed to cut it back. `None` where there is nothing new to find one's way by.
    #[must_use]
    pub fn join(body: &Bytes, links: &[Link]) -> Option<(Bytes, Self)> {
        let request = Request::of(Api::Responses, body).ok()?;
        let (id, at) = request.previous?;
        let new = new_items(&request, None)?;
        let last = links.last()?;
        let items: Vec<&str> = links
            .iter()
            .map(|link| link.items.as_str())
            .filter(|items| !items.is_empty())
            .collect();
        let input = request.messages.span;
        let front = items.join(",") + if items.is_empty() { "" } else { "," };
        let list = format!("[{front}{new}]");
        let mut splice = Splice::new();
        splice.replace(at, "null");
        splice.replace(input, list.as_bytes());
        let joined = splice.apply(body).ok()?;
        // One edit moves what stands behind it.
        let moved = |from: usize, edit: Span, with: usize| {
            if edit.start < from { from + with - edit.len() } else { from }
        };
        let begin = moved(input.start, at, "null".len()) + 1;
        let null = moved(at.start, input, list.len());
        let chain = Self {
            original: body.clone(),
            id: (id.unescape().into_owned(), at),
            front: Span::new(begin, begin + front.len()),
            null: Span::new(null, null + "null".len()),
            upstream: last.upstream.clone(),
            add: last.add.clone(),
        };
        Some((Bytes::from(joined), chain))
    }

    /// How many bytes of history the provider has.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.front.len()
    }

    /// What goes upstream of the joined body with these edits.
    pub(crate) fn cut(&self, splice: &Splice, joined: &Bytes) -> Bytes {
        let mut own = splice.clone();
        own.drop_within(self.front);
        let id = self.upstream.as_ref().map_or_else(|| b"null".to_vec(), |id| quoted(id));
        if own.is_empty() && self.add.is_empty() {
            if self.upstream.as_ref() == Some(&self.id.0) {
                return self.original.clone();
            }
            let mut own = Splice::new();
            own.replace(self.id.1, id);
            return own.apply(&self.original).map_or_else(|_| self.original.clone(), Bytes::from);
        }
        let comma = if self.add.is_empty() { "" } else { "," };
        own.replace(self.front, [self.add.as_str(), comma].concat());
        own.replace(self.null, id);
        own.apply(joined).map_or_else(|_| self.original.clone(), Bytes::from)
    }

    /// What is new of the joined body.
    pub(crate) fn new_items(&self, joined: &Request<'_>) -> Option<String> {
        new_items(joined, Some(self.front.end))
    }

    /// The response that the client's request goes on from.
    pub(crate) fn id(&self) -> &str {
        &self.id.0
    }

    /// The same that the provider knows.
    pub(crate) fn upstream(&self) -> Option<&str> {
        self.upstream.as_deref()
    }
}

/// The items of a request's input, from a byte of the body on; `None` where there are none.
pub(crate) fn new_items(request: &Request<'_>, from: Option<usize>) -> Option<String> {
    let span = request.messages.span;
    if request.messages.string {
        let mut item = br#"{"role":"user","content":"#.to_vec();
        item.extend_from_slice(span.of(request.text).as_bytes());
        item.push(b'}');
        return String::from_utf8(item).ok();
    }
    let inner = request.text.get(from.unwrap_or(span.start + 1)..span.end.checked_sub(1)?)?.trim();
    (!inner.is_empty()).then(|| inner.to_owned())
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_str(&mut out, text);
    out
}

#[cfg(test)]
mod tests;
