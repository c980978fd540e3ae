//! The rules, one file each. A rule sees rounds or totals, and returns evidence or a reason. The
//! consequences are decided in one place, [`crate::Run`].

pub(crate) mod calls;
pub(crate) mod cost;
pub(crate) mod cycle;
pub(crate) mod empty;
pub(crate) mod errors;
pub(crate) mod plain;
pub(crate) mod repeat;
pub(crate) mod stale;
pub(crate) mod sweep;
pub(crate) mod time;
pub(crate) mod tokens;
pub(crate) mod tool;
pub(crate) mod trivial;
pub(crate) mod turns;

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::Because;
use crate::digest::Digest;
use crate::event::Call;
use crate::policy::LoopKind;

/// The most turns that the evidence of a loop names, its newest, unless the loop's limit needs
/// more. A loop may be as long as its history, and it is signalled again in each of its turns.
pub(crate) const NAMED: usize = 64;

/// The kind of a signal, as a detector reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
pub enum SignalKind {
    Empty,
    Trivial,
    Stale,
    Repeat,
    Cycle,
    Errors,
    Echo,
    Sweep,
    Truncated,
    Compaction,
    Oversized,
    Reread,
    Flood,
    Edited,
}

impl SignalKind {
    /// Every kind, in the order of the declaration.
    pub const ALL: [Self; 14] = [
        Self::Empty,
        Self::Trivial,
        Self::Stale,
        Self::Repeat,
        Self::Cycle,
        Self::Errors,
        Self::Echo,
        Self::Sweep,
        Self::Truncated,
        Self::Compaction,
        Self::Oversized,
        Self::Reread,
        Self::Flood,
        Self::Edited,
    ];

    /// Returns true if the signal is about what is in the context, and not about a loop: nothing is
    /// done about it, and its turns are no waste.
    #[must_use]
    pub const fn is_of_context(self) -> bool {
        matches!(
            self,
            Self::Compaction | Self::Oversized | Self::Reread | Self::Flood | Self::Edited
        )
    }

    /// Returns the word of `docs/reference/events.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Trivial => "trivial",
            Self::Stale => "stale",
            Self::Repeat => "repeat",
            Self::Cycle => "cycle",
            Self::Errors => "errors",
            Self::Echo => "echo",
            Self::Sweep => "sweep",
            Self::Truncated => "truncated",
            Self::Compaction => "compaction",
            Self::Oversized => "oversized",
            Self::Reread => "reread",
            Self::Flood => "flood",
            Self::Edited => "edited",
        }
    }
}

/// The evidence by which a person can check a signal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The turns that belong to it, 1-based within the run.
    #[serde(default)]
    pub turns: Vec<u64>,
    /// The call: the tool's name and its arguments, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The result's digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Digest>,
    /// The text, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tokens that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

/// A signal with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// The kind of the signal.
    pub signal: SignalKind,
    /// The evidence for it.
    pub evidence: Evidence,
    /// The rule and its numbers, if a limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// The identity of the loop: equal for the same loop when it is seen again.
    pub identity: Digest,
}

impl Signal {
    /// Creates a signal about one turn.
    #[must_use]
    pub fn from_turn(signal: SignalKind, turn: u64, because: Option<Because>) -> Self {
        let evidence = Evidence { turns: alloc::vec![turn], ..Evidence::default() };
        Self { signal, evidence, because, identity: Digest::EMPTY }
    }
}

/// One answered round, as the loop rules see it: equal calls within it are united.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) turn: u64,
    /// The number of tool calls of the run before this round.
    pub(crate) calls_before: u64,
    pub(crate) calls: Vec<AnsweredCall>,
}

/// One answered call.
#[derive(Clone, Debug)]
pub(crate) struct AnsweredCall {
    pub(crate) name: Digest,
    /// The identity of the call: tool and arguments.
    pub(crate) key: Digest,
    /// The digest of the result; `None` if the client has cleared it.
    pub(crate) result: Option<Digest>,
    pub(crate) failed: bool,
    /// The kind of the tool; `None` if nothing is known about it.
    pub(crate) kind: Option<LoopKind>,
    pub(crate) words: CallWords,
}

/// The words of a call that are kept, in one text: its id, then the words that evidence shows,
/// which begin with the tool's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallWords {
    text: String,
    /// The range of the tool's name in the text.
    tool: (usize, usize),
}

/// The length of a call's arguments that evidence shows, in bytes.
const SHOWN: usize = 120;

impl CallWords {
    pub(crate) fn from_call(call: &Call<'_>) -> Self {
        let shown = call.input.get(..call.input.floor_char_boundary(SHOWN)).unwrap_or_default();
        let more = if shown.len() < call.input.len() { "…" } else { "" };
        let tool = (call.id.len(), call.id.len() + call.name.len());
        Self { text: [call.id, call.name, " ", shown, more].concat(), tool }
    }

    pub(crate) fn id(&self) -> &str {
        self.text.get(..self.tool.0).unwrap_or_default()
    }

    pub(crate) fn tool(&self) -> &str {
        self.text.get(self.tool.0..self.tool.1).unwrap_or_default()
    }

    /// Returns the tool's name and its arguments, shortened.
    pub(crate) fn label(&self) -> &str {
        self.text.get(self.tool.0..).unwrap_or_default()
    }
}

impl Round {
    /// Unites equal calls, and leaves out exempt ones.
    pub(crate) fn new(turn: u64, calls_before: u64, mut calls: Vec<AnsweredCall>) -> Self {
        // Most rounds consist of one call, which has no copies.
        let alone = calls.len() == 1;
        let mut seen = BTreeSet::new();
        calls.retain(|call| {
            call.kind != Some(LoopKind::Exempt) && (alone || seen.insert((call.key, call.result)))
        });
        Self { turn, calls_before, calls }
    }

    /// Returns the digest of the round, with its calls in any order; `None` if a result is cleared.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.calls.iter().try_fold(Digest::EMPTY, |sum, call| {
            call.result.map(|result| sum.combined_with(call.key.followed_by(result)))
        })
    }

    /// Returns true if one of its calls waits or polls.
    pub(crate) fn has_poll(&self) -> bool {
        self.calls.iter().any(|call| call.kind == Some(LoopKind::Polls))
    }
}
