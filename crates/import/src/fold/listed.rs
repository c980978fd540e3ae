//! Signals that are listed: each once, with all its members, as soon as its limit is reached. And
//! which of them are waste.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use softland_session::core::policy::Policy;
use softland_session::core::{Class, Digest, Evidence, Signal, SignalKind};

/// Continuations of a truncated turn; one more is listed.
const CONTINUATIONS: usize = 3;
/// Member turns that evidence names.
const NAMED: usize = 200;

/// What was seen in a run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    listings: Vec<Listing>,
    newest: Newest,
    /// Turns in a row that were empty or trivial, oldest first.
    silent: Vec<(u64, SignalKind)>,
    /// The turn before looks trivial: what follows tells.
    waits: bool,
    /// The task's own answer was given: a silence behind it is none.
    answered: bool,
    truncated: Vec<u64>,
    /// The same text without calls, again and again.
    said: Option<(Digest, Vec<u64>)>,
    /// The text that the runs before ended in, and how often in a row.
    said_before: Option<(Digest, u64)>,
    /// Rows of one prompt that were answered trivially.
    stale: Option<(u64, Vec<u64>)>,
}

/// The place of the newest listing of a kind and identity.
type Newest = BTreeMap<(SignalKind, Digest), usize>;

/// One signal with its members.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) kind: SignalKind,
    pub(crate) members: BTreeSet<u64>,
    /// How many of the members, the first ones, did something new.
    fresh: usize,
    /// Softland recorded it at the time.
    pub(crate) recorded: bool,
    call: Option<String>,
    result: Option<Digest>,
    text: Option<String>,
}

impl Listing {
    /// The members that are waste.
    pub(crate) fn wasted(&self) -> impl Iterator<Item = u64> {
        let sweep = self.kind == SignalKind::Sweep;
        self.members.iter().copied().skip(if sweep { usize::MAX } else { self.fresh })
    }

    pub(crate) fn evidence(&self) -> Evidence {
        Evidence {
            turns: self.members.iter().copied().take(NAMED).collect(),
            call: self.call.clone(),
            result: self.result,
            text: self.text.clone(),
        }
    }
}

impl Seen {
    /// For the run behind this one in its conversation: a text said again to every question is the
    /// same text again.
    pub(crate) fn next(&self) -> Self {
        let said = self.said.as_ref().map(|(text, turns)| {
            let before = self.said_before.filter(|(same, _)| same == text);
            (*text, before.map_or(0, |(_, count)| count) + turns.len() as u64)
        });
        Self { said_before: said, ..Self::default() }
    }

    /// What was listed.
    pub(crate) fn listings(&self) -> &[Listing] {
        &self.listings
    }

    /// Takes a signal of the fold; says how many silent turns in a row there are now, if it is one.
    pub(crate) fn signal(&mut self, signal: Signal, policy: &Policy) -> Option<u64> {
        let Signal { signal: kind, evidence, because, identity } = signal;
        if kind == SignalKind::Trivial {
            if std::mem::take(&mut self.waits) {
                let turn = evidence.turns.first().copied().unwrap_or(0);
                return Some(self.silence(turn, kind, policy));
            }
            return None;
        }
        let limit = because.as_ref().and_then(|because| match because.used {
            softland_session::core::Limit::Count(count) => usize::try_from(count).ok(),
            _ => None,
        });
        if limit.is_none() && kind != SignalKind::Sweep {
            return None;
        }
        let fresh = match kind {
            // The first time through a cycle did something new, and so did the first failure.
            SignalKind::Cycle => evidence.turns.len() / limit.unwrap_or(1).max(1),
            SignalKind::Repeat | SignalKind::Errors => 1,
            _ => 0,
        };
        self.list(kind, identity, evidence, fresh);
        None
    }

    /// Takes a turn by what it was; says how many silent turns in a row there are now.
    pub(crate) fn turn(
        &mut self,
        turn: u64,
        class: Class,
        text: Option<Digest>,
        looks_trivial: bool,
        policy: &Policy,
    ) -> Option<u64> {
        self.truncations(turn, class);
        // What is trivial is not a repeat once more.
        self.sayings(turn, class, text.filter(|_| !looks_trivial), policy);
        self.waits = false;
        match class {
            Class::Empty if self.answered => None,
            Class::Empty => Some(self.silence(turn, SignalKind::Empty, policy)),
            _ if looks_trivial => {
                self.waits = true;
                None
            }
            _ => {
                self.silent.clear();
                self.answered = class == Class::Final;
                None
            }
        }
    }

