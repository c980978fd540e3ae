//! Which conversation a request belongs to, and what is kept of it.

use std::borrow::Cow;
use std::sync::Arc;

use softland_session::core::{Arrival, Digest, Millis};
use softland_session::{Outline, Remembered};

use crate::gate::Gate;
use crate::identify::{Identity, Name};
use crate::store::{Changes, RunState, Scope};

/// A request's conversation.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its name in the store.
    pub(super) scope: Arc<str>,
    /// What is kept of it.
    pub(super) kept: Arc<Scope>,
    /// What the run had used where this history left its conversation's, if it is a fork.
    pub(super) forked: Option<(Digest, Arc<RunState>)>,
    /// What shares money.
    pub(super) session: Session,
    /// For a sub-agent: its parent's conversation.
    pub(super) parent: Option<(Arc<str>, Arc<Scope>)>,
    /// Why the store could not be asked, if it could not.
    pub(super) lost: Option<String>,
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
    pub(super) async fn find(gate: &Gate, identity: &Identity, outline: &Outline) -> Self {
        let session = match &identity.session {
            Some(name) => Session::Named(Arc::clone(name.text())),
            None => Session::Alone,
        };
        let mut asked = Asking { gate, lost: None };
        let parent = asked.parent(identity).await;
        let (scope, forked, fresh) = match identity.scope() {
            Some(scope) => (scope, None, false),
            None => asked.by_content(outline).await,
        };
        let kept = if fresh { Arc::default() } else { asked.recall(&scope).await };
        Self { scope, kept, forked, session, parent, lost: asked.lost }
    }

    /// What the session is taught of the past. A history whose first message has changed was
    /// compacted (`governing.md` §7): what was counted before goes on counting.
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
            carried: self.compacted(identity, outline).then(|| self.kept.used.clone()),
            named: identity.run.as_ref().map(|_| self.kept.runs.keys().copied().collect()),
        }
    }

    /// How a request's newest message came, where the end of the turn before it is known. Of a
    /// turn that was answered twice the newer end holds.
    fn arrival(&self, outline: &Outline, now: u64) -> Option<Arrival> {
        let context = outline.answered.last()?.before;
        let forked = self.forked.iter().map(|(_, state)| state);
        let ends = self.kept.runs.values().chain(forked).filter_map(|state| state.turn);
        let end = ends.filter(|end| end.context == context).max_by_key(|end| end.at)?;
        Some(Arrival { pause: Millis(now.saturating_sub(end.at)), landed: end.landed })
    }

    /// Clients send side requests under their session's id: a search, a title. They are no
    /// continuation, and are told by their tools. Under an id of the user's, which may stand for
    /// many conversations, only a summary is taken for one.
    pub(super) fn compacted(&self, identity: &Identity, outline: &Outline) -> bool {
        let changed = self.kept.first.is_some_and(|first| first != outline.first);
        let client = matches!(identity.session, Some(Name::Client(_)));
        let same_tools = client && self.kept.tools == Some(outline.tools);
        // A first message that a client has only written anew still has its run behind it.
        let shrunk = (outline.answered.len() as u64) < self.kept.used.turns;
        changed && shrunk && (outline.summary || same_tools)
    }

    /// The state of a run, as it was kept.
    pub(super) fn state(&self, run: &Digest) -> Option<Arc<RunState>> {
        let forked = self.forked.as_ref().filter(|(forked, _)| forked == run);
        // A fork goes on from what was used, with an account of its own.
        let fork = |state: &RunState| RunState { account: Arc::default(), ..state.clone() };
        let forked = || forked.map(|(_, state)| Arc::new(fork(state)));
        self.kept.runs.get(run).cloned().or_else(forked)
    }
}

/// The store, asked for one request.
struct Asking<'a> {
    gate: &'a Gate,
    /// Why it did not answer, if it once did not.
    lost: Option<String>,
}

impl Asking<'_> {
    /// A conversation without a name is known by the turns that were answered in it.
    async fn by_content(
        &mut self,
        outline: &Outline,
    ) -> (Arc<str>, Option<(Digest, Arc<RunState>)>, bool) {
        let found = match self.gate.store.find(&outline.answered, outline.here).await {
            Ok(found) => found,
            Err(error) => {
                self.lost(&error);
                None
            }
        };
        match found {
            None => (self.gate.names.conversation(), None, true),
            Some(found) if !found.fork => (found.scope, None, false),
            Some(found) => {
                let scope = self.gate.names.conversation();
                let kept = self.recall(&found.scope).await;
                let changes = Changes {
                    pins: kept.pins.clone(),
                    tails: kept.tails.clone().into_iter().collect(),
                    results: kept.results.clone().into_iter().collect(),
                    first: kept.first,
                    tools: kept.tools,
                    ..Changes::default()
                };
                if let Err(error) = self.gate.store.keep(&scope, changes).await {
                    self.lost(&error);
                }
                (scope, Some((found.run, found.then)), false)
            }
        }
    }

    /// The conversation of a sub-agent's parent: the session's own agent.
    async fn parent(&mut self, identity: &Identity) -> Option<(Arc<str>, Arc<Scope>)> {
        identity.agent.as_ref()?;
        let own = Identity { agent: None, ..identity.clone() };
        let scope = own.scope()?;
        let kept = self.recall(&scope).await;
        if kept.newest.is_some() || own.policy.is_none() {
            return Some((scope, kept));
        }
        // A policy that was asked for the sub-agent alone.
        let scope = Identity { policy: None, ..own }.scope()?;
        let kept = self.recall(&scope).await;
        Some((scope, kept))
    }

    async fn recall(&mut self, scope: &str) -> Arc<Scope> {
        match self.gate.store.recall(scope).await {
            Ok(kept) => kept,
            Err(error) => {
                self.lost(&error);
                Arc::default()
            }
        }
    }

    fn lost(&mut self, error: &crate::store::StoreError) {
        lost(self.gate, error);
        self.lost = Some(error.to_string());
    }
}

pub(super) fn lost(gate: &Gate, error: &crate::store::StoreError) {
    gate.metrics.event("store_lost");
    tracing::error!(%error, "what this conversation should know is not at hand");
}
