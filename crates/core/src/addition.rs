//! Lines for the model: their text, and the place in a message where they are added.

use alloc::string::String;

use serde::{Deserialize, Serialize};

use crate::because::Because;

/// A line added to a user message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// The place of the line.
    pub place: LinePlace,
    /// The kind of line.
    pub kind: AdditionKind,
    /// The rule and its numbers.
    pub because: Option<Because>,
    /// The line.
    pub text: String,
}

/// The place of a line in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinePlace {
    /// The end of the message's tool result with this index.
    Result(usize),
    /// The end of the human message.
    End,
}

/// The kinds of lines, from the least important to the most important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
pub enum AdditionKind {
    Countdown,
    Warn,
    Note,
    Ask,
}

impl AdditionKind {
    /// Returns the word of `docs/reference/events.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Countdown => "countdown",
            Self::Warn => "warn",
            Self::Note => "note",
            Self::Ask => "ask",
        }
    }
}
