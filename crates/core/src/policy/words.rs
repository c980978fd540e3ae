//! The values of policy keys that are words, and shares of a limit.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

/// A share of a limit in millionths, so that policies compare exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "f64", try_from = "f64")]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 1_000_000;

    /// Returns `percent` of a limit; more than the whole is the whole.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Self {
        if percent >= 100 { Self(Self::WHOLE) } else { Self(percent * (Self::WHOLE / 100)) }
    }

    /// Returns true if `used` of `limit` is at least this share (inclusive).
    #[must_use]
    pub fn is_reached(self, used: u64, limit: u64) -> bool {
        u128::from(used) * u128::from(Self::WHOLE) >= u128::from(limit) * u128::from(self.0)
    }

    /// Returns the rest beside the share, in whole percent, rounded.
    #[must_use]
    pub fn left_percent(self) -> u32 {
        (Self::WHOLE - self.0 + Self::WHOLE / 200) / (Self::WHOLE / 100)
    }
}

impl TryFrom<f64> for Share {
    type Error = &'static str;

    fn try_from(share: f64) -> Result<Self, Self::Error> {
        if (0.0..=1.0).contains(&share) {
            Ok(Self((share * f64::from(Self::WHOLE) + 0.5) as u32))
        } else {
            Err("a share from 0 to 1")
        }
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> Self {
        Self::from(share.0) / Self::from(Share::WHOLE)
    }
}

/// Declares an enum whose variants are written as one word each.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in the order of the declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the variant of this word.
            #[must_use]
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }

            /// Returns the word.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }
    };
}

pub(super) use words;

words! {
    /// Key `mode`.
    Mode {
        /// Limits hold.
        Enforce = "enforce",
        /// Bytes are not changed; the intended actions are reported.
        Observe = "observe",
    }
}
words! {
    /// Key `countdown`.
    Countdown {
        /// On each tool result from `countdown_from` on.
        Every = "every",
        /// At 50 %, 75 %, 90 % and the last.
        Milestones = "milestones",
        /// Never.
        Off = "off",
    }
}
words! {
    /// Key `batch`: the calls of a parallel batch that run if the batch would exceed the limit.
    Batch {
        /// The first calls that fit run.
        First = "first",
        /// All calls run.
        All = "all",
        /// No call runs.
        None = "none",
    }
}
words! {
    /// Key `landing`: the rungs that may be used.
    Landing {
        /// The cheapest legal rungs, in order.
        Auto = "auto",
        /// The note alone.
        Ask = "ask",
        /// `tool_choice: none` at once.
        None = "none",
        /// The forced answer tool at once.
        Respond = "respond",
        /// No further request: the local answer.
        Stop = "stop",
    }
}
words! {
    /// Key `on_loop`.
    OnLoop {
        /// A note, then landing.
        Ladder = "ladder",
        /// Landing at once.
        Land = "land",
        /// A stop at once.
        Stop = "stop",
        /// The signal alone.
        Observe = "observe",
    }
}
words! {
    /// Key `run_boundary`.
    RunBoundary {
        /// A human message starts a run.
        Human = "human",
        /// One run per conversation.
        Conversation = "conversation",
        /// Only `x-softland-run` starts a run.
        Header = "header",
    }
}
words! {
    /// Key `on_store_loss`.
    OnStoreLoss {
        /// Requests under a money limit are refused.
        Closed = "closed",
        /// Requests go on, and softland reports it.
        Open = "open",
    }
}

/// A row of `loop_keys`: the arguments that identify a tool's call, or the kind of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LoopKey {
    /// The arguments that identify a call.
    Arguments(Vec<String>),
    /// `reads`, `writes`, `polls` or `exempt`.
    Kind(LoopKind),
}

words! {
    /// The kind of a tool, as loops see it.
    LoopKind {
        /// Changes nothing.
        Reads = "reads",
        /// Changes state.
        Writes = "writes",
        /// Waits for something else to change.
        Polls = "polls",
        /// Is never counted.
        Exempt = "exempt",
    }
}
