//! Which conversation a request belongs to, and what is kept of it.

use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::{Outline, Remembered};

use crate::gate::Gate;
use crate::identify::{Identity, Name};
use crate::store::{Changes, RunState, Scope};

/// A request's conversation.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Its name in the store.
    pub(super) scope: String,
    /// What is kept of it.
    pub(super) kept: Arc<Scope>,
    /// What the run had used where this history left its conversation's, if it is a fork.
    pub(super) forked: Option<(Digest, RunState)>,
    /// What shares money.
    pub(super) session: Session,
    /// For a sub-agent: its parent's conversation.
    pub(super) parent: Option<(String, Arc<Scope>)>,
}

/// What shares money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Session {
    /// What client or user named so.
    Named(String),
    /// A conversation of its own.
    Alone,
}

impl Place {
    /// Finds the conversation. A store that is away is as good as an empty one here: lines are
    /// then made by the current policy.
    pub(super) async fn find(gate: &Gate, identity: &Identity, outline: &Outline) -> Self {
        let session = match &identity.session {
            Some(name) => Session::Named(name.text().to_owned()),
            None => Session::Alone,
        };
        let parent = Self::parent(gate, identity).await;
        let (scope, forked, fresh) = match identity.scope() {
            Some(scope) => (scope, None, false),
            None => Self::by_content(gate, outline).await,
        };
        let kept = if fresh { Arc::default() } else { recall(gate, &scope).await };
        Self { scope, kept, forked, session, parent }
    }

    /// A conversation without a name is known by the turns that were answered in it.
    async fn by_content(
        gate: &Gate,
        outline: &Outline,
    ) -> (String, Option<(Digest, RunState)>, bool) {
        let found = match gate.store.find(&outline.answered, outline.here).await {
            Ok(found) => found,
            Err(error) => {
                lost(gate, &error);
                None
            }
        };
        match found {
            None => (gate.names.conversation(), None, true),
            Some(found) if !found.fork => (found.scope, None, false),
            Some(found) => {
                let scope = gate.names.conversation();
                let kept = recall(gate, &found.scope).await;
                let changes = Changes {
                    pins: kept.pins.clone(),
                    tails: kept.tails.clone().into_iter().collect(),
                    results: kept.results.clone().into_iter().collect(),
                    first: kept.first,
                    tools: kept.tools,
                    ..Changes::default()
                };
                if let Err(error) = gate.store.keep(&scope, changes).await {
                    lost(gate, &error);
                }
                (scope, Some((found.run, found.then)), false)
            }
        }
    }

    /// The conversation of a sub-agent's parent: the session's own agent.
    async fn parent(gate: &Gate, identity: &Identity) -> Option<(String, Arc<Scope>)> {
        identity.agent.as_ref()?;
        let own = Identity { agent: None, ..identity.clone() };
        let scope = own.scope()?;
        let kept = recall(gate, &scope).await;
        Some((scope, kept))
    }

    /// What the session is taught of the past. A history whose first message has changed was
    /// compacted (`governing.md` §7): what was counted before goes on counting.
    pub(super) fn remembered(&self, identity: &Identity, outline: &Outline) -> Remembered {
        Remembered {
            tails: self.kept.tails.clone(),
            results: self.kept.results.clone(),
            carried: self.compacted(identity, outline).then(|| self.kept.used.clone()),
        }
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
    pub(super) fn state(&self, run: &Digest) -> Option<RunState> {
        let forked = self.forked.as_ref().filter(|(forked, _)| forked == run);
        // A fork goes on from what was used, with an account of its own.
        let fork = |state: &RunState| RunState { account: String::new(), ..state.clone() };
        self.kept.runs.get(run).cloned().or_else(|| forked.map(|(_, state)| fork(state)))
    }
}

async fn recall(gate: &Gate, scope: &str) -> Arc<Scope> {
    match gate.store.recall(scope).await {
        Ok(kept) => kept,
        Err(error) => {
            lost(gate, &error);
            Arc::default()
        }
    }
}

pub(super) fn lost(gate: &Gate, error: &crate::store::StoreError) {
    gate.metrics.event("store_lost");
    tracing::error!(%error, "what this conversation should know is not at hand");
}
