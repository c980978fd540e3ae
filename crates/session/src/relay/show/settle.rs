//! Shows the held part of a response at its verdict.

use softland_core::{Admission, Call, VisibleText};

use super::ClientMessage;
use crate::block_view::BlockView;
use crate::out::Output;
use crate::relay::held_thinking::hide_orphans;
use crate::relay::slot::BlockSlot;
use crate::relay::text_events::report_block;
use crate::relay::visibility::Visibility;
use crate::reply::{Block, Reply};
use crate::tags::TaggedTexts;

impl ClientMessage {
    /// Shows what was held, as far as the verdict says.
    pub(in crate::relay) fn settle_blocks(
        &mut self,
        reply: &Reply,
        show: Visibility,
        admissions: &[Admission],
        slots: &mut [BlockSlot],
        out: &mut Output,
    ) {
        if self.head.names.0.is_empty() {
            self.head.names = (reply.id.clone(), reply.model.clone());
        }
        // Calls that are written as text come first in `admissions`, and stand in the text.
        let (written, admissions) =
            admissions.split_at(reply.text_call_count().min(admissions.len()));
        let shows = self.shown_blocks(&reply.blocks, show, admissions, slots);
        let segments = reply.tagged.as_deref().map(TaggedTexts::segments_by_block);
        for (n, block) in reply.blocks.iter().enumerate() {
            if slots.get(n).is_some_and(BlockSlot::is_shown) {
                self.shown.list.push(block.clone());
                continue;
            }
            if shows.get(n) != Some(&true) {
                match block.as_view() {
                    BlockView::Text(text) if VisibleText::is_invisible_text(text) => {
                        self.likeness.thinned = true
                    }
                    _ => self.likeness.changed = true,
                }
                continue;
            }
            if let Some(slot) = slots.get_mut(n).filter(|slot| slot.is_waiting()) {
                self.release_block(slot, out);
                let index = slot.shown_index().unwrap_or_default();
                self.framing.note_shown_late(index, block);
                self.shown.list.push(block.clone());
                continue;
            }
            self.show_block(block, out);
            if let (Some(tagged), Some(segments)) = (reply.tagged.as_deref(), &segments)
                && matches!(block.as_view(), BlockView::Text(_))
            {
                let shows = |place: usize| show.shows_call(written.get(place));
                let segments = segments.get(&n).map(Vec::as_slice).unwrap_or_default();
                self.report_segments(segments, &tagged.calls, shows, out);
            }
        }
    }

    /// Returns true for each block that the client has, or gets now.
    fn shown_blocks(
        &self,
        blocks: &[Block],
        show: Visibility,
        admissions: &[Admission],
        slots: &[BlockSlot],
    ) -> Vec<bool> {
        let mut admissions = admissions.iter();
        let each = blocks.iter().enumerate().map(|(n, block)| {
            let admission =
                matches!(block.as_view(), BlockView::Call(..)).then(|| admissions.next());
            slots.get(n).is_some_and(BlockSlot::is_shown)
                || passes_verdict(block, show, admission.flatten())
        });
        let mut shows: Vec<bool> = each.collect();
        if self.framing.form().ties_thinking {
            hide_orphans(blocks, &mut shows);
        }
        shows
    }

    /// Shows a whole block.
    pub(super) fn show_block(&mut self, block: &Block, out: &mut Output) {
        let index = self.take_index(0);
        match block.as_view() {
            BlockView::Text(_) => self.shown.visible = true,
            BlockView::Call(Call { server, .. }, _) => self.shown.calls += u32::from(!server),
            BlockView::Thinking { .. } | BlockView::Result | BlockView::Other => {}
        }
        let of_text = matches!(block.as_view(), BlockView::Text(_));
        let apart = of_text && self.text_events.is_some();
        if !out.quiet && !apart {
            let index = self.event_index(index);
            report_block(index, block, out);
        }
        if self.streams {
            self.write_held_head(&[], out);
            self.framing.write_block(index, block, &mut out.bytes);
        }
        self.shown.list.push(block.clone());
    }
}

fn passes_verdict(block: &Block, show: Visibility, admission: Option<&Admission>) -> bool {
    match block.as_view() {
        BlockView::Text(text) => {
            show != Visibility::Nothing && !VisibleText::is_invisible_text(text)
        }
        _ if block.is_said() => show != Visibility::Nothing,
        BlockView::Call(..) => show.shows_call(admission),
        BlockView::Thinking { .. } | BlockView::Result | BlockView::Other => {
            matches!(show, Visibility::All | Visibility::Landed)
        }
    }
}
