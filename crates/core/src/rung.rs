//! The rungs of a landing. The ladder decides which rung is taken.

use serde::{Deserialize, Serialize};

/// A way to bring a run to its answer, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// The note inside the last tool result. Nothing else changes.
    Ask,
    /// The calls that the model made all the same are answered as not run, with the note again.
    Refuse,
    /// The answer tool is forced.
    Respond,
    /// The request has `tool_choice: none`.
    None,
    /// softland answers.
    LocalAnswer,
}

impl Rung {
    /// Returns the word of this rung's intervention (`docs/reference/events.md`).
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Refuse => "refuse",
            Self::Respond => "respond",
            Self::None => "none",
            Self::LocalAnswer => "local_answer",
        }
    }
}
