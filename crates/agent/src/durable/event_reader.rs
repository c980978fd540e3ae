//! Reads the published events of a durable run.

use std::collections::BTreeMap;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::step::{Step, drop_incomplete_line};
use crate::event::{Event, EventKind};

/// Reads published events piece by piece, in the order of publication.
#[derive(Debug, Default)]
pub struct EventReader {
    line: Vec<u8>,
}

/// The first byte of a piece: whether a line that is incomplete before it goes on in it.
const GOES_ON: u8 = b'+';
const BEGINS: u8 = b'!';

/// Returns the events of a step as they are published.
pub(super) fn events_piece(step: &Step) -> Bytes {
    let mut piece = BytesMut::with_capacity(step.events.len() + 1);
    piece.put_u8(if step.first { BEGINS } else { GOES_ON });
    piece.put_slice(&step.events);
    piece.freeze()
}

impl EventReader {
    /// Takes the next piece. Returns the events that are complete with it.
    ///
    /// # Errors
    /// Returns an error if the piece is none, or an event is of a version that is not read.
    pub fn push_piece(&mut self, piece: &[u8]) -> Result<Vec<Event>, serde_json::Error> {
        let Some((mark, bytes)) = piece.split_first() else { return Ok(Vec::new()) };
        if *mark == BEGINS {
            self.line.clear();
        }
        let mut events = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.last() == Some(&b'\n') {
                let mut event: Event = serde_json::from_slice(&self.line)?;
                if let EventKind::Error { message, report } = &mut event.kind {
                    report.failure = Some(message.clone());
                }
                events.push(event);
                self.line.clear();
            }
        }
        Ok(events)
    }
}

/// The recorded steps of a run that a process takes over.
#[derive(Debug, Default)]
pub(super) struct RecordedSteps {
    pub(super) records: Vec<u8>,
    /// The number of published events of each run.
    pub(super) published: BTreeMap<String, u64>,
    reader: EventReader,
}

impl RecordedSteps {
    /// Adds a step.
    ///
    /// # Errors
    /// Returns an error if an event cannot be read.
    pub(super) fn push_step(&mut self, step: &Step) -> Result<(), serde_json::Error> {
        if step.first {
            drop_incomplete_line(&mut self.records);
        }
        self.records.extend_from_slice(&step.records);
        for event in self.reader.push_piece(&events_piece(step))? {
            self.published.insert(event.run, event.seq + 1);
        }
        Ok(())
    }
}
