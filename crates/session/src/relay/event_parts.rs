//! Events that hold more than one thing: several parts, or parts beside a beginning or an end.

use super::Relay;
use super::slot::BlockSlot;
use crate::framing::{BlockPart, PlacedPart};
use crate::out::Output;

impl Relay {
    /// Takes parts that came with the message's end. They go out before that end, where it does not
    /// go out as it came.
    pub(super) fn take_late_parts(
        &mut self,
        parts: &[BlockPart<'_>],
        raw: &[u8],
        out: &mut Output,
    ) {
        for part in parts {
            let alone = self.client.framing.split_part(part, raw);
            let opened = self.open_part(part);
            if self.is_shaped(&opened) {
                self.shape_by_key(&opened, &alone, true, out);
                continue;
            }
            let before = std::mem::take(&mut out.bytes);
            self.forward_part(&opened, &alone, out);
            let late = std::mem::replace(&mut out.bytes, before);
            self.client.part.late.extend(late);
        }
    }

    /// Shows a beginning that holds whole blocks. The event stays whole if it is the client's first
    /// beginning and all of its blocks are shown. Otherwise its blocks wait for the verdict.
    pub(super) fn show_whole_blocks(
        &mut self,
        first: bool,
        parts: &[BlockPart<'_>],
        raw: &[u8],
        out: &mut Output,
    ) {
        let opened: Vec<_> = parts.iter().map(|part| self.open_part(part)).collect();
        let from = self.incoming.slots.len() - opened.len().min(self.incoming.slots.len());
        // Text that calls are written in is not shown as it came.
        let shaped = opened.iter().any(|part| self.is_shaped(part));
        let slots = self.incoming.slots.get_mut(from..).unwrap_or_default();
        let mut shown = slots.iter().zip(&opened);
        if first
            && !shaped
            && shown.all(|(slot, part)| slot.is_passing() || slot.becomes_visible(part))
        {
            self.client.pass_bytes(raw, out);
            for (slot, part) in slots.iter_mut().zip(&opened) {
                self.client.show_if_visible(slot, part, out);
                self.client.take_part(slot, part, &[], out);
            }
            return;
        }
        slots.iter_mut().for_each(BlockSlot::hide_block);
        self.client.hide_content(first, out);
    }

    /// Shows several parts of one event. The event stays whole if all of them are shown.
    pub(super) fn show_parts(&mut self, parts: &[BlockPart<'_>], raw: &[u8], out: &mut Output) {
        if self.shaping.is_some() {
            for part in parts {
                let alone = self.client.framing.split_part(part, raw);
                self.show_part(part, &alone, out);
            }
            return;
        }
        let opened: Vec<_> = parts.iter().map(|part| self.open_part(part)).collect();
        let slots: Vec<_> =
            opened.iter().map(|part| self.incoming.by_key.get(&part.key).copied()).collect();
        for (part, at) in opened.iter().zip(&slots) {
            if let Some(slot) = at.and_then(|at| self.incoming.slots.get_mut(at)) {
                self.client.show_if_visible(slot, part, out);
            }
        }
        let whole = slots.iter().all(|at| {
            let slot = at.and_then(|at| self.incoming.slots.get(at));
            slot.is_some_and(BlockSlot::is_passing)
        });
        for (n, part) in opened.iter().enumerate() {
            let Some(slot) = slots.get(n).and_then(|at| self.incoming.slots.get_mut((*at)?)) else {
                continue;
            };
            let alone = if whole { Vec::new() } else { self.client.framing.split_part(part, raw) };
            self.client.take_part(slot, part, &alone, out);
        }
        if whole {
            let indexes = slots.iter().map(|at| {
                at.and_then(|at| self.incoming.slots.get(at))
                    .and_then(BlockSlot::shown_index)
                    .unwrap_or(0)
            });
            let placed: Vec<_> = opened
                .iter()
                .zip(indexes)
                .map(|(part, index)| PlacedPart { part, index })
                .collect();
            self.client.write_parts(&placed, raw, out);
        }
    }
}
