//! Shows the held part of a response at its verdict.

use softland_core::{Admission, Call, Text};

use super::{Client, Show, Slot};
use crate::out::Out;
use crate::relay::tell::tell_whole;
use crate::relay::wait::hide_orphans;
use crate::reply::{Block, Reply, Seen};
use crate::tags::{self, Tagged};

impl Client {
    /// Shows what was held, as far as the verdict says.
    pub(in crate::relay) fn settle(
        &mut self,
        reply: &Reply,
        show: Show,
        admissions: &[Admission],
        slots: &mut [Slot],
        out: &mut Out,
    ) {
        if self.head.0.is_empty() {
            self.head = (reply.id.clone(), reply.model.clone());
        }
        // Calls that are written as text come first in `admissions`, and stand in the text.
        let (written, admissions) = admissions.split_at(reply.written().min(admissions.len()));
        let shows = self.shows(&reply.blocks, show, admissions, slots);
        let segments = reply.tagged.as_deref().map(Tagged::by_block);
        for (n, block) in reply.blocks.iter().enumerate() {
            if slots.get(n).is_some_and(Slot::is_shown) {
                self.blocks.push(block.clone());
                continue;
            }
            if shows.get(n) != Some(&true) {
                match block.seen() {
                    Seen::Text(text) if Text::shows_nothing(text) => self.thinned = true,
                    _ => self.changed = true,
                }
                continue;
            }
            if let Some(slot) = slots.get_mut(n).filter(|slot| slot.waits()) {
                self.release(slot, out);
                let index = slot.index().unwrap_or_default();
                self.framing.shown_late(index, block);
                self.blocks.push(block.clone());
                continue;
            }
            self.emit(block, out);
            if let (Some(tagged), Some(segments)) = (reply.tagged.as_deref(), &segments)
                && matches!(block.seen(), Seen::Text(_))
            {
                let shows = |place: usize| tags::shows(show, written.get(place));
                let segments = segments.get(&n).map(Vec::as_slice).unwrap_or_default();
                self.tell_segments(segments, &tagged.calls, shows, out);
            }
        }
    }

    /// Returns true for each block that the client has, or gets now.
    fn shows(
        &self,
        blocks: &[Block],
        show: Show,
        admissions: &[Admission],
        slots: &[Slot],
    ) -> Vec<bool> {
        let mut admissions = admissions.iter();
        let each = blocks.iter().enumerate().map(|(n, block)| {
            let admission = matches!(block.seen(), Seen::Call(..)).then(|| admissions.next());
            slots.get(n).is_some_and(Slot::is_shown) || passes(block, show, admission.flatten())
        });
        let mut shows: Vec<bool> = each.collect();
        if self.framing.ties_thinking() {
            hide_orphans(blocks, &mut shows);
        }
        shows
    }

    /// Shows a whole block.
    pub(super) fn emit(&mut self, block: &Block, out: &mut Out) {
        let index = self.take_index(0);
        match block.seen() {
            Seen::Text(_) => self.visible = true,
            Seen::Call(Call { server, .. }, _) => self.calls += u32::from(!server),
            Seen::Thinking { .. } | Seen::Result | Seen::Other => {}
        }
        let of_text = matches!(block.seen(), Seen::Text(_));
        let apart = of_text && self.teller.is_some();
        if !out.quiet && !apart {
            let index = self.told(index);
            tell_whole(index, block, out);
        }
        if self.streams {
            self.pay_head(&[], out);
            self.framing.write_block(index, block, &mut out.bytes);
        }
        self.blocks.push(block.clone());
    }
}

fn passes(block: &Block, show: Show, admission: Option<&Admission>) -> bool {
    match block.seen() {
        Seen::Text(text) => show != Show::Nothing && !Text::shows_nothing(text),
        _ if block.is_said() => show != Show::Nothing,
        Seen::Call(..) => match (show, admission) {
            (Show::All, Some(admission)) => {
                !matches!(admission, Admission::Refused(_) | Admission::ToolRefused(_))
            }
            (Show::All, None) => true,
            (Show::Landed | Show::Answer, Some(admission)) => *admission == Admission::Answer,
            (Show::Landed | Show::Answer | Show::Text | Show::Nothing, _) => false,
        },
        Seen::Thinking { .. } | Seen::Result | Seen::Other => {
            matches!(show, Show::All | Show::Landed)
        }
    }
}
