//! Which conversation a request belongs to, and what is kept of it.

mod clues;
mod find;

use std::borrow::Cow;
use std::sync::Arc;

use softland_session::core::{Arrival, Digest, Millis};
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, Remembered};

use crate::gate::Gate;
use crate::identify::Identity;
use crate::store::{Counted, Namesake, RunState, Scope};

pub(super) use clues::Clues;
use find::Asking;

/// A request's conversation.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its name in the store.
    pub(super) scope: Arc<str>,
    /// What is kept of it.
    pub(super) kept: Arc<Scope>,
    /// By what it is found, and will be found again.
    pub(super) clues: Clues,
    /// What is known of the turn that it goes on from.
    from: Option<From>,
    /// What it has behind it that its history may not show.
    past: Option<Past>,
    /// Whether the request shows that it is about this conversation.
    speaks_of_it: bool,
    /// Names that others may have, too.
    shared: Vec<Digest>,
    /// What shares money.
    pub(super) session: Session,
    /// For a sub-agent: its parent's conversation.
    pub(super) parent: Option<(Arc<str>, Arc<Scope>)>,
    /// Why the store could not be asked, if it could not.
    pub(super) lost: Option<String>,
}

/// The turn that a request goes on from.
#[derive(Clone, Debug)]
struct From {
    run: Digest,
    /// The run as it was then.
    then: Arc<RunState>,
    /// The turn's number in the history, if the history shows it.
    turn: Option<usize>,
    /// Whether this history is a fork, which goes on with an account of its own.
    fork: bool,
}

/// What shares money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// What client or user named so.
    Named(Arc<str>),
    /// A conversation of its own.
    Alone,
}

impl Place {
    /// Finds the conversation. A store that is away is as good as an empty one here: lines are
    /// then made by the current policy. Whether money can then be held is for others to say.
    pub(super) async fn find(
        gate: &Gate,
        identity: &Identity,
        (outline, request): (&Outline, &Request<'_>),
        metered: bool,
    ) -> Self {
        let session = match &identity.session {
            Some(name) => Session::Named(Arc::clone(name.text())),
            None => Session::Alone,
        };
        let mut asking = Asking::new(gate, identity, outline, request);
        let parent = asking.parent().await;
        let place = asking.place(metered).await;
        let (scope, kept) = match place.known {
            Some((scope, kept)) => (scope, kept),
            None => (gate.names.conversation(), Arc::default()),
        };
        let clues = asking.clues;
        Self {
            scope,
            kept,
            clues,
            from: place.from,
            past: place.past,
            speaks_of_it: place.speaks_of_it,
            shared: clues.shared(request),
            session,
            parent,
            lost: asking.lost,
        }
    }

    /// Whether a request that declares no tools, but carries what they brought, speaks of the
    /// conversation as one that asks for a summary does.
    pub(super) fn is_told_apart(&self, outline: &Outline) -> bool {
        self.speaks_of_it && outline.tools == Digest::EMPTY
    }

    /// The conversation's newest run, if a request without tools asks for a summary of it: in known
    /// words, or since it holds what was said there.
    pub(super) fn is_summed_up(&self, asks: bool) -> Option<(Digest, Arc<RunState>)> {
        let run = self.kept.newest.filter(|_| asks || self.speaks_of_it)?;
        Some((run, Arc::clone(self.kept.runs.get(&run)?)))
    }

    /// The names that it goes by.
    pub(super) fn names(&self, identity: &Identity) -> Vec<Digest> {
        let own = identity.session.is_some().then(|| self.clues.name());
        own.into_iter().chain(self.shared.iter().copied()).collect()
    }

    /// What the session is taught of the past.
    pub(super) fn remembered(
        &self,
        identity: &Identity,
        outline: &Outline,
        now: u64,
    ) -> Remembered<'_> {
        Remembered {
            arrival: self.arrival(outline, now),
            tails: Cow::Borrowed(&self.kept.tails),
            results: Cow::Borrowed(&self.kept.results),
            past: self.past.clone(),
            named: identity.run.as_ref().map(|_| self.kept.runs.keys().copied().collect()),
        }
    }

