//! Histories of which the provider keeps a part (`previous_response_id` and `conversation` of the
//! Responses API).
//!
//! Such a request shows only its new items. [`Chain::join_links`] puts the earlier history in
//! front, so that the request is governed like any other. The body that goes upstream is cut back
//! to the new items, since the provider has the rest as it was sent before, lines and all. The
//! provider may not go on from every response that the client was shown: what stood behind a run's
//! limit is never sent again (`docs/governing.md` §1). A [`ChainLink`] says from which response to
//! go on, and which items to add.
//!
//! A conversation is a log. Each response stands in it, with the items that led to it, as soon as
//! it is complete. No request can go on from an earlier place in the log: the messages that
//! softland adds behind a response are sent as new items, and stay there.
//!
//! This module does not know whose store keeps the links, or for how long.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use softland_wire::Splice;
use softland_wire::json::{Cursor, Error, Span, write_str};
use softland_wire::request::Request;

/// The member that is added to a body without input, up to its value.
const INPUT: &str = ",\"input\":";
/// The length of `null`.
const NULL: usize = "null".len();

/// The stored facts of one response that a client was shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainLink {
    /// The id of the shown response before this one.
    pub before: Option<String>,
    /// The items that the client sent and was shown since then: JSON objects with commas between.
    pub items: String,
    /// The id of the response that the provider goes on from; `None` where there is none.
    pub upstream: Option<String>,
    /// The items between that response and the new ones, with commas between.
    pub add: String,
}

/// A shown response, to be remembered under each of its ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownResponse {
    /// The ids by which the client knows the response.
    pub ids: Vec<String>,
    /// The conversation whose newest response this is.
    pub conversation: Option<String>,
    /// The link for a request that goes on from this response.
    pub link: ChainLink,
}

/// A request whose history was joined from links.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The body as the client sent it.
    original: Bytes,
    named: HistoryName,
    /// The part of the joined body that was put in front.
    front: Span,
    /// True if nothing new stands behind that part.
    bare: bool,
    upstream: Option<String>,
    add: String,
}

/// The name by which a request refers to its earlier history.
#[derive(Clone, Debug)]
enum HistoryName {
    /// A response: its id, the span of the id in the original, and the span of the `null` in its
    /// place in the joined body.
    Response { id: String, at: Span, null: Span },
    /// A conversation, whose name stays where it is.
    Conversation,
}

impl Chain {
    /// Joins a request, which was read from `body`, with its earlier history: `links`, oldest
    /// first. Returns the whole body, and the chain that cuts it back. Returns `None` if the
    /// request names no history, and if nothing new follows a response. In a conversation nothing
    /// need be new, since others may add to it.
    #[must_use]
    pub fn join_links(
        request: &Request<'_>,
        body: &Bytes,
        links: &[ChainLink],
    ) -> Option<(Bytes, Self)> {
        let new = new_items(request, None);
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
        // Behind a response, a request without new items has nothing to govern.
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
                HistoryName::Response { id, at, null: Span::new(null, null + NULL) }
            }
            None => HistoryName::Conversation,
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

    /// Returns the bytes of history that the provider has, if it has no others: 0 for a
    /// conversation, to which others may have added.
    #[must_use]
    pub fn stored_history_bytes(&self) -> usize {
        match self.named {
            HistoryName::Response { .. } => self.front.len(),
            HistoryName::Conversation => 0,
        }
    }

    /// Returns the body that goes upstream: the joined body with these edits, cut back to what is
    /// new.
    pub(crate) fn cut_body(&self, splice: &Splice, joined: &Bytes) -> Bytes {
        let mut own = splice.clone();
        own.drop_within(self.front);
        let comma = if self.add.is_empty() || self.bare { "" } else { "," };
        match &self.named {
            HistoryName::Response { id, at, null } => {
                let name =
                    self.upstream.as_ref().map_or_else(|| b"null".to_vec(), |id| quote_json(id));
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
            HistoryName::Conversation if own.is_empty() && self.add.is_empty() => {
                return self.original.clone();
            }
            HistoryName::Conversation => {}
        }
        own.replace(self.front, [self.add.as_str(), comma].concat());
        own.apply(joined).map_or_else(|_| self.original.clone(), Bytes::from)
    }

    /// Returns the new items of the joined body; `None` where there are none.
    pub(crate) fn new_items(&self, joined: &Request<'_>) -> Option<String> {
        new_items(joined, Some(self.front.end))
    }

    /// Returns the id of the response that the client's request names; `None` where it names none.
    pub(crate) fn response_id(&self) -> Option<&str> {
        match &self.named {
            HistoryName::Response { id, .. } => Some(id),
            HistoryName::Conversation => None,
        }
    }

    /// Returns the id of the response that the provider goes on from; `None` where there is none.
    pub(crate) fn upstream_id(&self) -> Option<&str> {
        self.upstream.as_deref()
    }
}

/// Returns the body of a further request in a conversation. Its input is these items, since the log
/// has all that was sent before. Of the edits, those outside the input are kept.
pub(crate) fn continued_body(request: &Request<'_>, splice: &Splice, items: &str) -> Option<Bytes> {
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

/// Returns those of the items behind a conversation's response that are not the model's own: the
/// log has the model's already.
pub(crate) fn drop_model_items(items: &[u8]) -> String {
    // The items were written here, or scanned when they came.
    let Ok(items) = std::str::from_utf8(items) else { return String::new() };
    let text = format!("[{items}]");
    let mut new = Vec::new();
    let _: Result<_, Error> = Cursor::new(&text).read_elements(|cursor| {
        let (mut kind, mut has_id) = (String::new(), false);
        let item = cursor.read_members(|cursor, member| {
            has_id |= member.key.eq_str("id");
            if member.key.eq_str("type")
                && let Some((text, _)) = cursor.read_string_or_skip()?
            {
                kind = text.unescape().into_owned();
            }
            Ok::<_, Error>(())
        })?;
        let own = has_id || kind.ends_with("_call") || kind == "reasoning";
        new.extend((!own).then(|| item.slice_of(&text).to_owned()));
        Ok(())
    });
    new.join(",")
}

/// Returns the items of a request's input, from a byte of the body on; `None` where there are none.
pub(crate) fn new_items(request: &Request<'_>, from: Option<usize>) -> Option<String> {
    let span = request.messages.span;
    if request.messages.string {
        let mut item = br#"{"role":"user","content":"#.to_vec();
        item.extend_from_slice(span.slice_of(request.text).as_bytes());
        item.push(b'}');
        return String::from_utf8(item).ok();
    }
    let inner = request.text.get(from.unwrap_or(span.start + 1)..span.end.checked_sub(1)?)?.trim();
    (!inner.is_empty()).then(|| inner.to_owned())
}

fn quote_json(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write_str(&mut out, text);
    out
}

#[cfg(test)]
mod tests;
