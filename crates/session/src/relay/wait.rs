//! Thinking that may go back only with what followed it. Where a call behind it might not pass, the
//! thinking waits for what does follow, and passes with that or not at all.

use softland_core::{Role, Text};

use super::show::{Client, Slot};
use super::{Mode, Relay};
use crate::framing::{Begins, More, Part};
use crate::out::Out;
use crate::reply::{Block, Seen};
use crate::tags::with_str;

/// An event of thinking that waits.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    key: u32,
    begins: bool,
    anew: bool,
    stops: bool,
    again: bool,
    thought: String,
    raw: Vec<u8>,
}

impl Waiting {
    pub(super) fn new(part: &Part<'_>, raw: &[u8]) -> Self {
        let thought = match part.more {
            More::Thinking(text) => text.unescape().into_owned(),
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

    fn show(&self, slot: &mut Slot, client: &mut Client, out: &mut Out) {
        with_str(&self.thought, |text| {
            let part = Part {
                key: self.key,
                begins: Some(Begins::Thinking).filter(|_| self.begins),
                anew: self.anew,
                more: if text.is_empty() { More::Nothing } else { More::Thinking(text) },
                stops: self.stops,
                again: self.again,
            };
            client.block(slot, &part, &self.raw, out);
        });
    }
}

impl Relay {
    /// True if thinking that begins now waits for what follows it.
    pub(super) fn waits(&self) -> bool {
        let passes = match self.mode {
            Mode::Live { calls: false } => false,
            Mode::Live { .. } | Mode::Held { .. } => self.run.admits_more(&self.admitted),
        };
        self.role == Role::Gateway && self.client.framing.ties_thinking() && !passes
    }

    /// Shows the thinking that waited for the block which has just begun, if that block passes. The
    /// thinking is tied to all that comes of it, whatever was left out between them.
    pub(super) fn release(&mut self, out: &mut Out) {
        let Some((newest, before)) = self.slots.split_last_mut() else { return };
        if !(newest.passes() || newest.is_text()) {
            return;
        }
        // Thinking before a block of an earlier release is not released any more.
        let open = before.get_mut(self.released..).unwrap_or_default();
        let left_out = open.iter().rev().take_while(|slot| slot.is_hidden()).count();
        let to = open.len() - left_out;
        let waited = open.iter().take(to).rev().take_while(|slot| slot.waits()).count();
        for slot in open.iter_mut().take(to).skip(to - waited) {
            self.client.release(slot, out);
        }
        self.released = before.len();
    }
}

impl Client {
    /// Shows the events of a block that waited.
    pub(super) fn release(&mut self, slot: &mut Slot, out: &mut Out) {
        for event in slot.take_waiting() {
            event.show(slot, self, out);
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
        let real = match block.seen() {
            Seen::Text(text) => !Text::shows_nothing(text),
            _ => true,
        };
        came |= real;
        shown |= real && *shows;
    }
}
