//! The end of a message for the client: the end as received, with what differs of it.

use softland_wire::chat::respond::{self, CallEdit, ContentEdit, Head, Rewrite};
use softland_wire::chat::{Chunk, Event, Finish, ResponseMessage, Usage};
use softland_wire::sse::Frame;

use super::ChatFraming;
use crate::framing::MessageEnd;

/// The changes of a message's end.
pub(super) struct EndChanges {
    finish: Finish,
    usage: Usage,
    /// The finish reason as JSON.
    reason: String,
    /// The members of the usage that differ from those received: a JSON object.
    counts: Option<String>,
}

/// The parts of an end that are written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WrittenEnd {
    /// True if the finish reason is.
    reason: bool,
    /// True if the usage is.
    usage: bool,
    /// True if `[DONE]` is.
    pub(super) done: bool,
}

impl EndChanges {
    pub(super) fn new(message: &ResponseMessage, ending: &MessageEnd<'_>) -> Self {
        let (finish, usage) = (finish_shown(message, ending), usage_shown(message, ending));
        let mut reason = Vec::new();
        softland_wire::json::write_str(&mut reason, finish.name());
        let differs = usage.tokens.output != message.usage.tokens.output;
        Self {
            finish,
            usage,
            // It is written from text.
            reason: String::from_utf8(reason).unwrap_or_default(),
            counts: differs.then(|| usage.output_members()),
        }
    }

    /// Returns the edits of what was received. `head` replaces its own.
    pub(super) fn as_rewrite<'r>(&'r self, head: Option<Head<'r>>) -> Rewrite<'r> {
        Rewrite {
            id: head.map(|head| head.id),
            created: head.map(|head| head.created),
            model: head.map(|head| head.model),
            finish_reason: Some(&self.reason),
            usage: self.counts.as_deref(),
            ..Rewrite::default()
        }
    }
}

impl ChatFraming {
    /// Writes an event of the end as received, with what differs of it. Its content was written
    /// before, as far as the client gets it.
    pub(super) fn write_end_event(
        &self,
        frame: &Frame<'_>,
        changes: &EndChanges,
        written: &mut WrittenEnd,
        out: &mut Vec<u8>,
    ) {
        match Event::from_data(frame.event, &frame.data) {
            _ if written.done || frame.data.is_empty() => out.extend_from_slice(frame.raw),
            Ok(Event::Done) => {
                self.complete_end(changes, *written, out);
                written.done = true;
                out.extend_from_slice(frame.raw);
            }
            Ok(Event::Chunk(chunk)) if chunk.error.is_none() => {
                let head = Some(self.chunk_head()).filter(|_| self.responses > 1);
                let mut rewrite = changes.as_rewrite(head);
                if self.holds_content(&chunk) {
                    rewrite.content = ContentEdit::Empty;
                }
                let at = out.len();
                let edited = respond::write_rewritten(out, frame.raw, &rewrite, |_| CallEdit::Keep);
                if edited.is_err() {
                    // What cannot be edited is written anew.
                    return out.truncate(at);
                }
                written.reason |= chunk.choices.iter().any(|c| c.finish_reason.is_some());
                written.usage |= chunk.usage.is_some();
            }
            Ok(_) => {}
            Err(_) => out.extend_from_slice(frame.raw),
        }
    }

    /// Writes what an end lacks before its `[DONE]`.
    pub(super) fn complete_end(
        &self,
        changes: &EndChanges,
        written: WrittenEnd,
        out: &mut Vec<u8>,
    ) {
        if !written.reason {
            respond::write_finish(out, self.chunk_head(), &changes.finish);
        }
        if !written.usage && self.terms.usage {
            respond::write_usage(out, self.chunk_head(), &changes.usage);
        }
    }

    /// True if a chunk holds a part of a block.
    fn holds_content(&self, chunk: &Chunk<'_>) -> bool {
        chunk.choices.iter().any(|choice| {
            let mut parts = Vec::new();
            self.read_parts(&choice.delta, &mut parts);
            !parts.is_empty() || !choice.delta.tool_calls.is_empty()
        })
    }
}

/// Returns the finish reason for the client. `tool_calls` is true only of a message with a call in
/// it.
pub(super) fn finish_shown(message: &ResponseMessage, ending: &MessageEnd<'_>) -> Finish {
    match &message.finish {
        Some(Finish::ToolCalls | Finish::FunctionCall) if ending.calls == 0 => Finish::Stop,
        Some(finish) => finish.clone(),
        None if ending.calls > 0 => Finish::ToolCalls,
        None => Finish::Stop,
    }
}

/// Returns the usage for the client: the context size of the last request, and the output that the
/// client got.
pub(super) fn usage_shown(message: &ResponseMessage, ending: &MessageEnd<'_>) -> Usage {
    let mut usage = message.usage;
    usage.tokens.output = ending.output;
    usage
}
