//! One conversation in this process's memory, in a compact form. A tree of the standard library
//! allocates eleven values at once, and a run's record is mostly a policy that all runs share.
//!
//! This module decides only which parts of a conversation exceed its bounds.

use std::collections::BTreeSet;
use std::mem::{size_of, size_of_val};
use std::sync::Arc;

use softland_session::core::lines::Wording;
use softland_session::core::policy::Policy;
use softland_session::core::{
    CarriedUsage, Digest, FactDecision, PinnedRecord, PromptCache, RunUsage,
};
use softland_session::{SeenResult, StoredTail};

use crate::store::{Namesake, RunState, StoreChanges, StoredScope};

/// Runs of one conversation.
const RUNS: usize = 64;
/// Records of runs of one conversation.
const PINS: usize = 2 * RUNS;
/// Tails of one conversation.
const TAILS: usize = 256;
/// First sights of results of one conversation.
const RESULTS: usize = 4096;
/// Messages of one run that arrived at once.
const WENT_ON: usize = 4096;
/// User messages of one conversation.
const ASKED: usize = 128;
/// Policies that are compared and shared.
const POLICIES: usize = 32;

/// One conversation.
#[derive(Debug, Default)]
pub(super) struct CompactConversation {
    pins: SortedMap<CompactPin>,
    tails: SortedMap<StoredTail>,
    results: SortedMap<SeenResult>,
    runs: SortedMap<Arc<RunState>>,
    newest: Option<Digest>,
    asked: Vec<Digest>,
    face: Option<Box<Namesake>>,
    /// Conversations whose answers state no usage have none.
    cache: Option<Box<PromptCache>>,
    /// Counts the records, so that the oldest can be found.
    age: u64,
}

/// The record of a run.
#[derive(Debug)]
struct CompactPin {
    policy: Arc<Policy>,
    words: Wording,
    decided: Vec<FactDecision>,
    looked: Option<u64>,
    carried: Vec<CarriedUsage>,
    compactions: u64,
    /// The value of the conversation's `age` when the record was last changed.
    age: u64,
    /// Few runs have such messages.
    went_on: Option<Box<ImmediateMessages>>,
}

/// A run's record of messages that arrived at once.
#[derive(Debug)]
struct ImmediateMessages {
    places: BTreeSet<Digest>,
    behind_landing: Option<Digest>,
}

/// Policies in use, each stored once.
#[derive(Debug, Default)]
pub(super) struct SharedPolicies(Vec<Arc<Policy>>);

impl CompactConversation {
    /// Returns the conversation in the form that the rest of the gateway reads.
    pub(super) fn to_scope(&self) -> StoredScope {
        StoredScope {
            pins: self.pins.iter().map(|(run, pin)| (*run, Box::new(pin.to_pinned()))).collect(),
            tails: self.tails.iter().cloned().collect(),
            results: self.results.iter().copied().collect(),
            runs: self.runs.iter().map(|(run, state)| (*run, Arc::clone(state))).collect(),
            newest: self.newest,
            asked: self.asked.clone(),
            face: self.face.as_deref().cloned(),
            cache: self.cache.as_deref().copied().unwrap_or_default(),
        }
    }

    /// Applies changes. Returns the run that they belong to, with its new state.
    pub(super) fn apply_changes(
        &mut self,
        changes: StoreChanges,
        policies: &mut SharedPolicies,
    ) -> Option<(Digest, Arc<RunState>)> {
        // The record of the request's own run is applied last, so that it is the last to be
        // forgotten.
        let own = changes.run.as_ref().map(|(_, state)| state.key);
        let (own, others): (Vec<_>, Vec<_>) =
            changes.pins.into_iter().partition(|(run, _)| Some(*run) == own);
        for (run, pinned) in others.into_iter().chain(own) {
            self.insert_pin(run, *pinned, policies);
        }
        for (place, tail) in changes.tails {
            self.tails.insert(place, tail);
        }
        for (place, seen) in changes.results {
            if self.results.get(&place).is_none() {
                self.results.insert(place, seen);
                // A long history that is seen for the first time has hundreds of thousands of
                // results.
                self.results.truncate(RESULTS);
            }
        }
        let unheard = changes.asked.len().saturating_sub(ASKED);
        for asked in changes.asked.into_iter().skip(unheard) {
            self.asked.retain(|known| *known != asked);
            self.asked.push(asked);
        }
        let too_many = self.asked.len().saturating_sub(ASKED);
        self.asked.drain(..too_many);
        if let Some((_, face)) = changes.named {
            self.face = Some(Box::new(face));
        }
        if let Some(cache) = changes.cache {
            self.cache = Some(Box::new(cache));
        }
        if let Some((run, tokens)) = changes.child_tokens
            && let Some(state) = self.runs.get_mut(&run)
        {
            let state = Arc::make_mut(state);
            state.tokens = state.tokens.saturating_add(tokens);
        }
        let then = changes.run.map(|(run, state)| {
            let state = Arc::new(merge_states(self.runs.get(&run).map(Arc::as_ref), state));
            self.runs.insert(run, Arc::clone(&state));
            self.newest = Some(run);
            (run, state)
        });
        self.enforce_bounds();
        then
    }

