//! One run's part of a journal: the questions that the loop asks and the facts that it records.
//!
//! Every question follows one pattern. A recorded fact is taken and, if it is a decision, compared
//! with the decision made now. A fact that is not recorded yet is written. A run without a journal
//! asks the same questions, finds nothing recorded and writes nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use softland_session::core::{Because, Facts, Millis, NanoUsd, Records};
use tokio::time::Instant;

use super::past::{Known, Past};
use super::record::{
    Call, CallResult, Came, End, Parent, Record, Request, Resume, Round, Short, Start, Took, Turn,
};
use super::{Journal, JournalError, bytes, lock};
use crate::event::Report;
use crate::tool::ToolOutput;

/// One run in a journal, or a run without a journal.
#[derive(Clone)]
pub struct RunJournal {
    journal: Option<Journal>,
    run: Arc<str>,
    parent: Option<Parent>,
    setup: Value,
    continues: Option<String>,
    clock: Clock,
    start: Option<Arc<Start>>,
    past: Arc<Mutex<Past>>,
}

/// The clock of a run: its recorded time plus the time since then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    before: Duration,
}

impl Clock {
    pub(crate) fn elapsed(&self) -> Millis {
        let elapsed = self.before.saturating_add(self.began.elapsed());
        Millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the moment at which the run has used this much time.
    pub(crate) fn at(&self, time: Millis) -> Instant {
        self.began + Duration::from_millis(time.0).saturating_sub(self.before)
    }
}

/// The decision about a call that a run reaches.
#[derive(Debug)]
pub(crate) enum Fate {
    /// The call is to be run.
    Run,
    /// The call was running when the process ended and is not to be run again.
    Lost,
    /// The call has this recorded result.
    Has(ToolOutput, Duration),
    /// The journal cannot be written, so the call is not run.
    Broken(JournalError),
}

impl RunJournal {
    /// Creates a run without a journal.
    #[must_use]
    pub fn none() -> Self {
        Self::of(None, new_id(), None, Past::default())
    }

    pub(super) fn of(
        journal: Option<Journal>,
        run: String,
        parent: Option<Parent>,
        mut past: Past,
    ) -> Self {
        let clock = Clock { began: Instant::now(), before: Duration::from_millis(past.ms) };
        let start = past.start.take().map(Arc::new);
        let (run, past) = (run.into(), Arc::new(Mutex::new(past)));
        let (setup, continues) = (Value::Null, None);
        Self { journal, run, parent, setup, continues, clock, start, past }
    }

    /// Stores settings that the program needs when it resumes the run. They must not hold
    /// credentials: a journal holds none.
    #[must_use]
    pub fn with_setup(self, setup: Value) -> Self {
        Self { setup, ..self }
    }

    /// Marks the run as one that continues the conversation of another run.
    #[must_use]
    pub fn continuing(self, run: &str) -> Self {
        Self { continues: Some(run.to_owned()), ..self }
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Returns the start record of the run; `None` for a run that is yet to begin.
    #[must_use]
    pub fn start(&self) -> Option<&Start> {
        self.start.as_deref()
    }

    /// Returns the run that answers a call of this run: the recorded one, or a new one. `call`
    /// counts the calls of the turn from 0.
    #[must_use]
    pub fn child(&self, turn: u64, call: u64) -> Self {
        let parent = Parent { run: self.run.to_string(), turn, call };
        self.below(parent, new_id)
    }

    /// Returns the run that answers a call; a new run is the `nth` child of this run.
    pub(crate) fn nth_child(&self, turn: u64, call: u64, nth: u64) -> Self {
        let parent = Parent { run: self.run.to_string(), turn, call };
        self.below(parent, || format!("{}.{nth}", self.run))
    }

    fn below(&self, parent: Parent, new: impl FnOnce() -> String) -> Self {
        match &self.journal {
            Some(journal) => journal.child(parent, new),
            None => Self::of(None, new(), Some(parent), Past::default()),
        }
    }

    /// Returns the start records of all recorded sub-agent runs.
    pub(crate) fn children(&self) -> Vec<Start> {
        self.journal.as_ref().map(Journal::children).unwrap_or_default()
    }

    /// Collects the runs that are replayed: this one and those below it. Called before the run is
    /// driven.
    pub(crate) fn gather(&self) {
        if let Some(journal) = &self.journal {
            journal.gather(&self.run, &lock(&self.past));
        }
    }

    /// Waits until the whole tree has been replayed.
    pub(crate) async fn caught_up(&self) {
        if let Some(journal) = &self.journal {
            journal.caught_up().await;
        }
    }

    /// Takes a recorded fact.
    fn taken<T>(&self, take: impl FnOnce(&mut Past) -> T) -> T {
        let mut past = lock(&self.past);
        let taken = take(&mut past);
        let left = past.is_left();
        drop(past);
        if let Some(journal) = self.journal.as_ref().filter(|_| !left) {
            journal.is_through(&self.run);
        }
        taken
    }

    /// Returns true if the run is still replaying its records.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        lock(&self.past).is_left()
    }

