//! Thinking that may go back only with what followed it: where a call behind it might not pass, it
//! waits for what does follow, and passes with that or not at all.

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
    /// Whether thinking that begins now waits for what follows it.
    pub(super) fn waits(&self) -> bool {
        let passes = match self.mode {
            Mode::Live { calls: false } => false,
            Mode::Live { .. } | Mode::Held { .. } => self.run.admits_more(&self.calls()),
        };
        self.role == Role::Gateway && self.client.framing.ties_thinking() && !passes
    }

    /// Shows the thinking that waited for the block which has just begun, if that passes: it is
    /// tied to all that comes of it, whatever was left out between them.
    pub(super) fn release(&mut self, out: &mut Out) {
        let Some((newest, before)) = self.slots.split_last_mut() else { return };
        if !(newest.passes() || newest.is_text()) {
            return;
        }
        let left_out = before.iter().rev().take_while(|slot| slot.is_hidden()).count();
        let to = before.len() - left_out;
        let waited = before.iter().take(to).rev().take_while(|slot| slot.waits()).count();
        for slot in before.iter_mut().take(to).skip(to - waited) {
            self.client.release(slot, out);
        }
    }
}

impl Client {
    /// Shows what waited of a block.
    pub(super) fn release(&mut self, slot: &mut Slot, out: &mut Out) {
        for event in slot.take_waiting() {
            event.show(slot, self, out);
        }
    }
}

/// Whether something came of the thinking at this place, and nothing of that is shown. Blank text
/// is nothing.
pub(super) fn is_orphan(blocks: &[Block], shows: &[bool], at: usize) -> bool {
    let behind = blocks.iter().zip(shows).skip(at + 1);
    let came = behind.skip_while(|(block, _)| block.is_thinking());
    let came = came.take_while(|(block, _)| !block.is_thinking());
    let mut real = came.filter(|(block, _)| match block.seen() {
        Seen::Text(text) => !Text::shows_nothing(text),
        _ => true,
    });
    let first = real.next();
    first.is_some_and(|(_, shown)| !shown) && !real.any(|(_, shown)| *shown)
}
