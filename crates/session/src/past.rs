//! A conversation's past that its history no longer shows: the client has put a summary in its
//! place, or has left it out (`docs/governing.md` §7).

use std::sync::Arc;

use softland_core::policy::Policy;
use softland_core::{Digest, MessagePosition, PinnedRecord, PinnedRecords, RunUsage, Transcript};

use crate::history::FoldedHistory;

/// A store's facts about a conversation whose history has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The number of the newest turn in the history that was answered in this conversation; `None`
    /// where the history shows no such turn.
    pub turn: Option<usize>,
    /// The number of the first turn in the history that stands elsewhere than where it was
    /// answered. The history always had the turns before it.
    pub from: usize,
    /// The amounts that the run had used when that turn, or else the newest one, was answered; its
    /// calls included.
    pub used: RunUsage,
    /// The digest that identified the run; `None` where it is not known.
    pub run: Option<Digest>,
    /// The record of the run.
    pub pinned: Option<Box<PinnedRecord>>,
    /// True if the run has had its answer, and something new is asked.
    pub over: bool,
    /// True if the history opens as the conversation did. A message at its end that begins a run is
    /// then a new question, and no summary of what was hidden.
    pub shows_start: bool,
}

impl Past {
    /// Returns true if the record of this run is another run's: after a compaction a run may stand
    /// where another run of the conversation began.
    fn is_anothers(&self, run: Digest, records: &PinnedRecords) -> bool {
        self.run.is_some_and(|own| own != run) && records.contains_key(&run)
    }

    /// Puts the record of the run that goes on among those of the new history. A run that the
    /// history shows whole, and that has its own record there, is left as it is.
    pub(crate) fn record_run(
        &self,
        run: Digest,
        goes_on: Continuation,
        policy: &Arc<Policy>,
        records: &mut PinnedRecords,
    ) {
        let Continuation { hidden, place, rounds } = goes_on;
        let pinned = || match &self.pinned {
            Some(pinned) => (**pinned).clone(),
            None => PinnedRecord::new(Arc::clone(policy)),
        };
        if !hidden.is_empty() || self.is_anothers(run, records) {
            let mut pinned = pinned();
            // A record that came to stand there by another compaction is older.
            let before = records.get(&run).map_or(0, |known| known.compactions);
            pinned.compactions = pinned.compactions.max(before);
            records.insert(run, Box::new(pinned.after_compaction(rounds, place, hidden)));
        } else {
            records.entry(run).or_insert_with(|| Box::new(pinned()));
        }
    }
}

/// Reads a history by `fold`. Returns true with it if its newest run goes on from a past that the
/// history does not show whole. The history is then read once more, since the hidden part has to be
/// known from the beginning.
pub(crate) fn read_history<'a>(
    past: Option<&Past>,
    records: PinnedRecords,
    policy: &Arc<Policy>,
    fold: impl Fn(PinnedRecords) -> FoldedHistory<'a>,
) -> (FoldedHistory<'a>, bool) {
    let Some(past) = past else { return (fold(records), false) };
    let mut first = fold(records.clone());
    let Some(here) = first.here.or_else(|| first.transcript.turn_position()) else {
        return (first, false);
    };
    if past.is_anothers(here.run, &records) {
        // What the other run had used does not count here, but what this one had used up to there.
        let mut others = records.clone();
        others.remove(&here.run);
        others.extend(past.pinned.clone().map(|pinned| (here.run, pinned)));
        first = fold(others);
    }
    let Some(goes_on) = first.traces.find_continuation(past, here, &first.transcript) else {
        return (first, false);
    };
    let mut known = records;
    past.record_run(here.run, goes_on, policy, &mut known);
    (fold(known), true)
}

/// The traces of a past in a history, collected as it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct PastTraces {
    /// The number of the turn that is looked for.
    wanted: Option<usize>,
    /// The number of the first turn that stands elsewhere.
    from: usize,
    /// The number of turns that were read.
    turns: usize,
    /// The run of the turn that was read last, and the place of its first turn that stands
    /// elsewhere.
    run: Option<(Digest, Option<Digest>)>,
    /// The run of the turn that is looked for, and the amounts used up to there.
    shown: Option<(Digest, RunUsage)>,
}

/// The continuation of a past in the newest run of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Continuation {
    /// The amounts that were used and are not shown.
    pub(crate) hidden: RunUsage,
    /// The place from which on the hidden amounts count.
    pub(crate) place: Digest,
    /// The number of rounds that the history shows of the run.
    pub(crate) rounds: u64,
}

impl PastTraces {
    pub(crate) fn from_past(past: &Past) -> Self {
        Self { wanted: past.turn, from: past.from, ..Self::default() }
    }

    /// Notes the newest turn of the transcript.
    pub(crate) fn note_turn(&mut self, transcript: &Transcript) {
        let turn = self.turns;
        self.turns += 1;
        let (Some(key), Some(run)) = (transcript.run_key(), transcript.current_run()) else {
            return;
        };
        let before = self.run.filter(|(before, _)| *before == key).and_then(|(_, place)| place);
        let place = before.or_else(|| (turn >= self.from).then(|| transcript.history_digest()));
        self.run = Some((key, place));
        if self.wanted == Some(turn) {
            self.shown = Some((key, run.used().clone()));
        }
    }

    /// Returns how the newest run goes on from the past; `None` if the past is of another run.
    /// `read` is the history up to its newest message, which stands `here`.
    pub(crate) fn find_continuation(
        &self,
        past: &Past,
        here: MessagePosition,
        read: &Transcript,
    ) -> Option<Continuation> {
        let before = match here.starts {
            false => read.current_run().map(|run| run.used()),
            // After an earlier compaction hidden amounts may count here already.
            true => past.pinned.as_ref().and_then(|pinned| pinned.usage_carried_from(here.place)),
        };
        let shown = match &self.shown {
            Some((run, _)) if *run != here.run => return None,
            Some((_, shown)) => Some(shown),
            None if past.turn.is_some() || past.over || (past.shows_start && here.starts) => {
                return None;
            }
            None => before,
        };
        let nothing = RunUsage::default();
        let place = self.run.filter(|(run, _)| *run == here.run).and_then(|(_, place)| place);
        let place = place.unwrap_or(here.place);
        let hidden = past.used.usage_not_shown(shown.unwrap_or(&nothing));
        // A request that is sent again finds hidden amounts that count from its newest message on,
        // which is not read yet.
        let is_unread = !here.starts && place == here.place && read.history_digest() != place;
        let unread = read.current_run().filter(|_| is_unread);
        let counted = unread.and_then(|run| run.pinned().usage_carried_from(place));
        Some(Continuation {
            hidden: hidden.usage_not_shown(counted.unwrap_or(&nothing)),
            place,
            rounds: before.map_or(0, |used| used.rounds),
        })
    }
}
