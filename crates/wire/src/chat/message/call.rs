//! A call of a response.

use super::UnreadMembers;
use crate::json::{is_strict_object, write_str};

/// A call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// The call's id; empty where the vendor gives none.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as received: JSON text, or the free text of a custom tool's input.
    pub arguments: String,
    /// True if the call is whole: it has a name, it was not cut off, and its arguments are a JSON
    /// object that every parser accepts (or empty, for none; or the text of a custom tool). An
    /// incomplete call must never be run.
    pub complete: bool,
    /// The index given by the vendor, or the position in the list if there is none. Vendors begin
    /// at 0 or 1, and some give every call the same index.
    pub index: u32,
    /// The kind of call.
    pub kind: CallKind,
    /// Further members that go back: `extra_content` with the thought signature of Gemini's layer.
    pub extra: UnreadMembers,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallKind {
    /// `function`
    #[default]
    Function,
    /// `custom`
    Custom,
    /// The deprecated `function_call`.
    Legacy,
}

impl Call {
    /// Returns the arguments, or `{}` if a function's arguments are empty. The tool is run with
    /// this value, and it goes back in the next request.
    #[must_use]
    pub fn input(&self) -> &str {
        let blank = self.kind != CallKind::Custom && self.arguments.trim().is_empty();
        if blank { "{}" } else { &self.arguments }
    }

    /// Appends the call as an element of `tool_calls`, in the form that goes back to the API.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"id":"#);
        write_str(out, &self.id);
        self.write_body(out);
    }

    /// Writes the rest of the call's object, after its first member.
    pub(in crate::chat) fn write_body(&self, out: &mut Vec<u8>) {
        let custom = self.kind == CallKind::Custom;
        let (head, text): (&[u8], &[u8]) = if custom {
            (br#","type":"custom","custom":{"name":"#, br#","input":"#)
        } else {
            (br#","type":"function","function":{"name":"#, br#","arguments":"#)
        };
        out.extend_from_slice(head);
        write_str(out, &self.name);
        out.extend_from_slice(text);
        write_str(out, self.input());
        out.push(b'}');
        for (name, value) in &self.extra {
            out.push(b',');
            write_str(out, name);
            out.push(b':');
            out.extend_from_slice(value.as_bytes());
        }
        out.push(b'}');
    }

    /// Checks the call at the end of its response. `cut` is true if the call was incomplete when
    /// the output was cut off.
    pub(super) fn close_with(&mut self, cut: bool) {
        let whole = match self.kind {
            CallKind::Custom => true,
            CallKind::Function | CallKind::Legacy => is_strict_object(self.input()),
        };
        self.complete = whole && !cut && !self.name.is_empty();
    }
}
