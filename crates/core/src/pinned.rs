//! The record of a run: fixed at the first governed request, and used for the run's lines for ever.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::lines::Wording;
use crate::policy::Policy;
use crate::used::RunUsage;

/// The pinned records of a conversation, by the keys of their runs. The records are boxed because a
/// tree node has room for eleven at once, and most conversations have one.
pub type PinnedRecords = BTreeMap<Digest, Box<PinnedRecord>>;

/// The pinned record of one run. A line is a function of the transcript and this record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedRecord {
    /// The resolved policy, shared by all runs under it.
    pub policy: Arc<Policy>,
    /// The words of the run's lines.
    #[serde(default)]
    pub words: Wording,
    /// The decisions on facts that the transcript does not show, in order of place.
    pub decided: Vec<FactDecision>,
    /// The newest place whose facts were looked at: the number of answered rounds, or 0 for the
    /// human message. A decision that was not made there at that time is never made there later.
    #[serde(default)]
    pub looked: Option<u64>,
    /// Usage of the run that its history does not show, because the client has compacted the
    /// history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<CarriedUsage>,
    /// The number of times that the client has compacted its history. Of two records of a run, the
    /// record with more compactions is the newer, whatever places were looked at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub compactions: u64,
    /// The places of messages whose words a person could have written, but not as fast. The run
    /// went on with them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub went_on: BTreeSet<Digest>,
    /// The one of these places for which nothing but the landing before it shows this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_landing: Option<Digest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Usage of a run that its history no longer shows: a constant of a transcript, counted at one
/// place of it. Rounds are not carried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedUsage {
    /// The digest of all messages up to the place where the usage counts. No history from before
    /// the compaction has that place.
    pub place: Digest,
    /// The usage.
    pub used: RunUsage,
}

/// The most places of one run at which carried usage counts. Histories from before the oldest place
/// are no longer known.
const PLACES: usize = 32;

impl PinnedRecord {
    /// Records that these calls, refused by their tools' own limits, were taken out of the turn
    /// that is answered as this round. A round that a request was built from before does not change
    /// any more.
    pub fn record_removed_calls<'b>(
        &mut self,
        round: u64,
        refusals: impl Iterator<Item = &'b Because>,
    ) {
        if self.looked.is_some_and(|looked| looked >= round) {
            return;
        }
        for because in refusals.filter(|because| matches!(because.reason, Reason::Tool(_))) {
            let same = |d: &FactDecision| d.round == round && d.because.reason == because.reason;
            if !self.decided.iter().any(same) {
                let because = because.clone();
                self.decided.push(FactDecision { round, lands: false, because });
            }
        }
    }

    /// Creates the record of a run that begins.
    #[must_use]
    pub fn new(policy: impl Into<Arc<Policy>>) -> Self {
        Self {
            policy: policy.into(),
            words: Wording::NEWEST,
            decided: Vec::new(),
            looked: None,
            carried: Vec::new(),
            compactions: 0,
            went_on: BTreeSet::new(),
            behind_landing: None,
        }
    }

    /// Returns the usage that counts from this place on and is not shown before it.
    #[must_use]
    pub fn usage_carried_from(&self, place: Digest) -> Option<&RunUsage> {
        self.carried.iter().find(|carried| carried.place == place).map(|carried| &carried.used)
    }

    /// Returns the record of a history that the client has compacted. The policy stays. A limit
    /// that has landed the run lands it here, behind `rounds` rounds. Earlier usage counts from
    /// `place` on.
    #[must_use]
    pub fn after_compaction(mut self, rounds: u64, place: Digest, used: RunUsage) -> Self {
        let landed = self.decided.into_iter().find(|decided| decided.lands);
        self.decided =
            landed.map(|landed| FactDecision { round: rounds, ..landed }).into_iter().collect();
        self.looked = None;
        self.compactions += 1;
        // Usage that counts there already is part of what the history shows.
        match self.carried.iter_mut().find(|carried| carried.place == place) {
            Some(carried) => carried.used.add_usage(&used),
            None => {
                if self.carried.len() >= PLACES {
                    self.carried.remove(0);
                }
                self.carried.push(CarriedUsage { place, used });
            }
        }
        self
    }
}

/// A decision on facts, repeated at the same place in every later request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactDecision {
    /// The number of the run's rounds that had been answered; 0 is the human message.
    pub round: u64,
    /// True if the decision lands the run. Otherwise it is the one warning of its limit. For a
    /// tool's own limit, it is that calls of the tool were taken out of the turn before.
    pub lands: bool,
    /// The rule and its numbers.
    pub because: Because,
}

impl FactDecision {
    /// Returns true if the decision is that calls were taken out of a turn by their tool's own
    /// limit.
    #[must_use]
    pub fn removes_calls(&self) -> bool {
        !self.lands && matches!(self.because.reason, Reason::Tool(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_at_a_place_is_kept_when_more_of_it_is_found() {
        let place = Digest::from_bytes(b"place");
        let calls = RunUsage { calls: 4, ..RunUsage::default() };
        let chars = RunUsage { result_chars: 7, ..RunUsage::default() };
        let pinned = PinnedRecord::new(Policy::default());
        let pinned = pinned.after_compaction(1, place, calls).after_compaction(1, place, chars);
        let both = RunUsage { calls: 4, result_chars: 7, ..RunUsage::default() };
        assert_eq!((pinned.usage_carried_from(place), pinned.carried.len()), (Some(&both), 1));
    }
}
