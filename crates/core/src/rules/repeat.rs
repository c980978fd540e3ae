//! `repeat`: the same call with the same result, several times within 24 calls, and no state
//! change between. A changed result is progress and starts the count anew; so does a successful
//! state change, for every call but itself. Calls that poll have a limit of their own.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{AnsweredCall, Evidence, Round, Signal, SignalKind};
use crate::because::{Because, Reason};
use crate::digest::Digest;
use crate::policy::{LoopKind, Policy};

/// The window of a loop, in calls: occurrences further apart are not one loop.
const WINDOW: u64 = 24;

/// The calls that might repeat.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatDetector {
    tracks: BTreeMap<Digest, RepeatedCall>,
    /// The calls of unknown tools and their results in this run. A repeated call of such a tool
    /// with the same result is no change.
    met: BTreeSet<Digest>,
}

#[derive(Clone, Debug)]
struct RepeatedCall {
    result: Digest,
    /// The turn and the number of calls of the run before it, for each occurrence.
    seen: Vec<(u64, u64)>,
}

impl RepeatDetector {
    pub(crate) fn observe_round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        let mut loudest: Option<(u64, Signal)> = None;
        for call in &round.calls {
            let Some(result) = call.result else { continue };
            if self.changes_state(call, result) {
                self.tracks.retain(|key, _| *key == call.key);
            }
            let count = self.count_occurrence(call, result, round);
            let limit = match call.kind {
                Some(LoopKind::Polls) => policy.poll_limit,
                _ => policy.repeat_limit,
            };
            if limit > 0 && count >= limit && loudest.as_ref().is_none_or(|(most, _)| count > *most)
            {
                loudest = Some((count, self.build_signal(call, result, count, limit)));
            }
        }
        loudest.map(|(_, signal)| signal)
    }

    /// Forgets the calls when a person steers: what came before is no loop.
    pub(crate) fn clear(&mut self) {
        self.tracks.clear();
    }

    /// Returns true if a call may have changed state. A known reader or a poll never does, and a
    /// failed call does not. A known writer does. Any other call counts only if the call or its
    /// result is new.
    fn changes_state(&mut self, call: &AnsweredCall, result: Digest) -> bool {
        match call.kind {
            Some(LoopKind::Writes) => !call.failed,
            Some(_) => false,
            None => {
                let new_call = self.met.insert(call.key);
                let new_result = self.met.insert(call.key.followed_by(result));
                !call.failed && (new_call || new_result)
            }
        }
    }

    fn count_occurrence(&mut self, call: &AnsweredCall, result: Digest, round: &Round) -> u64 {
        let track = self
            .tracks
            .entry(call.key)
            .or_insert_with(|| RepeatedCall { result, seen: Vec::new() });
        if track.result != result {
            *track = RepeatedCall { result, seen: Vec::new() };
        }
        track.seen.retain(|(_, calls)| calls + WINDOW > round.calls_before);
        track.seen.push((round.turn, round.calls_before));
        track.seen.len() as u64
    }

    fn build_signal(&self, call: &AnsweredCall, result: Digest, count: u64, limit: u64) -> Signal {
        let track = self.tracks.get(&call.key);
        let turns = track.map_or_else(Vec::new, |t| t.seen.iter().map(|(turn, _)| *turn).collect());
        Signal {
            signal: SignalKind::Repeat,
            evidence: Evidence {
                turns,
                call: Some(call.words.label().into()),
                result: Some(result),
                ..Evidence::default()
            },
            because: Some(Because::from_counts(Reason::Repeat, count, limit)),
            identity: call.key.followed_by(result),
        }
    }
}
