//! The policy of a run: plain, validated data, and the one table of its keys and limits. Other
//! modules enforce it.
//!
//! [`KEYS`] and one reader ([`Policy::set_key`]) serve front matter, configs and flags alike.
//!
//! A new limit on what a transcript shows is written in four files of this crate:
//!
//! 1. `because.rs`: a reason with its word, in `reasons!`
//! 2. `policy.rs`: a field, its default, and a row of [`KEYS`]
//! 3. `used.rs`: a counter, and how it is carried
//! 4. `run/round.rs`: where it is counted (`run.rs`, if it counts turns)
//!
//! The compiler or a test (`run/limits/tests.rs`, `policy/keys/tests.rs`) fails for each of them
//! that is forgotten. Reasons, flags, help, sentences, remaining values, summaries and the page's
//! units follow from the row.

mod keys;
mod limits;
mod values;
mod words;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize};

use crate::because::Reason;
use crate::money::NanoUsd;
use crate::time::Millis;

use values::ValueReader;

pub use keys::{KeySection, PolicyKey, ValueForm};
pub use limits::Limit;
pub(crate) use limits::{Measure, list_limits};
pub use values::{KeyError, PolicyValue};
pub use words::{
    Batch, Countdown, Landing, LoopKey, LoopKind, Mode, OnLoop, OnStoreLoss, RunBoundary, Share,
};

/// The policy of one run. Field names are the names in [`KEYS`]; `None` is no limit.
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

/// Makes the row of the key of this name. It sets the field of this name to what the reader reads.
macro_rules! policy_key {
    (@row $field:ident, $read:ident($($how:expr)?), $form:expr, $section:expr, $help:literal, $limit:expr) => {
        PolicyKey {
            name: stringify!($field),
            form: $form,
            section: $section,
            help: $help,
            limit: $limit,
            set: |policy, value| {
                policy.$field = value.$read($($how)?)?;
                Ok(())
            },
        }
    };
    ($field:ident, $read:ident($($how:expr)?), $form:expr, $section:expr, $help:literal) => {
        policy_key!(@row $field, $read($($how)?), $form, $section, $help, None)
    };
    ($field:ident, $read:ident($($how:expr)?), $form:expr, $section:expr, $help:literal, $limit:expr) => {
        policy_key!(@row $field, $read($($how)?), $form, $section, $help, Some($limit))
    };
}

/// The sentence about a limit that needs no words of its own.
pub(crate) const REACHED: &str = "{Name} limit reached ({used} of {limit}).";

