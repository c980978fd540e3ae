//! A block of the response under way: shown, held back, or waiting.

use softland_core::VisibleText;

use super::MAX_BLANK;
use super::held_thinking::HeldEvent;
use crate::framing::{BlockPart, PartContent};

/// A block of the upstream response under way.
#[derive(Clone, Debug)]
pub(super) struct BlockSlot {
    pub(super) state: SlotState,
    pub(super) call: Option<String>,
    pub(super) text: bool,
    /// The number of indexes that the provider left out before it.
    pub(super) gap: u32,
}

/// The state of a block.
#[derive(Clone, Debug)]
pub(super) enum SlotState {
    /// Text that is blank so far: its frames, a ping that came between them, and the text.
    Blank { frames: Vec<(u32, Vec<u8>)>, ping: Option<(usize, Vec<u8>)>, text: String },
    /// Thinking that waits for what follows it.
    Waiting(Vec<HeldEvent>),
    /// To be shown from its first event on.
    Fresh,
    /// Shown, under this index.
    Shown(u32),
    /// Not shown, or not yet.
    Hidden,
}

impl BlockSlot {
    pub(super) fn blank_text() -> Self {
        Self {
            state: SlotState::Blank { frames: Vec::new(), ping: None, text: String::new() },
            call: None,
            text: true,
            gap: 0,
        }
    }

    pub(super) fn fresh_block() -> Self {
        Self { state: SlotState::Fresh, call: None, text: false, gap: 0 }
    }

    /// Creates a slot that is not shown before the verdict.
    pub(super) fn hidden_block() -> Self {
        Self { state: SlotState::Hidden, call: None, text: false, gap: 0 }
    }

    /// Creates a slot that is shown with what follows it.
    pub(super) fn waiting_block() -> Self {
        Self { state: SlotState::Waiting(Vec::new()), ..Self::fresh_block() }
    }

    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.state, SlotState::Hidden)
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, SlotState::Waiting(_))
    }

    /// Takes the events that waited, to be shown now.
    pub(super) fn take_waiting(&mut self) -> Vec<HeldEvent> {
        match &mut self.state {
            SlotState::Waiting(events) => {
                let events = std::mem::take(events);
                self.state = SlotState::Fresh;
                events
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn is_text(&self) -> bool {
        self.text
    }

    pub(super) fn new_call(id: String, passes: bool) -> Self {
        let state = if passes { SlotState::Fresh } else { SlotState::Hidden };
        Self { state, call: Some(id), text: false, gap: 0 }
    }

    /// Sets the gap of a block by its key and the number of blocks before it.
    pub(super) fn with_gap(self, key: u32, others: usize) -> Self {
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        Self { gap: key.saturating_sub(others), ..self }
    }

    /// Keeps a ping in its place among frames that are held. Only the first ping is kept, since the
    /// next may be the client's only sign of life. Returns true if it was kept.
    pub(super) fn hold_ping(&mut self, raw: &[u8]) -> bool {
        let SlotState::Blank { frames, ping: ping @ None, .. } = &mut self.state else {
            return false;
        };
        *ping = Some((frames.len(), raw.to_vec()));
        true
    }

    /// True if the block is a text that is blank no more with this part.
    pub(super) fn becomes_visible(&self, part: &BlockPart<'_>) -> bool {
        let (SlotState::Blank { text, .. }, PartContent::Text(more)) = (&self.state, part.more)
        else {
            return false;
        };
        let more = more.unescape();
        !VisibleText::is_invisible_text(&more) || text.len() + more.len() > MAX_BLANK
    }

    /// Hides the block until the verdict.
    pub(super) fn hide_block(&mut self) {
        self.state = SlotState::Hidden;
    }

    pub(super) fn is_shown(&self) -> bool {
        matches!(self.state, SlotState::Shown(_))
    }

    /// True if the block's parts go out as they come.
    pub(super) fn is_passing(&self) -> bool {
        matches!(self.state, SlotState::Fresh | SlotState::Shown(_))
    }

    /// Returns the index by which the client knows the block.
    pub(super) fn shown_index(&self) -> Option<u32> {
        match self.state {
            SlotState::Shown(index) => Some(index),
            SlotState::Blank { .. }
            | SlotState::Waiting(_)
            | SlotState::Fresh
            | SlotState::Hidden => None,
        }
    }
}