    /// Returns the journal's failure, if any. The run must stop then.
    pub(crate) fn failure(&self) -> Option<JournalError> {
        self.journal.as_ref()?.failure()
    }

    /// Returns the id under which the run can be resumed, if there is a journal.
    pub(crate) fn resumable(&self) -> Option<String> {
        (self.journal.is_some() && self.parent.is_none()).then(|| self.run.to_string())
    }

    /// Returns true if the run answers another run's call.
    pub(crate) fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Records the start of a new run.
    pub(crate) fn begin(&self, start: Start) -> Result<(), JournalError> {
        let (parent, continues) = (self.parent.clone(), self.continues.clone());
        self.append(&Start { parent, continues, setup: self.setup.clone(), ..start })
    }

    /// Records that the run is resumed. A run that has ended with an answer is not changed.
    pub(crate) fn resume(&self) -> Result<(), JournalError> {
        let closed = self.journal.as_ref().is_some_and(|journal| journal.inner.closed);
        if lock(&self.past).is_done() || self.parent.is_some() || closed {
            return Ok(());
        }
        let softland = env!("CARGO_PKG_VERSION").to_owned();
        self.append(&Resume { softland, ts: now() })
    }

    /// Returns true if the start of this turn is recorded.
    pub(crate) fn has_turn(&self, turn: u64) -> bool {
        lock(&self.past).turns.contains_key(&turn)
    }

    /// Returns true if the answers to this turn's calls are recorded. Their results were emitted
    /// then.
    pub(crate) fn has_round(&self, turn: u64) -> bool {
        lock(&self.past).rounds.contains_key(&turn)
    }

    /// Returns true if it is recorded that the run was cancelled while this turn's calls ran.
    pub(crate) fn was_cancelled(&self, turn: u64) -> bool {
        lock(&self.past).rounds.get(&turn).is_some_and(|round| round.cancelled)
    }

    /// Returns the facts of a turn and records them. A recorded time takes the place of the current
    /// one. For a run that shares its budget with others, so does the recorded remainder of the
    /// budget.
    pub(crate) fn turn(
        &self,
        turn: u64,
        shares: bool,
        facts: impl FnOnce(Millis) -> Facts,
    ) -> Result<Facts, JournalError> {
        let known = self.taken(|past| past.turns.remove(&turn));
        let elapsed = known.as_ref().map_or_else(|| self.clock.elapsed(), |k| k.facts.elapsed);
        let facts = facts(elapsed);
        let facts = match known.as_ref().filter(|_| shares) {
            None => facts,
            Some(Turn { facts: then, .. }) => Facts {
                next_input: facts.next_input,
                next_input_cost: facts.next_input_cost,
                reserve_input_cost: facts.reserve_input_cost,
                output_pico: facts.output_pico,
                ..*then
            },
        };
        self.settle(turn, known, Turn { turn, facts })?;
        Ok(facts)
    }

