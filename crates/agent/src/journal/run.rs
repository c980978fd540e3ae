//! One run's part of a journal: the questions that the loop asks and the facts that it records.
//!
//! Every question follows one pattern. A recorded fact is taken and, if it is a decision, compared
//! with the decision made now. A fact that is not recorded yet is written. A run without a journal
//! asks the same questions, finds nothing recorded and writes nothing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use softland_session::core::{Because, Facts, Millis, NanoUsd, PinnedRecords};
use tokio::time::Instant;

use super::record::{
    CallRecord, CallResultRecord, EndRecord, ParentCall, Record, RecordKind, RequestRecord,
    ResponseRecord, ResumeRecord, RoundRecord, ShortageRecord, StartRecord, TurnEndRecord,
    TurnRecord,
};
use super::recorded_run::{RecordedRun, RequestOutcome};
use super::{EffectPermit, Journal, JournalError, bytes, lock_unpoisoned};
use crate::event::Report;
use crate::tool::ToolOutput;

/// One run in a journal, or a run without a journal.
#[derive(Clone)]
pub struct RunJournal {
    journal: Option<Journal>,
    run: Arc<str>,
    parent: Option<ParentCall>,
    setup: Value,
    continues: Option<String>,
    clock: RunClock,
    start: Option<Arc<StartRecord>>,
    past: Arc<Mutex<RecordedRun>>,
}

/// The clock of a run: its recorded time plus the time since then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    began: Instant,
    before: Duration,
}

impl RunClock {
    pub(crate) fn elapsed(&self) -> Millis {
        let elapsed = self.before.saturating_add(self.began.elapsed());
        Millis(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX))
    }

    /// Returns the moment at which the run has used this much time.
    pub(crate) fn instant_at(&self, time: Millis) -> Instant {
        self.began + Duration::from_millis(time.0).saturating_sub(self.before)
    }
}

/// The decision about a call that a run reaches.
#[derive(Debug)]
pub(crate) enum CallDecision {
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
    pub fn without_journal() -> Self {
        Self::from_parts(None, new_run_id(), None, RecordedRun::default())
    }