/// Every key, in the order in which the help lists them. A limit is one row.
pub const KEYS: &[PolicyKey] = &[
    policy_key!(
        mode,
        read_word(Mode::from_word),
        ValueForm::Word("enforce or observe"),
        KeySection::Other,
        "observe changes nothing and reports what it would do"
    ),
    policy_key!(
        tool_calls_limit,
        read_limit(ValueReader::read_count),
        ValueForm::Count,
        KeySection::Limits,
        "tool calls per run",
        Limit {
            reason: Reason::ToolCalls,
            name: "tool call",
            unit: ["tool call", "tool calls"],
            sentence: REACHED,
            measure: Measure::Shown {
                limit: |policy| policy.tool_calls_limit,
                used: |used| used.calls
            },
        }
    ),
    policy_key!(
        tool_limits,
        read_tool_limits(),
        ValueForm::ToolLimits,
        KeySection::Limits,
        "tool calls per run and tool name",
        Limit {
            reason: Reason::Tool(String::new()),
            name: "tool",
            unit: ["", ""],
            sentence: "Limit of the tool {tool} reached ({used} of {limit} calls).",
            measure: Measure::PerTool,
        }
    ),
    policy_key!(
        turns_limit,
        read_limit(ValueReader::read_count),
        ValueForm::Count,
        KeySection::Limits,
        "turns per run; the last one is asked for the answer",
        Limit {
            reason: Reason::Turns,
            name: "turn",
            unit: ["turn", "turns"],
            sentence: "Turn limit reached (this is the last of {limit}).",
            measure: Measure::Shown { limit: |policy| policy.turns_limit, used: |used| used.turns },
        }
    ),
    policy_key!(
        result_chars_limit,
        read_limit(ValueReader::read_count),
        ValueForm::Count,
        KeySection::Limits,
        "characters of tool results per run",
        Limit {
            reason: Reason::ResultChars,
            name: "tool result",
            unit: ["character of results", "characters of results"],
            sentence: "Limit of tool results reached ({used} of {limit} characters).",
            measure: Measure::Plain {
                limit: |policy| policy.result_chars_limit,
                used: |used| used.result_chars
            },
        }
    ),
    policy_key!(
        tokens_limit,
        read_limit(ValueReader::read_count),
        ValueForm::Count,
        KeySection::Limits,
        "input and output tokens per run",
        Limit {
            reason: Reason::Tokens,
            name: "token",
            unit: ["token", "tokens"],
            sentence: REACHED,
            measure: Measure::Reported {
                limit: |policy| policy.tokens_limit,
                used: |facts| facts.tokens
            },
        }
    ),
    policy_key!(
        cost_limit_usd,
        read_limit(ValueReader::read_money),
        ValueForm::Money,
        KeySection::Limits,
        "money per run",
        Limit {
            reason: Reason::Cost,
            name: "cost",
            unit: ["dollar", "dollars"],
            sentence: REACHED,
            measure: Measure::Money {
                limit: |policy| policy.cost_limit_usd,
                used: |facts| facts.cost
            },
        }
    ),
    policy_key!(
        session_cost_limit_usd,
        read_limit(ValueReader::read_money),
        ValueForm::Money,
        KeySection::Limits,
        "money per session",
        Limit {
            reason: Reason::SessionCost,
            name: "session cost",
            unit: ["dollar", "dollars"],
            sentence: REACHED,
            measure: Measure::Money {
                limit: |policy| policy.session_cost_limit_usd,
                used: |facts| facts.session_cost
            },
        }
    ),
    policy_key!(
        time_limit,
        read_limit(ValueReader::read_time),
        ValueForm::Time,
        KeySection::Limits,
        "time per run, from its first request",
        Limit {
            reason: Reason::Time,
            name: "time",
            unit: ["", ""],
            sentence: REACHED,
            measure: Measure::Time {
                limit: |policy| policy.time_limit,
                used: |facts| facts.elapsed
            },
        }
    ),
    policy_key!(
        countdown,
        read_word(Countdown::from_word),
        ValueForm::Word("every, milestones or off"),
        KeySection::Landing,
        "when results say how many calls remain"
    ),
    policy_key!(
        countdown_from,
        read_share(),
        ValueForm::Share,
        KeySection::Landing,
        "share of the limit from which the countdown shows"
    ),
    policy_key!(
        warn_at,
        read_share(),
        ValueForm::Share,
        KeySection::Landing,
        "share of another limit at which the model is warned, once"
    ),
    policy_key!(
        batch,
        read_word(Batch::from_word),
        ValueForm::Word("first, all or none"),
        KeySection::Landing,
        "which calls of a batch that passes the limit run"
    ),
    policy_key!(
        landing,
        read_word(Landing::from_word),
        ValueForm::Word("auto, ask, none, respond or stop"),
        KeySection::Landing,
        "how the run is brought to its answer"
    ),
    policy_key!(
        answer_tool,
        read_names(),
        ValueForm::Names,
        KeySection::Landing,
        "tools whose call is the answer; never counted, never refused"
    ),
    policy_key!(
        empty_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "empty turns in a row before the run is stopped",
        Limit {
            reason: Reason::Empty,
            name: "empty",
            unit: ["", ""],
            sentence: REACHED,
            measure: Measure::Detector { limit: |policy| policy.empty_limit },
        }
    ),
    policy_key!(
        stale_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "next to empty answers to one context before the run is stopped",
        Limit {
            reason: Reason::Stale,
            name: "stale",
            unit: ["", ""],
            sentence: REACHED,
            measure: Measure::Detector { limit: |policy| policy.stale_limit },
        }
    ),
    policy_key!(
        repeat_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "same call with the same result that make a loop; 0 is off",
        Limit {
            reason: Reason::Repeat,
            name: "repeat",
            unit: ["", ""],
            sentence: "The same call has returned the same result {used} times.",
            measure: Measure::Detector { limit: |policy| policy.repeat_limit },
        }
    ),
    policy_key!(
        poll_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "the same for calls that wait or poll; 0 is off"
    ),
    policy_key!(
        cycle_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "repeats of a cycle of 2 to 4 rounds that make a loop; 0 is off",
        Limit {
            reason: Reason::Cycle,
            name: "cycle",
            unit: ["", ""],
            sentence: "The same calls with the same results repeat ({used} times).",
            measure: Measure::Detector { limit: |policy| policy.cycle_limit },
        }
    ),
    policy_key!(
        error_limit,
        read_count(),
        ValueForm::Count,
        KeySection::Loops,
        "rounds in a row with the same error that make a loop; 0 is off",
        Limit {
            reason: Reason::Errors,
            name: "errors",
            unit: ["", ""],
            sentence: "The same error has come {used} times in a row.",
            measure: Measure::Detector { limit: |policy| policy.error_limit },
        }
    ),
    policy_key!(
        loop_keys,
        read_loop_keys(),
        ValueForm::LoopKeys,
        KeySection::Loops,
        "what identifies a tool's call, or what the tool does"
    ),
    policy_key!(
        on_loop,
        read_word(OnLoop::from_word),
        ValueForm::Word("ladder, land, stop or observe"),
        KeySection::Loops,
        "what a loop leads to"
    ),
    policy_key!(
        reserve_tokens,
        read_count(),
        ValueForm::Count,
        KeySection::Landing,
        "tokens held back for the answer"
    ),
    policy_key!(
        reserve_time,
        read_time(),
        ValueForm::Time,
        KeySection::Landing,
        "time held back for the answer"
    ),
    policy_key!(
        run_boundary,
        read_word(RunBoundary::from_word),
        ValueForm::Word("human, conversation or header"),
        KeySection::Other,
        "what starts a run"
    ),
    policy_key!(
        on_store_loss,
        read_word(OnStoreLoss::from_word),
        ValueForm::Word("closed or open"),
        KeySection::Other,
        "money limits while the shared store is away"
    ),
];

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

    /// Returns true if softland leaves the bytes alone.
    #[must_use]
    pub fn is_observing(&self) -> bool {
        self.mode == Mode::Observe
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
