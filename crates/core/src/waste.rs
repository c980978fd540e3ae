//! The waste that recorded signals tell: one rule for a ledger's totals and for the audit.
//!
//! A ledger keeps no single calls, so a loop cannot be seen in it again. What was seen live is
//! recorded, and each record of a loop names its turns so far.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use crate::digest::Digest;
use crate::policy::Policy;
use crate::rules::{Evidence, SignalKind};

/// Recorded signals of one loop or silence, with all turns that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedLoop {
    /// The kind of the signals.
    pub kind: SignalKind,
    /// The turns.
    pub members: BTreeSet<u64>,
    /// The number of turns, counted from the first, that did something new.
    pub fresh: usize,
    /// The call, as the evidence has it.
    pub call: Option<String>,
    /// The result's digest.
    pub result: Option<Digest>,
    /// The text, as the evidence has it.
    pub text: Option<String>,
}

impl RecordedLoop {
    /// Returns the turns that are waste. A `sweep` signals much reading by one tool, which is none,
    /// and signals about the context name no waste.
    pub fn wasted_turns(&self) -> impl Iterator<Item = u64> {
        let none = self.kind == SignalKind::Sweep || self.kind.is_of_context();
        self.members.iter().copied().skip(if none { usize::MAX } else { self.fresh })
    }
}

/// Unites the recorded signals of a run to loops. Single silences are left out below the limit,
/// unless the run ended by its silence (`silenced`).
#[must_use]
pub fn unite_signals(
    signals: Vec<(SignalKind, Evidence)>,
    silenced: bool,
    limits: &Policy,
) -> Vec<RecordedLoop> {
    let mut loops = Vec::new();
    let (silent, loud): (Vec<_>, Vec<_>) =
        signals.into_iter().partition(|(kind, _)| is_silence(*kind));
    for (kind, evidence) in loud {
        let fresh = match kind {
            SignalKind::Repeat | SignalKind::Errors => 1,
            SignalKind::Cycle => {
                let times = usize::try_from(limits.cycle_limit.max(1)).unwrap_or(usize::MAX);
                evidence.turns.len() / times
            }
            _ => 0,
        };
        add_signal(&mut loops, kind, evidence, fresh);
    }
    for group in group_silences(silent) {
        if group.len() as u64 >= limits.empty_limit.max(1) || silenced {
            for (kind, evidence) in group {
                add_signal(&mut loops, kind, evidence, 0);
            }
        }
    }
    loops
}

/// Adds a signal to the loop that it continues.
fn add_signal(loops: &mut Vec<RecordedLoop>, kind: SignalKind, evidence: Evidence, fresh: usize) {
    let Evidence { turns, call, result, text, .. } = evidence;
    let members: BTreeSet<u64> = turns.into_iter().collect();
    if members.is_empty() {
        return;
    }
    let continues = |old: &&mut RecordedLoop| {
        old.kind == kind && old.call == call && old.result == result && old.meets(&members)
    };
    match loops.iter_mut().rev().find(continues) {
        Some(old) => old.members.extend(members),
        None => loops.push(RecordedLoop { kind, members, fresh, call, result, text }),
    }
}

impl RecordedLoop {
    /// Returns true if one of these turns is a member. A silence also continues one of the turn
    /// before.
    #[must_use]
    pub fn meets(&self, turns: &BTreeSet<u64>) -> bool {
        turns.iter().any(|turn| {
            let near = if is_silence(self.kind) { turn.saturating_sub(1) } else { *turn };
            self.members.range(near..=*turn).next().is_some()
        })
    }
}

fn is_silence(kind: SignalKind) -> bool {
    matches!(kind, SignalKind::Empty | SignalKind::Trivial)
}

/// Groups silences by consecutive turns. Each silence is recorded alone, and means something only
/// together with its neighbours.
fn group_silences(silent: Vec<(SignalKind, Evidence)>) -> Vec<Vec<(SignalKind, Evidence)>> {
    let mut groups: Vec<Vec<(SignalKind, Evidence)>> = Vec::new();
    let turn_of = |one: &(SignalKind, Evidence)| one.1.turns.last().copied().unwrap_or(0);
    for one in silent {
        let turn = turn_of(&one);
        let next = |last: &(SignalKind, Evidence)| turn.saturating_sub(turn_of(last)) <= 1;
        match groups.last_mut() {
            Some(group) if group.last().is_some_and(next) => group.push(one),
            _ => groups.push(alloc::vec![one]),
        }
    }
    groups
}
