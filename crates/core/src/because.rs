//! The reason of a decision: the rule and the numbers behind it.

use alloc::string::{String, ToString as _};
use core::fmt;

use serde::{Deserialize, Serialize, Serializer};

use crate::money::NanoUsd;
use crate::time::Millis;

/// Declares the reasons: each is a variant and its word.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $(($name:ident))? = $word:literal,)+) => {
        /// The rule behind a decision: the `reason` of events.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
        #[serde(from = "String")]
        #[expect(missing_docs, reason = "described in docs/reference/events.md")]
        pub enum Reason { $($(#[$doc])* $variant $(($name))?),+ }

        impl Reason {
            /// Every reason, in the declared order; the tool of [`Self::Tool`] has no name.
            pub const ALL: &'static [Self] = &[$(Self::$variant $(($name::new()))?),+];

            fn word(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $word),+ }
            }
        }
    };
}

// A reason that is a limit has a row in `policy::KEYS`.
reasons! {
    Final = "final",
    ToolCalls = "tool_calls",
    /// A tool's own limit.
    Tool(String) = "tool:",
    Turns = "turns",
    ResultChars = "result_chars",
    Tokens = "tokens",
    Cost = "cost",
    SessionCost = "session_cost",
    Time = "time",
    /// A budget of an account, which a gateway keeps.
    Budget = "budget",
    Empty = "empty",
    Stale = "stale",
    Repeat = "repeat",
    Cycle = "cycle",
    Errors = "errors",
    Truncated = "truncated",
    Refusal = "refusal",
    Provider = "provider",
    User = "user",
    /// The run's journal cannot be kept.
    Journal = "journal",
    /// The run could not begin.
    Setup = "setup",
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
        if let Some(tool) = word.strip_prefix("tool:") {
            return Self::Tool(tool.to_string());
        }
        Self::ALL.iter().find(|reason| reason.word() == word).cloned().unwrap_or(Self::Final)
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
    use alloc::collections::BTreeSet;

    #[test]
    fn every_reason_survives_its_word() {
        let tools = ["", "grep", "tool:grep", "final"].map(|name| Reason::Tool(name.to_string()));
        for reason in Reason::ALL.iter().chain(&tools) {
            assert_eq!(Reason::from(reason.to_string()), *reason, "{reason}");
        }
        let words: BTreeSet<_> = Reason::ALL.iter().map(Reason::word).collect();
        assert_eq!(words.len(), Reason::ALL.len());
    }
}
