//! Events that hold more than one thing: several parts, or parts beside a beginning or an end.

use super::Relay;
use super::show::Slot;
use crate::framing::{Part, Placed};
use crate::out::Out;

impl Relay {
    /// Takes parts that came with the message's end. They go out before that end, where it does not
    /// go out as it came.
    pub(super) fn late(&mut self, parts: &[Part<'_>], out: &mut Out) {
        for part in parts {
            let alone = self.client.framing.alone(part);
            let opened = self.opened(part);
            if self.shapes(&opened) {
                self.shaped(&opened, &alone, true, out);
                continue;
            }
            let before = std::mem::take(&mut out.bytes);
            self.forward(&opened, &alone, out);
            let late = std::mem::replace(&mut out.bytes, before);
            self.client.late.extend(late);
        }
    }

    /// Shows a beginning that holds whole blocks. The event stays whole if it is the client's first
    /// beginning and all of its blocks are shown. Otherwise its blocks wait for the verdict.
    pub(super) fn with_blocks(
        &mut self,
        first: bool,
        parts: &[Part<'_>],
        raw: &[u8],
        out: &mut Out,
    ) {
        let opened: Vec<_> = parts.iter().map(|part| self.opened(part)).collect();
        let from = self.slots.len() - opened.len().min(self.slots.len());
        // Text that calls are written in is not shown as it came.
        let shaped = opened.iter().any(|part| self.shapes(part));
        let slots = self.slots.get_mut(from..).unwrap_or_default();
        let mut shown = slots.iter().zip(&opened);
        if first && !shaped && shown.all(|(slot, part)| slot.passes() || slot.speaks(part)) {
            self.client.pass(raw, out);
            for (slot, part) in slots.iter_mut().zip(&opened) {
                self.client.speaks(slot, part, out);
                self.client.block(slot, part, &[], out);
            }
            return;
        }
        slots.iter_mut().for_each(Slot::hide);
        self.client.hides(first, out);
    }

    /// Shows several parts of one event. The event stays whole if all of them are shown.
    pub(super) fn several(&mut self, parts: &[Part<'_>], raw: &[u8], out: &mut Out) {
        if self.shaping.is_some() {
            for part in parts {
                let alone = self.client.framing.alone(part);
                self.part(part, &alone, out);
            }
            return;
        }
        let opened: Vec<_> = parts.iter().map(|part| self.opened(part)).collect();
        let slots: Vec<_> = opened.iter().map(|part| self.by_key.get(&part.key).copied()).collect();
        for (part, at) in opened.iter().zip(&slots) {
            if let Some(slot) = at.and_then(|at| self.slots.get_mut(at)) {
                self.client.speaks(slot, part, out);
            }
        }
        let whole = slots.iter().all(|at| {
            let slot = at.and_then(|at| self.slots.get(at));
            slot.is_some_and(Slot::passes)
        });
        for (n, part) in opened.iter().enumerate() {
            let Some(slot) = slots.get(n).and_then(|at| self.slots.get_mut((*at)?)) else {
                continue;
            };
            let alone = if whole { Vec::new() } else { self.client.framing.alone(part) };
            self.client.block(slot, part, &alone, out);
        }
        if whole {
            let indexes = slots
                .iter()
                .map(|at| at.and_then(|at| self.slots.get(at)).and_then(Slot::index).unwrap_or(0));
            let placed: Vec<_> =
                opened.iter().zip(indexes).map(|(part, index)| Placed { part, index }).collect();
            self.client.write(&placed, raw, out);
        }
    }
}
