//! The state that is stored when a request ends, and the clues by which its conversation is found
//! again.

use std::sync::Arc;

use softland_session::core::{Admission, Digest, NanoUsd, Outcome, RunEnding, RunUsage};
use softland_session::summary::Asked;
use softland_session::wire::Api;
use softland_session::wire::request::Request;
use softland_session::{Done, ModelTurn, Outline, PendingCall, summary};

use super::report::ClosingRequest;
use super::{VAIN_OUTPUT, calls_to_run};
use crate::identify::SessionName;
use crate::key::ClientKey;
use crate::services::Services;
use crate::shared::Closing;
use crate::store::{Namesake, RunState, StoreChanges, TurnEnd};
use crate::turn::flow::GovernedRequest;
use crate::turn::open::RequestSetup;
use crate::turn::scope::Clues;

/// Passages of an answer by which a request for a summary is recognized.
const SAID: usize = 2;

impl GovernedRequest {
    /// Returns the clues of a summary of a conversation that continues. The summary does not end
    /// the run, and the conversation is found again by it.
    pub(super) fn summary_clues(&self, done: Option<&mut Done>) -> Vec<Digest> {
        let RequestSetup { asks_for_summary, for_summary, .. } = &*self.opening;
        let Some(done) = done.filter(|_| *for_summary) else { return Vec::new() };
        let answered = |ended: &RunEnding| ended.outcome == Outcome::Answered;
        let goes_on = self.exchange.newest_position().is_some_and(|here| !here.starts);
        // A person may ask in plain words, and has an answer then.
        let known = *asks_for_summary == Some(Asked::Known);
        if known && goes_on && done.ended.as_ref().is_some_and(answered) {
            done.ended = None;
        }
        // A client also goes on with softland's own answer, where a limit landed the request.
        let answer = done.answer.as_deref().unwrap_or_default();
        self.opening.summary_clues(answer)
    }

    /// Does the same for a request without tools, which does not belong to the conversation itself.
    pub(super) fn summary_update(
        &self,
        done: Option<&Done>,
        services: Arc<Services>,
    ) -> Option<Box<ClosingRequest>> {
        let place = &self.opening.place;
        let done = done?;
        let (run, state, clues) = if self.opening.target.is_compaction_request() {
            let (run, state) = place.compacted_run()?;
            // Its texts are messages of the client's that stay in the history.
            (
                run,
                state,
                done.sealed.iter().map(|one| place.clues.clue_of_sealed_context(*one)).collect(),
            )
        } else {
            let asks = self.opening.asks_for_summary.is_some();
            let (run, state) = place.summarized_run(asks)?;
            let answer = done.answer.as_deref()?;
            // The parts of a history may be summed up first, and then their summaries.
            let said = answer_clues(place.clues, answer);
            (run, state, [self.opening.summary_clues(answer), said].concat())
        };
        let changes =
            StoreChanges { past_clues: Some((run, state, clues)), ..StoreChanges::default() };
        let closing = Closing { scope: place.scope.clone(), changes, ..Closing::default() };
        Some(Box::new(ClosingRequest { services, closing, report: None }))
    }

