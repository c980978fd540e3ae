//! `sweep`: one reading tool over always new arguments, with nearly no other calls, past half of
//! the call limit, or from 30 calls on without a limit. It is signalled once and left to the
//! countdown, because honest research looks the same.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;

use super::{Evidence, Round, Signal, SignalKind};
use crate::digest::Digest;
use crate::policy::{LoopKind, Policy};

/// The number of calls that make a sweep without a limit.
const CALLS: u64 = 30;
/// The share of new calls to one tool, in percent of all calls, that counts as nearly all of them.
const SHARE: u64 = 90;

/// The calls that read something new.
#[derive(Clone, Debug, Default)]
pub(crate) struct SweepDetector {
    calls: u64,
    fresh: BTreeMap<Digest, (u64, u64)>,
    keys: BTreeSet<Digest>,
    told: bool,
}

impl SweepDetector {
    pub(crate) fn observe_round(&mut self, round: &Round, policy: &Policy) -> Option<Signal> {
        let mut swept: Option<(Digest, String)> = None;
        for call in &round.calls {
            self.calls += 1;
            if call.kind == Some(LoopKind::Reads) && self.keys.insert(call.key) {
                let (fresh, _) = self.fresh.entry(call.name).or_insert((0, round.turn));
                *fresh += 1;
                let fresh = *fresh;
                if self.is_sweep(fresh, policy) {
                    swept = Some((call.name, call.words.label().into()));
                }
            }
        }
        let (identity, label) = swept.filter(|_| !self.told)?;
        self.told = true;
        let first = self.fresh.get(&identity).map_or(round.turn, |(_, turn)| *turn);
        Some(Signal {
            signal: SignalKind::Sweep,
            evidence: Evidence {
                turns: (first..=round.turn).collect(),
                call: Some(label),
                ..Evidence::default()
            },
            because: None,
            identity,
        })
    }

    fn is_sweep(&self, fresh: u64, policy: &Policy) -> bool {
        let enough = match policy.tool_calls_limit {
            Some(limit) => self.calls * 2 > limit && self.calls >= 4,
            None => self.calls >= CALLS,
        };
        enough && fresh * 100 >= self.calls * SHARE
    }
}
