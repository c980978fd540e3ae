//! One run's part of a journal: what the loop asks it, and tells it.
//!
//! Every question has one form: what was recorded is taken and, where it was a decision, compared
//! with the one that was taken now; what was not recorded yet is written. A run without a journal
//! asks the same questions, and finds nothing recorded and nothing to write to.

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

/// One run in a journal, or in none.
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

/// The time of a run: what was recorded of it, and what has passed since then.
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

    /// When the run has had this much time.
    pub(crate) fn at(&self, time: Millis) -> Instant {
        self.began + Duration::from_millis(time.0).saturating_sub(self.before)
    }
}

/// What becomes of a call that a run comes to.
#[derive(Debug)]
pub(crate) enum Fate {
    /// It is to be run.
    Run,
    /// It was under way when the process ended, and is not to be run again.
    Lost,
    /// It has this result.
    Has(ToolOutput, Duration),
    /// What it was to be written to is gone: it is not run.
    Broken(JournalError),
}

impl RunJournal {
    /// A run that is kept nowhere.
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

    /// The same, with what is to be known when the run is gone on with. No credentials: a journal
    /// holds none.
    #[must_use]
    pub fn with_setup(self, setup: Value) -> Self {
        Self { setup, ..self }
    }

    /// The same as a run that goes on with the conversation of another one.
    #[must_use]
    pub fn continuing(self, run: &str) -> Self {
        Self { continues: Some(run.to_owned()), ..self }
    }

    /// The run's id.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// What the run was begun with; `None` for one that is yet to begin.
    #[must_use]
    pub fn start(&self) -> Option<&Start> {
        self.start.as_deref()
    }

    /// The run that answers a call of this one: the one that was recorded, or a new one. `call`
    /// counts the calls of the turn from 0.
    #[must_use]
    pub fn child(&self, turn: u64, call: u64) -> Self {
        let parent = Parent { run: self.run.to_string(), turn, call };
        self.below(parent, new_id)
    }

    /// The same; a new one is the `nth` child of this run.
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

    /// What the children that are recorded were begun with.
    pub(crate) fn children(&self) -> Vec<Start> {
        self.journal.as_ref().map(Journal::children).unwrap_or_default()
    }

    /// The run is about to be driven, and those below it with it.
    pub(crate) fn gather(&self) {
        if let Some(journal) = &self.journal {
            journal.gather(&self.run, &lock(&self.past));
        }
    }

    /// Waits until the whole tree has come to where it was.
    pub(crate) async fn caught_up(&self) {
        if let Some(journal) = &self.journal {
            journal.caught_up().await;
        }
    }

    /// Takes something that is recorded.
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

