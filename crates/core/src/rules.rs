//! The rules, one file each. A rule sees rounds or totals and gives evidence or a reason; what
//! follows from it is decided in one place, [`crate::Run`].

pub(crate) mod calls;
pub(crate) mod cost;
pub(crate) mod cycle;
pub(crate) mod empty;
pub(crate) mod errors;
pub(crate) mod repeat;
pub(crate) mod result_chars;
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

/// Turns that the evidence of a loop names, its newest, where the loop's limit needs no more: a loop
/// may be as long as its history, and is told of again in each of its turns.
pub(crate) const NAMED: usize = 64;

/// What a detector saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the contract's words (sections 1 and 4)")]
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
}

impl SignalKind {
    /// Every kind, in the contract's order.
    pub const ALL: [Self; 9] = [
        Self::Empty,
        Self::Trivial,
        Self::Stale,
        Self::Repeat,
        Self::Cycle,
        Self::Errors,
        Self::Echo,
        Self::Sweep,
        Self::Truncated,
    ];

    /// The contract's word.
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
        }
    }
}

/// What a person can check a signal by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The member turns, 1-based within the run.
    pub turns: Vec<u64>,
    /// The call: the tool's name and its arguments, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The result's digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Digest>,
    /// What was said, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A signal with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signal {
    /// What was seen.
    pub signal: SignalKind,
    /// What to check it by.
    pub evidence: Evidence,
    /// The rule and its numbers, where a limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<Because>,
    /// Tells one loop from another; equal for the same loop seen again.
    pub identity: Digest,
}

impl Signal {
    /// A signal about one turn.
    #[must_use]
    pub fn of_turn(signal: SignalKind, turn: u64, because: Option<Because>) -> Self {
        let evidence = Evidence { turns: alloc::vec![turn], ..Evidence::default() };
        Self { signal, evidence, because, identity: Digest::EMPTY }
    }
}

/// One answered round, as the loop rules see it: copies of a call within it are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) turn: u64,
    /// Tool calls of the run before this round.
    pub(crate) calls_before: u64,
    pub(crate) calls: Vec<Answered>,
}

/// One answered call.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) name: Digest,
    /// What identifies the call: tool and arguments.
    pub(crate) key: Digest,
    /// What came back; `None` where the client has cleared it.
    pub(crate) result: Option<Digest>,
    pub(crate) failed: bool,
    /// `None` for a tool that nothing is known of.
    pub(crate) kind: Option<LoopKind>,
    pub(crate) words: Words,
}

/// What is kept of a call's words, in one text: its id, and behind that what evidence shows, which
/// begins with the tool's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    text: String,
    /// Where the tool's name begins, and where it ends.
    tool: (usize, usize),
}

/// Bytes of a call's arguments that evidence shows.
const SHOWN: usize = 120;

impl Words {
    pub(crate) fn of(call: &Call<'_>) -> Self {
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

    /// The tool's name and its arguments, shortened.
    pub(crate) fn label(&self) -> &str {
        self.text.get(self.tool.0..).unwrap_or_default()
    }
}

impl Round {
    /// Unites copies and leaves out what is exempt.
    pub(crate) fn new(turn: u64, calls_before: u64, mut calls: Vec<Answered>) -> Self {
        // Most rounds are of one call, which nothing is a copy of.
        let alone = calls.len() == 1;
        let mut seen = BTreeSet::new();
        calls.retain(|call| {
            call.kind != Some(LoopKind::Exempt) && (alone || seen.insert((call.key, call.result)))
        });
        Self { turn, calls_before, calls }
    }

    /// The round as one digest, its calls in whatever order; `None` where a result is cleared.
    pub(crate) fn digest(&self) -> Option<Digest> {
        self.calls.iter().try_fold(Digest::EMPTY, |sum, call| {
            call.result.map(|result| sum.with(call.key.then(result)))
        })
    }

    /// Whether one of its calls waits or polls.
    pub(crate) fn polls(&self) -> bool {
        self.calls.iter().any(|call| call.kind == Some(LoopKind::Polls))
    }
}
