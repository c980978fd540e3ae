//! What is fixed at a run's first governed request and used for its lines for ever.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::lines::Version;
use crate::policy::Policy;
use crate::used::Used;

/// The pinned records of a conversation, by what identifies their runs. Boxed: a tree makes room
/// for eleven of them at once, and most conversations have one.
pub type Records = BTreeMap<Digest, Box<Pinned>>;

/// The pinned record of one run. A line is a function of (transcript, this record).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The resolved policy, which all runs under it share.
    pub policy: Arc<Policy>,
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
    /// Places of messages that a person could have written, but not so quickly: the run went on
    /// with them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub went_on: BTreeSet<Digest>,
    /// The one of them of which nothing but the landing before it tells so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_landing: Option<Digest>,
}

impl Pinned {
    /// Keeps that these calls, refused by their tools' own limits, were taken out of the turn that
    /// is answered as this round. What a request was made of before is not changed any more.
    pub fn take_out<'b>(&mut self, round: u64, calls: impl Iterator<Item = &'b Because>) {
        if self.looked.is_some_and(|looked| looked >= round) {
            return;
        }
        for because in calls.filter(|because| matches!(because.reason, Reason::Tool(_))) {
            let same = |d: &Decided| d.round == round && d.because.reason == because.reason;
            if !self.decided.iter().any(same) {
                let because = because.clone();
                self.decided.push(Decided { round, lands: false, because });
            }
        }
    }

    /// A new record under the newest wording.
    #[must_use]
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        Self {
            policy: policy.into(),
            version: Version::NEWEST,
            decided: Vec::new(),
            looked: None,
            carried: None,
            went_on: BTreeSet::new(),
            behind_landing: None,
        }
    }
}

/// A decision on facts, repeated at the same place in every later request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// Rounds of the run that had been answered; 0 is the human message.
    pub round: u64,
    /// Whether it lands the run; else it is the one warning of its limit, or, for a tool's own
    /// limit, that calls of it were taken out of the turn before.
    pub lands: bool,
    /// The rule and its numbers.
    pub because: Because,
}

impl Decided {
    /// Whether it says that calls were taken out of a turn by their tool's own limit.
    #[must_use]
    pub fn takes_out(&self) -> bool {
        !self.lands && matches!(self.because.reason, Reason::Tool(_))
    }
}