    /// Whether what happens now has happened before and was recorded.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        lock(&self.past).is_left()
    }

    /// What went wrong with the journal, if something did: the run is to stop.
    pub(crate) fn failure(&self) -> Option<JournalError> {
        self.journal.as_ref()?.failure()
    }

    /// The id under which the run can be gone on with, where there is a journal.
    pub(crate) fn resumable(&self) -> Option<String> {
        (self.journal.is_some() && self.parent.is_none()).then(|| self.run.to_string())
    }

    /// Whether the run answers another one's call.
    pub(crate) fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// A new run begins.
    pub(crate) fn begin(&self, start: Start) -> Result<(), JournalError> {
        let (parent, continues) = (self.parent.clone(), self.continues.clone());
        self.append(&Start { parent, continues, setup: self.setup.clone(), ..start })
    }

    /// A recorded run is gone on with. Of one that has come to an answer nothing is changed.
    pub(crate) fn resume(&self) -> Result<(), JournalError> {
        let closed = self.journal.as_ref().is_some_and(|journal| journal.inner.closed);
        if lock(&self.past).is_done() || self.parent.is_some() || closed {
            return Ok(());
        }
        let softland = env!("CARGO_PKG_VERSION").to_owned();
        self.append(&Resume { softland, ts: now() })
    }

    /// Whether it is recorded that this turn began.
    pub(crate) fn has_turn(&self, turn: u64) -> bool {
        lock(&self.past).turns.contains_key(&turn)
    }

    /// Whether it is recorded that this turn's calls were answered: then their results were told.
    pub(crate) fn has_round(&self, turn: u64) -> bool {
        lock(&self.past).rounds.contains_key(&turn)
    }

    /// Whether it is recorded that the run was cancelled while this turn's calls ran.
    pub(crate) fn was_cancelled(&self, turn: u64) -> bool {
        lock(&self.past).rounds.get(&turn).is_some_and(|round| round.cancelled)
    }

    /// The facts of a turn. The time among them is the recorded one, where there is one, and so is,
    /// for a run that shares what there is with others, what was left of it.
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

    /// Whether it is recorded that this request was not sent.
    pub(crate) fn was_unsent(&self, turn: u64, nth: u64) -> bool {
        let past = lock(&self.past);
        past.requests.get(&(turn, nth)).is_some_and(|asked| asked.request.is_none())
    }

    /// The output that a request was granted, where it is recorded that it was sent.
    pub(crate) fn granted(&self, turn: u64, nth: u64) -> Option<u64> {
        let past = lock(&self.past);
        Some(past.requests.get(&(turn, nth))?.request.as_ref()?.reserve.output)
    }

    /// The limit that too little was left of for this request, where that is recorded.
    pub(crate) fn was_short(&self, turn: u64, nth: u64) -> Option<Because> {
        self.taken(|past| past.shorts.remove(&(turn, nth))).map(|short| short.because)
    }

    /// Too little is left of a limit for a request.
    pub(crate) fn short(&self, turn: u64, nth: u64, because: &Because) -> Result<(), JournalError> {
        self.append(&Short { turn, nth, because: because.clone() })
    }

    /// What is known of a request that the run comes to.
    pub(crate) fn known(&self, now: &Request) -> Result<Known, JournalError> {
        let (request, known) = self.taken(|past| past.asked(now.turn, now.nth));
        match request {
            Some(request) if request != *now => Err(self.differs("request", now.turn)),
            _ => Ok(known),
        }
    }

    /// A request is about to be sent.
    pub(crate) fn asks(&self, request: &Request) -> Result<(), JournalError> {
        self.append(request)
    }

    /// Whether the run is kept at all.
    pub(crate) fn keeps(&self) -> bool {
        self.journal.is_some()
    }

    /// What came back for a request, and its bytes.
    pub(crate) fn came(&self, came: Came, body: &[u8]) -> Result<(), JournalError> {
        let (body, body_hex) = bytes::written(body);
        self.append(&Came { body, body_hex, ..came })
    }

    /// What a turn came to; returns what the run has cost so far, which is what was recorded where
    /// it `shares` that with others.
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

    /// What is recorded of a call that begins a run of its own: the call, and its result.
    pub(crate) fn agent_call(
        &self,
        now: &Call,
    ) -> Result<Option<(Call, Option<CallResult>)>, JournalError> {
        match self.taken(|past| past.calls.remove(&(now.turn, now.call))) {
            Some((known, _)) if !known.is(now) => Err(self.differs("call", now.turn)),
            known => Ok(known),
        }
    }

    /// A call is about to run.
    pub(crate) fn calls(&self, call: &Call) -> Result<(), JournalError> {
        self.append(call)
    }

    /// What becomes of a call, before it is run. One that was under way when the process ended is
    /// run again only where that does no harm.
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

    /// A call that was under way when the process ended has its result: nobody knows what it did.
    pub(crate) fn interrupted(&self, call: &Call) -> Result<ToolOutput, JournalError> {
        let output = ToolOutput::error(interrupted(&call.name));
        self.result(call, &output, Duration::ZERO, true)?;
        Ok(output)
    }

    /// What a call that was run came to.
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

    /// What was said to the run during a round, and whether it was cancelled meanwhile, where that
    /// was recorded.
    pub(crate) fn said(&self, turn: u64) -> Option<(Vec<String>, bool)> {
        let past = lock(&self.past);
        past.rounds.get(&turn).map(|round| (round.said.clone(), round.cancelled))
    }

    /// A turn's calls are answered.
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

    /// The run has ended; returns how it is recorded that it has, if it is.
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

    /// What the run goes by if it comes to something else than was recorded.
    pub(crate) fn differs(&self, record: &'static str, turn: u64) -> JournalError {
        let by = self.start.as_ref().map_or("?", |start| start.softland.as_str());
        match &self.journal {
            Some(journal) => journal.differs(record, turn, by),
            // Nothing is recorded where there is no journal.
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

/// The body of a recorded answer.
pub(crate) fn body(came: &Came) -> Option<Vec<u8>> {
    bytes::read(&came.body, &came.body_hex)
}

/// What a model is told of a call whose result nobody knows.
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

/// The time, as RFC 3339 in UTC.
#[must_use]
pub fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// A new run's id: sorts by time, and differs between processes that begin in the same second.
#[must_use]
pub fn new_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    format!("run-{now}-{:08x}", random & 0xffff_ffff)
}
