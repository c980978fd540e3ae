//! Says by what a request's conversation may be found, and what follows from where it was found.

use std::sync::Arc;

use softland_session::core::Digest;
use softland_session::wire::request::Request;
use softland_session::{Outline, Past, retold, summary};

use super::PreviousTurn;
use super::clues::Clues;
use crate::identify::Identity;
use crate::key::ClientKey;
use crate::recall::{FoundBy, FoundTurn, RecallQuery, Recollection};
use crate::store::StoredScope;

/// A request whose conversation is looked for.
#[derive(Clone, Copy)]
pub(super) struct ConversationSearch<'a> {
    pub(super) identity: &'a Identity,
    pub(super) outline: &'a Outline,
    pub(super) request: &'a Request<'a>,
    pub(super) metered: bool,
}

/// The conversation of a request.
#[derive(Default)]
pub(super) struct ConversationMatch {
    /// The conversation, and its stored state.
    pub(super) known: Option<(Arc<str>, Arc<StoredScope>)>,
    pub(super) from: Option<PreviousTurn>,
    pub(super) past: Option<Past>,
    /// True if the request's content shows that it is about this conversation.
    pub(super) speaks_of_it: bool,
}

impl ConversationSearch<'_> {
    /// Returns the query. `fork` is the name of the conversation, should it be a new one.
    pub(super) fn to_query(self, clues: Clues, fork: Arc<str>, now: u64) -> RecallQuery {
        let Self { identity, outline, request, metered } = self;
        let turns = outline.answered.iter().map(|turn| clues.turn_clue(turn)).collect();
        let before = outline.answered.iter().map(|turn| turn.before);
        let query = RecallQuery {
            here: outline.here,
            question: ClientKey::scope_digest(identity.key.as_deref(), outline.here),
            now,
            model: request.model.unescape().into(),
            metered,
            fork,
            parents: self.parent_names(),
            turns,
            name: clues.name_clue(),
            is_named: identity.session.is_some(),
            is_client: identity.client.is_some(),
            is_run: identity.run.is_some(),
            tools: outline.tools,
            system: outline.system,
            opens_in_summary: outline.opens_in_summary,
            ends_in_summary: outline.ends_in_summary,
            openings: before.chain([outline.here]).collect(),
            ..RecallQuery::default()
        };
        let calls = clues.call_clues(outline, request);
        let calls = calls.into_iter().map(|clue| (clue.digest, clue.turn)).collect();
        let query = RecallQuery { calls, ..query };
        if metered {
            let passages = clues.passage_clues(&summary::user_passages(request));
            let heads = clues.head_clues(&summary::user_heads(request));
            return RecallQuery { passages, heads, ..query };
        }
        let told = retold::find_retold_calls(request, outline);
        RecallQuery {
            unshown: outline.unshown.iter().rev().map(|id| clues.id_clue(*id)).collect(),
            sealed: outline
                .sealed
                .iter()
                .rev()
                .map(|one| clues.clue_of_sealed_context(*one))
                .collect(),
            told: told.into_iter().map(|call| clues.clue_of_retold_call(call)).collect(),
            summaries: clues.opening_clues(&summary::opening_passages(request), outline),
            shared: clues.clues_of_shared_names(request),
            asked: Outline::user_asks(request).collect(),
            ..query
        }
    }

    /// Returns the names of the conversation that a sub-agent works for: the session's own agent's.
    fn parent_names(self) -> Vec<Digest> {
        if self.identity.agent.is_none() || self.identity.session.is_none() {
            return Vec::new();
        }
        let own = Identity { agent: None, ..self.identity.clone() };
        // The policy may have been selected for the sub-agent alone.
        let bare = own.policy.is_some().then(|| Identity { policy: None, ..own.clone() });
        let names = [Some(own), bare].into_iter().flatten();
        names.map(|identity| Clues::from_identity(&identity).name_clue()).collect()
    }

    /// Returns what follows from the rule that found the conversation.
    pub(super) fn match_recollection(self, found: Recollection, now: u64) -> ConversationMatch {
        let Recollection { scope, kept, by } = found;
        let outline = self.outline;
        match by {
            FoundBy::Content(turn) => {
                let last = outline.answered.len().checked_sub(1);
                let placed = continue_from(scope, kept, turn, last);
                ConversationMatch { speaks_of_it: true, ..placed }
            }
            FoundBy::Calls { turn, index, known } => {
                let calls = Clues::from_identity(self.identity).call_clues(outline, self.request);
                let number = calls.get(index).map_or(0, |clue| clue.turn);
                let past = Past {
                    turn: Some(number),
                    from: known,
                    used: turn.then.used.clone(),
                    run: Some(turn.then.key),
                    pinned: kept.pins.get(&turn.then.key).cloned(),
                    ..Past::default()
                };
                let placed = continue_from(scope, kept, turn, Some(number));
                ConversationMatch { past: Some(past), ..placed }
            }
            FoundBy::Prefix { turn, index } => {
                let number = outline.answered.len().checked_sub(index + 2);
                continue_from(scope, kept, turn, number)
            }
            FoundBy::Compacted => match_summary(scope, kept, &outline.asks, now),
            FoundBy::Summary(index) => {
                let passages = summary::opening_passages(self.request);
                // Each passage has two clues.
                let found = passages.told.iter().chain(&passages.prompted).nth(index / 2);
                let asks = found.map(|found| summary::find_other_questions(self.request, *found));
                match_summary(scope, kept, &asks.unwrap_or_default(), now)
            }
            FoundBy::Name(is_whole) => {
                let mut placed = match_summary(scope, kept, &outline.asks, now);
                if let Some(past) = placed.past.as_mut().filter(|_| is_whole) {
                    past.shows_start = true;
                }
                placed
            }
            FoundBy::Again => {
                ConversationMatch { known: Some((scope, kept)), ..ConversationMatch::default() }
            }
            FoundBy::Beside(speaks_of_it) => ConversationMatch {
                known: Some((scope, kept)),
                speaks_of_it,
                ..ConversationMatch::default()
            },
        }
    }
}

/// Continues a conversation from a turn, which is `turn` in the history.
fn continue_from(
    scope: Arc<str>,
    kept: Arc<StoredScope>,
    found: FoundTurn,
    turn: Option<usize>,
) -> ConversationMatch {
    let FoundTurn { run, then, fork } = found;
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
    ConversationMatch { known: Some((scope, kept)), from, past, speaks_of_it: false }
}

/// Continues a conversation from its newest turn, which the history does not show. `asks` are the
/// history's messages that may be a person's.
fn match_summary(
    scope: Arc<str>,
    kept: Arc<StoredScope>,
    asks: &[Digest],
    now: u64,
) -> ConversationMatch {
    let newest = kept.newest.and_then(|run| Some((run, Arc::clone(kept.runs.get(&run)?))));
    let Some((run, then)) = newest else {
        return ConversationMatch { known: Some((scope, kept)), ..ConversationMatch::default() };
    };
    // A person sees no answer in a summary, and a program goes on with it at once.
    let goes_on = then.turn.is_some_and(|end| end.summary && end.arrival_at(now).is_at_once());
    let past = Past {
        turn: None,
        from: usize::MAX,
        used: then.used.clone(),
        run: Some(then.key),
        pinned: kept.pins.get(&then.key).cloned(),
        over: then.ended && !goes_on && asks.iter().any(|ask| !kept.asked.contains(ask)),
        shows_start: false,
    };
    let from = Some(PreviousTurn { run, then, turn: None, fork: false });
    ConversationMatch { known: Some((scope, kept)), from, past: Some(past), speaks_of_it: true }
}
