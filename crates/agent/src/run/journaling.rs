//! Writes the loop's facts to the journal of the run and reads recorded facts from it. Only here
//! does a recorded fact take the place of an effect.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use softland_session::core::{Digest, Millis, NanoUsd};
use softland_session::wire::Api;
use softland_session::wire::request::Request as Body;
use softland_session::{Exchange, Output, PendingCall};

use super::drive::{AttemptError, AttemptOutcome, MAX_BODY, NextStep};
use super::form::{self, AnsweredCall};
use super::{ActiveRun, Agent, Conversation, PinnedRecords, resume};
use crate::event::EventKind;
use crate::journal::{
    self, CallDecision, CallRecord, JournalError, RequestOutcome, RequestRecord, ResponseEnd,
    ResponseRecord, RunJournal, WorstCase,
};
use crate::tool::{ToolDef, ToolOutput};

/// The received part of an answer.
pub(super) struct ReceivedAnswer {
    keeps: bool,
    bytes: Vec<u8>,
    /// The bytes received, whether stored or not.
    size: usize,
    pub(super) ended: ResponseEnd,
    pub(super) streamed: bool,
    pub(super) request_id: Option<String>,
}

impl ReceivedAnswer {
    pub(super) fn new(keeps: bool) -> Self {
        let (ended, streamed) = (ResponseEnd::Unreached, false);
        Self { keeps, bytes: Vec::new(), size: 0, ended, streamed, request_id: None }
    }

    /// Stores received bytes. Returns false once the answer is too large.
    pub(super) fn push_chunk(&mut self, bytes: &[u8]) -> bool {
        self.size = self.size.saturating_add(bytes.len());
        if self.keeps && self.size <= MAX_BODY {
            self.bytes.extend_from_slice(bytes);
        }
        self.size <= MAX_BODY
    }
}

/// A round whose calls were answered.
pub(super) struct AnsweredRound {
    /// True if the run was cancelled meanwhile.
    pub(super) cancelled: bool,
}

