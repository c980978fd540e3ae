//! Signals that softland itself recorded. A ledger keeps no single calls, so the fold cannot see a
//! loop in it again; the signal that was seen live is listed instead.

use std::collections::BTreeSet;

use softland_session::core::policy::Policy;
use softland_session::core::{Evidence, SignalKind};

use super::{Listing, SeenSignals};
use crate::step::RecordedSignal;

impl SeenSignals {
    /// Lists recorded signals that are not listed yet. `silenced` is true if the run ended by its
    /// silence.
    pub(crate) fn list_recorded(
        &mut self,
        noted: Vec<RecordedSignal>,
        silenced: bool,
        limits: &Policy,
    ) {
        let (silent, loud): (Vec<RecordedSignal>, Vec<RecordedSignal>) =
            noted.into_iter().partition(|one| is_silence(one.signal));
        for RecordedSignal { signal, evidence } in loud {
            let fresh = match signal {
                SignalKind::Repeat | SignalKind::Errors => 1,
                SignalKind::Cycle => {
                    let times = usize::try_from(limits.cycle_limit.max(1)).unwrap_or(usize::MAX);
                    evidence.turns.len() / times
                }
                _ => 0,
            };
            self.take_recorded(signal, evidence, fresh);
        }
        for group in group_silences(silent) {
            if group.len() as u64 >= limits.empty_limit.max(1) || silenced {
                for RecordedSignal { signal, evidence } in group {
                    self.take_recorded(signal, evidence, 0);
                }
            }
        }
    }

    /// Adds a signal to the recorded one that it continues, unless the fold has seen it too.
    fn take_recorded(&mut self, kind: SignalKind, evidence: Evidence, fresh: usize) {
        let members: BTreeSet<u64> = evidence.turns.into_iter().collect();
        let same = |listing: &Listing| {
            let meets = members.iter().any(|turn| {
                let near = if is_silence(kind) { turn.saturating_sub(1) } else { *turn };
                listing.members.range(near..=*turn).next().is_some()
            });
            listing.kind == kind && meets
        };
        if members.is_empty() || self.listings.iter().any(|old| !old.recorded && same(old)) {
            return;
        }
        let whose = |old: &Listing| old.call == evidence.call && old.result == evidence.result;
        match self.listings.iter_mut().rev().find(|old| whose(old) && same(old)) {
            Some(old) => old.members.extend(members),
            None => self.listings.push(Listing {
                kind,
                members,
                fresh,
                recorded: true,
                call: evidence.call,
                result: evidence.result,
                text: evidence.text,
            }),
        }
    }
}

fn is_silence(kind: SignalKind) -> bool {
    matches!(kind, SignalKind::Empty | SignalKind::Trivial)
}

/// Groups silences by consecutive turns. Each silence is recorded alone, and means something only
/// together with its neighbours.
fn group_silences(silent: Vec<RecordedSignal>) -> Vec<Vec<RecordedSignal>> {
    let mut groups: Vec<Vec<RecordedSignal>> = Vec::new();
    let turn_of = |one: &RecordedSignal| one.evidence.turns.last().copied().unwrap_or(0);
    for one in silent {
        let turn = turn_of(&one);
        let next = |last: &RecordedSignal| turn.saturating_sub(turn_of(last)) <= 1;
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(next) => group.push(one),
            _ => groups.push(vec![one]),
        }
    }
    groups
}
