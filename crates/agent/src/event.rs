//! The events of a run: one JSON object each, in block order, with exactly one terminal event.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use softland_session::core::policy::Policy;
use softland_session::core::{Because, Evidence, RunEnding};

/// An event in its envelope. Serialises as an event line (`docs/reference/events.md`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The version of the format, 1.
    pub v: u32,
    /// The event's number, counted from 0 without gaps within a run.
    pub seq: u64,
    /// The time, as RFC 3339 in UTC.
    pub ts: String,
    /// The run's id.
    pub run: String,
    /// The turn, from 1; 0 before the first turn.
    pub turn: u64,
    /// True if a process that has ended emitted this event before, and it is emitted again from the
    /// run's journal. A program that shows events may skip it.
    #[serde(skip)]
    pub replayed: bool,
    /// The event itself.
    #[serde(flatten)]
    pub kind: EventKind,
}

impl Event {
    /// Returns the time from an earlier event to this one, as the events tell it; zero if one of the
    /// times cannot be read.
    #[must_use]
    pub fn time_since(&self, earlier: &str) -> Duration {
        let times = self.ts.parse::<jiff::Timestamp>().ok().zip(earlier.parse().ok());
        let passed = times.map(|(now, then)| now.duration_since(then));
        passed.and_then(|passed| passed.try_into().ok()).unwrap_or_default()
    }
}

/// The kind of an event. `docs/reference/events.md` lists names and fields.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
#[non_exhaustive]
pub enum EventKind {
    RunStart {
        agent: String,
        model: String,
        policy: Box<Policy>,
    },
    TurnStart {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turns_limit: Option<u64>,
        tool_calls: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_calls_limit: Option<u64>,
        /// `silent`, `countdown` or `landing`.
        #[serde(deserialize_with = "read_word")]
        phase: Word,
    },
    TextStart,
    TextDelta {
        text: String,
    },
    ThinkingStart,
    ThinkingDelta {
        text: String,
    },
    ToolStart {
        id: String,
        name: String,
    },
    ToolInputDelta {
        id: String,
        partial_json: String,
    },
    BlockStop {
        index: u32,
    },
    ToolExecute {
        id: String,
        name: String,
        input: Value,
    },
    ToolResult {
        id: String,
        name: String,
        ok: bool,
        content: String,
        ms: u64,
    },
    Signal {
        #[serde(deserialize_with = "read_word")]
        signal: Word,
        evidence: Evidence,
    },
    Intervention {
        #[serde(deserialize_with = "read_word")]
        intervention: Word,
        because: Option<Because>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// True if it was not carried out, since the policy only observes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        observed: bool,
    },
    Usage {
        input: u64,
        output: u64,
        cache_read: u64,
        cache_write: u64,
        cost_usd: Option<f64>,
        /// The provider's name for the request, if the provider has just sent one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request_id: Option<String>,
    },
    /// A call has begun another agent's run. The envelope's `run` is the parent's.
    Child {
        /// The id of the sub-agent's run.
        child_run: String,
        agent: String,
        /// The call's id.
        id: String,
    },
    Done {
        #[serde(flatten)]
        report: Box<Report>,
    },
    Error {
        message: String,
        #[serde(flatten)]
        report: Box<Report>,
    },
}

/// A word of events. (Behind this name the derived reader does not take it for a borrowed text.)
type Word = &'static str;

/// Reads one of the few words that events have. Every word is kept once.
fn read_word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
    /// The most words, and the most bytes of a word. Event lines of any size stay bounded.
    const MOST: (usize, usize) = (64, 32);
    static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let word = String::deserialize(deserializer)?;
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = words.get(word.as_str()) {
        return Ok(known);
    }
    if words.len() == MOST.0 || word.len() > MOST.1 {
        return Err(D::Error::custom("a word that no event has"));
    }
    let word: &'static str = Box::leak(word.into_boxed_str());
    words.insert(word);
    Ok(word)
}

impl EventKind {
    /// Returns true for the run's last event.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Error { .. })
    }
}

/// The end of a run: the fields of its last event (`docs/reference/events.md`).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Outcome, reason, rung, limit, value and what is left of every limit.
    #[serde(flatten)]
    pub ended: RunEnding,
    /// The answer; absent on an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The author of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<AnsweredBy>,
    /// The turns of the model.
    pub turns: u64,
    /// The tool calls that ran.
    pub tool_calls: u64,
    /// The tokens of the whole run, sub-agents included.
    pub usage: UsageTotal,
    /// The cost in dollars, sub-agents included; `null` if a model's price is unknown.
    pub cost_usd: Option<f64>,
    /// The id of the run to resume, if it is in a journal and ended without an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// The message of the failure, if there was one.
    #[serde(skip)]
    pub failure: Option<String>,
}

impl Report {
    /// The failure of a run that an engine has ended.
    pub(crate) const ENDED_BY_ENGINE: &str = "the engine has ended the run";

    /// Returns true if an engine has ended the run before it could tell an end: what it has cost is
    /// not known then.
    #[must_use]
    pub fn is_ended_by_engine(&self) -> bool {
        self.failure.as_deref() == Some(Self::ENDED_BY_ENGINE)
    }
}

/// The author of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AnsweredBy {
    /// The model.
    Model,
    /// softland.
    Local,
}

/// Tokens by the price at which they are billed. `input` is the uncached part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described in docs/reference/events.md")]
pub struct UsageTotal {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

impl UsageTotal {
    /// Returns the sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }
}
