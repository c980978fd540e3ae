//! State of a conversation that a transcript cannot show and a store remembers, beside the runs'
//! records. It comes in as values and goes out as values; this module does not know whose store it
//! is, or how long the store keeps it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use softland_core::{Arrival, Digest};

use crate::past::Past;

/// A store's memory of one conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredConversation<'a> {
    /// Messages that stood behind a history and are sent again, by their place.
    pub tails: Cow<'a, BTreeMap<Digest, StoredTail>>,
    /// Tool results as they were when they were first sent, by their place.
    pub results: Cow<'a, BTreeMap<Digest, SeenResult>>,
    /// The conversation's past, which its history may not show.
    pub past: Option<Past>,
    /// The places where the runs of the conversation's name began, if it has a name; empty for a
    /// new name. Used where nothing but a name begins a run.
    pub named: Option<Vec<Digest>>,
    /// The arrival of the messages behind the newest turn, where that turn's end is known.
    pub arrival: Option<Arrival>,
}

/// A nudge or a refusal that led to calls (`docs/governing.md` §1). The client never saw it, but
/// the turn that follows it in the history was answered behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredTail {
    /// The blocks that the client was shown before the tail, which stand in the tail: one letter
    /// each, `k` for thinking, `t` for text, `c` for a call, `o` for any other.
    pub shown: String,
    /// The tail's messages, JSON objects with commas between.
    pub messages: String,
    /// The digest of the client's messages before the tail, with the client's own edits. Thinking
    /// in the tail is signed over these messages.
    pub before: Digest,
    /// The turn behind the tail as it was, where the client's copy has run together with the blocks
    /// shown before the tail: a message of Chat Completions has one reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
}

/// A tool result's identity at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenResult {
    /// The digest of its content.
    pub digest: Digest,
    /// Its length in characters.
    pub chars: u64,
    /// True if it told of a failure. Some protocols have no other place for that than its text.
    #[serde(default)]
    pub failed: bool,
    /// True if it asked for the call again, in another form.
    #[serde(default)]
    pub sent_back: bool,
    /// True if it told the model to wait.
    #[serde(default)]
    pub unfinished: bool,
}

/// Returns the place behind a history of the item with this id.
pub(crate) fn place_after_item(place: Digest, id: &str) -> Digest {
    place.followed_by(Digest::from_bytes(id.as_bytes()))
}
