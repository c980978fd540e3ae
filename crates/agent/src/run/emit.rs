//! Numbered, timed events for whoever listens.

use std::sync::{Mutex, PoisonError};

use softland_session::Event as Shown;

use crate::event::{Event, EventKind};

/// Who listens to the runs of a tree. An event is heard before the run goes on, so nothing is
/// kept back and each run's events are heard in order.
pub(super) trait Hear: Sync {
    fn hear(&self, event: &Event);
}

impl Hear for Mutex<&mut (dyn FnMut(&Event) + Send)> {
    fn hear(&self, event: &Event) {
        (self.lock().unwrap_or_else(PoisonError::into_inner))(event);
    }
}

/// Gives events their envelope.
pub(super) struct Emitter<'a> {
    sink: &'a dyn Hear,
    run: String,
    seq: u64,
    turn: u64,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(sink: &'a dyn Hear, run: String) -> Self {
        Self { sink, run, seq: 0, turn: 0 }
    }

    /// Who listens.
    pub(super) fn sink(&self) -> &'a dyn Hear {
        self.sink
    }

    /// The run's id.
    pub(super) fn run(&self) -> &str {
        &self.run
    }

    pub(super) fn send(&mut self, kind: EventKind) {
        let event = Event {
            v: 1,
            seq: self.seq,
            ts: format!("{:.3}", jiff::Timestamp::now()),
            run: self.run.clone(),
            turn: self.turn,
            kind,
        };
        self.seq += 1;
        self.sink.hear(&event);
    }

    /// A turn begins.
    pub(super) fn turn(&mut self, turn: u64, turns_limit: Option<u64>) {
        self.turn = turn;
        self.send(EventKind::TurnStart { turns_limit });
    }
}

/// A session's event in the contract's words; usage is told where the price is known.
pub(super) fn kind(shown: Shown) -> Option<EventKind> {
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
            EventKind::Intervention { intervention: intervention.word(), because, text }
        }
        Shown::Usage(_) | Shown::Shaped(_) => return None,
    })
}

/// Sorts by time, and differs between processes that begin in the same millisecond.
pub(super) fn new_run_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    format!("run-{now}-{:06x}", random & 0xff_ffff)
}
