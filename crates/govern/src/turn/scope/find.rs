//! Finds a conversation (`governing.md` §7) by the first rule that applies, from the content of its
//! history to the names that it has.

use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, summary};

use super::clues::{Clue, Clues};
use super::{PreviousTurn, report_store_loss};
use crate::identify::Identity;
use crate::services::Services;
use crate::store::{FoundConversation, Namesake, StoreChanges, StoreError, StoredScope};

/// The time after its last request for which a conversation is found by a name that others may
/// share.
const RECENT_MS: u64 = 30 * 60 * 1000;

/// A search in the store for one request's conversation.
pub(super) struct ConversationSearch<'a> {
    services: &'a Services,
    identity: &'a Identity,
    outline: &'a Outline,
    request: &'a Request<'a>,
    pub(super) clues: Clues,
    /// The store's error, if it failed to answer.
    pub(super) lost: Option<String>,
}

/// The result of a search.
#[derive(Default)]
pub(super) struct ConversationMatch {
    /// The conversation, and its stored state.
    pub(super) known: Option<(Arc<str>, Arc<StoredScope>)>,
    pub(super) from: Option<PreviousTurn>,
    pub(super) past: Option<Past>,
    /// True if the request's content shows that it is about this conversation.
    pub(super) speaks_of_it: bool,
}

impl<'a> ConversationSearch<'a> {
    pub(super) fn new(
        services: &'a Services,
        identity: &'a Identity,
        outline: &'a Outline,
        request: &'a Request<'a>,
    ) -> Self {
        Self {
            services,
            identity,
            outline,
            request,
            clues: Clues::from_identity(identity),
            lost: None,
        }
    }

    /// Finds the conversation. A request that is only metered belongs to the conversation that its
    /// content is about, or to the newest of its name, if any.
    pub(super) async fn find_conversation(&mut self, metered: bool) -> ConversationMatch {
        if let Some(placed) = self.by_content().await {
            return ConversationMatch { speaks_of_it: true, ..placed };
        }
        if metered {
            return self.find_beside().await;
        }
        if let Some(placed) = self.by_calls().await {
            return placed;
        }
        if let Some(placed) = self.by_unshown_calls().await {
            return placed;
        }
        if let Some(placed) = self.by_summary().await {
            return placed;
        }
        if let Some(placed) = self.by_name().await {
            return placed;
        }
        if let Some(placed) = self.by_prefix().await {
            return placed;
        }
        self.by_repeated_question().await.unwrap_or_default()
    }

    /// Finds a conversation whose last turn was answered at the same position.
    async fn by_content(&mut self) -> Option<ConversationMatch> {
        let last = self.outline.answered.len().checked_sub(1)?;
        let clue = self.clues.turn_clue(self.outline.answered.get(last)?);
        let found = self.find_clue(&[clue]).await?;
        if self.outline.ends_in_summary {
            // Everything behind that turn has gone into the summary.
            let kept = self.recall_scope(&found.scope).await;
            return Some(match_summary(found.scope, kept, &self.outline.asks));
        }
        Some(self.continue_from(found, Some(last)).await)
    }

    /// Finds a conversation by its newest calls, whatever stands before them.
    async fn by_calls(&mut self) -> Option<ConversationMatch> {
        let clues = self.clues.call_clues(self.outline, self.request);
        let digests: Vec<Digest> = clues.iter().map(|clue| clue.digest).collect();
        let found = self.find_clue(&digests).await?;
        let Clue { turn, .. } = *clues.get(found.clue)?;
        let placed = self.continue_from(found, Some(turn)).await;
        let (from, (_, kept)) = (placed.from.as_ref()?, placed.known.as_ref()?);
        let before = self.outline.answered.get(..turn).unwrap_or_default();
        let before: Vec<Digest> = before.iter().map(|turn| self.clues.turn_clue(turn)).collect();
        let past = Past {
            turn: Some(turn),
            from: self.count_known(&before).await,
            used: from.then.used.clone(),
            run: Some(from.then.key),
            pinned: kept.pins.get(&from.then.key).cloned(),
            ..Past::default()
        };
        Some(ConversationMatch { past: Some(past), ..placed })
    }

    /// Finds a conversation by the results of its calls, without the calls: the provider stores
    /// these, and the client names them by `item_reference`.
    async fn by_unshown_calls(&mut self) -> Option<ConversationMatch> {
        let ids: Vec<Digest> =
            self.outline.unshown.iter().rev().map(|id| self.clues.id_clue(*id)).collect();
        let found = self.find_clue(&ids).await?;
        let kept = self.recall_scope(&found.scope).await;
        Some(match_summary(found.scope, kept, &self.outline.asks))
    }

    /// Finds a conversation by a summary of it in the history.
    async fn by_summary(&mut self) -> Option<ConversationMatch> {
        let passages = summary::opening_passages(self.request);
        let found = self.find_clue(&self.clues.summary_clues(&passages)).await?;
        let kept = self.recall_scope(&found.scope).await;
        let asks = summary::asks_beside(self.request, *passages.get(found.clue)?);
        Some(match_summary(found.scope, kept, &asks))
    }

