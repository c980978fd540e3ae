//! The client's side of texts that calls are written in.

use super::ClientMessage;
use crate::framing::ShapedEnd;
use crate::out::Output;
use crate::relay::text_events::TextEvents;
use crate::tags::{SegmentKind, TagCall, TextSegment};

/// Methods for texts that calls are written in.
impl ClientMessage {
    /// Reports texts and calls apart from now on.
    pub(in crate::relay) fn report_apart(&mut self) {
        self.text_events = Some(TextEvents::default());
    }

    /// Notes that the client's message differs from what came.
    pub(in crate::relay) fn mark_changed(&mut self) {
        self.likeness.changed = true;
    }

    /// Returns the index of the text that was shown and has not ended.
    pub(in crate::relay) fn open_text(&self) -> Option<u32> {
        self.shown.open.filter(|(_, text)| *text).map(|(index, _)| index)
    }

    /// Ends a text that cannot end as it came.
    pub(in crate::relay) fn end_text(
        &mut self,
        index: u32,
        raw: Option<&[u8]>,
        text: &str,
        out: &mut Output,
    ) {
        self.shown.open = None;
        if self.streams {
            self.framing.write_stop(index, Some(ShapedEnd { raw, text }), &mut out.bytes);
        }
    }

    pub(in crate::relay) fn report_text(&mut self, text: &str, out: &mut Output) {
        if let Some(text_events) = &mut self.text_events {
            text_events.report_text(text, out);
        }
    }

    pub(in crate::relay) fn report_call(&mut self, call: &TagCall, out: &mut Output) {
        if let Some(text_events) = &mut self.text_events {
            text_events.report_call(call, out);
        }
    }

    pub(in crate::relay) fn report_text_end(&mut self, out: &mut Output) {
        if let Some(text_events) = &mut self.text_events {
            text_events.end_text(out);
        }
    }

    pub(super) fn report_segments(
        &mut self,
        segments: &[&TextSegment],
        calls: &[TagCall],
        shows: impl Fn(usize) -> bool,
        out: &mut Output,
    ) {
        for segment in segments {
            match segment.what {
                SegmentKind::Text => self.report_text(&segment.raw, out),
                SegmentKind::Call(place) => {
                    if let Some(call) = calls.get(place).filter(|_| shows(place)) {
                        self.report_call(call, out);
                    }
                }
                SegmentKind::Repeated | SegmentKind::Open => {}
            }
        }
        self.report_text_end(out);
    }

    /// Returns the index under which a block is reported.
    pub(super) fn event_index(&mut self, index: u32) -> u32 {
        self.text_events.as_mut().map_or(index, TextEvents::next_index)
    }
}
