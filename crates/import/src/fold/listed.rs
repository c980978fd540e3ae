//! Signals that are listed: each once, with all its members, as soon as its limit is reached. Also
//! tells which of the members are waste.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use softland_session::core::policy::Policy;
use softland_session::core::{Digest, Evidence, Signal, SignalKind, TurnClass};

/// Continuations of a truncated turn; one more is listed.
const CONTINUATIONS: usize = 3;
/// Member turns that evidence names.
const NAMED: usize = 200;

/// The signals seen in a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenSignals {
    listings: Vec<Listing>,
    newest: NewestListings,
    /// Consecutive turns that were empty or trivial, oldest first.
    silent: Vec<(u64, SignalKind)>,
    /// True if the turn before looks trivial, which the next step confirms or not.
    waits: bool,
    /// True if the task's own answer was given: a silence after it is no signal.
    answered: bool,
    truncated: Vec<u64>,
    /// The text that is repeated without calls, and the turns that said it.
    said: Option<(Digest, Vec<u64>)>,
    /// The text in which earlier runs ended, and how often in a row.
    said_before: Option<(Digest, u64)>,
    /// The prompt size of consecutive rows that were answered trivially, and those rows.
    stale: Option<(u64, Vec<u64>)>,
}

/// The index of the newest listing, by kind and identity.
type NewestListings = BTreeMap<(SignalKind, Digest), usize>;

/// One signal with its members.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) kind: SignalKind,
    pub(crate) members: BTreeSet<u64>,
    /// The number of members, counted from the first, that did something new.
    fresh: usize,
    /// True if softland recorded the signal at the time.
    pub(crate) recorded: bool,
    call: Option<String>,
    result: Option<Digest>,
    text: Option<String>,
}

impl Listing {
    /// Returns the members that are waste.
    pub(crate) fn wasted_turns(&self) -> impl Iterator<Item = u64> {
        let sweep = self.kind == SignalKind::Sweep;
        self.members.iter().copied().skip(if sweep { usize::MAX } else { self.fresh })
    }

    pub(crate) fn evidence(&self) -> Evidence {
        Evidence {
            turns: self.members.iter().copied().take(NAMED).collect(),
            call: self.call.clone(),
            result: self.result,
            text: self.text.clone(),
            ..Evidence::default()
        }
    }
}

impl SeenSignals {
    /// Returns the state for the next run of the conversation: a text that answers every question
    /// is one repeated text.
    pub(crate) fn for_next_run(&self) -> Self {
        let said = self.said.as_ref().map(|(text, turns)| {
            let before = self.said_before.filter(|(same, _)| same == text);
            (*text, before.map_or(0, |(_, count)| count) + turns.len() as u64)
        });
        Self { said_before: said, ..Self::default() }
    }

    /// Returns the listed signals.
    pub(crate) fn listings(&self) -> &[Listing] {
        &self.listings
    }

    /// Takes a signal of the fold. Returns the number of silent turns in a row, if the signal is a
    /// silence.
    pub(crate) fn take_signal(&mut self, signal: Signal, policy: &Policy) -> Option<u64> {
        let Signal { signal: kind, evidence, because, identity } = signal;
        if kind == SignalKind::Trivial {
            if std::mem::take(&mut self.waits) {
                let turn = evidence.turns.first().copied().unwrap_or(0);
                return Some(self.count_silence(turn, kind, policy));
            }
            return None;
        }
        let limit = because.as_ref().and_then(|because| match because.used {
            softland_session::core::Quantity::Count(count) => usize::try_from(count).ok(),
            _ => None,
        });
        if limit.is_none() && kind != SignalKind::Sweep {
            return None;
        }
        let fresh = match kind {
            // The first pass through a cycle did something new, and so did the first failure.
            SignalKind::Cycle => evidence.turns.len() / limit.unwrap_or(1).max(1),
            SignalKind::Repeat | SignalKind::Errors => 1,
            _ => 0,
        };
        self.list_signal(kind, identity, evidence, fresh);
        None
    }

    /// Takes a turn by its class. Returns the number of silent turns in a row, if the turn is
    /// silent.
    pub(crate) fn take_turn(
        &mut self,
        turn: u64,
        class: TurnClass,
        text: Option<Digest>,
        looks_trivial: bool,
        policy: &Policy,
    ) -> Option<u64> {
        self.count_truncation(turn, class);
        // A trivial turn is not listed as a repeat as well.
        self.count_repeated_text(turn, class, text.filter(|_| !looks_trivial), policy);
        self.waits = false;
        match class {
            TurnClass::Empty if self.answered => None,
            TurnClass::Empty => Some(self.count_silence(turn, SignalKind::Empty, policy)),
            _ if looks_trivial => {
                self.waits = true;
                None
            }
            _ => {
                self.silent.clear();
                self.answered = class == TurnClass::Final;
                None
            }
        }
    }

    /// Takes a row of an activity list. Returns how often its context was answered in vain.
    pub(crate) fn take_row(
        &mut self,
        turn: u64,
        prompt: u64,
        trivial: Option<bool>,
        policy: &Policy,
    ) -> u64 {
        match (trivial, &mut self.stale) {
            (Some(false), stale) => *stale = None,
            // The answer is unknown.
            (None, _) => {}
            (Some(true), Some((same, turns))) if *same == prompt => turns.push(turn),
            (Some(true), stale) => *stale = Some((prompt, vec![turn])),
        }
        let Some((_, turns)) = self.stale.as_ref().filter(|_| trivial == Some(true)) else {
            return 0;
        };
        let count = turns.len() as u64;
        if policy.stale_limit > 0 && count >= policy.stale_limit {
            let first = turns.first().copied().unwrap_or(0);
            let identity = Digest::from_bytes(&prompt.to_le_bytes())
                .followed_by(Digest::from_bytes(&first.to_le_bytes()));
            if continue_listing(
                (&mut self.listings, &self.newest),
                SignalKind::Stale,
                identity,
                first,
                turn,
            ) {
                return count;
            }
            let text = format!("one prompt of {prompt} tokens, answered in 5 tokens or fewer");
            let evidence =
                Evidence { turns: turns.clone(), text: Some(text), ..Evidence::default() };
            self.list_signal(SignalKind::Stale, identity, evidence, 0);
        }
        count
    }