    pub(super) fn store_changes(&self, done: Option<Box<Done>>, now: u64) -> StoreChanges {
        let Some(mut done) = done else { return self.failed_changes(now) };
        let broke_off = |ended: &RunEnding| !ended.outcome.is_done();
        if done.ended.as_ref().is_some_and(broke_off) {
            // The response brought no turn, but what was decided for its history still holds.
            let pins = std::mem::take(&mut done.records);
            let mut changes = StoreChanges { pins, results: done.seen, ..self.failed_changes(now) };
            if let Some((_, state)) = &mut changes.run {
                state.ended = true;
            }
            return changes;
        }
        let (outline, before) = (&self.opening.outline, &self.account.state);
        let total = self.account.used();
        let mut state = RunState {
            tokens: total.input_total().saturating_add(total.output),
            cost: self.account.cost().unwrap_or(NanoUsd::ZERO),
            account: Arc::clone(self.account.run_account()),
            tool_refusals: done.tool_refusals,
            vain: self.count_vain(&done),
            known: self.record.counted.or(before.known),
            ended: done.ended.is_some(),
            turn: Some(TurnEnd {
                context: outline.here,
                at: now,
                landed: is_landed(&done),
                summary: self.opening.for_summary,
            }),
            ..(**before).clone()
        };
        state.continue_at(now);
        state.row =
            self.opening.place.answered_calls(outline).saturating_add(shown_calls(&done).count());
        state.delivered = next_turn(outline, &done).content;
        state.used = with_calls(&mut done);
        state.key = self.exchange.run_key().unwrap_or(self.run);
        let (clues, past_clues) = self.conversation_clues(&done);
        StoreChanges {
            pins: done.records,
            tails: done.tail.into_iter().collect(),
            results: done.seen,
            run: Some((self.run, state)),
            child_tokens: None,
            asked: outline.asks.clone(),
            named: Some(self.conversation_names(now, true)),
            clues,
            past_clues: Some((self.run, Arc::clone(before), past_clues)),
            untaken: None,
            cache: self.record.changed_cache(),
        }
    }

    /// Returns the clues of the conversation as it is now, and those of its state before: the calls
    /// and results that the history shows.
    fn conversation_clues(&self, done: &Done) -> (Vec<Digest>, Vec<Digest>) {
        let RequestSetup { place, outline, results, call_places, .. } = &*self.opening;
        let turn = next_turn(outline, done);
        let calls = shown_calls(done).filter_map(|call| {
            Some(place.clues.call_clue(Outline::call_digest(&call.id, &call.name, &call.input)?))
        });
        // A client of the Responses API may name a call by `item_reference` and show only its
        // result.
        let kept = shown_calls(done).filter(|_| self.opening.asked.active.api == Api::Responses);
        let ids = kept.filter_map(|call| Some(place.clues.id_clue(Outline::id_digest(&call.id)?)));
        let begun = place.clues.begun(outline.opening_digest(), &turn);
        let sealed = done.sealed.iter().map(|context| place.clues.clue_of_sealed_context(*context));
        let told: Vec<_> = shown_calls(done).map(as_told).collect();
        let told = call_places
            .retold_digests(&told)
            .into_iter()
            .map(|call| place.clues.clue_of_retold_call(call));
        let last = outline.calls.last().filter(|_| place.answered_calls(outline) > 0);
        let step = last.and_then(|last| place.clues.clue_of_next_turn(last, &turn));
        let now = [place.clues.turn_clue(&turn)]
            .into_iter()
            .chain(step)
            .chain(begun)
            .chain(sealed)
            .chain(told)
            .chain(calls)
            .chain(ids)
            .collect();
        let answer = done.answer.as_deref().unwrap_or_default();
        let mut before = place.clues.clues_of_newest_pairs(outline, place.answered_calls(outline));
        before.extend(answer_clues(place.clues, answer));
        before.extend(place.clues.passage_clues(&results.passages));
        before.extend(place.clues.head_clues(&results.heads));
        (now, before)
    }

    /// Returns the conversation's names, and what distinguishes it from others of the same name.
    fn conversation_names(&self, now: u64, answered: bool) -> (Vec<Digest>, Namesake) {
        let RequestSetup { place, outline, identity, .. } = &*self.opening;
        (place.name_clues(identity), place.as_namesake(outline, now, answered))
    }

