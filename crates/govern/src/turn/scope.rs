//! The conversation that a request belongs to, and its stored state.

mod clues;
mod find;

use std::borrow::Cow;
use std::sync::Arc;

use softland_session::core::{Arrival, Digest};
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, StoredConversation};

use crate::identify::Identity;
use crate::learned::ModelLessons;
use crate::recall::Recalled;
use crate::services::Services;
use crate::store::{CountedContext, Namesake, RunState, StoredScope};

pub(super) use clues::Clues;
use find::ConversationSearch;

/// A request's conversation.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    /// Its name in the store.
    pub(super) scope: Arc<str>,
    /// Its stored state.
    pub(super) kept: Arc<StoredScope>,
    /// The clues by which it is found, now and later.
    pub(super) clues: Clues,
    /// The turn that the request continues.
    from: Option<PreviousTurn>,
    /// A past that the history may not show.
    past: Option<Past>,
    /// True if the request's content shows that it is about this conversation.
    speaks_of_it: bool,
    /// Names that others may share.
    shared: Vec<Digest>,
    /// The session that shares its money.
    pub(super) session: Session,
    /// For a sub-agent: its parent's conversation.
    pub(super) parent: Option<(Arc<str>, Arc<StoredScope>)>,
    /// The store's error, if the store could not be read.
    pub(super) lost: Option<String>,
    /// The lessons about the request's model.
    pub(super) lessons: ModelLessons,
    /// Its cancelled runs and its parent's, each with the history in which it was.
    cancelled: Vec<(Arc<str>, Option<Digest>)>,
}

/// The turn that a request continues.
#[derive(Clone, Debug)]
struct PreviousTurn {
    run: Digest,
    /// The state of the run at that turn.
    then: Arc<RunState>,
    /// The turn's number in the history, if the history shows it.
    turn: Option<usize>,
    /// True if this history is a fork, which continues with an account of its own.
    fork: bool,
}

/// The session that shares money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// A session that a client or user has named.
    Named(Arc<str>),
    /// A conversation that is a session of its own.
    Alone,
}

impl Conversation {
    /// Finds the conversation. A store that does not respond counts as empty here: lines are then
    /// made by the current policy. Whether money can then be reserved is decided elsewhere.
    pub(super) async fn find_for(
        services: &Services,
        identity: &Identity,
        (outline, request): (&Outline, &Request<'_>),
        metered: bool,
    ) -> Self {
        let session = match &identity.session {
            Some(name) => Session::Named(Arc::clone(name.text())),
            None => Session::Alone,
        };
        let search = ConversationSearch { identity, outline, request, metered };
        let (clues, new) = (Clues::from_identity(identity), services.names.next_conversation());
        let now = services.now();
        let query = search.to_query(clues, Arc::clone(&new), now);
        let (recalled, lost) = match services.state.recall(query).await {
            Ok(recalled) => (recalled, None),
            Err(error) => {
                report_store_loss(services, &error);
                (Recalled::default(), Some(error.to_string()))
            }
        };
        let place = recalled.found.map(|found| search.match_recollection(found, now));
        let place = place.unwrap_or_default();
        let (scope, kept) = place.known.unwrap_or_else(|| (new, Arc::default()));
        Self {
            scope,
            kept,
            clues,
            from: place.from,
            past: place.past,
            speaks_of_it: place.speaks_of_it,
            shared: clues.clues_of_shared_names(request),
            session,
            parent: recalled.parent,
            lost,
            lessons: recalled.lessons,
            cancelled: recalled.cancelled,
        }
    }

    /// Returns true if a request without tools, but with results of tools, is about the
    /// conversation, like a request for a summary.
    pub(super) fn is_summary_candidate(&self, outline: &Outline) -> bool {
        self.speaks_of_it && outline.tools == Digest::EMPTY
    }

    /// Returns the conversation's newest run if a request without tools asks for a summary of it:
    /// in known words (`asks`), or because it contains what was said there.
    pub(super) fn summarized_run(&self, asks: bool) -> Option<(Digest, Arc<RunState>)> {
        let run = self.kept.newest.filter(|_| asks || self.speaks_of_it)?;
        Some((run, Arc::clone(self.kept.runs.get(&run)?)))
    }

    /// Returns the run whose history a request compacts, as it was where that history ends.
    pub(super) fn compacted_run(&self) -> Option<(Digest, Arc<RunState>)> {
        let from = self.from.as_ref().map(|from| (from.run, Arc::clone(&from.then)));
        from.or_else(|| self.summarized_run(true))
    }

    /// Returns the clues of the names that the conversation has.
    pub(super) fn name_clues(&self, identity: &Identity) -> Vec<Digest> {
        let own = identity.session.is_some().then(|| self.clues.name_clue());
        own.into_iter().chain(self.shared.iter().copied()).collect()
    }

    /// Returns what the session is told about the past.
    pub(super) fn remembered_past(
        &self,
        identity: &Identity,
        outline: &Outline,
        now: u64,
    ) -> StoredConversation<'_> {
        StoredConversation {
            arrival: self.newest_arrival(outline, now),
            tails: Cow::Borrowed(&self.kept.tails),
            results: Cow::Borrowed(&self.kept.results),
            past: self.past.clone(),
            named: identity.run.as_ref().map(|_| self.kept.runs.keys().copied().collect()),
        }
    }

