//! The events of a stream with their delays, cut or failed as a turn demands. Protocols write the
//! contents of the events.

use crate::reply::{Chunk, Piece};
use crate::turn::{Fault, Turn};

/// One event of a stream.
#[derive(Debug)]
pub(crate) struct Event {
    bytes: Vec<u8>,
    delay_ms: u64,
    is_delta: bool,
}

impl Event {
    /// Creates an event. Deltas get the turn's delay.
    pub(crate) fn new(text: String, is_delta: bool) -> Self {
        Self { bytes: text.into_bytes(), delay_ms: 0, is_delta }
    }

    fn into_chunk(self) -> Chunk {
        Chunk { delay_ms: self.delay_ms, piece: Piece::Bytes(self.bytes) }
    }
}

/// Sends events with the delays and the fault of a turn. `failure` writes the end of a stream that
/// fails after the given number of events.
pub(crate) fn send_events(
    mut events: Vec<Event>,
    turn: &Turn,
    failure: impl FnOnce(usize) -> Vec<Event>,
) -> Vec<Chunk> {
    if let Some(first) = events.first_mut() {
        first.delay_ms = turn.first_delay_ms;
    }
    for event in events.iter_mut().filter(|e| e.is_delta) {
        event.delay_ms = turn.delta_delay_ms;
    }
    match turn.fault {
        Some(Fault::ErrorEvent { after }) => {
            events.truncate(after.max(1));
            events.extend(failure(events.len()));
            events.into_iter().map(Event::into_chunk).collect()
        }
        Some(Fault::Cut { after }) => cut_events(events, after),
        _ => events.into_iter().map(Event::into_chunk).collect(),
    }
}

fn cut_events(events: Vec<Event>, after: usize) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    for (i, mut event) in events.into_iter().enumerate() {
        if i == after {
            event.bytes.truncate(event.bytes.len() / 2);
            chunks.push(event.into_chunk());
            break;
        }
        chunks.push(event.into_chunk());
    }
    chunks.push(Chunk { delay_ms: 0, piece: Piece::Cut });
    chunks
}