    /// How a request's newest message came, where the end of the turn before it is known. Of a
    /// turn that was answered twice the newer end holds.
    fn arrival(&self, outline: &Outline, now: u64) -> Option<Arrival> {
        let context = outline.answered.last()?.before;
        let forked = self.from.as_ref().map(|from| &from.then);
        let ends = self.kept.runs.values().chain(forked).filter_map(|state| state.turn);
        let end = ends.filter(|end| end.context == context).max_by_key(|end| end.at)?;
        Some(Arrival { pause: Millis(now.saturating_sub(end.at)), landed: end.landed })
    }

    /// Whether its history was changed by its client, or its record was lost.
    pub(super) fn is_changed(&self) -> bool {
        self.past.is_some()
    }

    /// The name that a run is kept by: its first. `goes_on`: whether it is the run that the history
    /// had before it was changed.
    pub(super) fn run(&self, run: Digest, goes_on: bool) -> Digest {
        let from = self.from.as_ref().filter(|from| goes_on || from.then.key == run);
        from.map_or(run, |from| from.run)
    }

    /// The state of a run, as it was kept.
    pub(super) fn state(&self, run: &Digest) -> Option<Arc<RunState>> {
        let forked = self.from.as_ref().filter(|from| from.fork && from.run == *run);
        // A fork goes on from what was used, with an account of its own.
        let fork = |state: &RunState| RunState { account: Arc::default(), ..state.clone() };
        let forked = || forked.map(|from| Arc::new(fork(&from.then)));
        self.kept.runs.get(run).cloned().or_else(forked)
    }

    /// The contexts of its runs that the provider has counted.
    pub(super) fn counted(&self) -> impl Iterator<Item = Counted> {
        let from = self.from.as_ref().map(|from| &from.then);
        self.kept.runs.values().chain(from).filter_map(|run| run.known)
    }

    /// Whether it is a fork that nothing is kept of yet but what it took over.
    pub(super) fn is_fresh_fork(&self) -> bool {
        self.kept.newest.is_none() && self.from.as_ref().is_some_and(|from| from.fork)
    }

    /// Tool calls in a row, at the end of the history, that were answered in this conversation.
    pub(super) fn row(&self, outline: &Outline) -> usize {
        let Some(from) = self.from.as_ref() else { return 0 };
        let Some((last, turn)) = outline.answered.len().checked_sub(1).zip(from.turn) else {
            return 0;
        };
        if turn == last {
            return from.then.row;
        }
        // The newest turn was answered here, too, if it is the one that was delivered last.
        let newest = outline.answered.get(last).and_then(|turn| turn.content);
        let is_newest =
            |state: &Arc<RunState>| state.delivered.is_some() && state.delivered == newest;
        if turn + 1 != last || !self.kept.runs.values().any(is_newest) {
            return 0;
        }
        from.then.row + outline.calls.iter().filter(|call| call.turn == last).count()
    }

    /// Gives up what is kept of the conversation, but for what is needed in the end.
    pub(super) fn let_go(&mut self) {
        let (face, newest) = (self.kept.face.clone(), self.kept.newest);
        let run = newest.and_then(|run| Some((run, Arc::clone(self.kept.runs.get(&run)?))));
        let runs = run.into_iter().collect();
        self.kept = Arc::new(Scope { newest, face, runs, ..Scope::default() });
    }

    /// What the conversation is told by from others of its name.
    pub(super) fn face(&self, outline: &Outline, now: u64, answered: bool) -> Namesake {
        let known = self.kept.face.as_ref();
        Namesake {
            scope: Arc::clone(&self.scope),
            root: Arc::clone(known.map_or(&self.scope, |face| &face.root)),
            tools: outline.tools,
            system: outline.system,
            opening: known.map_or_else(|| outline.opening(), |face| face.opening),
            asked: known.map_or_else(|| outline.asks.last().copied(), |face| face.asked),
            answered: answered || known.is_some_and(|face| face.answered),
            last: now,
        }
    }
}

pub(super) fn lost(gate: &Gate, error: &crate::store::StoreError) {
    gate.metrics.event("store_lost");
    tracing::error!(%error, "what this conversation should know is not at hand");
}