    pub(super) fn from_parts(
        journal: Option<Journal>,
        run: String,
        parent: Option<ParentCall>,
        mut past: RecordedRun,
    ) -> Self {
        let clock = RunClock { began: Instant::now(), before: Duration::from_millis(past.ms) };
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
    pub fn with_continued_run(self, run: &str) -> Self {
        Self { continues: Some(run.to_owned()), ..self }
    }

    /// Returns the run's id.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Returns the start record of the run; `None` for a run that is yet to begin.
    #[must_use]
    pub fn start_record(&self) -> Option<&StartRecord> {
        self.start.as_deref()
    }

    /// Returns the run that answers a call of this run: the recorded one, or a new one. `call`
    /// counts the calls of the turn from 0.
    #[must_use]
    pub fn child_run(&self, turn: u64, call: u64) -> Self {
        let parent = ParentCall { run: self.run.to_string(), turn, call };
        self.find_or_create_child(parent, new_run_id)
    }

    /// Returns the run that answers a call; a new run is the `nth` child of this run.
    pub(crate) fn nth_child(&self, turn: u64, call: u64, nth: u64) -> Self {
        let parent = ParentCall { run: self.run.to_string(), turn, call };
        self.find_or_create_child(parent, || format!("{}.{nth}", self.run))
    }

    fn find_or_create_child(&self, parent: ParentCall, new: impl FnOnce() -> String) -> Self {
        match &self.journal {
            Some(journal) => journal.child_run(parent, new),
            None => Self::from_parts(None, new(), Some(parent), RecordedRun::default()),
        }
    }

    /// Returns the start records of all recorded sub-agent runs.
    pub(crate) fn recorded_children(&self) -> Vec<StartRecord> {
        self.journal.as_ref().map(Journal::recorded_children).unwrap_or_default()
    }

    /// Collects the runs that are replayed: this one and those below it. Called before the run is
    /// driven.
    pub(crate) fn collect_runs(&self) {
        if let Some(journal) = &self.journal {
            journal.collect_runs(&self.run, &lock_unpoisoned(&self.past));
        }
    }

    /// Waits until the whole tree has been replayed.
    pub(crate) async fn wait_until_caught_up(&self) {
        if let Some(journal) = &self.journal {
            journal.wait_until_caught_up().await;
        }
    }

    /// Waits until a request or a call may begin, before it is recorded. The permit is held until
    /// its result is recorded.
    pub(crate) async fn begin_effect(&self) -> Option<EffectPermit> {
        self.journal.as_ref()?.begin_effect().await
    }

    /// Waits until what was recorded outlives this process. An effect that a record announces does
    /// not begin before.
    pub(crate) async fn wait_until_stored(&self) {
        if let Some(journal) = &self.journal {
            journal.wait_until_stored().await;
        }
    }

    /// Replaces a result that the journal cannot keep by an error that says so.
    pub(crate) fn fit_result(&self, tool: &str, output: ToolOutput) -> ToolOutput {
        let (bytes, limit) =
            (output.content.len(), self.journal.as_ref().and_then(Journal::result_limit));
        match limit.filter(|limit| bytes > *limit) {
            Some(limit) => ToolOutput::error(too_large_message(tool, bytes, limit)),
            None => output,
        }
    }

    /// Takes a recorded fact.
    fn take_recorded<T>(&self, take: impl FnOnce(&mut RecordedRun) -> T) -> T {
        let mut past = lock_unpoisoned(&self.past);
        let taken = take(&mut past);
        let left = past.is_left();
        drop(past);
        if let Some(journal) = self.journal.as_ref().filter(|_| !left) {
            journal.mark_caught_up(&self.run);
        }
        taken
    }

    /// Returns true if the run is still replaying its records.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        lock_unpoisoned(&self.past).is_left()
    }

    /// Returns the time of an event, as RFC 3339 in UTC: that of the newest record that was taken,
    /// if the event is replayed or the journal is only read, else the current one.
    pub(crate) fn event_time(&self, replayed: bool) -> String {
        let read = replayed || self.journal.as_ref().is_some_and(Journal::is_closed);
        let recorded = read.then(|| lock_unpoisoned(&self.past).now).flatten();
        recorded.and_then(format_millis).unwrap_or_else(now_rfc3339)
    }

    /// Returns the journal's failure, if any. The run must stop then.
    pub(crate) fn failure(&self) -> Option<JournalError> {
        self.journal.as_ref()?.failure()
    }

    /// Returns the id under which a person can resume the run, if its journal allows that.
    pub(crate) fn resumable_id(&self) -> Option<String> {
        let resumable = self.journal.as_ref().is_some_and(Journal::is_resumable);
        (resumable && self.parent.is_none()).then(|| self.run.to_string())
    }

    /// Returns true if the run answers another run's call.
    pub(crate) fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    pub(crate) fn clock(&self) -> RunClock {
        self.clock
    }

    /// Records the start of a new run.
    pub(crate) fn record_start(&self, start: StartRecord) -> Result<(), JournalError> {
        let (parent, continues) = (self.parent.clone(), self.continues.clone());
        self.append_record(&StartRecord { parent, continues, setup: self.setup.clone(), ..start })
    }

    /// Records that the run is resumed. A run that has ended with an answer is not changed.
    pub(crate) fn record_resume(&self) -> Result<(), JournalError> {
        let closed = self.journal.as_ref().is_some_and(Journal::is_closed);
        if lock_unpoisoned(&self.past).is_done() || self.parent.is_some() || closed {
            return Ok(());
        }
        let softland = env!("CARGO_PKG_VERSION").to_owned();
        self.append_record(&ResumeRecord { softland, ts: now_rfc3339() })
    }

