//! What a conversation has behind it that its history no longer shows: the client has put a summary
//! in its place, or has left it out (`governing.md` §7).

use std::sync::Arc;

use softland_core::policy::Policy;
use softland_core::{Digest, Here, Pinned, Records, Transcript, Used};

use crate::anthropic::history::Fold;

/// What a store knows of a conversation whose history has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The newest of the history's turns that was answered in this conversation, by its number among
    /// them; `None` where it shows none of those.
    pub turn: Option<usize>,
    /// The first of the history's turns that stands elsewhere than where it was answered: the turns
    /// before it are the ones that the history always had.
    pub from: usize,
    /// What the run had used when that turn, or else the newest one, was answered; its calls
    /// included.
    pub used: Used,
    /// What identified the run; `None` where it is not known.
    pub run: Option<Digest>,
    /// The record of the run.
    pub pinned: Option<Box<Pinned>>,
    /// Whether the run has had its answer, and something new is asked.
    pub over: bool,
    /// Whether the history opens as the conversation did. A message at its end that begins a run is
    /// then a new question, and no summary of what was hidden.
    pub shows_start: bool,
}

impl Past {
    /// Puts the record of the run that goes on among those of the new history. Nothing is changed
    /// of one whose history shows it whole and that has its own record there.
    pub(crate) fn record(
        &self,
        run: Digest,
        goes_on: GoesOn,
        policy: &Arc<Policy>,
        records: &mut Records,
    ) {
        let GoesOn { hidden, place, rounds } = goes_on;
        let pinned = || match &self.pinned {
            Some(pinned) => (**pinned).clone(),
            None => Pinned::new(Arc::clone(policy)),
        };
        // Behind a compaction a run may stand where another one of the conversation began.
        let is_anothers = self.run.is_some_and(|own| own != run) && records.contains_key(&run);
        if !hidden.is_nothing() || is_anothers {
            let mut pinned = pinned();
            // What came to stand there before, by another compaction, is older.
            let before = records.get(&run).map_or(0, |known| known.compactions);
            pinned.compactions = pinned.compactions.max(before);
            records.insert(run, Box::new(pinned.compacted(rounds, place, hidden)));
        } else {
            records.entry(run).or_insert_with(|| Box::new(pinned()));
        }
    }
}

/// Reads a history by `fold`. Where the newest run goes on from a past that the history does not
/// show whole, it is read once more: how much it shows is to be known from its beginning.
pub(crate) fn read<'a>(
    past: Option<&Past>,
    records: Records,
    policy: &Arc<Policy>,
    fold: impl Fn(Records) -> Fold<'a>,
) -> (Fold<'a>, bool) {
    let Some(past) = past else { return (fold(records), false) };
    let first = fold(records.clone());
    let Some(here) = first.here.or_else(|| first.transcript.ends()) else { return (first, false) };
    let Some(goes_on) = first.traces.go_on(past, here, &first.transcript) else {
        return (first, false);
    };
    let mut known = records;
    past.record(here.run, goes_on, policy, &mut known);
    (fold(known), true)
}

/// What a history shows of a past, as it is read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traces {
    /// The turn that is looked for, by its number.
    wanted: Option<usize>,
    /// The first turn that stands elsewhere.
    from: usize,
    /// Turns that were read.
    turns: usize,
    /// The run whose turn was read last, and where the first of its turns stands that stands
    /// elsewhere.
    run: Option<(Digest, Option<Digest>)>,
    /// The run of the turn that is looked for, and what was used of it up to there.
    shown: Option<(Digest, Used)>,
}

/// What goes on in the newest run of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoesOn {
    /// What was used and is not shown.
    pub(crate) hidden: Used,
    /// From where on that counts.
    pub(crate) place: Digest,
    /// Rounds that the history shows of the run.
    pub(crate) rounds: u64,
}

impl Traces {
    pub(crate) fn of(past: &Past) -> Self {
        Self { wanted: past.turn, from: past.from, ..Self::default() }
    }

    /// The transcript has taken one more turn.
    pub(crate) fn turn(&mut self, transcript: &Transcript) {
        let turn = self.turns;
        self.turns += 1;
        let (Some(key), Some(run)) = (transcript.key(), transcript.run()) else { return };
        let before = self.run.filter(|(before, _)| *before == key).and_then(|(_, place)| place);
        let place = before.or_else(|| (turn >= self.from).then(|| transcript.place()));
        self.run = Some((key, place));
        if self.wanted == Some(turn) {
            self.shown = Some((key, run.used().clone()));
        }
    }

    /// What the newest run has behind it, if it is the one that the past is of. `read`: the history
    /// up to its newest message, which stands `here`.
    pub(crate) fn go_on(&self, past: &Past, here: Here, read: &Transcript) -> Option<GoesOn> {
        let before = match here.starts {
            false => read.run().map(|run| run.used()),
            // Behind an earlier compaction something may count here already.
            true => past.pinned.as_ref().and_then(|pinned| pinned.carried_at(here.place)),
        };
        let shown = match &self.shown {
            Some((run, _)) if *run != here.run => return None,
            Some((_, shown)) => Some(shown),
            None if past.turn.is_some() || past.over || (past.shows_start && here.starts) => {
                return None;
            }
            None => before,
        };
        let nothing = Used::default();
        let place = self.run.filter(|(run, _)| *run == here.run).and_then(|(_, place)| place);
        Some(GoesOn {
            hidden: past.used.beyond(shown.unwrap_or(&nothing)),
            place: place.unwrap_or(here.place),
            rounds: before.map_or(0, |used| used.rounds),
        })
    }
}
