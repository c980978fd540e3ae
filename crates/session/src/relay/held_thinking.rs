//! Thinking that may go back only with what followed it. Where a call behind it might not pass, the
//! thinking waits for what does follow, and passes with that or not at all.

use softland_core::{Role, VisibleText};

use super::Relay;
use super::incoming::RelayMode;
use super::show::ClientMessage;
use super::slot::BlockSlot;
use crate::block_view::BlockView;
use crate::framing::{BlockPart, NewBlock, PartContent};
use crate::out::Output;
use crate::reply::Block;
use crate::tags::with_str;

/// An event of thinking that waits.
#[derive(Clone, Debug)]
pub(super) struct HeldEvent {
    key: u32,
    begins: bool,
    anew: bool,
    stops: bool,
    again: bool,
    thought: String,
    raw: Vec<u8>,
}

impl HeldEvent {
    pub(super) fn new(part: &BlockPart<'_>, raw: &[u8]) -> Self {
        let thought = match part.more {
            PartContent::Thinking(text) => text.unescape().into_owned(),
            _ => String::new(),
        };
        Self {
            key: part.key,
            begins: part.begins.is_some(),
            anew: part.anew,
            stops: part.stops,
            again: part.again,
            thought,
            raw: raw.to_vec(),
        }
    }

    fn show_event(&self, slot: &mut BlockSlot, client: &mut ClientMessage, out: &mut Output) {
        with_str(&self.thought, |text| {
            let part = BlockPart {
                key: self.key,
                begins: Some(NewBlock::Thinking).filter(|_| self.begins),
                anew: self.anew,
                more: if text.is_empty() {
                    PartContent::Nothing
                } else {
                    PartContent::Thinking(text)
                },
                stops: self.stops,
                again: self.again,
            };
            client.take_part(slot, &part, &self.raw, out);
        });
    }
}

impl Relay {
    /// True if thinking that begins now waits for what follows it.
    pub(super) fn holds_thinking(&self) -> bool {
        let passes = match self.incoming.mode {
            RelayMode::Live { calls: false } => false,
            RelayMode::Live { .. } | RelayMode::Held { .. } => {
                self.run.admits_more(&self.incoming.admitted)
            }
        };
        self.role == Role::Gateway && self.client.framing.form().ties_thinking && !passes
    }

    /// Shows the thinking that waited for the block which has just begun, if that block passes. The
    /// thinking is tied to all that comes of it, whatever was left out between them.
    pub(super) fn release_thinking(&mut self, out: &mut Output) {
        let Some((newest, before)) = self.incoming.slots.split_last_mut() else { return };
        if !(newest.is_passing() || newest.is_text()) {
            return;
        }
        // Thinking before a block of an earlier release is not released any more.
        let open = before.get_mut(self.incoming.released..).unwrap_or_default();
        let left_out = open.iter().rev().take_while(|slot| slot.is_hidden()).count();
        let to = open.len() - left_out;
        let waited = open.iter().take(to).rev().take_while(|slot| slot.is_waiting()).count();
        for slot in open.iter_mut().take(to).skip(to - waited) {
            self.client.release_block(slot, out);
        }
        self.incoming.released = before.len();
    }
}

impl ClientMessage {
    /// Shows the events of a block that waited.
    pub(super) fn release_block(&mut self, slot: &mut BlockSlot, out: &mut Output) {
        for event in slot.take_waiting() {
            event.show_event(slot, self, out);
        }
    }
}

/// Hides thinking that something came of while nothing of that is shown. Blank text counts for
/// nothing.
pub(super) fn hide_orphans(blocks: &[Block], shows: &mut [bool]) {
    // For the blocks behind the thinking, up to the next: true if there is any, and true if one is
    // shown.
    let (mut came, mut shown, mut ended) = (false, false, false);
    for (block, shows) in blocks.iter().zip(shows).rev() {
        if block.is_thinking() {
            *shows &= shown || !came;
            ended = true;
            continue;
        }
        if std::mem::take(&mut ended) {
            (came, shown) = (false, false);
        }
        let real = match block.as_view() {
            BlockView::Text(text) => !VisibleText::is_invisible_text(text),
            _ => true,
        };
        came |= real;
        shown |= real && *shows;
    }
}