    /// Inserts the record of a run.
    fn insert_pin(&mut self, run: Digest, pinned: PinnedRecord, policies: &mut SharedPolicies) {
        self.age += 1;
        let mut pin = CompactPin::from_pinned(pinned, policies, self.age);
        match self.pins.get_mut(&run) {
            // After a compaction all places are looked at again.
            Some(kept) if (kept.compactions, kept.looked) > (pin.compactions, pin.looked) => {
                kept.add_immediate(pin.went_on);
            }
            Some(kept) => {
                // Places in the history before a compaction do not exist in the new one.
                if kept.compactions == pin.compactions {
                    pin.add_immediate(kept.went_on.take());
                }
                *kept = pin;
            }
            None => self.pins.insert(run, pin),
        }
        // A history may show tens of thousands of runs.
        if self.pins.len() > 4 * PINS {
            self.forget_pins();
        }
    }

    /// Forgets the records whose last change is the oldest.
    fn forget_pins(&mut self) {
        if self.pins.len() <= PINS {
            return;
        }
        let mut ages: Vec<u64> = self.pins.iter().map(|(_, pin)| pin.age).collect();
        let (_, oldest, _) = ages.select_nth_unstable(self.pins.len() - PINS);
        let oldest = *oldest;
        self.pins.0.retain(|(_, pin)| pin.age >= oldest);
    }

    /// Enforces the bounds, so that an endless conversation does not grow for ever. Digests have no
    /// age: which records, tails and results are dropped is arbitrary, and counting restarts there.
    fn enforce_bounds(&mut self) {
        while self.runs.len() > RUNS {
            let oldest = self.runs.iter().min_by_key(|(_, run)| run.last).map(|(key, _)| *key);
            let Some(oldest) = oldest else { break };
            self.runs.remove(&oldest);
            self.pins.remove(&oldest);
        }
        self.forget_pins();
        self.tails.truncate(TAILS);
        self.results.truncate(RESULTS);
    }

    /// Returns the approximate number of bytes in memory: maps of names count by their entries, and
    /// policies do not count.
    pub(super) fn memory_size(&self) -> usize {
        let used = |used: &RunUsage| used.by_tool.len() * 64;
        let pins = self.pins.iter().map(|(_, pin)| {
            let carried =
                pin.carried.iter().map(|carried| size_of_val(carried) + used(&carried.used));
            let went_on = pin.went_on.as_ref().map_or(0, |went| went.places.len());
            pin.decided.capacity() * size_of::<FactDecision>()
                + carried.sum::<usize>()
                + went_on * 2 * size_of::<Digest>()
        });
        let by_tool: usize = self.runs.iter().map(|(_, run)| used(&run.used)).sum();
        let tails = self.tails.iter().map(|(_, tail)| tail.messages.len() + tail.shown.len());
        let runs = self.runs.len() * (size_of::<RunState>() + 128);
        size_of::<Self>()
            + self.pins.memory_size()
            + self.tails.memory_size()
            + self.results.memory_size()
            + self.runs.memory_size()
            + runs
            + pins.sum::<usize>()
            + tails.sum::<usize>()
            + by_tool
            + self.asked.capacity() * size_of::<Digest>()
            + self.face.as_deref().map_or(0, size_of_val)
            + self.cache.as_deref().map_or(0, size_of_val)
    }
}

impl CompactPin {
    fn from_pinned(pinned: PinnedRecord, policies: &mut SharedPolicies, age: u64) -> Self {
        let PinnedRecord { policy, words, decided, looked, carried, compactions, .. } = pinned;
        let policy = policies.share_policy(policy);
        let PinnedRecord { went_on: places, behind_landing, .. } = pinned;
        let went_on =
            (!places.is_empty()).then(|| Box::new(ImmediateMessages { places, behind_landing }));
        Self { policy, words, decided, looked, carried, compactions, age, went_on }
    }

