//! Clues by which a conversation is found again: digests of what its histories show. Each includes
//! the names that the requests carry, so that no conversation is found under another's names.

use std::cmp::Reverse;

use softland_session::core::Digest;
use softland_session::summary::OpeningPassages;
use softland_session::wire::request::Request;
use softland_session::{ModelTurn, Outline, ShownCall};

use crate::identify::Identity;
use crate::key::ClientKey;
use crate::store::Namesake;

/// Makes clues for requests with the same names.
#[derive(Clone, Copy, Debug)]
pub(in crate::turn) struct Clues {
    names: Digest,
}

/// A clue, and the number of the turn of the history that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clue {
    pub(super) digest: Digest,
    pub(super) turn: usize,
}

impl Clues {
    pub(super) fn from_identity(identity: &Identity) -> Self {
        let names = identity
            .scope_name()
            .map_or(Digest::EMPTY, |scope| Digest::from_bytes(scope.as_bytes()));
        Self { names: ClientKey::scope_digest(identity.key.as_deref(), names) }
    }

    fn make_clue(self, kind: &str) -> Digest {
        self.names.followed_by(Digest::from_bytes(kind.as_bytes()))
    }

    /// Returns the clue of a turn and everything before it.
    pub(in crate::turn) fn turn_clue(self, turn: &ModelTurn) -> Digest {
        self.make_clue("turn")
            .followed_by(turn.before)
            .followed_by(turn.calls.unwrap_or(Digest::EMPTY))
    }

    /// Returns the clues of a turn's calls, wherever they stand in a conversation that began with
    /// what is before its first turn: with their ids, then without, since a client may give calls
    /// ids of its own.
    pub(in crate::turn) fn begun(
        self,
        opening: Digest,
        turn: &ModelTurn,
    ) -> impl Iterator<Item = Digest> + use<> {
        let begun = self.make_clue("begun").followed_by(opening);
        let content = turn.content.filter(|content| turn.calls != Some(*content));
        turn.calls.into_iter().chain(content).map(move |calls| begun.followed_by(calls))
    }

    /// Returns the clue of a call whose id is unique.
    pub(in crate::turn) fn call_clue(self, call: Digest) -> Digest {
        self.make_clue("call").followed_by(call)
    }

    /// Returns the clue of a call's id alone.
    pub(in crate::turn) fn id_clue(self, id: Digest) -> Digest {
        self.make_clue("id").followed_by(id)
    }

    /// Returns the clue of a compacted context that only the provider can read.
    pub(in crate::turn) fn clue_of_sealed_context(self, context: Digest) -> Digest {
        self.make_clue("sealed").followed_by(context)
    }

    /// Returns the clue of a call that a history tells of in a text.
    pub(in crate::turn) fn clue_of_retold_call(self, call: Digest) -> Digest {
        self.make_clue("told").followed_by(call)
    }

    /// Returns the clue of two calls in a row and their results.
    fn pair_clue(self, one: &ShownCall, next: &ShownCall) -> Option<Digest> {
        let pair = self.make_clue("pair").followed_by(one.call).followed_by(one.result?);
        Some(pair.followed_by(next.call).followed_by(next.result?))
    }

    /// Returns the clue of the names that the requests carry.
    pub(in crate::turn) fn name_clue(self) -> Digest {
        self.make_clue("name")
    }

    /// Returns the clues of names in a request's body, which many programs may share.
    pub(in crate::turn) fn clues_of_shared_names(self, request: &Request<'_>) -> Vec<Digest> {
        let metadata = request.metadata.map(|span| span.slice_of(request.text));
        let named = [
            ("prompt_cache_key", request.cache_key.map(|name| name.raw())),
            ("user", request.user_id.map(|name| name.raw())),
            ("metadata", metadata.filter(|metadata| metadata.len() > "{}".len())),
        ];
        let named = named.into_iter().filter_map(|(kind, name)| Some((kind, name?)));
        let named = named.filter(|(_, name)| !name.is_empty());
        named
            .map(|(kind, name)| {
                self.make_clue(kind).followed_by(Digest::from_bytes(name.as_bytes()))
            })
            .collect()
    }

