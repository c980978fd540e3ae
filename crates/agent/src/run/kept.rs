//! Writes the loop's facts to the journal of the run and reads recorded facts from it. Only here
//! does a recorded fact take the place of an effect.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use softland_session::core::{Digest, Millis, NanoUsd};
use softland_session::wire::Api;
use softland_session::wire::request::Request as Body;
use softland_session::{Exchange, Out, Pending};

use super::drive::{Attempt, MAX_BODY, Next, Problem};
use super::form::{self, Answered};
use super::{Agent, Conversation, Records, UnderWay, begun};
use crate::event::EventKind;
use crate::journal::{
    self, Call, Came, CameTo, Fate, JournalError, Known, Request, Reserve, RunJournal,
};
use crate::tool::{ToolDef, ToolOutput};

/// The received part of an answer.
pub(super) struct Taken {
    keeps: bool,
    bytes: Vec<u8>,
    /// The bytes received, whether stored or not.
    size: usize,
    pub(super) ended: CameTo,
    pub(super) streamed: bool,
    pub(super) request_id: Option<String>,
}

impl Taken {
    pub(super) fn new(keeps: bool) -> Self {
        let (ended, streamed) = (CameTo::Unreached, false);
        Self { keeps, bytes: Vec::new(), size: 0, ended, streamed, request_id: None }
    }

    /// Stores received bytes. Returns false once the answer is too large.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> bool {
        self.size = self.size.saturating_add(bytes.len());
        if self.keeps && self.size <= MAX_BODY {
            self.bytes.extend_from_slice(bytes);
        }
        self.size <= MAX_BODY
    }
}

/// A round whose calls were answered.
pub(super) struct Answers {
    /// True if the run was cancelled meanwhile.
    pub(super) cancelled: bool,
}