    /// Ends the run. Stale rows are not listed as trivial as well.
    pub(crate) fn finish_run(&mut self) {
        let stale: BTreeSet<u64> = self
            .listings
            .iter()
            .filter(|listing| listing.kind == SignalKind::Stale)
            .flat_map(|listing| listing.members.iter().copied())
            .collect();
        self.listings.retain(|listing| {
            listing.kind != SignalKind::Trivial || !listing.members.is_subset(&stale)
        });
    }

    fn count_silence(&mut self, turn: u64, kind: SignalKind, policy: &Policy) -> u64 {
        self.silent.push((turn, kind));
        let count = self.silent.len() as u64;
        if count >= policy.empty_limit.max(1) {
            let first = self.silent.first().map_or(0, |(turn, _)| *turn);
            let identity = Digest::from_bytes(&first.to_le_bytes());
            if continue_listing((&mut self.listings, &self.newest), kind, identity, first, turn) {
                return count;
            }
            for kind in [SignalKind::Empty, SignalKind::Trivial] {
                let of_kind = self.silent.iter().filter(|(_, own)| *own == kind);
                let turns: Vec<u64> = of_kind.map(|(turn, _)| *turn).collect();
                if !turns.is_empty() {
                    self.list_signal(kind, identity, Evidence { turns, ..Evidence::default() }, 0);
                }
            }
        }
        count
    }

    fn count_truncation(&mut self, turn: u64, class: TurnClass) {
        if class != TurnClass::Truncated {
            return self.truncated.clear();
        }
        self.truncated.push(turn);
        if self.truncated.len() > CONTINUATIONS {
            let first = self.truncated.first().copied().unwrap_or(0);
            let identity = Digest::from_bytes(&first.to_le_bytes());
            if continue_listing(
                (&mut self.listings, &self.newest),
                SignalKind::Truncated,
                identity,
                first,
                turn,
            ) {
                return;
            }
            let turns = self.truncated.clone();
            let evidence = Evidence { turns, ..Evidence::default() };
            self.list_signal(SignalKind::Truncated, identity, evidence, 0);
        }
    }

    fn count_repeated_text(
        &mut self,
        turn: u64,
        class: TurnClass,
        text: Option<Digest>,
        policy: &Policy,
    ) {
        let Some(text) = text.filter(|_| class == TurnClass::Final) else {
            (self.said, self.said_before) = (None, None);
            return;
        };
        self.said_before = self.said_before.filter(|(same, _)| *same == text);
        match &mut self.said {
            Some((same, turns)) if *same == text => turns.push(turn),
            said => *said = Some((text, vec![turn])),
        }
        let Some((_, turns)) = &self.said else { return };
        let before = self.said_before.map_or(0, |(_, count)| count);
        if policy.repeat_limit > 0 && turns.len() as u64 + before >= policy.repeat_limit {
            let first = turns.first().copied().unwrap_or(0);
            if continue_listing(
                (&mut self.listings, &self.newest),
                SignalKind::Repeat,
                text,
                first,
                turn,
            ) {
                return;
            }
            let again = "the same text again, without a call";
            let words = match before {
                0 => again.to_owned(),
                1 => format!("{again}; once in a run before"),
                _ => format!("{again}; {before} times in the runs before"),
            };
            let evidence = Evidence {
                turns: turns.clone(),
                result: Some(text),
                text: Some(words),
                ..Evidence::default()
            };
            self.list_signal(SignalKind::Repeat, text, evidence, usize::from(before == 0));
        }
    }

    /// Lists a signal, or adds its members to the listing that it continues.
    fn list_signal(
        &mut self,
        kind: SignalKind,
        identity: Digest,
        evidence: Evidence,
        fresh: usize,
    ) {
        let newest = self.newest.get(&(kind, identity));
        let goes_on = newest
            .and_then(|at| self.listings.get_mut(*at))
            .filter(|listing| evidence.turns.iter().any(|turn| listing.members.contains(turn)));
        match goes_on {
            Some(listing) => {
                // Evidence holds the whole streak, oldest first; only its new end is looked at.
                let known = listing.members.last().copied().unwrap_or(0);
                let new = evidence.turns.into_iter().rev().take_while(|turn| *turn > known);
                listing.members.extend(new);
            }
            None => {
                self.newest.insert((kind, identity), self.listings.len());
                self.listings.push(Listing {
                    kind,
                    members: evidence.turns.into_iter().collect(),
                    fresh,
                    recorded: false,
                    call: evidence.call,
                    result: evidence.result,
                    text: evidence.text,
                });
            }
        }
    }
}

/// Adds a turn to the newest listing of its kind and identity, if that listing holds the first turn
/// of the streak. A streak may be long, so it is not walked again at each turn.
fn continue_listing(
    (listings, newest): (&mut [Listing], &NewestListings),
    kind: SignalKind,
    identity: Digest,
    first: u64,
    turn: u64,
) -> bool {
    let listing = newest.get(&(kind, identity)).and_then(|at| listings.get_mut(*at));
    listing
        .filter(|one| one.members.contains(&first) || one.kind != SignalKind::Repeat)
        .is_some_and(|one| one.members.insert(turn))
}