    /// Finds the only conversation of one of its names that may have become this history.
    async fn by_name(&mut self) -> Option<ConversationMatch> {
        let own = self.identity.client.is_some();
        let faces = self.find_namesakes(self.clues).await;
        // A question that was never answered is asked again, and so is the beginning of a run that
        // the user named.
        let here = self.outline.here;
        let one = self.identity.run.is_some();
        let again = |face: &&Namesake| face.opening == here && (one || !face.answered);
        if let Some(face) = faces.iter().rev().find(again) {
            let kept = self.recall_scope(&face.scope).await;
            return Some(ConversationMatch {
                known: Some((face.scope.clone(), kept)),
                ..ConversationMatch::default()
            });
        }
        let mut face =
            self.single_match(faces.into_iter().filter(|face| own || self.may_have_become(face)));
        for name in self.clues.shared_clues(self.request) {
            if face.is_none() {
                let faces = self.find_named(name).await;
                face =
                    self.single_match(faces.into_iter().filter(|face| self.may_have_become(face)));
            }
        }
        let face = face?;
        let kept = self.recall_scope(&face.scope).await;
        if self.outline.here == face.opening {
            // The conversation begins anew.
            return Some(ConversationMatch {
                known: Some((face.scope, kept)),
                ..ConversationMatch::default()
            });
        }
        let mut placed = match_summary(face.scope.clone(), kept, &self.outline.asks);
        if let Some(past) = placed.past.as_mut().filter(|_| self.is_whole(&face)) {
            past.shows_start = true;
        }
        Some(placed)
    }

    /// Finds a first request that brought no turn and is repeated: without a name, only its content
    /// identifies it.
    async fn by_repeated_question(&mut self) -> Option<ConversationMatch> {
        let nameless = self.identity.session.is_none() && self.outline.answered.is_empty();
        let asked = match nameless {
            true => self.services.store.take_unanswered(self.outline.here).await,
            false => Ok(None),
        };
        match asked {
            Ok(scope) => {
                let scope = scope?;
                let kept = self.recall_scope(&scope).await;
                Some(ConversationMatch {
                    known: Some((scope, kept)),
                    ..ConversationMatch::default()
                })
            }
            Err(error) => {
                self.report_loss(&error);
                None
            }
        }
    }

    /// Finds a conversation from which the history departs after a turn. What stands behind that
    /// turn comes from elsewhere.
    async fn by_prefix(&mut self) -> Option<ConversationMatch> {
        let older = self.outline.answered.iter().rev().skip(1);
        let clues: Vec<Digest> = older.map(|turn| self.clues.turn_clue(turn)).collect();
        let found = self.find_clue(&clues).await?;
        let turn = self.outline.answered.len().checked_sub(found.clue + 2);
        Some(self.continue_from(found, turn).await)
    }

    /// Continues the conversation that was found, or begins a fork of it.
    async fn continue_from(
        &mut self,
        found: FoundConversation,
        turn: Option<usize>,
    ) -> ConversationMatch {
        let FoundConversation { scope, fork, then, run, .. } = found;
        let mut kept = self.recall_scope(&scope).await;
        let mut known = scope;
        if fork {
            known = self.services.names.next_conversation();
            self.store_fork(&known, &kept).await;
            kept = self.recall_scope(&known).await;
        }
        // The turn's state makes up for a record that was lost.
        let past = (!kept.pins.contains_key(&then.key)).then(|| Past {
            turn,
            from: turn.unwrap_or(0),
            used: then.used.clone(),
            run: Some(then.key),
            pinned: None,
            ..Past::default()
        });
        let from = Some(PreviousTurn { run, then, turn, fork });
        ConversationMatch { known: Some((known, kept)), from, past, speaks_of_it: false }
    }

    async fn store_fork(&mut self, scope: &Arc<str>, kept: &StoredScope) {
        let face = kept.face.clone().map(|face| Namesake { scope: Arc::clone(scope), ..face });
        let changes = StoreChanges {
            pins: kept.pins.clone(),
            tails: kept.tails.clone().into_iter().collect(),
            results: kept.results.clone().into_iter().collect(),
            asked: kept.asked.clone(),
            named: face.map(|face| (vec![self.clues.name_clue()], face)),
            ..StoreChanges::default()
        };
        if let Err(error) = self.services.store.apply_changes(scope, changes).await {
            self.report_loss(&error);
        }
    }