    /// Returns the changes of a request that brought no turn: its time and its cost.
    fn failed_changes(&self, now: u64) -> StoreChanges {
        let total = self.account.used();
        let mut state = RunState {
            tokens: total.input_total().saturating_add(total.output),
            cost: self.account.cost().unwrap_or(NanoUsd::ZERO),
            account: Arc::clone(self.account.run_account()),
            ..(*self.account.state).clone()
        };
        state.continue_at(now);
        // The part of the answer that the client received may still stand in its history.
        let turn = self.opening.outline.next_turn(&[], &[]);
        let clues = vec![self.opening.place.clues.turn_clue(&turn)];
        let (run, named) = (Some((self.run, state)), Some(self.conversation_names(now, false)));
        // Without a name and a turn, the conversation is found again by its first question.
        let outline = &self.opening.outline;
        let nameless = self.opening.identity.session.is_none() && outline.answered.is_empty();
        let key = self.opening.identity.key.as_deref();
        let untaken = nameless.then(|| ClientKey::scope_digest(key, outline.here));
        let cache = self.record.changed_cache();
        StoreChanges { run, named, clues, untaken, cache, ..StoreChanges::default() }
    }

    fn count_vain(&self, done: &Done) -> Option<(Digest, u64)> {
        let given = matches!(self.opening.identity.session, Some(SessionName::Given(_)));
        let vain = done.vain && (!given || done.spent.output <= VAIN_OUTPUT);
        let here = self.opening.outline.here;
        let before = self.account.state.vain.filter(|(context, _)| *context == here);
        vain.then(|| (here, before.map_or(0, |(_, times)| times) + 1))
    }

    /// Returns the changes to the parent of a sub-agent, whose tokens include the sub-agent's.
    pub(super) fn parent_changes(&self) -> Option<(Arc<str>, Box<StoreChanges>)> {
        let (scope, kept) = self.opening.place.parent.as_ref()?;
        let total = self.account.used();
        let tokens = total.input_total().saturating_add(total.output);
        let changes =
            StoreChanges { child_tokens: Some((kept.newest?, tokens)), ..StoreChanges::default() };
        Some((scope.clone(), Box::new(changes)))
    }
}

/// Returns what a run has used after its newest calls are run, which the next history will show.
fn with_calls(done: &mut Done) -> RunUsage {
    let mut used = std::mem::take(&mut done.used);
    for call in calls_to_run(done) {
        used.calls += 1;
        *used.by_tool.entry(call.name.clone()).or_default() += 1;
    }
    used
}

/// Returns the calls that the client was shown. Calls that were removed from the response stand in
/// no history.
fn shown_calls(done: &Done) -> impl Iterator<Item = &PendingCall> {
    let taken_out = |admission: &Admission| {
        matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
    };
    done.calls.iter().filter(move |call| !taken_out(&call.admission))
}

/// Returns the id, the name and the arguments of a call.
fn as_told(call: &PendingCall) -> (&str, &str, &str) {
    (&call.id, &call.name, &call.input)
}

/// Returns the turn that the answer becomes in later histories.
fn next_turn(outline: &Outline, done: &Done) -> ModelTurn {
    let calls = shown_calls(done).map(as_told);
    outline.next_turn(&calls.collect::<Vec<_>>(), &done.sealed)
}

/// Returns the clues of an answer, by which a request that quotes it is known.
fn answer_clues(clues: Clues, answer: &str) -> Vec<Digest> {
    let mut known = clues.passage_clues(&summary::first_passages(answer, SAID));
    known.extend(clues.head_clues(summary::answer_head(answer).as_slice()));
    known
}

/// Returns true if a turn is a landing's answer, or softland's own in its place.
fn is_landed(done: &Done) -> bool {
    let by_limit = |ended: &RunEnding| matches!(ended.outcome, Outcome::Landed | Outcome::Stopped);
    done.ended.as_ref().is_some_and(by_limit)
}

impl RequestSetup {
    /// Returns the clues of a summary that answers this request.
    fn summary_clues(&self, answer: &str) -> Vec<Digest> {
        let Ok(request) = Request::from_body(self.asked.active.api, &self.body) else {
            return Vec::new();
        };
        let passages = summary::summary_passages(answer, &request);
        let (clues, face) = (self.place.clues, self.place.kept.face.as_ref());
        match (self.asks_for_summary, face) {
            (Some(Asked::Known), _) => clues.summary_clues(&passages),
            (_, Some(face)) => clues.clues_of_unmarked_summary(&passages, face),
            (_, None) => Vec::new(),
        }
    }
}
