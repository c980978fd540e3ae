//! Where edits go in a Messages request: a line, a text block, a message, a top-level member.

#[cfg(test)]
mod tests;

use super::request::{Block, BlockKind, Content, Message, Request, ResultContent};
use crate::{
    Api, Splice,
    json::{Span, write_str},
    splice::quoted,
};

impl Splice {
    /// Adds `line` as the last line of a tool result: after an empty line at the end of its string
    /// or of its last text part; where it has no text, as a text part or as its content. Content
    /// without any character becomes the line itself, because the API refuses blank text. Returns
    /// false, and edits nothing, if `block` is no tool result.
    pub fn append_to_result(&mut self, api: Api, block: &Block<'_>, line: &str) -> bool {
        let BlockKind::ToolResult(result) = &block.kind else { return false };
        match &result.content {
            ResultContent::Text(text, span) => self.append_to_text(*text, *span, line),
            ResultContent::Opaque => return false,
            ResultContent::Absent(Some(null)) => self.replace(*null, quoted(line)),
            ResultContent::Absent(None) => {
                self.append_member(block.span, api.result_member(), &quoted(line))
            }
            ResultContent::Parts { span, parts } => {
                match parts.iter().rev().find_map(|part| part.text) {
                    Some((text, inside)) => self.append_to_text(text, inside, line),
                    None => {
                        let last = parts.last().map(|part| part.span);
                        self.append_element(*span, last, &text_block(api, line));
                    }
                }
            }
        }
        true
    }

    /// Adds a text at the end of a message: after an empty line in its string or in its last block,
    /// if that is a text, so that a client may write one as the other; else as a block of its own.
    pub fn append_to_message(&mut self, api: Api, message: &Message<'_>, text: &str) {
        match &message.content {
            Content::Text(old, span) => self.append_to_text(*old, *span, text),
            Content::Blocks { span, blocks } => {
                match blocks.last().map(|last| (&last.kind, last)) {
                    Some((BlockKind::Text { text: old, span }, _)) => {
                        self.append_to_text(*old, *span, text);
                    }
                    last => {
                        let last = last.map(|(_, block)| block.span);
                        self.append_element(*span, last, &text_block(api, text));
                    }
                }
            }
        }
    }

    /// Adds messages, each a JSON object, at the end of `messages`.
    pub fn append_messages<M: AsRef<[u8]>>(&mut self, request: &Request<'_>, messages: &[M]) {
        if messages.is_empty() {
            return;
        }
        let joined = messages.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
        if request.messages.string {
            self.insert(request.messages.span.start, r#"[{"role":"user","content":"#);
            self.insert(request.messages.span.end, [b"},", joined.as_slice(), b"]"].concat());
            return;
        }
        let last = request.messages.list.last().map(|message| message.span);
        self.append_element(request.messages.span, last, &joined);
    }

    /// Sets `tool_choice` to a JSON value, replacing the one there is.
    pub fn set_tool_choice(&mut self, request: &Request<'_>, json: &str) {
        self.set_member(request, request.tool_choice.as_ref().map(|c| c.span), "tool_choice", json);
    }

    /// Sets the output limit, replacing the value there is.
    pub fn set_max_tokens(&mut self, request: &Request<'_>, tokens: u64) {
        let span = request.max_tokens.map(|m| m.span);
        let tokens = tokens.max(request.api.least_output());
        self.set_member(request, span, request.limit_member, &tokens.to_string());
    }

    fn set_member(&mut self, request: &Request<'_>, old: Option<Span>, name: &str, json: &str) {
        match old {
            Some(span) => self.replace(span, json),
            // At the end, so that it also wins over a value of another shape before it.
            None => self.append_member(request.span, name, json.as_bytes()),
        }
    }
}

/// `{"type":"text","text":…}`
fn text_block(api: Api, text: &str) -> Vec<u8> {
    let mut out = br#"{"type":"#.to_vec();
    write_str(&mut out, api.text_part());
    out.extend_from_slice(br#","text":"#);
    write_str(&mut out, text);
    out.push(b'}');
    out
}
