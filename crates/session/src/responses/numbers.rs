//! The `sequence_number` of the events that the client gets.

use softland_wire::json::Cursor;
use softland_wire::responses::Event;
use softland_wire::responses::respond::{Renumber, write_renumbered_event};
use softland_wire::sse::Decoder;

/// The counter of the client's events. Numbers stay as they are as long as they fit.
#[derive(Debug, Default)]
pub(super) struct SequenceNumbers {
    /// The next number, once there was one.
    next: Option<u64>,
    /// The newest number that was read of the response under way.
    read: Option<u64>,
    /// True if the upstream's numbers are out of order. They stay as they are then.
    irregular: bool,
    /// True if the responses after the first one are numbered anew, whatever they have.
    again: bool,
    /// True if events may be written later than they are read.
    delayed: bool,
}

impl SequenceNumbers {
    /// Creates a counter. `delayed` is true if events may be written after later ones have been
    /// read.
    pub(super) fn new(delayed: bool) -> Self {
        Self { delayed, ..Self::default() }
    }

    /// Prepares for the next response.
    pub(super) fn begin_response(&mut self) {
        self.again |= self.next.is_some();
        self.read = None;
        self.irregular = false;
    }

    /// Notes the number of an event that was read for the first time.
    pub(super) fn note_number(&mut self, number: Option<u64>) {
        let expected = self.read.map_or(number, |read| read.checked_add(1));
        self.irregular |= number != expected;
        self.read = number.or(self.read);
    }

    /// Gives `write` the running number, for an event of softland's own.
    pub(super) fn write_own(&mut self, write: impl FnOnce(&mut u64)) {
        let mut next = self.next.unwrap_or(0);
        write(&mut next);
        self.next = Some(next);
    }

    /// Appends a received event, under another index if there is one.
    pub(super) fn write_event(&mut self, raw: &[u8], index: Option<u32>, out: &mut Vec<u8>) {
        let keeps = self.irregular && !self.again;
        let newest = self.next == self.read && !self.again && !self.delayed;
        let number = match self.read {
            None if index.is_none() => {
                out.extend_from_slice(raw);
                return;
            }
            // All events before it have gone out, so it is the newest.
            Some(read) if newest && !keeps && index.is_none() => {
                self.next = Some(read.saturating_add(1));
                out.extend_from_slice(raw);
                return;
            }
            _ => number_of(raw),
        };
        let own = number.map(|number| match self.next {
            Some(next) if !keeps => next,
            next => number.max(next.unwrap_or(0)),
        });
        self.next = own.map(|own| own.saturating_add(1)).or(self.next);
        let sequence_number = own.filter(|own| !keeps && Some(*own) != number);
        if sequence_number.is_none() && index.is_none() {
            out.extend_from_slice(raw);
            return;
        }
        let numbers = Renumber { sequence_number, output_index: index, ..Renumber::default() };
        let at = out.len();
        // The event was read before, so it is JSON.
        if write_renumbered_event(out, raw, &numbers).is_err() {
            out.truncate(at);
            out.extend_from_slice(raw);
        }
    }

    /// Appends several received events.
    pub(super) fn write_all(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let mut decoder = Decoder::new(raw.len());
        decoder.push(raw);
        decoder.finish();
        while let Some(Ok(frame)) = decoder.next() {
            if frame.cut || number_of(frame.raw).is_none() {
                out.extend_from_slice(frame.raw);
            } else {
                self.write_event(frame.raw, None, out);
            }
        }
    }
}

/// Returns the number of an event.
fn number_of(raw: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    if frame.data.is_empty() || Cursor::new(&frame.data).peek().is_err() {
        return None;
    }
    Event::from_data(frame.event, &frame.data).ok()?.sequence_number
}
