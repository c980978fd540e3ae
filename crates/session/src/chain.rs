//! Histories of which the provider keeps a part (`previous_response_id` and `conversation` of the
//! Responses API).
//!
//! A request then shows only what is new. [`Chain::join`] puts what stands before it in front, so
//! that it is governed like any other; what goes upstream is cut back to what is new, since the
//! provider has the rest as it was sent to it before, lines and all. A response that the client was
//! shown is not always one that the provider may go on from: what stood behind a run's limit is
//! never sent again (`governing.md` §1). A [`Link`] says from which one to go on, and with what.
//!
//! A conversation is a log, in which each response stands with what led to it as soon as it is
//! complete. There is no going on from an earlier place in it: what softland adds behind a response
//! is sent as what is new to the log, and stays there.
//!
//! Whose store it is, and how long it keeps links, is not known here.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use softland_wire::json::{Cursor, Error, Span, write_str};
use softland_wire::request::Request;
use softland_wire::{Api, Splice};

/// The member that a body gets which has no input, up to its value.
const INPUT: &str = ",\"input\":";
/// The length of `null`.
const NULL: usize = "null".len();

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
    /// The conversation that it is the newest of.
    pub conversation: Option<String>,
    /// What goes on from it.
    pub link: Link,
}

/// A request whose history was joined from links.
#[derive(Clone, Debug)]
pub struct Chain {
    /// What the client sent.
    original: Bytes,
    named: Named,
    /// In the joined body: what was put in front.
    front: Span,
    /// Nothing new stands behind that.
    bare: bool,
    upstream: Option<String>,
    add: String,
}

/// By what a request names the history that it goes on from.
#[derive(Clone, Debug)]
enum Named {
    /// A response: its id, where that stands in the original, and where it was in the joined body.
    Response { id: String, at: Span, null: Span },
    /// A conversation, whose name stays where it is.
    Conversation,
}

impl Chain {
    /// Joins a request with what stands before it: `links`, oldest first. Returns the whole, and
    /// what is needed to cut it back. `None` where there is nothing new to find one's way by: in a
    /// conversation there may be nothing, since others may add to it.
    #[must_use]
    pub fn join(body: &Bytes, links: &[Link]) -> Option<(Bytes, Self)> {
        let request = Request::of(Api::Responses, body).ok()?;
        let new = new_items(&request, None);
        let last = links.last()?;
        let items: Vec<&str> = links
            .iter()
            .map(|link| link.items.as_str())
            .filter(|items| !items.is_empty())
            .collect();
        let mut front = items.join(",");
        let mut splice = Splice::new();
        let named = match request.previous {
            Some((id, at)) => {
                splice.replace(at, "null");
                Some((id.unescape().into_owned(), at))
            }
            None if request.conversation.is_some() => None,
            None => return None,
        };
        // Behind a response there is nothing to govern without anything new.
        let new = if named.is_some() { new? } else { new.unwrap_or_default() };
        if !front.is_empty() && !new.is_empty() {
            front.push(',');
        }
        let list = format!("[{front}{new}]");
        // One edit moves what stands behind it.
        let moved = |from: usize, edit: Span, with: usize| {
            if edit.start < from { from + with - edit.len() } else { from }
        };
        let id_moves = |from: usize| named.as_ref().map_or(from, |(_, at)| moved(from, *at, NULL));
        let mut input = request.messages.span;
        let begin = if input.is_empty() {
            let end = request.span.end.saturating_sub(1);
            input = Span::new(end, end);
            splice.insert(end, [INPUT, list.as_str()].concat());
            id_moves(end) + INPUT.len() + 1
        } else {
            splice.replace(input, list.as_bytes());
            id_moves(input.start) + 1
        };
        let joined = splice.apply(body).ok()?;
        let named = match named {
            Some((id, at)) => {
                let null = moved(at.start, input, list.len());
                Named::Response { id, at, null: Span::new(null, null + NULL) }
            }
            None => Named::Conversation,
        };
        let chain = Self {
            original: body.clone(),
            named,
            front: Span::new(begin, begin + front.len()),
            bare: new.is_empty(),
            upstream: last.upstream.clone(),
            add: last.add.clone(),
        };
        Some((Bytes::from(joined), chain))
    }

    /// How many bytes of history the provider has, where it has no others: a conversation may have
    /// been added to by others.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        match self.named {
            Named::Response { .. } => self.front.len(),
            Named::Conversation => 0,
        }
    }

    /// What goes upstream of the joined body with these edits.
    pub(crate) fn cut(&self, splice: &Splice, joined: &Bytes) -> Bytes {
        let mut own = splice.clone();
        own.drop_within(self.front);
        let comma = if self.add.is_empty() || self.bare { "" } else { "," };
        match &self.named {
            Named::Response { id, at, null } => {
                let name = self.upstream.as_ref().map_or_else(|| b"null".to_vec(), |id| quoted(id));
                if own.is_empty() && self.add.is_empty() {
                    if self.upstream.as_ref() == Some(id) {
                        return self.original.clone();
                    }
                    let mut own = Splice::new();
                    own.replace(*at, name);
                    return own
                        .apply(&self.original)
                        .map_or_else(|_| self.original.clone(), Bytes::from);
                }
                own.replace(*null, name);
            }
            Named::Conversation if own.is_empty() && self.add.is_empty() => {
                return self.original.clone();
            }
            Named::Conversation => {}
        }
        own.replace(self.front, [self.add.as_str(), comma].concat());
        own.apply(joined).map_or_else(|_| self.original.clone(), Bytes::from)
    }

    /// What is new of the joined body.
    pub(crate) fn new_items(&self, joined: &Request<'_>) -> Option<String> {
        new_items(joined, Some(self.front.end))
    }

    /// The response that the client's request goes on from; `None` where it names none.
    pub(crate) fn id(&self) -> Option<&str> {
        match &self.named {
            Named::Response { id, .. } => Some(id),
            Named::Conversation => None,
        }
    }

    /// The same that the provider knows.
    pub(crate) fn upstream(&self) -> Option<&str> {
        self.upstream.as_deref()
    }
}

/// The body of a further request in a conversation, which has all that was sent before: with these
/// items for its input, and with these edits of what is no input.
pub(crate) fn go_on(request: &Request<'_>, splice: &Splice, items: &str) -> Option<Bytes> {
    let input = request.messages.span;
    let list = format!("[{items}]");
    let mut own = splice.clone();
    if input.is_empty() {
        own.insert(request.span.end.saturating_sub(1), [INPUT, &list].concat());
    } else {
        own.drop_within(input);
        own.replace(input, list);
    }
    own.apply(request.text.as_bytes()).ok().map(Bytes::from)
}

/// Of items that follow a conversation's response, those that are not the model's own: the log has
/// those already.
pub(crate) fn not_in_log(items: &[u8]) -> String {
    // They were written here, or scanned when they came.
    let Ok(items) = std::str::from_utf8(items) else { return String::new() };
    let text = format!("[{items}]");
    let mut new = Vec::new();
    let _: Result<_, Error> = Cursor::new(&text).elements(|cursor| {
        let (mut kind, mut has_id) = (String::new(), false);
        let item = cursor.members(|cursor, member| {
            has_id |= member.key.eq_str("id");
            if member.key.eq_str("type")
                && let Some((text, _)) = cursor.string_or_skip()?
            {
                kind = text.unescape().into_owned();
            }
            Ok::<_, Error>(())
        })?;
        let own = has_id || kind.ends_with("_call") || kind == "reasoning";
        new.extend((!own).then(|| item.of(&text).to_owned()));
        Ok(())
    });
    new.join(",")
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