impl UnderWay<'_> {
    /// Writes the start of the run, or that it is resumed.
    pub(super) fn write_start(&self) -> Result<(), JournalError> {
        match self.journal.start() {
            Some(_) => self.journal.resume(),
            None => {
                let cost = (self.cost_before, None);
                self.journal.begin(begun::start(self.agent, &self.setup, self.conversation, cost))
            }
        }
    }

    /// Returns the recorded outcome of the current request; `None` if it is yet to be sent.
    pub(super) fn recorded(
        &mut self,
        exchange: &mut Exchange,
        body: &Bytes,
    ) -> Result<Option<Next>, JournalError> {
        if !self.journal.is_replaying() {
            return Ok(None);
        }
        Ok(match self.journal.known(&self.asked(body))? {
            Known::Nothing => None,
            Known::Lost(reserve) => {
                self.charge(&reserve);
                Some(Next::Again(None))
            }
            Known::Came(came) => {
                let attempt = self.replay(exchange, &came, body.len())?;
                if came.again {
                    self.again(exchange);
                    Some(Next::Again(None))
                } else {
                    Some(Next::Done(attempt))
                }
            }
        })
    }

    /// Writes that a request is about to be sent.
    pub(super) fn asks(&self, body: &Bytes) -> Result<(), JournalError> {
        match self.journal.keeps() {
            true => self.journal.asks(&self.asked(body)),
            false => Ok(()),
        }
    }

    fn asked(&self, body: &Bytes) -> Request {
        let api: Api = self.agent.options.api.into();
        let output = Body::of(api, body).ok().and_then(|body| body.max_tokens);
        let output = output.map_or_else(|| self.max_tokens(), |max| max.value);
        Request {
            turn: self.turn,
            nth: self.nth,
            digest: Digest::of(body),
            bytes: body.len() as u64,
            reserve: self.meter.reserve(body.len(), output),
        }
    }

    /// Charges a request that was in flight when the process ended. The provider may have billed
    /// all of it.
    fn charge(&mut self, reserve: &Reserve) {
        self.meter.charge(reserve);
        self.emit.send(EventKind::Usage {
            input: reserve.input,
            output: reserve.output,
            cache_read: 0,
            cache_write: 0,
            cost_usd: reserve.cost().map(NanoUsd::dollars),
            request_id: None,
        });
    }

    /// Feeds an exchange with the recorded response to a request.
    fn replay(
        &mut self,
        exchange: &mut Exchange,
        came: &Came,
        request_bytes: usize,
    ) -> Result<Attempt, JournalError> {
        let differs = || self.journal.differs("response", self.turn);
        let body = journal::body(came).ok_or_else(differs)?;
        self.emit.request_id.clone_from(&came.request_id);
        let mut out = Out::default();
        let taken = match (came.ended, came.streamed) {
            (CameTo::Whole | CameTo::Broken, true) => {
                exchange.push(&body, &mut out).is_ok() && exchange.finish(&mut out).is_ok()
            }
            (CameTo::Whole, false) => exchange.whole(&body, &mut out).is_ok(),
            (CameTo::Unread | CameTo::Expired | CameTo::Cancelled, true) => {
                // The readable part of the response was shown.
                let _ = exchange.push(&body, &mut out);
                false
            }
            _ => false,
        };
        self.tell_of(out, request_bytes);
        Ok(match (came.ended, &came.failure) {
            (CameTo::Expired, _) => Attempt::Expired(Millis(came.at)),
            (CameTo::Cancelled, _) => Attempt::Cancelled,
            (_, None) if taken => Attempt::Taken,
            (_, Some(failure)) if !taken => Attempt::Failed(Problem::Recorded(failure.clone())),
            _ => return Err(self.journal.differs("response", self.turn)),
        })
    }

    /// Writes the response to a request.
    pub(super) fn came(
        &self,
        taken: Taken,
        attempt: &Attempt,
        again: bool,
    ) -> Result<(), JournalError> {
        if !self.journal.keeps() {
            return Ok(());
        }
        let (ended, at, failure) = match attempt {
            Attempt::Taken => (taken.ended, self.meter.elapsed(), None),
            Attempt::Failed(problem) => {
                (taken.ended, self.meter.elapsed(), Some(problem.message()))
            }
            Attempt::Expired(at) => (CameTo::Expired, *at, None),
            // A request under too little budget is never sent, so there is no response.
            Attempt::Cancelled | Attempt::Short(_) => {
                (CameTo::Cancelled, self.meter.elapsed(), None)
            }
        };
        let Taken { streamed, request_id, .. } = taken;
        let came = Came { streamed, request_id, failure, again, ..self.nothing(ended, at) };
        self.journal.came(came, &taken.bytes)
    }

    /// Writes that a request will not be sent.
    pub(super) fn unsent(&self, ended: CameTo) -> Attempt {
        let at = self.meter.elapsed();
        match self.journal.came(self.nothing(ended, at), &[]) {
            Err(error) => Attempt::Failed(Problem::Journal(error)),
            Ok(()) if ended == CameTo::Expired => Attempt::Expired(at),
            Ok(()) => Attempt::Cancelled,
        }
    }

    fn nothing(&self, ended: CameTo, at: Millis) -> Came {
        Came {
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
    pub(super) fn again(&mut self, exchange: &mut Exchange) {
        let mut out = Out::default();
        exchange.again(&mut out);
        self.tell(out);
    }

    /// Writes the result of a turn, then appends it to the conversation.
    pub(super) fn take_turn(
        &mut self,
        messages: Vec<Vec<u8>>,
        records: Records,
    ) -> Result<(), JournalError> {
        let messages: Vec<_> = messages.into_iter().flat_map(form::each).collect();
        let known = &self.conversation.records;
        let changed: BTreeMap<_, _> = records
            .iter()
            .filter(|(place, record)| known.get(place) != Some(*record))
            .map(|(place, record)| (*place, record.clone()))
            .collect();
        let cost = self.meter.purse.session_spent().less(self.cost_before);
        let cost = self.journal.took(self.turn, &messages, changed, (cost, self.shares()))?;
        self.conversation.extend(messages, records);
        self.conversation.charged(self.cost_before + cost);
        Ok(())
    }

    /// Writes the answers to a round and what was said meanwhile, then appends them.
    pub(super) fn answer_round(&mut self, results: &[Answered]) -> Result<Answers, JournalError> {
        self.answer_with(results, true)
    }

    /// Does the same. What was said is delivered only if the model `hears` again.
    fn answer_with(&mut self, results: &[Answered], hears: bool) -> Result<Answers, JournalError> {
        if let Some(error) = self.journal.failure() {
            return Err(error);
        }
        let said = || if hears { self.conversation.heard() } else { Vec::new() };
        let now = || (said(), self.cancel.is_cancelled());
        let (said, cancelled) = self.journal.said(self.turn).unwrap_or_else(now);
        let messages = self.conversation.answers(results, &said, self.hears_in_result());
        self.journal.round(self.turn, said, &messages, cancelled)?;
        self.conversation.answered(messages);
        // Sub-agents have spent money too.
        self.conversation.charged(self.meter.purse.session_spent());
        Ok(Answers { cancelled })
    }

    /// Answers the calls of a turn that was itself the answer.
    pub(super) fn close_answer(
        &mut self,
        calls: &[Pending],
        answer: &str,
    ) -> Result<(), JournalError> {
        // No request follows. What was said opens the next run.
        self.answer_with(&Conversation::closing(calls), false)?;
        self.conversation.close(answer);
        Ok(())
    }
}

/// Returns the one result of a call at its position (turn, call): the recorded result, or the
/// result of running it. A result is recorded before anybody receives it.
pub(super) async fn call<R: Future<Output = ToolOutput>>(
    journal: &RunJournal,
    agent: &Agent,
    (turn, at): (u64, u64),
    call: &Pending,
    run: impl FnOnce() -> R,
) -> (ToolOutput, Duration) {
    let (id, name, input) = (call.id.clone(), call.name.clone(), call.input.clone());
    let call = Call { turn, call: at, id, name, input, held: false };
    let again = may_run_again(agent.tools.get(&call.name));
    // The run ends, so nobody receives this result.
    let broken = |error: JournalError| (ToolOutput::error(error.to_string()), Duration::ZERO);
    let fate = journal.call(&call, again);
    if matches!(fate, Fate::Run | Fate::Lost) {
        // Recorded runs elsewhere in the tree may still end differently.
        journal.caught_up().await;
    }
    match fate {
        Fate::Has(output, took) => return (output, took),
        Fate::Broken(error) => return broken(error),
        Fate::Lost => {
            let output = journal.interrupted(&call);
            return output.map_or_else(broken, |output| (output, Duration::ZERO));
        }
        Fate::Run => {
            if let Err(error) = journal.calls(&call) {
                return broken(error);
            }
        }
    }
    let began = Instant::now();
    let output = run().await;
    let took = began.elapsed();
    match journal.result(&call, &output, took, false) {
        Ok(()) => (output, took),
        Err(error) => (ToolOutput::error(error.to_string()), took),
    }
}

/// Returns true if a call may run again when the outcome of its first run is unknown: if its tool
/// is repeatable or does not exist, so that nothing was run.
fn may_run_again(tool: Option<&ToolDef>) -> bool {
    tool.is_none_or(|tool| tool.repeatable)
}