impl ActiveRun<'_> {
    /// Writes the start of the run, or that it is resumed.
    pub(super) fn write_start(&self) -> Result<(), JournalError> {
        match self.journal.start_record() {
            Some(_) => self.journal.record_resume(),
            None => {
                let cost = (self.cost_before, None);
                self.journal.record_start(resume::start_record(
                    self.agent,
                    &self.setup,
                    self.conversation,
                    cost,
                ))
            }
        }
    }

    /// Returns the recorded outcome of the current request; `None` if it is yet to be sent.
    pub(super) fn replay_request(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
    ) -> Result<Option<NextStep>, JournalError> {
        if !self.journal.is_replaying() {
            return Ok(None);
        }
        Ok(match self.journal.take_request(&self.request_record(body))? {
            RequestOutcome::Nothing => None,
            RequestOutcome::Lost(reserve) => {
                self.charge_lost_request(&reserve);
                Some(NextStep::Again(None))
            }
            RequestOutcome::Came(came) => {
                let attempt = self.replay_response(exchange, &came, body.len())?;
                if came.again {
                    self.restart_answer(exchange);
                    Some(NextStep::Again(None))
                } else {
                    Some(NextStep::Done(attempt))
                }
            }
        })
    }

    /// Writes that a request is about to be sent.
    pub(super) fn record_request(&self, body: &Bytes) -> Result<(), JournalError> {
        match self.journal.is_recorded() {
            true => self.journal.record_request(&self.request_record(body)),
            false => Ok(()),
        }
    }

    fn request_record(&self, body: &Bytes) -> RequestRecord {
        let api: Api = self.agent.options.api.into();
        let output = Body::from_body(api, body).ok().and_then(|body| body.max_tokens);
        let output = output.map_or_else(|| self.max_tokens(), |max| max.value);
        RequestRecord {
            turn: self.turn,
            nth: self.nth,
            digest: Digest::from_bytes(body),
            bytes: body.len() as u64,
            reserve: self.meter.worst_case(body.len(), output),
        }
    }

    /// Charges a request that was in flight when the process ended. The provider may have billed
    /// all of it.
    fn charge_lost_request(&mut self, reserve: &WorstCase) {
        self.meter.charge_worst_case(reserve);
        self.emit.emit_event(EventKind::Usage {
            input: reserve.input,
            output: reserve.output,
            cache_read: 0,
            cache_write: 0,
            cost_usd: reserve.cost().map(NanoUsd::to_dollars),
            request_id: None,
        });
    }

    /// Feeds an exchange with the recorded response to a request.
    fn replay_response(
        &mut self,
        exchange: &mut Exchange,
        came: &ResponseRecord,
        request_bytes: usize,
    ) -> Result<AttemptOutcome, JournalError> {
        let differs = || self.journal.mismatch_error("response", self.turn);
        let body = journal::response_body(came).ok_or_else(differs)?;
        self.emit.request_id.clone_from(&came.request_id);
        let mut out = Output::default();
        let taken = match (came.ended, came.streamed) {
            (ResponseEnd::Whole | ResponseEnd::Broken, true) => {
                exchange.push_bytes(&body, &mut out).is_ok()
                    && exchange.finish_response(&mut out).is_ok()
            }
            (ResponseEnd::Whole, false) => exchange.push_whole(&body, &mut out).is_ok(),
            (ResponseEnd::Unread | ResponseEnd::Expired | ResponseEnd::Cancelled, true) => {
                // The readable part of the response was shown.
                let _ = exchange.push_bytes(&body, &mut out);
                false
            }
            _ => false,
        };
        self.emit_output_of(out, request_bytes);
        Ok(match (came.ended, &came.failure) {
            (ResponseEnd::Expired, _) => AttemptOutcome::Expired(Millis(came.at)),
            (ResponseEnd::Cancelled, _) => AttemptOutcome::Cancelled,
            (_, None) if taken => AttemptOutcome::Taken,
            (_, Some(failure)) if !taken => {
                AttemptOutcome::Failed(AttemptError::Recorded(failure.clone()))
            }
            _ => return Err(self.journal.mismatch_error("response", self.turn)),
        })
    }

    /// Writes the response to a request.
    pub(super) fn record_response(
        &self,
        taken: ReceivedAnswer,
        attempt: &AttemptOutcome,
        again: bool,
    ) -> Result<(), JournalError> {
        if !self.journal.is_recorded() {
            return Ok(());
        }
        let (ended, at, failure) = match attempt {
            AttemptOutcome::Taken => (taken.ended, self.meter.elapsed(), None),
            AttemptOutcome::Failed(problem) => {
                (taken.ended, self.meter.elapsed(), Some(problem.message()))
            }
            AttemptOutcome::Expired(at) => (ResponseEnd::Expired, *at, None),
            // A request under too little budget is never sent, so there is no response.
            AttemptOutcome::Cancelled | AttemptOutcome::Short(_) => {
                (ResponseEnd::Cancelled, self.meter.elapsed(), None)
            }
        };
        let ReceivedAnswer { streamed, request_id, .. } = taken;
        let came = ResponseRecord {
            streamed,
            request_id,
            failure,
            again,
            ..self.empty_response(ended, at)
        };
        self.journal.record_response(came, &taken.bytes)
    }

    /// Writes that a request will not be sent.
    pub(super) fn record_unsent(&self, ended: ResponseEnd) -> AttemptOutcome {
        let at = self.meter.elapsed();
        match self.journal.record_response(self.empty_response(ended, at), &[]) {
            Err(error) => AttemptOutcome::Failed(AttemptError::Journal(error)),
            Ok(()) if ended == ResponseEnd::Expired => AttemptOutcome::Expired(at),
            Ok(()) => AttemptOutcome::Cancelled,
        }
    }

    fn empty_response(&self, ended: ResponseEnd, at: Millis) -> ResponseRecord {
        ResponseRecord {
            turn: self.turn,
            nth: self.nth,
            ended,
            streamed: false,
            request_id: None,
            body: String::new(),
            body_hex: String::new(),
            failure: None,
            again: false,
            at: at.0,
        }
    }

    /// Prepares the exchange for sending its request again: closes the started part of the answer.
    pub(super) fn restart_answer(&mut self, exchange: &mut Exchange) {
        let mut out = Output::default();
        exchange.retry_request(&mut out);
        self.emit_output(out);
    }

    /// Writes the result of a turn, then appends it to the conversation.
    pub(super) fn take_turn(
        &mut self,
        messages: Vec<Vec<u8>>,
        records: PinnedRecords,
    ) -> Result<(), JournalError> {
        let messages: Vec<_> = messages.into_iter().flat_map(form::split_messages).collect();
        let known = &self.conversation.records;
        let changed: BTreeMap<_, _> = records
            .iter()
            .filter(|(place, record)| known.get(place) != Some(*record))
            .map(|(place, record)| (*place, record.clone()))
            .collect();
        let cost = self.meter.budget.session_spent().saturating_sub(self.cost_before);
        let cost = self.journal.record_turn_end(
            self.turn,
            &messages,
            changed,
            (cost, self.shares_budget()),
        )?;
        self.conversation.append_turn(messages, records);
        self.conversation.set_session_cost(self.cost_before + cost);
        Ok(())
    }

    /// Writes the answers to a round and what was said meanwhile, then appends them.
    pub(super) fn answer_round(
        &mut self,
        results: &[AnsweredCall],
    ) -> Result<AnsweredRound, JournalError> {
        self.write_answers(results, true)
    }

    /// Writes answers and appends them. What was said meanwhile is delivered only if the model
    /// `continues`, and so reads it.
    fn write_answers(
        &mut self,
        results: &[AnsweredCall],
        continues: bool,
    ) -> Result<AnsweredRound, JournalError> {
        if let Some(error) = self.journal.failure() {
            return Err(error);
        }
        let said = || if continues { self.conversation.take_inbox() } else { Vec::new() };
        let now = || (said(), self.cancel.is_cancelled());
        let (said, cancelled) = self.journal.recorded_remarks(self.turn).unwrap_or_else(now);
        let messages =
            self.conversation.answer_messages(results, &said, self.puts_remarks_in_result());
        self.journal.record_round(self.turn, said, &messages, cancelled)?;
        self.conversation.append_answers(messages);
        // Sub-agents have spent money too.
        self.conversation.set_session_cost(self.meter.budget.session_spent());
        Ok(AnsweredRound { cancelled })
    }

    /// Answers the calls of a turn that was itself the answer.
    pub(super) fn close_answer(
        &mut self,
        calls: &[PendingCall],
        answer: &str,
    ) -> Result<(), JournalError> {
        // No request follows. What was said opens the next run.
        self.write_answers(&Conversation::closing_results(calls), false)?;
        self.conversation.append_final_answer(answer);
        Ok(())
    }
}