    /// Returns how the request's newest message arrived, if the end of the turn before it is known.
    /// Of a turn that was answered twice, the later end counts.
    fn newest_arrival(&self, outline: &Outline, now: u64) -> Option<Arrival> {
        let context = outline.answered.last()?.before;
        let forked = self.from.as_ref().map(|from| &from.then);
        let ends = self.kept.runs.values().chain(forked).filter_map(|state| state.turn);
        let end = ends.filter(|end| end.context == context).max_by_key(|end| end.at)?;
        Some(end.arrival_at(now))
    }

    /// Returns true if the client changed its history, or its record was lost.
    pub(super) fn is_changed(&self) -> bool {
        self.past.is_some()
    }

    /// Returns true if nothing is known of the conversation.
    pub(super) fn is_unknown(&self) -> bool {
        self.from.is_none() && self.past.is_none() && self.kept.newest.is_none()
    }

    /// Returns the name under which a run is stored, which is its first name. `goes_on` is true if
    /// the run is the one that the history had before it was changed.
    pub(super) fn run_key(&self, run: Digest, goes_on: bool) -> Digest {
        let from = self.from.as_ref().filter(|from| goes_on || from.then.key == run);
        from.map_or(run, |from| from.run)
    }

    /// Returns the stored state of a run.
    pub(super) fn run_state(&self, run: &Digest) -> Option<Arc<RunState>> {
        let forked = self.from.as_ref().filter(|from| from.fork && from.run == *run);
        // A fork continues from what was used, with an account of its own.
        let fork = |state: &RunState| RunState { account: Arc::default(), ..state.clone() };
        let forked = || forked.map(|from| Arc::new(fork(&from.then)));
        self.kept.runs.get(run).cloned().or_else(forked)
    }

    /// Returns the contexts of its runs that the provider has counted.
    pub(super) fn counted_contexts(&self) -> impl Iterator<Item = CountedContext> {
        let from = self.from.as_ref().map(|from| &from.then);
        self.kept.runs.values().chain(from).filter_map(|run| run.known)
    }

    /// Returns true if this is a fork of which nothing is stored yet but what it took over.
    pub(super) fn is_fresh_fork(&self) -> bool {
        self.kept.newest.is_none() && self.from.as_ref().is_some_and(|from| from.fork)
    }

    /// Returns the number of consecutive tool calls, at the end of the history, that were answered
    /// in this conversation.
    pub(super) fn answered_calls(&self, outline: &Outline) -> usize {
        let Some(from) = self.from.as_ref() else { return 0 };
        let Some((last, turn)) = outline.answered.len().checked_sub(1).zip(from.turn) else {
            return 0;
        };
        if turn == last {
            return from.then.row;
        }
        // The newest turn was also answered here if it is the one that was delivered last.
        let newest = outline.answered.get(last).and_then(|turn| turn.content);
        let is_newest =
            |state: &Arc<RunState>| state.delivered.is_some() && state.delivered == newest;
        if turn + 1 != last || !self.kept.runs.values().any(is_newest) {
            return 0;
        }
        from.then.row + outline.calls.iter().filter(|call| call.turn == last).count()
    }

    /// Returns the history in which a run was cancelled, if it was cancelled.
    pub(super) fn find_cancelled(&self, run: &str) -> Option<Option<Digest>> {
        let found = self.cancelled.iter().find(|(cancelled, _)| **cancelled == *run);
        found.map(|(_, here)| *here)
    }

    /// Drops the stored state, except what is needed at the end.
    pub(super) fn release_stored(&mut self) {
        let (face, newest) = (self.kept.face.clone(), self.kept.newest);
        let run = newest.and_then(|run| Some((run, Arc::clone(self.kept.runs.get(&run)?))));
        let runs = run.into_iter().collect();
        let cache = self.kept.cache;
        self.kept = Arc::new(StoredScope { newest, face, runs, cache, ..StoredScope::default() });
    }

    /// Returns what distinguishes the conversation from others of its name.
    pub(super) fn as_namesake(&self, outline: &Outline, now: u64, answered: bool) -> Namesake {
        let known = self.kept.face.as_ref();
        // A request for a summary that declares no tools is the same program's.
        let program = known.filter(|_| self.is_summary_candidate(outline));
        Namesake {
            scope: Arc::clone(&self.scope),
            root: Arc::clone(known.map_or(&self.scope, |face| &face.root)),
            tools: program.map_or(outline.tools, |face| face.tools),
            system: program.map_or(outline.system, |face| face.system),
            opening: known.map_or_else(|| outline.opening_digest(), |face| face.opening),
            asked: known.map_or_else(|| outline.asks.last().copied(), |face| face.asked),
            answered: answered || known.is_some_and(|face| face.answered),
            last: now,
        }
    }
}

pub(super) fn report_store_loss(services: &Services, error: &crate::store::StoreError) {
    services.meter.count_event("store_lost");
    tracing::error!(%error, "the stored state of this conversation is not available");
}
