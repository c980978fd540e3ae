//! Reports texts, and the calls that are written in them, as events apart.

use softland_core::{Call, VisibleText};

use crate::block_view::BlockView;
use crate::out::{Event, Output};
use crate::reply::Block;
use crate::tags::TagCall;

/// The events of texts that calls are written in, for an observer.
#[derive(Debug, Default)]
pub(super) struct TextEvents {
    /// True if a text is under way.
    open: bool,
    /// The text so far, while it is blank.
    blank: String,
    /// The index of the next block to end.
    next: u32,
    called: bool,
}

impl TextEvents {
    /// True if a call was reported.
    pub(super) fn has_called(&self) -> bool {
        self.called
    }

    /// Returns the index of a block that ends.
    pub(super) fn next_index(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Reports more text beside calls.
    pub(super) fn report_text(&mut self, text: &str, out: &mut Output) {
        if out.quiet || text.is_empty() {
            return;
        }
        if !self.open {
            self.blank.push_str(text);
            // The text before is known to be blank.
            if VisibleText::is_invisible_text(text) {
                return;
            }
            self.open = true;
            out.events.push(Event::TextStart);
            out.events.push(Event::TextDelta(std::mem::take(&mut self.blank)));
            return;
        }
        out.events.push(Event::TextDelta(text.to_owned()));
    }

    /// Reports a call. A call that cannot be read is not shown.
    pub(super) fn report_call(&mut self, call: &TagCall, out: &mut Output) {
        self.called = true;
        if out.quiet || call.unfit.is_some() {
            return;
        }
        self.end_text(out);
        let (id, name) = (call.id.clone(), call.name.clone());
        let partial_json = call.input.clone();
        out.events.push(Event::ToolStart { id: id.clone(), name });
        out.events.push(Event::ToolInputDelta { id, partial_json });
        let index = self.next_index();
        out.events.push(Event::BlockStop { index });
    }

    /// Ends the text under way.
    pub(super) fn end_text(&mut self, out: &mut Output) {
        self.blank.clear();
        if std::mem::take(&mut self.open) && !out.quiet {
            let index = self.next_index();
            out.events.push(Event::BlockStop { index });
        }
    }
}

/// Reports the events of a whole block.
pub(super) fn report_block(index: u32, block: &Block, out: &mut Output) {
    match block.as_view() {
        BlockView::Text(text) => {
            out.events.extend([Event::TextStart, Event::TextDelta(text.to_owned())]);
        }
        BlockView::Thinking { text: Some(thinking), .. } => {
            out.events.push(Event::ThinkingStart);
            out.events.push(Event::ThinkingDelta(thinking.to_owned()));
        }
        BlockView::Call(Call { id, name, input, .. }, _) => {
            out.events.push(Event::ToolStart { id: id.to_owned(), name: name.to_owned() });
            let (id, partial_json) = (id.to_owned(), input.to_owned());
            out.events.push(Event::ToolInputDelta { id, partial_json });
        }
        BlockView::Thinking { text: None, .. } | BlockView::Result | BlockView::Other => {}
    }
    out.events.push(Event::BlockStop { index });
}