    /// Returns true if it is recorded that this request was not sent.
    pub(crate) fn was_unsent(&self, turn: u64, nth: u64) -> bool {
        let past = lock(&self.past);
        past.requests.get(&(turn, nth)).is_some_and(|asked| asked.request.is_none())
    }

    /// Returns the output tokens that a request was granted, if its sending is recorded.
    pub(crate) fn granted(&self, turn: u64, nth: u64) -> Option<u64> {
        let past = lock(&self.past);
        Some(past.requests.get(&(turn, nth))?.request.as_ref()?.reserve.output)
    }

    /// Returns the limit of which too little was left for this request, if that is recorded.
    pub(crate) fn was_short(&self, turn: u64, nth: u64) -> Option<Because> {
        self.taken(|past| past.shorts.remove(&(turn, nth))).map(|short| short.because)
    }

    /// Records that too little is left of a limit for a request.
    pub(crate) fn short(&self, turn: u64, nth: u64, because: &Because) -> Result<(), JournalError> {
        self.append(&Short { turn, nth, because: because.clone() })
    }

    /// Takes the recorded outcome of a request that the run reaches.
    pub(crate) fn known(&self, now: &Request) -> Result<Known, JournalError> {
        let (request, known) = self.taken(|past| past.asked(now.turn, now.nth));
        match request {
            Some(request) if request != *now => Err(self.differs("request", now.turn)),
            _ => Ok(known),
        }
    }

    /// Records that a request is about to be sent.
    pub(crate) fn asks(&self, request: &Request) -> Result<(), JournalError> {
        self.append(request)
    }

    /// Returns true if the run has a journal.
    pub(crate) fn keeps(&self) -> bool {
        self.journal.is_some()
    }

    /// Records the response to a request, with its bytes.
    pub(crate) fn came(&self, came: Came, body: &[u8]) -> Result<(), JournalError> {
        let (body, body_hex) = bytes::written(body);
        self.append(&Came { body, body_hex, ..came })
    }

    /// Records the result of a turn. Returns what the run has cost so far; if it `shares` its
    /// budget with others, a recorded cost takes precedence.
    pub(crate) fn took(
        &self,
        turn: u64,
        messages: &[Vec<u8>],
        records: Records,
        (cost, shares): (NanoUsd, bool),
    ) -> Result<NanoUsd, JournalError> {
        if !self.keeps() {
            return Ok(cost);
        }
        let known = self.taken(|past| past.took.remove(&turn));
        let messages = texts(messages);
        let then = known.as_ref().filter(|_| shares).map(|known| known.nano);
        let nano = then.unwrap_or(cost.0);
        self.settle(turn, known, Took { turn, messages, records, nano })?;
        Ok(NanoUsd(nano))
    }

    /// Takes the record of a call that begins a run of its own: the call and its result.
    pub(crate) fn agent_call(
        &self,
        now: &Call,
    ) -> Result<Option<(Call, Option<CallResult>)>, JournalError> {
        match self.taken(|past| past.calls.remove(&(now.turn, now.call))) {
            Some((known, _)) if !known.is(now) => Err(self.differs("call", now.turn)),
            known => Ok(known),
        }
    }

    /// Records that a call is about to run.
    pub(crate) fn calls(&self, call: &Call) -> Result<(), JournalError> {
        self.append(call)
    }

    /// Decides about a call before it is run. A call that was running when the process ended runs
    /// again only if `again` allows it.
    pub(crate) fn call(&self, call: &Call, again: bool) -> Fate {
        let known = self.taken(|past| past.calls.remove(&(call.turn, call.call)));
        match known {
            None => Fate::Run,
            Some((known, result)) if known == *call => match result {
                Some(result) => Fate::Has(result.output(), Duration::from_millis(result.took)),
                None if again => Fate::Run,
                None => Fate::Lost,
            },
            Some(_) => Fate::Broken(self.differs("call", call.turn)),
        }
    }

    /// Records a result for a call that was running when the process ended: its effect is unknown.
    pub(crate) fn interrupted(&self, call: &Call) -> Result<ToolOutput, JournalError> {
        let output = ToolOutput::error(interrupted(&call.name));
        self.result(call, &output, Duration::ZERO, true)?;
        Ok(output)
    }

