//! Events with their numbers and times, for the listener of a tree of runs.

use std::sync::{Mutex, PoisonError};

use softland_session::Event as Shown;
use softland_session::core::Run;
use softland_session::core::policy::Policy;

use crate::event::{Event, EventKind};
use crate::journal::RunJournal;

/// The listener of a tree of runs. It receives an event before the run goes on, so that no event is
/// queued and the events of each run arrive in order.
pub(super) trait EventSink: Sync {
    fn receive_event(&self, event: &Event);
}

impl EventSink for Mutex<&mut (dyn FnMut(&Event) + Send)> {
    fn receive_event(&self, event: &Event) {
        (self.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }
}

/// Gives events their envelope.
pub(super) struct Emitter<'a> {
    sink: &'a dyn EventSink,
    journal: RunJournal,
    seq: u64,
    turn: u64,
    /// The turn whose calls are being answered, as the journal counts turns.
    calls_of: u64,
    /// True if thinking is emitted.
    thinking: bool,
    /// True within a block of thinking that is not emitted.
    hidden: bool,
    /// True once the model was told what is left.
    counts: bool,
    /// True if the policy only observes.
    observed: bool,
    /// The provider's name for the request whose answer is being emitted.
    pub(super) request_id: Option<String>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(sink: &'a dyn EventSink, journal: RunJournal, thinking: bool) -> Self {
        let (seq, turn, calls_of) = (0, 0, 0);
        let (hidden, counts, observed, request_id) = (false, false, false, None);
        Self { sink, journal, seq, turn, calls_of, thinking, hidden, counts, observed, request_id }
    }

    /// Marks what the session says as observed, if the policy only observes.
    pub(super) fn with_policy(self, policy: &Policy) -> Self {
        Self { observed: policy.is_observing(), ..self }
    }

    /// Returns the listener.
    pub(super) fn sink(&self) -> &'a dyn EventSink {
        self.sink
    }

    /// Returns the number of the next event.
    pub(super) fn seq(&self) -> u64 {
        self.seq
    }

    /// Emits a session's event, unless it has no form as an event of a run.
    pub(super) fn emit_shown(&mut self, shown: Shown) {
        if let Some(kind) = event_kind(shown, self.observed) {
            self.emit_event(kind);
        }
    }

    pub(super) fn emit_event(&mut self, kind: EventKind) {
        let told = self.journal.is_replaying();
        self.send_as(kind, told);
    }

    /// Emits an event about a turn's calls. It counts as replayed if the journal holds the end of
    /// the round. Until then, recorded results were not emitted.
    pub(super) fn emit_call_event(&mut self, kind: EventKind) {
        let told = self.journal.has_round(self.calls_of);
        self.send_as(kind, told);
    }

    fn send_as(&mut self, kind: EventKind, replayed: bool) {
        if self.filter_thinking(&kind) {
            return;
        }
        self.counts |=
            matches!(&kind, EventKind::Intervention { intervention: "countdown" | "warn", .. });
        let event = Event {
            v: 1,
            seq: self.seq,
            ts: self.journal.event_time(replayed),
            run: self.journal.run_id().to_owned(),
            turn: self.turn,
            replayed,
            kind,
        };
        self.seq += 1;
        self.sink.receive_event(&event);
    }

    /// Returns true for thinking that nobody asked for. Such events are left out before they are
    /// numbered, so that numbers have no gaps.
    fn filter_thinking(&mut self, kind: &EventKind) -> bool {
        let (was, thinks) = (self.hidden, !self.thinking);
        self.hidden = thinks && matches!(kind, EventKind::ThinkingStart)
            || was && matches!(kind, EventKind::ThinkingDelta { .. });
        match kind {
            EventKind::ThinkingStart | EventKind::ThinkingDelta { .. } => thinks,
            EventKind::BlockStop { .. } => was,
            _ => false,
        }
    }

    /// Notes that the calls of this turn are about to be answered.
    pub(super) fn begin_answers(&mut self, turn: u64) {
        self.calls_of = turn;
    }

    /// Begins a turn and emits its event.
    pub(super) fn begin_turn(&mut self, run: &Run, policy: &Policy) {
        self.turn = run.used().turns + 1;
        let phase = match run.phase() {
            // Whatever would have been said to the model was not said.
            _ if self.observed => "silent",
            phase if phase.is_told() => "landing",
            _ if self.counts => "countdown",
            _ => "silent",
        };
        self.emit_event(EventKind::TurnStart {
            turns_limit: policy.turns_limit,
            tool_calls: run.used().calls,
            tool_calls_limit: policy.tool_calls_limit,
            phase,
        });
    }
}

/// Returns a session's event as the event of a run. Usage is left out here, because its
/// event needs the price.
fn event_kind(shown: Shown, observed: bool) -> Option<EventKind> {
    Some(match shown {
        Shown::TextStart => EventKind::TextStart,
        Shown::TextDelta(text) => EventKind::TextDelta { text },
        Shown::ThinkingStart => EventKind::ThinkingStart,
        Shown::ThinkingDelta(text) => EventKind::ThinkingDelta { text },
        Shown::ToolStart { id, name } => EventKind::ToolStart { id, name },
        Shown::ToolInputDelta { id, partial_json } => {
            EventKind::ToolInputDelta { id, partial_json }
        }
        Shown::BlockStop { index } => EventKind::BlockStop { index },
        Shown::Signal(signal) => {
            EventKind::Signal { signal: signal.signal.word(), evidence: signal.evidence }
        }
        Shown::Intervention { intervention, because, text } => {
            EventKind::Intervention { intervention: intervention.word(), because, text, observed }
        }
        Shown::Usage(_) | Shown::Shaped(_) | Shown::Advice(_) => return None,
    })
}
