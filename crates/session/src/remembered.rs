//! What a transcript cannot show and a store remembers of it, beside the runs' records. It comes
//! in as values and goes out as values; whose store it is, and how long it keeps them, is not
//! known here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use softland_core::{Arrival, Digest};

use crate::past::Past;

/// What a store remembers of one conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered<'a> {
    /// Messages that stood behind a history and are sent again, by their place.
    pub tails: Cow<'a, BTreeMap<Digest, KeptTail>>,
    /// Tool results as they were when they were first sent, by their place.
    pub results: Cow<'a, BTreeMap<Digest, Seen>>,
    /// What the conversation has behind it that its history may not show.
    pub past: Option<Past>,
    /// Where the runs of the name began that the conversation goes by, if it has one; empty for a
    /// new name. Looked at where nothing but a name begins a run.
    pub named: Option<Vec<Digest>>,
    /// How what stands behind the newest turn came, where that turn's end is known.
    pub arrival: Option<Arrival>,
}

/// A nudge or a refusal that led to calls (`governing.md` §1): the client never saw it, and what
/// follows it in the history was answered behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptTail {
    /// The blocks that the client was shown before the tail, which stand in the tail: one letter
    /// each, `k` for thinking, `t` for text, `c` for a call, `o` for any other.
    pub shown: String,
    /// The tail's messages, JSON objects with commas between.
    pub messages: String,
    /// The digest of the client's messages before it, its own edits of them included: thinking in
    /// the tail is signed over them.
    pub before: Digest,
    /// The turn behind the tail as it was, where what the client has of it has run together with
    /// what it was shown before the tail: a message of Chat Completions has one reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<String>,
}

/// A tool result's identity at first sight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Of its content.
    pub digest: Digest,
    /// Its length in characters.
    pub chars: u64,
    /// Whether it told of a failure: some protocols have no other place for that than its text.
    #[serde(default)]
    pub failed: bool,
    /// Whether it asked for the call again, in another form.
    #[serde(default)]
    pub sent_back: bool,
    /// Whether it told to wait.
    #[serde(default)]
    pub unfinished: bool,
}

/// The place of what carries this id behind a history.
pub(crate) fn place_of(place: Digest, id: &str) -> Digest {
    place.then(Digest::of(id.as_bytes()))
}
