//! Finds a conversation (`governing.md` §7) by the first rule that applies, from the content of its
//! history to the names that it has.

use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, summary};

use super::clues::{Clue, Clues};
use super::{From, lost};
use crate::gate::Gate;
use crate::identify::Identity;
use crate::store::{Changes, Found, Namesake, Scope, StoreError};

/// The time after its last request for which a conversation is found by a name that others may
/// share.
const RECENT_MS: u64 = 30 * 60 * 1000;

/// A search in the store for one request's conversation.
pub(super) struct Asking<'a> {
    gate: &'a Gate,
    identity: &'a Identity,
    outline: &'a Outline,
    request: &'a Request<'a>,
    pub(super) clues: Clues,
    /// The store's error, if it failed to answer.
    pub(super) lost: Option<String>,
}

/// The result of a search.
#[derive(Default)]
pub(super) struct Placed {
    /// The conversation, and its stored state.
    pub(super) known: Option<(Arc<str>, Arc<Scope>)>,
    pub(super) from: Option<From>,
    pub(super) past: Option<Past>,
    /// True if the request's content shows that it is about this conversation.
    pub(super) speaks_of_it: bool,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        gate: &'a Gate,
        identity: &'a Identity,
        outline: &'a Outline,
        request: &'a Request<'a>,
    ) -> Self {
        Self { gate, identity, outline, request, clues: Clues::of(identity), lost: None }
    }

    /// Finds the conversation. A request that is only metered belongs to the conversation that its
    /// content is about, or to the newest of its name, if any.
    pub(super) async fn place(&mut self, metered: bool) -> Placed {
        if let Some(placed) = self.by_content().await {
            return Placed { speaks_of_it: true, ..placed };
        }
        if metered {
            return self.beside().await;
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
        self.asked_again().await.unwrap_or_default()
    }

    /// Finds a conversation whose last turn was answered at the same position.
    async fn by_content(&mut self) -> Option<Placed> {
        let last = self.outline.answered.len().checked_sub(1)?;
        let clue = self.clues.turn(self.outline.answered.get(last)?);
        let found = self.find(&[clue]).await?;
        if self.outline.ends_in_summary {
            // Everything behind that turn has gone into the summary.
            let kept = self.recall(&found.scope).await;
            return Some(summed_up(found.scope, kept, &self.outline.asks));
        }
        Some(self.went_on(found, Some(last)).await)
    }

    /// Finds a conversation by its newest calls, whatever stands before them.
    async fn by_calls(&mut self) -> Option<Placed> {
        let clues = self.clues.calls(self.outline, self.request);
        let digests: Vec<Digest> = clues.iter().map(|clue| clue.digest).collect();
        let found = self.find(&digests).await?;
        let Clue { turn, .. } = *clues.get(found.clue)?;
        let placed = self.went_on(found, Some(turn)).await;
        let (from, (_, kept)) = (placed.from.as_ref()?, placed.known.as_ref()?);
        let before = self.outline.answered.get(..turn).unwrap_or_default();
        let before: Vec<Digest> = before.iter().map(|turn| self.clues.turn(turn)).collect();
        let past = Past {
            turn: Some(turn),
            from: self.known(&before).await,
            used: from.then.used.clone(),
            run: Some(from.then.key),
            pinned: kept.pins.get(&from.then.key).cloned(),
            ..Past::default()
        };
        Some(Placed { past: Some(past), ..placed })
    }

    /// Finds a conversation by the results of its calls, without the calls: the provider stores
    /// these, and the client names them by `item_reference`.
    async fn by_unshown_calls(&mut self) -> Option<Placed> {
        let ids: Vec<Digest> =
            self.outline.unshown.iter().rev().map(|id| self.clues.id(*id)).collect();
        let found = self.find(&ids).await?;
        let kept = self.recall(&found.scope).await;
        Some(summed_up(found.scope, kept, &self.outline.asks))
    }

    /// Finds a conversation by a summary of it in the history.
    async fn by_summary(&mut self) -> Option<Placed> {
        let passages = summary::opening_passages(self.request);
        let found = self.find(&self.clues.summary(&passages)).await?;
        let kept = self.recall(&found.scope).await;
        let asks = summary::asks_beside(self.request, *passages.get(found.clue)?);
        Some(summed_up(found.scope, kept, &asks))
    }

    /// Finds the only conversation of one of its names that may have become this history.
    async fn by_name(&mut self) -> Option<Placed> {
        let own = self.identity.client.is_some();
        let faces = self.namesakes(self.clues).await;
        // A question that was never answered is asked again, and so is the beginning of a run that
        // the user named.
        let here = self.outline.here;
        let one = self.identity.run.is_some();
        let again = |face: &&Namesake| face.opening == here && (one || !face.answered);
        if let Some(face) = faces.iter().rev().find(again) {
            let kept = self.recall(&face.scope).await;
            return Some(Placed { known: Some((face.scope.clone(), kept)), ..Placed::default() });
        }
        let mut face =
            self.only(faces.into_iter().filter(|face| own || self.may_have_become(face)));
        for name in self.clues.shared(self.request) {
            if face.is_none() {
                let faces = self.named(name).await;
                face = self.only(faces.into_iter().filter(|face| self.may_have_become(face)));
            }
        }
        let face = face?;
        let kept = self.recall(&face.scope).await;
        if self.outline.here == face.opening {
            // The conversation begins anew.
            return Some(Placed { known: Some((face.scope, kept)), ..Placed::default() });
        }
        let mut placed = summed_up(face.scope.clone(), kept, &self.outline.asks);
        if let Some(past) = placed.past.as_mut().filter(|_| self.is_whole(&face)) {
            past.shows_start = true;
        }
        Some(placed)
    }

    /// Finds a first request that brought no turn and is repeated: without a name, only its content
    /// identifies it.
    async fn asked_again(&mut self) -> Option<Placed> {
        let nameless = self.identity.session.is_none() && self.outline.answered.is_empty();
        let asked = match nameless {
            true => self.gate.store.asked(self.outline.here).await,
            false => Ok(None),
        };
        match asked {
            Ok(scope) => {
                let scope = scope?;
                let kept = self.recall(&scope).await;
                Some(Placed { known: Some((scope, kept)), ..Placed::default() })
            }
            Err(error) => {
                self.lost(&error);
                None
            }
        }
    }

    /// Finds a conversation from which the history departs after a turn. What stands behind that
    /// turn comes from elsewhere.
    async fn by_prefix(&mut self) -> Option<Placed> {
        let older = self.outline.answered.iter().rev().skip(1);
        let clues: Vec<Digest> = older.map(|turn| self.clues.turn(turn)).collect();
        let found = self.find(&clues).await?;
        let turn = self.outline.answered.len().checked_sub(found.clue + 2);
        Some(self.went_on(found, turn).await)
    }

    /// Continues the conversation that was found, or begins a fork of it.
    async fn went_on(&mut self, found: Found, turn: Option<usize>) -> Placed {
        let Found { scope, fork, then, run, .. } = found;
        let mut kept = self.recall(&scope).await;
        let mut known = scope;
        if fork {
            known = self.gate.names.conversation();
            self.fork(&known, &kept).await;
            kept = self.recall(&known).await;
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
        let from = Some(From { run, then, turn, fork });
        Placed { known: Some((known, kept)), from, past, speaks_of_it: false }
    }

    async fn fork(&mut self, scope: &Arc<str>, kept: &Scope) {
        let face = kept.face.clone().map(|face| Namesake { scope: Arc::clone(scope), ..face });
        let changes = Changes {
            pins: kept.pins.clone(),
            tails: kept.tails.clone().into_iter().collect(),
            results: kept.results.clone().into_iter().collect(),
            asked: kept.asked.clone(),
            named: face.map(|face| (vec![self.clues.name()], face)),
            ..Changes::default()
        };
        if let Err(error) = self.gate.store.keep(scope, changes).await {
            self.lost(&error);
        }
    }

    async fn beside(&mut self) -> Placed {
        let said = self.clues.said(&summary::user_passages(self.request));
        let spoken_of = self.find(&said).await.map(|found| found.scope);
        let newest = match &spoken_of {
            Some(_) => None,
            None => self.namesakes(self.clues).await.pop().map(|face| face.scope),
        };
        let speaks_of_it = spoken_of.is_some();
        let Some(scope) = spoken_of.or(newest) else { return Placed::default() };
        let kept = self.recall(&scope).await;
        Placed { known: Some((scope, kept)), speaks_of_it, ..Placed::default() }
    }

    /// Returns the newest of these, if they are one conversation and its forks, of the same
    /// program.
    fn only(&self, faces: impl Iterator<Item = Namesake>) -> Option<Namesake> {
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
        let recent = self.gate.now().saturating_sub(face.last) <= RECENT_MS;
        recent && (self.outline.opens_in_summary || self.goes_on_from(face))
    }

    fn goes_on_from(&self, face: &Namesake) -> bool {
        let mut asked = Outline::asked(self.request);
        let Some(first) = asked.find(|(_, ask)| Some(*ask) == face.asked) else { return false };
        asked.next().is_some() || self.outline.answered.len() > first.0
    }

    /// Finds the conversation of a sub-agent's parent: the session's own agent.
    pub(super) async fn parent(&mut self) -> Option<(Arc<str>, Arc<Scope>)> {
        self.identity.agent.as_ref()?;
        let own = Identity { agent: None, ..self.identity.clone() };
        // The policy may have been selected for the sub-agent alone.
        let bare = own.policy.is_some().then(|| Identity { policy: None, ..own.clone() });
        for identity in [Some(own), bare].into_iter().flatten() {
            if let Some(face) = self.namesakes(Clues::of(&identity)).await.pop() {
                let kept = self.recall(&face.scope).await;
                return Some((face.scope, kept));
            }
        }
        None
    }

    async fn namesakes(&mut self, clues: Clues) -> Vec<Namesake> {
        if self.identity.session.is_none() {
            return Vec::new();
        }
        self.named(clues.name()).await
    }

    async fn named(&mut self, name: Digest) -> Vec<Namesake> {
        let named = self.gate.store.named(name).await;
        self.answer(named).unwrap_or_default()
    }

    async fn find(&mut self, clues: &[Digest]) -> Option<Found> {
        let found = self.gate.store.find(clues, self.outline.here).await;
        self.answer(found).flatten()
    }

    /// Returns how many of these clues are known, up to the first that is not.
    async fn known(&mut self, clues: &[Digest]) -> usize {
        let known = self.gate.store.known(clues).await;
        self.answer(known).unwrap_or_default()
    }

    async fn recall(&mut self, scope: &str) -> Arc<Scope> {
        let kept = self.gate.store.recall(scope).await;
        self.answer(kept).unwrap_or_default()
    }

    fn answer<T>(&mut self, answer: Result<T, StoreError>) -> Option<T> {
        answer.map_err(|error| self.lost(&error)).ok()
    }

    fn lost(&mut self, error: &StoreError) {
        lost(self.gate, error);
        self.lost = Some(error.to_string());
    }
}

/// Continues a conversation from its newest turn, which the history does not show. `asks` are the
/// history's messages that may be a person's.
fn summed_up(scope: Arc<str>, kept: Arc<Scope>, asks: &[Digest]) -> Placed {
    let newest = kept.newest.and_then(|run| Some((run, Arc::clone(kept.runs.get(&run)?))));
    let Some((run, then)) = newest else {
        return Placed { known: Some((scope, kept)), ..Placed::default() };
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
    let from = Some(From { run, then, turn: None, fork: false });
    Placed { known: Some((scope, kept)), from, past: Some(past), speaks_of_it: true }
}
