//! The client's side of texts that calls are written in.

use super::Client;
use crate::out::Out;
use crate::relay::tell::Teller;
use crate::tags::{Segment, TagCall, What};

/// Methods for texts that calls are written in.
impl Client {
    /// Reports texts and calls apart from now on.
    pub(in crate::relay) fn tells_apart(&mut self) {
        self.teller = Some(Teller::default());
    }

    /// Notes that the client's message differs from what came.
    pub(in crate::relay) fn change(&mut self) {
        self.changed = true;
    }

    /// Returns the index of the text that was shown and has not ended.
    pub(in crate::relay) fn open_text(&self) -> Option<u32> {
        self.open.filter(|(_, text)| *text).map(|(index, _)| index)
    }

    /// Ends a text that cannot end as it came.
    pub(in crate::relay) fn end_text(
        &mut self,
        index: u32,
        raw: Option<&[u8]>,
        text: &str,
        out: &mut Out,
    ) {
        self.open = None;
        if self.streams {
            self.framing.write_text_end(index, raw, text, &mut out.bytes);
        }
    }

    pub(in crate::relay) fn tell_text(&mut self, text: &str, out: &mut Out) {
        if let Some(teller) = &mut self.teller {
            teller.text(text, out);
        }
    }

    pub(in crate::relay) fn tell_call(&mut self, call: &TagCall, out: &mut Out) {
        if let Some(teller) = &mut self.teller {
            teller.call(call, out);
        }
    }

    pub(in crate::relay) fn tell_end(&mut self, out: &mut Out) {
        if let Some(teller) = &mut self.teller {
            teller.end(out);
        }
    }

    pub(super) fn tell_segments(
        &mut self,
        segments: &[&Segment],
        calls: &[TagCall],
        shows: impl Fn(usize) -> bool,
        out: &mut Out,
    ) {
        for segment in segments {
            match segment.what {
                What::Text => self.tell_text(&segment.raw, out),
                What::Call(place) => {
                    if let Some(call) = calls.get(place).filter(|_| shows(place)) {
                        self.tell_call(call, out);
                    }
                }
                What::Repeated | What::Open => {}
            }
        }
        self.tell_end(out);
    }

    /// Returns the index under which a block is reported.
    pub(super) fn told(&mut self, index: u32) -> u32 {
        self.teller.as_mut().map_or(index, Teller::next)
    }
}