    /// Takes a row of an activity list; says how often its context was answered in vain.
    pub(crate) fn row(
        &mut self,
        turn: u64,
        prompt: u64,
        trivial: Option<bool>,
        policy: &Policy,
    ) -> u64 {
        match (trivial, &mut self.stale) {
            (Some(false), stale) => *stale = None,
            // Nothing is known of it.
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
            let identity = Digest::of(&prompt.to_le_bytes()).then(Digest::of(&first.to_le_bytes()));
            if goes_on((&mut self.listings, &self.newest), SignalKind::Stale, identity, first, turn)
            {
                return count;
            }
            let text = format!("one prompt of {prompt} tokens, answered in 1 to 5 tokens");
            let evidence =
                Evidence { turns: turns.clone(), text: Some(text), ..Evidence::default() };
            self.list(SignalKind::Stale, identity, evidence, 0);
        }
        count
    }

    /// Ends the run: what is stale is not listed as trivial once more.
    pub(crate) fn finish(&mut self) {
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

    fn silence(&mut self, turn: u64, kind: SignalKind, policy: &Policy) -> u64 {
        self.silent.push((turn, kind));
        let count = self.silent.len() as u64;
        if count >= policy.empty_limit.max(1) {
            let first = self.silent.first().map_or(0, |(turn, _)| *turn);
            let identity = Digest::of(&first.to_le_bytes());
            if goes_on((&mut self.listings, &self.newest), kind, identity, first, turn) {
                return count;
            }
            for kind in [SignalKind::Empty, SignalKind::Trivial] {
                let of_kind = self.silent.iter().filter(|(_, own)| *own == kind);
                let turns: Vec<u64> = of_kind.map(|(turn, _)| *turn).collect();
                if !turns.is_empty() {
                    self.list(kind, identity, Evidence { turns, ..Evidence::default() }, 0);
                }
            }
        }
        count
    }

    fn truncations(&mut self, turn: u64, class: Class) {
        if class != Class::Truncated {
            return self.truncated.clear();
        }
        self.truncated.push(turn);
        if self.truncated.len() > CONTINUATIONS {
            let first = self.truncated.first().copied().unwrap_or(0);
            let identity = Digest::of(&first.to_le_bytes());
            if goes_on(
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
            self.list(SignalKind::Truncated, identity, evidence, 0);
        }
    }

    fn sayings(&mut self, turn: u64, class: Class, text: Option<Digest>, policy: &Policy) {
        let Some(text) = text.filter(|_| class == Class::Final) else {
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
            if goes_on((&mut self.listings, &self.newest), SignalKind::Repeat, text, first, turn) {
                return;
            }
            let again = "the same text again, without a call";
            let words = match before {
                0 => again.to_owned(),
                _ => format!("{again}; {before} times in the runs before"),
            };
            let evidence = Evidence {
                turns: turns.clone(),
                result: Some(text),
                text: Some(words),
                ..Evidence::default()
            };
            self.list(SignalKind::Repeat, text, evidence, usize::from(before == 0));
        }
    }

    /// Lists a signal, or adds its members to the one that it goes on with.
    fn list(&mut self, kind: SignalKind, identity: Digest, evidence: Evidence, fresh: usize) {
        let newest = self.newest.get(&(kind, identity));
        let goes_on = newest
            .and_then(|at| self.listings.get_mut(*at))
            .filter(|listing| evidence.turns.iter().any(|turn| listing.members.contains(turn)));
        match goes_on {
            Some(listing) => {
                // Evidence has the whole streak, oldest first; a long one is not gone through again.
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

/// Adds a turn to the newest listing of its kind and identity, if that holds the first of its
/// streak: a streak may be long, and is not gone through again at each of its turns.
fn goes_on(
    (listings, newest): (&mut [Listing], &Newest),
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
