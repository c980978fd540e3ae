//! The limits among a policy's keys: their words, how each is counted, and what is left of them.

use alloc::borrow::Cow;
use alloc::format;
use core::mem::discriminant;

use super::{KEYS, Policy, PolicyKey};
use crate::because::{Quantity, Reason};
use crate::event::Facts;
use crate::money::NanoUsd;
use crate::outcome::Remaining;
use crate::time::Millis;
use crate::used::RunUsage;

/// A limit, as its row in [`KEYS`] describes it.
#[derive(Debug)]
pub struct Limit {
    /// The reason of decisions by this limit; the tool of [`Reason::Tool`] has no name here.
    pub reason: Reason,
    /// The name of the limit in a sentence.
    pub name: &'static str,
    /// The unit of its value, for 1 and for any other number; empty if the value is written with
    /// its unit, or is no single number.
    pub unit: [&'static str; 2],
    /// The sentence which tells a model that the limit is reached. `{used}`, `{limit}`, `{tool}`
    /// and `{Name}` stand for what they say; `{Name}` begins the sentence.
    pub(crate) sentence: &'static str,
    /// The way in which the limit is counted.
    pub(crate) measure: Measure,
}

/// The way in which a limit is counted: its value in a policy, and the usage that it bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// A count that the transcript shows, under the plain rule: a run lands when it reaches the
    /// limit, and is warned once before.
    Plain { limit: fn(&Policy) -> Option<u64>, used: fn(&RunUsage) -> u64 },
    /// A count that the transcript shows, under a rule of its own.
    Shown { limit: fn(&Policy) -> Option<u64>, used: fn(&RunUsage) -> u64 },
    /// A count that the provider reports.
    Reported { limit: fn(&Policy) -> Option<u64>, used: fn(&Facts) -> u64 },
    /// Money.
    Money { limit: fn(&Policy) -> Option<NanoUsd>, used: fn(&Facts) -> NanoUsd },
    /// Time.
    Time { limit: fn(&Policy) -> Option<Millis>, used: fn(&Facts) -> Millis },
    /// The calls of each tool, under `tool_limits`.
    PerTool,
    /// Turns or rounds that a detector counts. They bound no usage.
    Detector { limit: fn(&Policy) -> u64 },
}

impl Limit {
    /// Returns true if the limit bounds the usage of a run or a session, which its outcome reports.
    /// Any other limit is of loops or silence.
    #[must_use]
    pub fn bounds_usage(&self) -> bool {
        !matches!(self.measure, Measure::Detector { .. })
    }

    /// Returns the value under a policy; `tool` is the tool whose own limit is meant.
    fn find_value(&self, policy: &Policy, tool: &str) -> Option<Quantity> {
        match self.measure {
            Measure::Plain { limit, .. }
            | Measure::Shown { limit, .. }
            | Measure::Reported { limit, .. } => limit(policy).map(Quantity::Count),
            Measure::Money { limit, .. } => limit(policy).map(Quantity::Money),
            Measure::Time { limit, .. } => limit(policy).map(Quantity::Time),
            Measure::PerTool => policy.tool_limits.get(tool).copied().map(Quantity::Count),
            Measure::Detector { limit } => Some(Quantity::Count(limit(policy))),
        }
    }

    /// Returns true if the limit bounds usage under a policy.
    fn is_set(&self, policy: &Policy) -> bool {
        match self.measure {
            Measure::PerTool => !policy.tool_limits.is_empty(),
            _ => self.bounds_usage() && self.find_value(policy, "").is_some(),
        }
    }

    /// Returns the rest of the limit: a count, money, or time in whole seconds; `None` if it is not
    /// one number, or not set.
    fn find_rest(&self, used: &RunUsage, facts: &Facts, policy: &Policy) -> Option<Quantity> {
        Some(match self.measure {
            Measure::Plain { limit, used: count } | Measure::Shown { limit, used: count } => {
                Quantity::Count(limit(policy)?.saturating_sub(count(used)))
            }
            Measure::Reported { limit, used: count } => {
                Quantity::Count(limit(policy)?.saturating_sub(count(facts)))
            }
            Measure::Money { limit, used: spent } => {
                Quantity::Money(limit(policy)?.saturating_sub(spent(facts)))
            }
            Measure::Time { limit, used: elapsed } => {
                Quantity::Count(limit(policy)?.0.saturating_sub(elapsed(facts).0) / 1000)
            }
            Measure::PerTool | Measure::Detector { .. } => return None,
        })
    }
}

impl Policy {
    /// Returns true if the policy limits money.
    #[must_use]
    pub fn limits_money(&self) -> bool {
        self.has_limit(|measure| matches!(measure, Measure::Money { .. }))
    }

    /// Returns true if the policy limits anything but money: calls, turns, characters, tokens or
    /// time.
    #[must_use]
    pub fn limits_work(&self) -> bool {
        self.has_limit(|measure| !matches!(measure, Measure::Money { .. }))
    }

    /// Returns true if a limit counts tokens as the provider reports them.
    #[must_use]
    pub fn counts_usage(&self) -> bool {
        self.has_limit(|measure| {
            matches!(measure, Measure::Reported { .. } | Measure::Money { .. })
        })
    }

    /// Returns true if a limit of usage is set that is counted in such a way.
    fn has_limit(&self, measured: fn(&Measure) -> bool) -> bool {
        list_limits().any(|limit| measured(&limit.measure) && limit.is_set(self))
    }

    /// Returns the value of the key of this reason; `None` without a value or without a key.
    #[must_use]
    pub fn limit_value(&self, reason: &Reason) -> Option<Quantity> {
        let tool = if let Reason::Tool(tool) = reason { tool } else { "" };
        reason.limit()?.find_value(self, tool)
    }
}

impl RunUsage {
    /// Returns the rest of every limit that is set, by policy key (`tool_limits.NAME` for a
    /// tool's): counts, money in dollars, time in whole seconds.
    #[must_use]
    pub fn remaining_limits(&self, policy: &Policy, facts: &Facts) -> Remaining {
        let rest = KEYS.iter().filter_map(|key| {
            let left = key.limit.as_ref()?.find_rest(self, facts, policy)?;
            Some((Cow::Borrowed(key.name), left))
        });
        let tools = policy.tool_limits.iter().map(|(tool, limit)| {
            let used = self.by_tool.get(tool).copied().unwrap_or(0);
            let left = Quantity::Count(limit.saturating_sub(used));
            (Cow::Owned(format!("tool_limits.{tool}")), left)
        });
        rest.chain(tools).collect()
    }
}

impl Reason {
    /// Returns the policy key of the limit, if the reason is one.
    #[must_use]
    pub fn policy_key(&self) -> Option<&'static str> {
        self.find_key().map(|key| key.name)
    }

    /// Returns the limit, if the reason is one.
    #[must_use]
    pub fn limit(&self) -> Option<&'static Limit> {
        self.find_key()?.limit.as_ref()
    }

    fn find_key(&self) -> Option<&'static PolicyKey> {
        let is_own = |limit: &Limit| discriminant(&limit.reason) == discriminant(self);
        KEYS.iter().find(|key| key.limit.as_ref().is_some_and(is_own))
    }
}

/// Returns every limit, in the order of the keys.
pub(crate) fn list_limits() -> impl Iterator<Item = &'static Limit> {
    KEYS.iter().filter_map(|key| key.limit.as_ref())
}
