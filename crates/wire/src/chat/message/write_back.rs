//! A response in the form that goes back in the next request.

use super::{CallKind, ResponseMessage, ResponsePart};
use crate::json::write_str;

impl ResponseMessage {
    /// Appends the response as an assistant message of the next request: its content (in parts if
    /// there is thinking among them), its refusal, `reasoning_content` and `reasoning_details`
    /// unchanged, and its calls. `reasoning` alone does not go back, because no vendor requires it.
    pub fn write_back(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"role":"assistant","content":"#);
        self.write_content(out);
        self.write_refusal(out);
        self.write_calls(out);
        self.write_reasoning(out);
        out.push(b'}');
    }

    /// Writes null if there are calls and no text: vendors refuse empty text or missing content.
    pub(in crate::chat) fn write_content(&self, out: &mut Vec<u8>) {
        let plain = self.parts.iter().all(|part| matches!(part, ResponsePart::Text(_)));
        if !plain {
            for (n, part) in self.parts.iter().enumerate() {
                out.push(if n == 0 { b'[' } else { b',' });
                part.write_json(out);
            }
            out.push(b']');
        } else if self.text.is_empty() && (!self.calls.is_empty() || self.refusal.is_some()) {
            out.extend_from_slice(b"null");
        } else {
            write_str(out, &self.text);
        }
    }

    pub(in crate::chat) fn write_refusal(&self, out: &mut Vec<u8>) {
        if let Some(refusal) = &self.refusal {
            out.extend_from_slice(br#","refusal":"#);
            write_str(out, refusal);
        }
    }

    pub(in crate::chat) fn write_reasoning(&self, out: &mut Vec<u8>) {
        if let Some(content) = &self.reasoning_content {
            out.extend_from_slice(br#","reasoning_content":"#);
            write_str(out, content);
        }
        for (n, detail) in self.reasoning_details.iter().enumerate() {
            let open: &[u8] = if n == 0 { br#","reasoning_details":["# } else { b"," };
            out.extend_from_slice(open);
            out.extend_from_slice(detail.as_bytes());
        }
        if !self.reasoning_details.is_empty() {
            out.push(b']');
        }
    }

    pub(in crate::chat) fn write_calls(&self, out: &mut Vec<u8>) {
        let mut listed = false;
        for call in self.calls.iter().filter(|call| call.kind != CallKind::Legacy) {
            out.extend_from_slice(if listed { b"," } else { br#","tool_calls":["# });
            call.write_json(out);
            listed = true;
        }
        if listed {
            out.push(b']');
        }
        if let Some(call) = self.calls.iter().find(|call| call.kind == CallKind::Legacy) {
            out.extend_from_slice(br#","function_call":{"name":"#);
            write_str(out, &call.name);
            out.extend_from_slice(br#","arguments":"#);
            write_str(out, call.input());
            out.push(b'}');
        }
    }
}
