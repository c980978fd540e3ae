//! The end of a run: exactly one outcome, and it is true.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Quantity, Reason};
use crate::money::NanoUsd;
use crate::rung::Rung;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The model ended by itself, and no landing note was in that request.
    Answered,
    /// The model answered a request that carried a landing note, or after continuations.
    Landed,
    /// The model gave no answer: softland gives a local answer.
    Stopped,
    /// The provider failed beyond its retries.
    Failed,
    /// The user or a disconnect ended it.
    Cancelled,
}

impl Outcome {
    /// Returns the word of `docs/reference/events.md`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Landed => "landed",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns true if the run ends in a `done` event, not in an `error`.
    #[must_use]
    pub fn is_done(self) -> bool {
        !matches!(self, Self::Failed | Self::Cancelled)
    }
}

/// The rest of every limit that is set, by policy key.
pub type Remaining = BTreeMap<Cow<'static, str>, Quantity>;

/// The end of a run, with its reason and the numbers behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnding {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
    /// The rung that brought the answer, if the run was landed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// The policy key whose limit ended the run, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Cow<'static, str>>,
    /// The value of that key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The most that one more request may cost, if that is more than the limit leaves.
    #[serde(default, rename = "needed_usd", skip_serializing_if = "Option::is_none")]
    pub needed: Option<NanoUsd>,
    /// The rest of every limit that is set.
    #[serde(default)]
    pub remaining: Remaining,
}

impl RunEnding {
    /// Returns an end that no limit brought.
    #[must_use]
    pub fn without_limit(outcome: Outcome, reason: Reason) -> Self {
        let remaining = Remaining::new();
        Self { outcome, reason, rung: None, limit: None, value: None, needed: None, remaining }
    }

    /// Returns an end by a rule.
    #[must_use]
    pub fn from_because(outcome: Outcome, because: &Because, rung: Option<Rung>) -> Self {
        let limit = because.reason.policy_key().map(Cow::Borrowed);
        let value = limit.is_some().then_some(because.limit);
        let needed = because.needed;
        Self { limit, value, rung, needed, ..Self::without_limit(outcome, because.reason.clone()) }
    }
}