    /// Adds messages that arrived at once, whichever request saw them, up to a bound.
    fn add_immediate(&mut self, more: Option<Box<ImmediateMessages>>) {
        let Some(more) = more else { return };
        let Some(own) = &mut self.went_on else {
            self.went_on = Some(more);
            return;
        };
        own.behind_landing = own.behind_landing.or(more.behind_landing);
        own.places.extend(more.places);
        while own.places.len() > WENT_ON {
            own.places.pop_first();
        }
    }

    fn to_pinned(&self) -> PinnedRecord {
        PinnedRecord {
            policy: Arc::clone(&self.policy),
            words: self.words,
            decided: self.decided.clone(),
            looked: self.looked,
            carried: self.carried.clone(),
            compactions: self.compactions,
            went_on: self.went_on.as_ref().map(|went| went.places.clone()).unwrap_or_default(),
            behind_landing: self.went_on.as_ref().and_then(|went| went.behind_landing),
        }
    }
}

/// Merges a state with the one before it: tokens and cost are added, the rest is replaced.
fn merge_states(before: Option<&RunState>, state: RunState) -> RunState {
    let Some(before) = before else { return state };
    let same = |new: Arc<str>, old: &Arc<str>| if new == *old { Arc::clone(old) } else { new };
    RunState {
        id: same(state.id, &before.id),
        account: same(state.account, &before.account),
        tokens: before.tokens.saturating_add(state.tokens),
        cost: before.cost + state.cost,
        ..state
    }
}

impl SharedPolicies {
    /// Returns the shared copy of a policy. Beyond a small number, the oldest policies are no
    /// longer compared.
    fn share_policy(&mut self, policy: Arc<Policy>) -> Arc<Policy> {
        if let Some(known) = self.0.iter().find(|known| **known == policy) {
            return Arc::clone(known);
        }
        if self.0.len() >= POLICIES {
            self.0.retain(|known| Arc::strong_count(known) > 1);
        }
        if self.0.len() >= POLICIES {
            self.0.remove(0);
        }
        self.0.push(Arc::clone(&policy));
        policy
    }
}

/// A small map: its entries in one allocation, in the order of their keys.
#[derive(Debug)]
struct SortedMap<V>(Vec<(Digest, V)>);

impl<V> Default for SortedMap<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V> SortedMap<V> {
    fn find_index(&self, key: &Digest) -> Result<usize, usize> {
        self.0.binary_search_by_key(key, |(key, _)| *key)
    }

    fn get(&self, key: &Digest) -> Option<&V> {
        self.0.get(self.find_index(key).ok()?).map(|(_, value)| value)
    }

    fn get_mut(&mut self, key: &Digest) -> Option<&mut V> {
        let at = self.find_index(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    fn insert(&mut self, key: Digest, value: V) {
        match self.find_index(&key) {
            Ok(at) => {
                if let Some((_, old)) = self.0.get_mut(at) {
                    *old = value;
                }
            }
            Err(at) => {
                // Most maps have one entry, and the standard library's first step is four.
                if self.0.is_empty() {
                    self.0.reserve_exact(1);
                }
                self.0.insert(at, (key, value));
            }
        }
    }

    fn remove(&mut self, key: &Digest) {
        if let Ok(at) = self.find_index(key) {
            self.0.remove(at);
        }
    }

    fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn iter(&self) -> std::slice::Iter<'_, (Digest, V)> {
        self.0.iter()
    }

    fn memory_size(&self) -> usize {
        self.0.capacity() * size_of::<(Digest, V)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_history_that_is_met_for_the_first_time_never_takes_more_than_is_kept_of_it() {
        // With unlimited room, each result would be inserted among all the others.
        let seen = SeenResult {
            digest: Digest::EMPTY,
            chars: 1,
            failed: false,
            sent_back: false,
            unfinished: false,
        };
        let results =
            (0..100_000_u64).map(|n| (Digest::from_bytes(&n.to_le_bytes()), seen)).collect();
        let mut kept = CompactConversation::default();
        kept.apply_changes(
            StoreChanges { results, ..StoreChanges::default() },
            &mut SharedPolicies::default(),
        );
        assert_eq!(kept.results.len(), RESULTS);
        assert!(kept.results.0.capacity() <= 2 * RESULTS, "{}", kept.results.0.capacity());
    }
}
