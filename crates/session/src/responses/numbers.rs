//! The `sequence_number` of what the client gets.

use softland_wire::json::Cursor;
use softland_wire::responses::Event;
use softland_wire::responses::respond::{Renumber, write_renumbered};
use softland_wire::sse::Decoder;

/// Counts the client's events. Numbers stay as they are as long as they fit.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// The next one, once there was one.
    next: Option<u64>,
    /// The newest that was read of the response under way.
    read: Option<u64>,
    /// Whether an upstream numbers its events as nobody should: they stay as they are then.
    irregular: bool,
    /// The responses after the first one are numbered anew, whatever they have.
    again: bool,
    /// Events may be written later than they are read.
    delayed: bool,
}

impl Numbers {
    /// The next response begins.
    pub(super) fn begin(&mut self) {
        self.again |= self.next.is_some();
        self.read = None;
        self.irregular = false;
    }

    /// From now on events may be written when others have been read behind them.
    pub(super) fn delay(&mut self) {
        self.delayed = true;
    }

    /// An event was read, for the first time.
    pub(super) fn note(&mut self, number: Option<u64>) {
        let expected = self.read.map_or(number, |read| read.checked_add(1));
        self.irregular |= number != expected;
        self.read = number.or(self.read);
    }

    /// The running number for an event of softland's own.
    pub(super) fn own(&mut self, write: impl FnOnce(&mut u64)) {
        let mut next = self.next.unwrap_or(0);
        write(&mut next);
        self.next = Some(next);
    }

    /// Appends one received event, under another index if one is given.
    pub(super) fn write(&mut self, raw: &[u8], index: Option<u32>, out: &mut Vec<u8>) {
        let keeps = self.irregular && !self.again;
        let newest = self.next == self.read && !self.again && !self.delayed;
        let number = match self.read {
            None if index.is_none() => {
                out.extend_from_slice(raw);
                return;
            }
            // All before it have gone out, so it is the newest.
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
        // It was read before, so it is JSON.
        if write_renumbered(out, raw, &numbers).is_err() {
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
                self.write(frame.raw, None, out);
            }
        }
    }
}

/// The number that an event has.
fn number_of(raw: &[u8]) -> Option<u64> {
    let mut decoder = Decoder::new(raw.len());
    decoder.push(raw);
    decoder.finish();
    let frame = decoder.next()?.ok()?;
    if frame.data.is_empty() || Cursor::new(&frame.data).peek().is_err() {
        return None;
    }
    Event::decode(frame.event, &frame.data).ok()?.sequence_number
}
