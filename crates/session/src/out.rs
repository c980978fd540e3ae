//! The output of an exchange beside requests: bytes for the client, events for an observer.

use serde::{Deserialize, Serialize};
use softland_core::{AdditionKind, Because, Rung, Signal};
use softland_wire::Tokens;
use softland_wire::tags::StopReason;

/// The output of one call into an [`Exchange`](crate::Exchange).
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// Bytes for the client, in a gateway; the engine's client reads the events.
    pub bytes: Vec<u8>,
    /// The events, in block order.
    pub events: Vec<Event>,
    /// True if nobody reads the events: they do not repeat what the bytes show.
    pub quiet: bool,
}

impl Output {
    /// Creates an output for a caller that hands on the bytes. No event repeats them: there are
    /// only signals, interventions and usage.
    #[must_use]
    pub fn bytes_only() -> Self {
        Self { quiet: true, ..Self::default() }
    }
}

/// An event to show, in the order of the blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// A text block begins.
    TextStart,
    /// More text of the block.
    TextDelta(String),
    /// A thinking block begins.
    ThinkingStart,
    /// More thinking of the block.
    ThinkingDelta(String),
    /// A tool call begins.
    ToolStart {
        /// The call's id, as it will be answered.
        id: String,
        /// The tool.
        name: String,
    },
    /// More of the call's arguments, a piece of JSON text.
    ToolInputDelta {
        /// The call's id.
        id: String,
        /// The piece.
        partial_json: String,
    },
    /// A block is complete.
    BlockStop {
        /// Its index among the blocks shown.
        index: u32,
    },
    /// A detector saw something.
    Signal(Signal),
    /// softland did something.
    Intervention {
        /// The kind of the intervention.
        intervention: Intervention,
        /// The rule and its numbers.
        because: Option<Because>,
        /// The words that were added, if any.
        text: Option<String>,
    },
    /// A note on text that calls are written in: something was seen, or was done without an
    /// intervention.
    Shaped(ShapeNote),
    /// A key of the policy that may help, for the reader of the log.
    Advice(String),
    /// One upstream response was billed.
    Usage(Tokens),
}

/// An intervention of softland's, by the words of `docs/reference/events.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
pub enum Intervention {
    Countdown,
    Warn,
    Note,
    Ask,
    Refuse,
    None,
    Respond,
    Nudge,
    LocalAnswer,
    TrimTail,
    Stop,
}

impl Intervention {
    /// Returns the word of `docs/reference/events.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Countdown => "countdown",
            Self::Warn => "warn",
            Self::Note => "note",
            Self::Ask => "ask",
            Self::Refuse => "refuse",
            Self::None => "none",
            Self::Respond => "respond",
            Self::Nudge => "nudge",
            Self::LocalAnswer => "local_answer",
            Self::TrimTail => "trim_tail",
            Self::Stop => "stop",
        }
    }
}

/// A note for the log on a response's text, where calls are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ShapeNote {
    /// The text ended within a call.
    Partial {
        /// Bytes of the call, from the opening tag on.
        bytes: usize,
        /// True if those bytes passed.
        passed: bool,
        /// The number of opening tags inside the call, all of them literal.
        nested: usize,
    },
    /// A call holds opening tags, which are literal.
    Nested {
        /// The number of these tags.
        tags: usize,
    },
    /// A call repeats an earlier one, and was taken out.
    Repeated {
        /// Bytes of the call.
        bytes: usize,
    },
    /// The response was ended before its end.
    Stopped(StopReason),
}

impl ShapeNote {
    /// Returns true if the response was changed.
    #[must_use]
    pub fn is_change(&self) -> bool {
        match self {
            Self::Partial { passed, .. } => !passed,
            Self::Nested { .. } => false,
            Self::Repeated { .. } | Self::Stopped(_) => true,
        }
    }
}

impl std::fmt::Display for ShapeNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Partial { bytes, passed, nested } => {
                let what = if *passed { "passed" } else { "dropped" };
                write!(f, "the text ended within a tool call: {bytes} bytes of it {what}")?;
                match nested {
                    0 => Ok(()),
                    _ => write!(f, "; opening tags inside it: {nested}"),
                }
            }
            Self::Nested { tags } => {
                write!(f, "a tool call holds opening tags, read as its text: {tags}")
            }
            Self::Repeated { bytes } => {
                write!(f, "a tool call that repeats an earlier one was taken out: {bytes} bytes")
            }
            Self::Stopped(why) => write!(f, "the response was ended early: {}", why.name()),
        }
    }
}

impl From<AdditionKind> for Intervention {
    fn from(kind: AdditionKind) -> Self {
        match kind {
            AdditionKind::Countdown => Self::Countdown,
            AdditionKind::Warn => Self::Warn,
            AdditionKind::Note => Self::Note,
            AdditionKind::Ask => Self::Ask,
        }
    }
}

impl From<Rung> for Intervention {
    fn from(rung: Rung) -> Self {
        match rung {
            Rung::Ask => Self::Ask,
            Rung::Refuse => Self::Refuse,
            Rung::Respond => Self::Respond,
            Rung::None => Self::None,
            Rung::LocalAnswer => Self::LocalAnswer,
        }
    }
}