    /// Returns the clues by which a summary is looked for that may stand in this opening: two for
    /// each of its passages.
    pub(super) fn opening_clues(self, opening: &OpeningPassages, outline: &Outline) -> Vec<Digest> {
        let prompted = outline.tools;
        let told = prompted.followed_by(outline.system);
        let told = opening.told.iter().map(|passage| (told, *passage));
        let all = told.chain(opening.prompted.iter().map(|passage| (prompted, *passage)));
        let clues = all.map(|(program, passage)| {
            [self.known_clue(passage), self.plain_clue(program, passage)]
        });
        clues.flatten().collect()
    }

    /// Returns the clues of passages of a summary that was not asked for in known words: only the
    /// same program finds it, with the same prompt or with the summary in its prompt. Another one
    /// may be told of a conversation's results, too.
    pub(in crate::turn) fn clues_of_unmarked_summary(
        self,
        passages: &[Digest],
        face: &Namesake,
    ) -> Vec<Digest> {
        let programs = [face.tools, face.tools.followed_by(face.system)];
        let clues = passages
            .iter()
            .flat_map(|passage| programs.map(|program| self.plain_clue(program, *passage)));
        clues.collect()
    }

    fn plain_clue(self, program: Digest, passage: Digest) -> Digest {
        self.make_clue("plain").followed_by(program).followed_by(passage)
    }

    fn known_clue(self, passage: Digest) -> Digest {
        self.make_clue("summary").followed_by(passage)
    }

    /// Returns the clue of a delivered turn behind the last call before it and its result.
    pub(in crate::turn) fn clue_of_next_turn(
        self,
        last: &ShownCall,
        turn: &ModelTurn,
    ) -> Option<Digest> {
        let step = self.make_clue("step").followed_by(last.call).followed_by(last.result?);
        Some(step.followed_by(turn.content?))
    }

    /// Returns the clues of passages of the conversation's summaries.
    pub(in crate::turn) fn summary_clues(self, passages: &[Digest]) -> Vec<Digest> {
        passages.iter().map(|passage| self.known_clue(*passage)).collect()
    }

    /// Returns the clues of passages of its results and answers.
    pub(in crate::turn) fn passage_clues(self, passages: &[Digest]) -> Vec<Digest> {
        passages.iter().map(|passage| self.make_clue("said").followed_by(*passage)).collect()
    }

    /// Returns the clues of heads of its results and answers.
    pub(in crate::turn) fn head_clues(self, heads: &[Digest]) -> Vec<Digest> {
        heads.iter().map(|head| self.make_clue("head").followed_by(*head)).collect()
    }

    /// Returns the clues of a history's calls, the newest turn's first. Within one turn, an id
    /// identifies a call better than its position, and that better than its result, which may have
    /// come before.
    pub(super) fn call_clues(self, outline: &Outline, request: &Request<'_>) -> Vec<Clue> {
        let opening = outline.opening_digest();
        let ids = Outline::unique_calls(request);
        let ids = ids.map(|(turn, call)| (turn, 0, self.call_clue(call)));
        let turns = outline.answered.iter().enumerate();
        let turns = turns.flat_map(|(turn, shown)| {
            self.begun(opening, shown).enumerate().map(move |(kind, clue)| (turn, 1 + kind, clue))
        });
        let pairs = outline.calls.windows(2).filter_map(|pair| {
            let [one, next] = pair else { return None };
            Some((next.turn, 3, self.pair_clue(one, next)?))
        });
        let steps = outline.calls.chunk_by(|one, next| one.turn == next.turn).filter_map(|calls| {
            let (last, turn) = (calls.last()?, calls.last()?.turn + 1);
            Some((turn, 3, self.clue_of_next_turn(last, outline.answered.get(turn)?)?))
        });
        let mut all: Vec<_> = ids.chain(turns).chain(steps).chain(pairs).collect();
        all.sort_by_key(|(turn, kind, _)| (Reverse(*turn), *kind));
        all.into_iter().map(|(turn, _, digest)| Clue { digest, turn }).collect()
    }

    /// Returns the clues of the pairs of calls whose later call is in the last turn of a history.
    /// Only the last `row` calls were answered in the conversation.
    pub(in crate::turn) fn clues_of_newest_pairs(
        self,
        outline: &Outline,
        row: usize,
    ) -> Vec<Digest> {
        let last = outline.answered.len().checked_sub(1);
        let known = outline.calls.len().saturating_sub(row);
        let known = outline.calls.get(known..).unwrap_or_default();
        let newest =
            known.windows(2).rev().take_while(|pair| pair.get(1).map(|call| call.turn) == last);
        newest.filter_map(|pair| self.pair_clue(pair.first()?, pair.get(1)?)).collect()
    }
}