    async fn find_beside(&mut self) -> ConversationMatch {
        let said = self.clues.passage_clues(&summary::user_passages(self.request));
        let spoken_of = self.find_clue(&said).await.map(|found| found.scope);
        let newest = match &spoken_of {
            Some(_) => None,
            None => self.find_namesakes(self.clues).await.pop().map(|face| face.scope),
        };
        let speaks_of_it = spoken_of.is_some();
        let Some(scope) = spoken_of.or(newest) else { return ConversationMatch::default() };
        let kept = self.recall_scope(&scope).await;
        ConversationMatch {
            known: Some((scope, kept)),
            speaks_of_it,
            ..ConversationMatch::default()
        }
    }

    /// Returns the newest of these, if they are one conversation and its forks, of the same
    /// program.
    fn single_match(&self, faces: impl Iterator<Item = Namesake>) -> Option<Namesake> {
        let same = |face: &Namesake| {
            face.answered && face.tools == self.outline.tools && face.system == self.outline.system
        };
        let mut newest: Option<Namesake> = None;
        for face in faces.filter(same) {
            if newest.as_ref().is_some_and(|other| other.root != face.root) {
                return None;
            }
            newest = Some(face);
        }
        newest
    }

    /// Returns true if the history contains everything that a conversation began with.
    fn is_whole(&self, face: &Namesake) -> bool {
        self.outline.here == face.opening
            || self.outline.answered.iter().any(|turn| turn.before == face.opening)
    }

    /// Returns true if a conversation with a shared name may have become this history: it is
    /// recent, and the history opens with a summary, or with a question that a person asked at its
    /// beginning and then continues in a new way.
    fn may_have_become(&self, face: &Namesake) -> bool {
        let recent = self.services.now().saturating_sub(face.last) <= RECENT_MS;
        recent && (self.outline.opens_in_summary || self.continues_from(face))
    }

    fn continues_from(&self, face: &Namesake) -> bool {
        let mut asked = Outline::user_asks(self.request);
        let Some(first) = asked.find(|(_, ask)| Some(*ask) == face.asked) else { return false };
        asked.next().is_some() || self.outline.answered.len() > first.0
    }

    /// Finds the conversation of a sub-agent's parent: the session's own agent.
    pub(super) async fn find_parent(&mut self) -> Option<(Arc<str>, Arc<StoredScope>)> {
        self.identity.agent.as_ref()?;
        let own = Identity { agent: None, ..self.identity.clone() };
        // The policy may have been selected for the sub-agent alone.
        let bare = own.policy.is_some().then(|| Identity { policy: None, ..own.clone() });
        for identity in [Some(own), bare].into_iter().flatten() {
            if let Some(face) = self.find_namesakes(Clues::from_identity(&identity)).await.pop() {
                let kept = self.recall_scope(&face.scope).await;
                return Some((face.scope, kept));
            }
        }
        None
    }

    async fn find_namesakes(&mut self, clues: Clues) -> Vec<Namesake> {
        if self.identity.session.is_none() {
            return Vec::new();
        }
        self.find_named(clues.name_clue()).await
    }

    async fn find_named(&mut self, name: Digest) -> Vec<Namesake> {
        let named = self.services.store.find_named(name).await;
        self.note_loss(named).unwrap_or_default()
    }

    async fn find_clue(&mut self, clues: &[Digest]) -> Option<FoundConversation> {
        let found = self.services.store.find_conversation(clues, self.outline.here).await;
        self.note_loss(found).flatten()
    }

    /// Returns how many of these clues are known, up to the first that is not.
    async fn count_known(&mut self, clues: &[Digest]) -> usize {
        let known = self.services.store.count_known(clues).await;
        self.note_loss(known).unwrap_or_default()
    }

    async fn recall_scope(&mut self, scope: &str) -> Arc<StoredScope> {
        let kept = self.services.store.load_scope(scope).await;
        self.note_loss(kept).unwrap_or_default()
    }

    fn note_loss<T>(&mut self, answer: Result<T, StoreError>) -> Option<T> {
        answer.map_err(|error| self.report_loss(&error)).ok()
    }

    fn report_loss(&mut self, error: &StoreError) {
        report_store_loss(self.services, error);
        self.lost = Some(error.to_string());
    }
}

/// Continues a conversation from its newest turn, which the history does not show. `asks` are the
/// history's messages that may be a person's.
fn match_summary(scope: Arc<str>, kept: Arc<StoredScope>, asks: &[Digest]) -> ConversationMatch {
    let newest = kept.newest.and_then(|run| Some((run, Arc::clone(kept.runs.get(&run)?))));
    let Some((run, then)) = newest else {
        return ConversationMatch { known: Some((scope, kept)), ..ConversationMatch::default() };
    };
    let past = Past {
        turn: None,
        from: usize::MAX,
        used: then.used.clone(),
        run: Some(then.key),
        pinned: kept.pins.get(&then.key).cloned(),
        over: then.ended && asks.iter().any(|ask| !kept.asked.contains(ask)),
        shows_start: false,
    };
    let from = Some(PreviousTurn { run, then, turn: None, fork: false });
    ConversationMatch { known: Some((scope, kept)), from, past: Some(past), speaks_of_it: true }
}