    /// Returns true if the start of this turn is recorded.
    pub(crate) fn has_turn(&self, turn: u64) -> bool {
        lock_unpoisoned(&self.past).turns.contains_key(&turn)
    }

    /// Returns true if the answers to this turn's calls are recorded. Their results were emitted
    /// then.
    pub(crate) fn has_round(&self, turn: u64) -> bool {
        lock_unpoisoned(&self.past).rounds.contains_key(&turn)
    }

    /// Returns true if it is recorded that the run was cancelled while this turn's calls ran.
    pub(crate) fn was_cancelled(&self, turn: u64) -> bool {
        lock_unpoisoned(&self.past).rounds.get(&turn).is_some_and(|round| round.cancelled)
    }

    /// Returns the facts of a turn and records them. A recorded time takes the place of the current
    /// one. For a run that shares its budget with others, so does the recorded remainder of the
    /// budget.
    pub(crate) fn record_turn(
        &self,
        turn: u64,
        shares: bool,
        facts: impl FnOnce(Millis) -> Facts,
    ) -> Result<Facts, JournalError> {
        let known = self.take_recorded(|past| {
            past.note_taken((RecordKind::Turn.word(), turn, 0));
            past.turns.remove(&turn)
        });
        let elapsed = known.as_ref().map_or_else(|| self.clock.elapsed(), |k| k.facts.elapsed);
        let facts = facts(elapsed);
        let facts = match known.as_ref().filter(|_| shares) {
            None => facts,
            Some(TurnRecord { facts: then, .. }) => Facts {
                next_input: facts.next_input,
                next_input_cost: facts.next_input_cost,
                reserve_input_cost: facts.reserve_input_cost,
                output_pico: facts.output_pico,
                ..*then
            },
        };
        self.record_or_compare(turn, known, TurnRecord { turn, facts })?;
        Ok(facts)
    }

    /// Returns true if it is recorded that this request was not sent.
    pub(crate) fn was_unsent(&self, turn: u64, nth: u64) -> bool {
        let past = lock_unpoisoned(&self.past);
        past.requests.get(&(turn, nth)).is_some_and(|asked| asked.request.is_none())
    }

    /// Returns the output tokens that a request was granted, if its sending is recorded.
    pub(crate) fn granted_output(&self, turn: u64, nth: u64) -> Option<u64> {
        let past = lock_unpoisoned(&self.past);
        Some(past.requests.get(&(turn, nth))?.request.as_ref()?.reserve.output)
    }

    /// Returns the limit of which too little was left for this request, if that is recorded.
    pub(crate) fn recorded_shortage(&self, turn: u64, nth: u64) -> Option<Because> {
        self.take_recorded(|past| past.shorts.remove(&(turn, nth))).map(|short| short.because)
    }

    /// Records that too little is left of a limit for a request.
    pub(crate) fn record_shortage(
        &self,
        turn: u64,
        nth: u64,
        because: &Because,
    ) -> Result<(), JournalError> {
        self.append_record(&ShortageRecord { turn, nth, because: because.clone() })
    }

    /// Takes the recorded outcome of a request that the run reaches.
    pub(crate) fn take_request(&self, now: &RequestRecord) -> Result<RequestOutcome, JournalError> {
        let (request, known) = self.take_recorded(|past| past.take_request(now.turn, now.nth));
        match request {
            Some(request) if request != *now => Err(self.mismatch_error("request", now.turn)),
            _ => Ok(known),
        }
    }

    /// Records that a request is about to be sent.
    pub(crate) fn record_request(&self, request: &RequestRecord) -> Result<(), JournalError> {
        self.append_record(request)
    }

    /// Returns true if the run has a journal.
    pub(crate) fn is_recorded(&self) -> bool {
        self.journal.is_some()
    }

    /// Records the response to a request, with its bytes.
    pub(crate) fn record_response(
        &self,
        came: ResponseRecord,
        body: &[u8],
    ) -> Result<(), JournalError> {
        let (body, body_hex) = bytes::encode_bytes(body);
        self.append_record(&ResponseRecord { body, body_hex, ..came })
    }

