//! Numbered, timed events for whoever listens.

use softland_session::Event as Shown;

use crate::event::{Event, EventKind};

/// Gives events their envelope.
pub(super) struct Emitter<'a> {
    sink: &'a mut (dyn FnMut(&Event) + Send),
    run: String,
    seq: u64,
    turn: u64,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(sink: &'a mut (dyn FnMut(&Event) + Send)) -> Self {
        Self { sink, run: new_run_id(), seq: 0, turn: 0 }
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
        (self.sink)(&event);
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
fn new_run_id() -> String {
    use std::hash::{BuildHasher as _, RandomState};
    let random = RandomState::new().hash_one(std::process::id());
    let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S");
    format!("run-{now}-{:06x}", random & 0xff_ffff)
}
