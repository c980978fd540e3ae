//! Reports texts, and the calls that are written in them, as events apart.

use softland_core::{Call, Text};

use crate::out::{Event, Out};
use crate::reply::{Block, Seen};
use crate::tags::TagCall;

/// The events of texts that calls are written in, for an observer.
#[derive(Debug, Default)]
pub(super) struct Teller {
    /// True if a text is under way.
    open: bool,
    /// The text so far, while it is blank.
    blank: String,
    /// The index of the next block to end.
    next: u32,
    called: bool,
}

impl Teller {
    /// True if a call was reported.
    pub(super) fn has_called(&self) -> bool {
        self.called
    }

    /// Returns the index of a block that ends.
    pub(super) fn next(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// Reports more text beside calls.
    pub(super) fn text(&mut self, text: &str, out: &mut Out) {
        if out.quiet || text.is_empty() {
            return;
        }
        if !self.open {
            self.blank.push_str(text);
            // The text before is known to be blank.
            if Text::shows_nothing(text) {
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
    pub(super) fn call(&mut self, call: &TagCall, out: &mut Out) {
        self.called = true;
        if out.quiet || call.unfit.is_some() {
            return;
        }
        self.end(out);
        let (id, name) = (call.id.clone(), call.name.clone());
        let partial_json = call.input.clone();
        out.events.push(Event::ToolStart { id: id.clone(), name });
        out.events.push(Event::ToolInputDelta { id, partial_json });
        let index = self.next();
        out.events.push(Event::BlockStop { index });
    }

    /// Ends the text under way.
    pub(super) fn end(&mut self, out: &mut Out) {
        self.blank.clear();
        if std::mem::take(&mut self.open) && !out.quiet {
            let index = self.next();
            out.events.push(Event::BlockStop { index });
        }
    }
}

/// Reports the events of a whole block.
pub(super) fn tell_whole(index: u32, block: &Block, out: &mut Out) {
    match block.seen() {
        Seen::Text(text) => {
            out.events.extend([Event::TextStart, Event::TextDelta(text.to_owned())]);
        }
        Seen::Thinking { text: Some(thinking), .. } => {
            out.events.push(Event::ThinkingStart);
            out.events.push(Event::ThinkingDelta(thinking.to_owned()));
        }
        Seen::Call(Call { id, name, input, .. }, _) => {
            out.events.push(Event::ToolStart { id: id.to_owned(), name: name.to_owned() });
            let (id, partial_json) = (id.to_owned(), input.to_owned());
            out.events.push(Event::ToolInputDelta { id, partial_json });
        }
        Seen::Thinking { text: None, .. } | Seen::Result | Seen::Other => {}
    }
    out.events.push(Event::BlockStop { index });
}