    /// Records the result of a turn. Returns what the run has cost so far; if it `shares` its
    /// budget with others, a recorded cost takes precedence.
    pub(crate) fn record_turn_end(
        &self,
        turn: u64,
        messages: &[Vec<u8>],
        records: PinnedRecords,
        (cost, shares): (NanoUsd, bool),
    ) -> Result<NanoUsd, JournalError> {
        if !self.is_recorded() {
            return Ok(cost);
        }
        let known = self.take_recorded(|past| {
            past.note_taken((RecordKind::Took.word(), turn, 0));
            past.took.remove(&turn)
        });
        let messages = message_texts(messages);
        let then = known.as_ref().filter(|_| shares).map(|known| known.nano);
        let nano = then.unwrap_or(cost.0);
        self.record_or_compare(turn, known, TurnEndRecord { turn, messages, records, nano })?;
        Ok(NanoUsd(nano))
    }

    /// Takes the record of a call that begins a run of its own: the call and its result.
    pub(crate) fn take_agent_call(
        &self,
        now: &CallRecord,
    ) -> Result<Option<(CallRecord, Option<CallResultRecord>)>, JournalError> {
        match self.take_call(now) {
            Some((known, _)) if !known.is_same(now) => Err(self.mismatch_error("call", now.turn)),
            known => Ok(known),
        }
    }

    /// Records that a call is about to run.
    pub(crate) fn record_call(&self, call: &CallRecord) -> Result<(), JournalError> {
        self.append_record(call)
    }

    /// Takes the record of a call, and its result.
    fn take_call(&self, call: &CallRecord) -> Option<(CallRecord, Option<CallResultRecord>)> {
        self.take_recorded(|past| {
            for kind in [RecordKind::Call, RecordKind::Result] {
                past.note_taken((kind.word(), call.turn, call.call));
            }
            past.calls.remove(&(call.turn, call.call))
        })
    }

    /// Decides about a call before it is run. A call that was running when the process ended runs
    /// again only if `again` allows it.
    pub(crate) fn decide_call(&self, call: &CallRecord, again: bool) -> CallDecision {
        match self.take_call(call) {
            None => CallDecision::Run,
            Some((known, result)) if known == *call => match result {
                Some(result) => {
                    CallDecision::Has(result.to_output(), Duration::from_millis(result.took))
                }
                None if again => CallDecision::Run,
                None => CallDecision::Lost,
            },
            Some(_) => CallDecision::Broken(self.mismatch_error("call", call.turn)),
        }
    }

    /// Records a result for a call that was running when the process ended: its effect is unknown.
    pub(crate) fn record_interrupted(&self, call: &CallRecord) -> Result<ToolOutput, JournalError> {
        let output = ToolOutput::error(interrupted_message(&call.name));
        self.record_result(call, &output, Duration::ZERO, true)?;
        Ok(output)
    }

    /// Records the result of a call that was run.
    pub(crate) fn record_result(
        &self,
        call: &CallRecord,
        output: &ToolOutput,
        took: Duration,
        interrupted: bool,
    ) -> Result<(), JournalError> {
        let ToolOutput { content, is_error, .. } = output.clone();
        let took = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let CallRecord { turn, call, .. } = *call;
        self.append_record(&CallResultRecord { turn, call, content, is_error, took, interrupted })
    }

    /// Returns what was said to the run during a round, and whether it was cancelled, if that is
    /// recorded.
    pub(crate) fn recorded_remarks(&self, turn: u64) -> Option<(Vec<String>, bool)> {
        let past = lock_unpoisoned(&self.past);
        past.rounds.get(&turn).map(|round| (round.said.clone(), round.cancelled))
    }

