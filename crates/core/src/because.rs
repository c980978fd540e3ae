//! The reason of a decision: the rule and the numbers behind it.

use alloc::string::{String, ToString as _};
use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::money::NanoUsd;
use crate::time::Millis;

/// The rule behind a decision; the contract's `reason`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
#[expect(missing_docs, reason = "the contract's words (section 6)")]
pub enum Reason {
    Final,
    ToolCalls,
    /// A tool's own limit.
    Tool(String),
    Turns,
    ResultChars,
    Tokens,
    Cost,
    SessionCost,
    Time,
    Empty,
    Stale,
    Repeat,
    Cycle,
    Errors,
    Truncated,
    Refusal,
    Provider,
    User,
    /// The run's journal cannot be kept.
    Journal,
}

impl Reason {
    /// Returns the policy key of the limit, if the reason is one.
    #[must_use]
    pub fn policy_key(&self) -> Option<&'static str> {
        Some(match self {
            Self::ToolCalls => "tool_calls_limit",
            Self::Tool(_) => "tool_limits",
            Self::Turns => "turns_limit",
            Self::ResultChars => "result_chars_limit",
            Self::Tokens => "tokens_limit",
            Self::Cost => "cost_limit_usd",
            Self::SessionCost => "session_cost_limit_usd",
            Self::Time => "time_limit",
            Self::Empty => "empty_limit",
            Self::Stale => "stale_limit",
            Self::Repeat => "repeat_limit",
            Self::Cycle => "cycle_limit",
            Self::Errors => "error_limit",
            Self::Final
            | Self::Truncated
            | Self::Refusal
            | Self::Provider
            | Self::User
            | Self::Journal => return None,
        })
    }

    fn word(&self) -> &str {
        match self {
            Self::Final => "final",
            Self::ToolCalls => "tool_calls",
            Self::Tool(_) => "tool:",
            Self::Turns => "turns",
            Self::ResultChars => "result_chars",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::SessionCost => "session_cost",
            Self::Time => "time",
            Self::Empty => "empty",
            Self::Stale => "stale",
            Self::Repeat => "repeat",
            Self::Cycle => "cycle",
            Self::Errors => "errors",
            Self::Truncated => "truncated",
            Self::Refusal => "refusal",
            Self::Provider => "provider",
            Self::User => "user",
            Self::Journal => "journal",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        if let Self::Tool(name) = self { f.write_str(name) } else { Ok(()) }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl From<String> for Reason {
    fn from(word: String) -> Self {
        const WORDS: [Reason; 17] = [
            Reason::ToolCalls,
            Reason::Turns,
            Reason::ResultChars,
            Reason::Tokens,
            Reason::Cost,
            Reason::SessionCost,
            Reason::Time,
            Reason::Empty,
            Reason::Stale,
            Reason::Repeat,
            Reason::Cycle,
            Reason::Errors,
            Reason::Truncated,
            Reason::Refusal,
            Reason::Provider,
            Reason::User,
            Reason::Journal,
        ];
        if let Some(tool) = word.strip_prefix("tool:") {
            return Self::Tool(tool.to_string());
        }
        WORDS.into_iter().find(|reason| reason.word() == word).unwrap_or(Self::Final)
    }
}

/// A quantity with its unit, so that no number is shown bare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "the unit is the name")]
pub enum Quantity {
    Count(u64),
    Money(NanoUsd),
    Time(Millis),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => count.fmt(f),
            Self::Money(money) => money.fmt(f),
            Self::Time(time) => time.fmt(f),
        }
    }
}

/// A rule and its numbers: `used` of `limit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Because {
    /// The rule.
    pub reason: Reason,
    /// The amount that was used, counted or seen.
    pub used: Quantity,
    /// The amount that the policy allows.
    pub limit: Quantity,
    /// The most that one more request may cost, if the decision is that it does not fit into the
    /// rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<NanoUsd>,
}

impl Because {
    /// Creates the reason of a decision about a count.
    #[must_use]
    pub fn from_counts(reason: Reason, used: u64, limit: u64) -> Self {
        Self::new(reason, Quantity::Count(used), Quantity::Count(limit))
    }

    /// Creates a reason from a rule and its numbers.
    #[must_use]
    pub fn new(reason: Reason, used: Quantity, limit: Quantity) -> Self {
        Self { reason, used, limit, needed: None }
    }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} of {}", self.reason, self.used, self.limit)?;
        match self.needed {
            Some(needed) => write!(f, ", and one more request may cost {needed}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_survive_their_words() {
        for word in ["final", "tool_calls", "tool:grep", "session_cost", "user", "cycle", "journal"]
        {
            assert_eq!(Reason::from(word.to_string()).to_string(), word);
        }
    }
}