/// Returns the one result of a call at its position (turn, call): the recorded result, or the
/// result of running it. A result is recorded before anybody receives it.
pub(super) async fn run_recorded_call<R: Future<Output = ToolOutput>>(
    journal: &RunJournal,
    agent: &Agent,
    (turn, at): (u64, u64),
    call: &PendingCall,
    run: impl FnOnce() -> R,
) -> (ToolOutput, Duration) {
    let (id, name, input) = (call.id.clone(), call.name.clone(), call.input.clone());
    let call = CallRecord { turn, call: at, id, name, input, held: false };
    let again = may_run_again(agent.tools.get(&call.name));
    // The run ends, so nobody receives this result.
    let broken = |error: JournalError| (ToolOutput::error(error.to_string()), Duration::ZERO);
    let decision = journal.decide_call(&call, again);
    if matches!(decision, CallDecision::Run | CallDecision::Lost) {
        // Recorded runs elsewhere in the tree may still end differently.
        journal.wait_until_caught_up().await;
    }
    let under_way = match decision {
        CallDecision::Has(output, took) => return (output, took),
        CallDecision::Broken(error) => return broken(error),
        CallDecision::Lost => {
            let output = journal.record_interrupted(&call);
            return output.map_or_else(broken, |output| (output, Duration::ZERO));
        }
        CallDecision::Run => {
            let under_way = journal.begin_effect().await;
            if let Err(error) = journal.record_call(&call) {
                return broken(error);
            }
            journal.wait_until_stored().await;
            under_way
        }
    };
    let began = Instant::now();
    let output = journal.fit_result(&call.name, run().await);
    let took = began.elapsed();
    let recorded = journal.record_result(&call, &output, took, false);
    drop(under_way);
    match recorded {
        Ok(()) => (output, took),
        Err(error) => (ToolOutput::error(error.to_string()), took),
    }
}

/// Returns true if a call may run again when the outcome of its first run is unknown: if its tool
/// is repeatable or does not exist, so that nothing was run.
fn may_run_again(tool: Option<&ToolDef>) -> bool {
    tool.is_none_or(|tool| tool.repeatable)
}