    /// Records the answers to a turn's calls.
    pub(crate) fn record_round(
        &self,
        turn: u64,
        said: Vec<String>,
        messages: &[Vec<u8>],
        cancelled: bool,
    ) -> Result<(), JournalError> {
        if !self.is_recorded() {
            return Ok(());
        }
        let known = self.take_recorded(|past| {
            past.note_taken((RecordKind::Round.word(), turn, 0));
            past.rounds.remove(&turn)
        });
        self.record_or_compare(
            turn,
            known,
            RoundRecord { turn, said, messages: message_texts(messages), cancelled },
        )
    }

    /// Records the end of the run. Returns the recorded end if there is one.
    pub(crate) fn record_end(
        &self,
        turn: u64,
        seq: u64,
        report: &Report,
    ) -> Result<Option<Report>, JournalError> {
        if !self.is_recorded() {
            return Ok(None);
        }
        let known = self.take_recorded(|past| {
            past.note_taken((RecordKind::End.word(), turn, 0));
            past.end.take()
        });
        let (failure, report) = (report.failure.clone(), Box::new(report.clone()));
        let now = EndRecord { turn, seq, report, failure };
        match known {
            None => self.append_record(&now).map(|()| None),
            Some(known) if known.report.answer == now.report.answer && known.seq == seq => {
                Ok(Some(Report { failure: known.failure, ..*known.report }))
            }
            Some(_) => Err(self.mismatch_error("end", turn)),
        }
    }

    /// Returns the error of a run whose decision differs from the recorded one.
    pub(crate) fn mismatch_error(&self, record: &'static str, turn: u64) -> JournalError {
        let by = self.start.as_ref().map_or("?", |start| start.softland.as_str());
        match &self.journal {
            Some(journal) => journal.mismatch_error(record, turn, by),
            // A run without a journal has no records.
            None => JournalError::new(
                std::path::Path::new(""),
                super::JournalErrorKind::Differs { record, turn, by: by.to_owned() },
            ),
        }
    }

    fn record_or_compare<R: Record + PartialEq>(
        &self,
        turn: u64,
        known: Option<R>,
        now: R,
    ) -> Result<(), JournalError> {
        match known {
            None => self.append_record(&now),
            Some(known) if known == now => Ok(()),
            Some(_) => Err(self.mismatch_error(R::KIND.word(), turn)),
        }
    }

    fn append_record<R: Record>(&self, record: &R) -> Result<(), JournalError> {
        match &self.journal {
            Some(journal) => journal.append_record(&self.run, self.clock.elapsed().0, record),
            None => Ok(()),
        }
    }
}

/// Returns the body of a recorded response.
pub(crate) fn response_body(came: &ResponseRecord) -> Option<Vec<u8>> {
    bytes::decode_bytes(&came.body, &came.body_hex)
}

/// Returns the message for the model about a call whose result is unknown.
fn interrupted_message(tool: &str) -> String {
    format!(
        "{tool}: interrupted. This call was broken off before its result was known: it may have taken effect, wholly, in part or not at all. It was not run again."
    )
}

/// Returns the message for the model about a result that the journal cannot keep.
fn too_large_message(tool: &str, bytes: usize, limit: usize) -> String {
    format!(
        "{tool}: result too large. The call ran, but its result of {bytes} bytes is larger than \
         the {limit} bytes that the engine of this run keeps. Ask for less at a time."
    )
}

fn message_texts(messages: &[Vec<u8>]) -> Vec<String> {
    let text = |message: &Vec<u8>| String::from_utf8_lossy(message).into_owned();
    messages.iter().map(text).collect()
}

/// Returns a time in milliseconds since 1970 as RFC 3339 in UTC.
fn format_millis(millis: i64) -> Option<String> {
    jiff::Timestamp::from_millisecond(millis).ok().map(|time| format!("{time:.3}"))
}

/// Returns the current time, as RFC 3339 in UTC.
#[must_use]
pub fn now_rfc3339() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

/// Returns an id for a new run. Ids sort by time, and differ between processes that begin in the
/// same second.
#[must_use]
pub fn new_run_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    format!("run-{now}-{:08x}", random & 0xffff_ffff)
}
