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
    /// What the run had used that its history does not show, where the client has compacted it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Carried>,
    /// How often the client has compacted its history: of two records of a run the one that has seen
    /// more of them is the newer, whatever places were looked at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compactions: u64,
    /// Places of messages that a person could have written, but not so quickly: the run went on
    /// with them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub went_on: BTreeSet<Digest>,
    /// The one of them of which nothing but the landing before it tells so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_landing: Option<Digest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a run had used that its history no longer shows: a constant of a transcript, counted at one
/// place of it. Rounds are not carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The digest of all messages up to where it counts: no history from before shows that place.
    pub place: Digest,
    /// How much it is.
    pub used: Used,
}

/// Places of one run at which something counts that is not shown: histories from before the oldest
/// are no longer known.
const PLACES: usize = 32;

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
            carried: Vec::new(),
            compactions: 0,
            went_on: BTreeSet::new(),
            behind_landing: None,
        }
    }

    /// What counts from this place on, and is not shown before it.
    #[must_use]
    pub fn carried_at(&self, place: Digest) -> Option<&Used> {
        self.carried.iter().find(|carried| carried.place == place).map(|carried| &carried.used)
    }

    /// The record of a history that the client has compacted: the policy and the wording stay, what
    /// has landed the run lands it here, behind so many `rounds`, and what it had used counts from
    /// `place` on.
    #[must_use]
    pub fn compacted(mut self, rounds: u64, place: Digest, used: Used) -> Self {
        let landed = self.decided.into_iter().find(|decided| decided.lands);
        self.decided =
            landed.map(|landed| Decided { round: rounds, ..landed }).into_iter().collect();
        self.looked = None;
        self.compactions += 1;
        // What counts there already is part of what the history shows.
        match self.carried.iter_mut().find(|carried| carried.place == place) {
            Some(carried) => carried.used.carry(&used),
            None => {
                if self.carried.len() >= PLACES {
                    self.carried.remove(0);
                }
                self.carried.push(Carried { place, used });
            }
        }
        self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_at_a_place_is_kept_when_more_of_it_is_found() {
        let place = Digest::of(b"place");
        let calls = Used { calls: 4, ..Used::default() };
        let chars = Used { result_chars: 7, ..Used::default() };
        let pinned = Pinned::new(Policy::default());
        let pinned = pinned.compacted(1, place, calls).compacted(1, place, chars);
        let both = Used { calls: 4, result_chars: 7, ..Used::default() };
        assert_eq!((pinned.carried_at(place), pinned.carried.len()), (Some(&both), 1));
    }
}
