//! The policy of a run: plain, validated data. Other modules enforce it.
//!
//! One list of keys ([`KEYS`]) and one reader ([`Policy::set_key`]) serve front matter, configs and
//! flags alike.

mod keys;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};

use crate::because::{Quantity, Reason};
use crate::money::NanoUsd;
use crate::time::Millis;

pub use keys::{KEYS, KeyError, PolicyKey, PolicyValue, is_limit};

/// The policy of one run. Field names are the keys of the contract; `None` is no limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "each field is the key of that name, documented in KEYS")]
pub struct Policy {
    pub mode: Mode,
    pub tool_calls_limit: Option<u64>,
    pub tool_limits: BTreeMap<String, u64>,
    pub turns_limit: Option<u64>,
    pub result_chars_limit: Option<u64>,
    pub tokens_limit: Option<u64>,
    pub cost_limit_usd: Option<NanoUsd>,
    pub session_cost_limit_usd: Option<NanoUsd>,
    pub time_limit: Option<Millis>,
    pub countdown: Countdown,
    pub countdown_from: Share,
    pub warn_at: Share,
    pub batch: Batch,
    pub landing: Landing,
    #[serde(deserialize_with = "names")]
    pub answer_tool: Vec<String>,
    pub empty_limit: u64,
    pub stale_limit: u64,
    pub repeat_limit: u64,
    pub poll_limit: u64,
    pub cycle_limit: u64,
    pub error_limit: u64,
    pub loop_keys: BTreeMap<String, LoopKey>,
    pub on_loop: OnLoop,
    pub reserve_tokens: u64,
    pub reserve_time: Millis,
    pub run_boundary: RunBoundary,
    pub on_store_loss: OnStoreLoss,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            tool_calls_limit: None,
            tool_limits: BTreeMap::new(),
            turns_limit: None,
            result_chars_limit: None,
            tokens_limit: None,
            cost_limit_usd: None,
            session_cost_limit_usd: None,
            time_limit: None,
            countdown: Countdown::Every,
            countdown_from: Share::from_percent(50),
            warn_at: Share::from_percent(90),
            batch: Batch::First,
            landing: Landing::Auto,
            answer_tool: Vec::new(),
            empty_limit: 3,
            stale_limit: 3,
            repeat_limit: 3,
            poll_limit: 10,
            cycle_limit: 3,
            error_limit: 4,
            loop_keys: BTreeMap::new(),
            on_loop: OnLoop::Ladder,
            reserve_tokens: 4096,
            reserve_time: Millis::from_secs(30),
            run_boundary: RunBoundary::Human,
            on_store_loss: OnStoreLoss::Closed,
        }
    }
}

impl Policy {
    /// Returns a built-in policy: `default`, `coding` or `specialist`.
    #[must_use]
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            "default" => Some(Self::default()),
            "coding" => Some(Self {
                tool_calls_limit: Some(150),
                countdown: Countdown::Milestones,
                ..Self::default()
            }),
            "specialist" => Some(Self { tool_calls_limit: Some(30), ..Self::default() }),
            _ => None,
        }
    }

    /// The names of the built-in policies.
    pub const NAMES: [&'static str; 3] = ["default", "coding", "specialist"];

    /// Returns true if the policy limits money.
    #[must_use]
    pub fn limits_money(&self) -> bool {
        self.cost_limit_usd.or(self.session_cost_limit_usd).is_some()
    }

    /// Returns true if the policy limits anything but money: calls, turns, characters, tokens or
    /// time.
    #[must_use]
    pub fn limits_work(&self) -> bool {
        let counts =
            [self.tool_calls_limit, self.turns_limit, self.result_chars_limit, self.tokens_limit];
        counts.into_iter().any(|limit| limit.is_some())
            || !self.tool_limits.is_empty()
            || self.time_limit.is_some()
    }

    /// Returns the value of the key of this reason; `None` without a value or without a key.
    #[must_use]
    pub fn limit_value(&self, reason: &Reason) -> Option<Quantity> {
        let count = |limit: Option<u64>| limit.map(Quantity::Count);
        match reason {
            Reason::ToolCalls => count(self.tool_calls_limit),
            Reason::Tool(tool) => count(self.tool_limits.get(tool).copied()),
            Reason::Turns => count(self.turns_limit),
            Reason::ResultChars => count(self.result_chars_limit),
            Reason::Tokens => count(self.tokens_limit),
            Reason::Cost => self.cost_limit_usd.map(Quantity::Money),
            Reason::SessionCost => self.session_cost_limit_usd.map(Quantity::Money),
            Reason::Time => self.time_limit.map(Quantity::Time),
            Reason::Empty => count(Some(self.empty_limit)),
            Reason::Stale => count(Some(self.stale_limit)),
            Reason::Repeat => count(Some(self.repeat_limit)),
            Reason::Cycle => count(Some(self.cycle_limit)),
            Reason::Errors => count(Some(self.error_limit)),
            Reason::Final
            | Reason::Truncated
            | Reason::Refusal
            | Reason::Provider
            | Reason::User
            | Reason::Journal => None,
        }
    }

    /// Returns true if softland leaves the bytes alone.
    #[must_use]
    pub fn is_observing(&self) -> bool {
        self.mode == Mode::Observe
    }

    /// Returns true if a limit counts tokens as the provider reports them.
    #[must_use]
    pub fn counts_usage(&self) -> bool {
        self.tokens_limit.is_some()
            || self.cost_limit_usd.is_some()
            || self.session_cost_limit_usd.is_some()
    }
}

/// Reads names: none, a single name, or a list. Records of earlier releases hold at most one name.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        None,
        One(String),
        Many(Vec<String>),
    }
    Names::deserialize(deserializer).map(|names| match names {
        Names::None => Vec::new(),
        Names::One(name) => Vec::from([name]),
        Names::Many(names) => names,
    })
}

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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every word, in the contract's order.
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
