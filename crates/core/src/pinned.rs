//! What is fixed at a run's first governed request and used for its lines for ever.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::Because;
use crate::lines::Version;
use crate::policy::Policy;
use crate::used::Used;

/// The pinned record of one run. A line is a function of (transcript, this record).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The resolved policy.
    pub policy: Policy,
    /// The wording.
    pub version: Version,
    /// What was decided on facts that the transcript does not show, in order of place.
    pub decided: Vec<Decided>,
    /// The newest place whose facts were looked at: rounds answered, 0 is the human message. What
    /// was not decided there then is never decided there later.
    #[serde(default)]
    pub looked: Option<u64>,
    /// What the run had used before its history was compacted into its first message: a constant
    /// of this transcript, counted before everything in it. Rounds are not carried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<Used>,
}

impl Pinned {
    /// A new record under the newest wording.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { policy, version: Version::NEWEST, decided: Vec::new(), looked: None, carried: None }
    }
}

/// A decision on facts, repeated at the same place in every later request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Rounds of the run that had been answered; 0 is the human message.
    pub round: u64,
    /// Whether it lands the run; else it is the one warning of its limit.
    pub lands: bool,
    /// The rule and its numbers.
    pub because: Because,
}
