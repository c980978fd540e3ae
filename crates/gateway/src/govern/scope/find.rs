//! How a conversation is found (`governing.md` §7): by the first rule that applies, from what its
//! history shows to the names that it goes by.

use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, summary};

use super::clues::{Clue, Clues};
use super::{From, lost};
use crate::gate::Gate;
use crate::identify::Identity;
use crate::store::{Changes, Found, Namesake, Scope, StoreError};

/// How long after its last request a conversation is found by a name that others may have, too.
const RECENT_MS: u64 = 30 * 60 * 1000;

/// The store, asked for one request.
pub(super) struct Asking<'a> {
    gate: &'a Gate,
    identity: &'a Identity,
    outline: &'a Outline,
    request: &'a Request<'a>,
    pub(super) clues: Clues,
    /// Why it did not answer, if it once did not.
    pub(super) lost: Option<String>,
}

/// What was found.
#[derive(Default)]
pub(super) struct Placed {
    /// The conversation, and what is kept of it.
    pub(super) known: Option<(Arc<str>, Arc<Scope>)>,
    pub(super) from: Option<From>,
    pub(super) past: Option<Past>,
    /// Whether it shows that it is about this conversation.
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

    /// The conversation. What is only metered belongs to the one that it speaks of, or to the newest
    /// of its name, if to any.
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

    /// A history whose last turn was answered where it stands.
    async fn by_content(&mut self) -> Option<Placed> {
        let last = self.outline.answered.len().checked_sub(1)?;
        let clue = self.clues.turn(self.outline.answered.get(last)?);
        let found = self.find(&[clue]).await?;
        if self.outline.ends_in_summary {
            // All that stood behind that turn has gone into the summary.
            let kept = self.recall(&found.scope).await;
            return Some(summed_up(found.scope, kept, &self.outline.asks));
        }
        Some(self.went_on(found, Some(last)).await)
    }

    /// A history that has the conversation's newest calls, behind whatever.
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

    /// A history that has the results of the conversation's calls, and not the calls: the provider
    /// keeps these, and the client names them by `item_reference`.
    async fn by_unshown_calls(&mut self) -> Option<Placed> {
        let ids: Vec<Digest> =
            self.outline.unshown.iter().rev().map(|id| self.clues.id(*id)).collect();
        let found = self.find(&ids).await?;
        let kept = self.recall(&found.scope).await;
        Some(summed_up(found.scope, kept, &self.outline.asks))
    }

    /// A history in which a summary of the conversation stands.
    async fn by_summary(&mut self) -> Option<Placed> {
        let passages = summary::opening_passages(self.request);
        let found = self.find(&self.clues.summary(&passages)).await?;
        let kept = self.recall(&found.scope).await;
        let asks = summary::asks_beside(self.request, *passages.get(found.clue)?);
        Some(summed_up(found.scope, kept, &asks))
    }

    /// The only conversation of one of its names that may have become this history.
    async fn by_name(&mut self) -> Option<Placed> {
        let own = self.identity.client.is_some();
        let faces = self.namesakes(self.clues).await;
        // What was asked and never answered is asked again, and so is what a run of a user's own
        // name began with.
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
            // It begins anew.
            return Some(Placed { known: Some((face.scope, kept)), ..Placed::default() });
        }
        let mut placed = summed_up(face.scope.clone(), kept, &self.outline.asks);
        if let Some(past) = placed.past.as_mut().filter(|_| self.is_whole(&face)) {
            past.shows_start = true;
        }
        Some(placed)
    }

    /// A first request that brought no turn, and is made again: without a name nothing else tells it.
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

    /// A history that leaves what is known of it behind a turn. What stands after that turn comes
    /// from elsewhere.
    async fn by_prefix(&mut self) -> Option<Placed> {
        let older = self.outline.answered.iter().rev().skip(1);
        let clues: Vec<Digest> = older.map(|turn| self.clues.turn(turn)).collect();
        let found = self.find(&clues).await?;
        let turn = self.outline.answered.len().checked_sub(found.clue + 2);
        Some(self.went_on(found, turn).await)
    }

    /// The conversation that was found goes on, or a fork of it begins.
    async fn went_on(&mut self, found: Found, turn: Option<usize>) -> Placed {
        let Found { scope, fork, then, run, .. } = found;
        let mut kept = self.recall(&scope).await;
        let mut known = scope;
        if fork {
            known = self.gate.names.conversation();
            self.fork(&known, &kept).await;
            kept = self.recall(&known).await;
        }
        // A record that was lost is made up for by what the turn's state tells.
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

    /// The newest of these, if they are one conversation and its forks, of the same program.
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

    /// Whether a history has all that a conversation began with.
    fn is_whole(&self, face: &Namesake) -> bool {
        self.outline.here == face.opening
            || self.outline.answered.iter().any(|turn| turn.before == face.opening)
    }

    /// Whether a conversation that goes by a name which others may have, too, has become this
    /// history: it is not over for long, and the history opens with a summary, or with what a
    /// person said at the beginning and then goes on as nothing did there.
    fn may_have_become(&self, face: &Namesake) -> bool {
        let recent = self.gate.now().saturating_sub(face.last) <= RECENT_MS;
        recent && (self.outline.opens_in_summary || self.goes_on_from(face))
    }

    fn goes_on_from(&self, face: &Namesake) -> bool {
        let mut asked = Outline::asked(self.request);
        let Some(first) = asked.find(|(_, ask)| Some(*ask) == face.asked) else { return false };
        asked.next().is_some() || self.outline.answered.len() > first.0
    }

    /// The conversation of a sub-agent's parent: the session's own agent.
    pub(super) async fn parent(&mut self) -> Option<(Arc<str>, Arc<Scope>)> {
        self.identity.agent.as_ref()?;
        let own = Identity { agent: None, ..self.identity.clone() };
        // A policy may have been asked for the sub-agent alone.
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

    /// How many of these are known, up to the first that is not.
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

/// The conversation goes on from its newest turn, which the history does not show. `asks`: what is
/// said there and may be a person's.
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