    /// Records the result of a call that was run.
    pub(crate) fn result(
        &self,
        call: &Call,
        output: &ToolOutput,
        took: Duration,
        interrupted: bool,
    ) -> Result<(), JournalError> {
        let ToolOutput { content, is_error, .. } = output.clone();
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let Call { turn, call, .. } = *call;
        self.append(&CallResult { turn, call, content, is_error, took, interrupted })
    }

    /// Returns what was said to the run during a round, and whether it was cancelled, if that is
    /// recorded.
    pub(crate) fn said(&self, turn: u64) -> Option<(Vec<String>, bool)> {
        let past = lock(&self.past);
        past.rounds.get(&turn).map(|round| (round.said.clone(), round.cancelled))
    }

    /// Records the answers to a turn's calls.
    pub(crate) fn round(
        &self,
        turn: u64,
        said: Vec<String>,
        messages: &[Vec<u8>],
        cancelled: bool,
    ) -> Result<(), JournalError> {
        if !self.keeps() {
            return Ok(());
        }
        let known = self.taken(|past| past.rounds.remove(&turn));
        self.settle(turn, known, Round { turn, said, messages: texts(messages), cancelled })
    }

    /// Records the end of the run. Returns the recorded end if there is one.
    pub(crate) fn end(
        &self,
        turn: u64,
        seq: u64,
        report: &Report,
    ) -> Result<Option<Report>, JournalError> {
        if !self.keeps() {
            return Ok(None);
        }
        let known = self.taken(|past| past.end.take());
        let (failure, report) = (report.failure.clone(), Box::new(report.clone()));
        let now = End { turn, seq, report, failure };
        match known {
            None => self.append(&now).map(|()| None),
            Some(known) if known.report.answer == now.report.answer && known.seq == seq => {
                Ok(Some(Report { failure: known.failure, ..*known.report }))
            }
            Some(_) => Err(self.differs("end", turn)),
        }
    }

    /// Returns the error of a run whose decision differs from the recorded one.
    pub(crate) fn differs(&self, record: &'static str, turn: u64) -> JournalError {
        let by = self.start.as_ref().map_or("?", |start| start.softland.as_str());
        match &self.journal {
            Some(journal) => journal.differs(record, turn, by),
            // A run without a journal has no records.
            None => JournalError::new(
                std::path::Path::new(""),
                super::JournalErrorKind::Differs { record, turn, by: by.to_owned() },
            ),
        }
    }

    fn settle<R: Record + PartialEq>(
        &self,
        turn: u64,
        known: Option<R>,
        now: R,
    ) -> Result<(), JournalError> {
        match known {
            None => self.append(&now),
            Some(known) if known == now => Ok(()),
            Some(_) => Err(self.differs(R::KIND.word(), turn)),
        }
    }

    fn append<R: Record>(&self, record: &R) -> Result<(), JournalError> {
        match &self.journal {
            Some(journal) => journal.append(&self.run, self.clock.elapsed().0, record),
            None => Ok(()),
        }
    }
}

/// Returns the body of a recorded response.
pub(crate) fn body(came: &Came) -> Option<Vec<u8>> {
    bytes::read(&came.body, &came.body_hex)
}

/// Returns the message for the model about a call whose result is unknown.
fn interrupted(tool: &str) -> String {
    format!(
        "{tool}: interrupted. The process that ran this call was killed before its result was \
         known: it may have taken effect, wholly, in part or not at all. It was not run again."
    )
}

fn texts(messages: &[Vec<u8>]) -> Vec<String> {
    let text = |message: &Vec<u8>| String::from_utf8_lossy(message).into_owned();
    messages.iter().map(text).collect()
}

/// Returns the current time, as RFC 3339 in UTC.
#[must_use]
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Returns an id for a new run. Ids sort by time, and differ between processes that begin in the
/// same second.
#[must_use]
pub fn new_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    format!("run-{now}-{:08x}", random & 0xffff_ffff)
}
