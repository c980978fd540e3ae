//! Edits of a request for each protocol: a line, a text, a message, a top-level member.

#[cfg(test)]
mod tests;

use super::{Block, BlockKind, Content, Message, Request, ResultContent, Role, TextRoom, Tool};
use crate::{
    Api, Splice,
    chat::StreamOptions,
    json::{Cursor, Error, Span, write_str},
    splice::quote_text,
};

impl Splice {
    /// Adds `line` as the last line of a tool result: after an empty line at the end of its string
    /// or of its last text part. Without any text, the line becomes a text part or the content
    /// itself. Content without any characters is replaced by the line, because the API refuses
    /// blank text. Returns false and edits nothing if `block` is not a tool result with room for
    /// text.
    pub fn append_to_result(&mut self, api: Api, block: &Block<'_>, line: &str) -> bool {
        let BlockKind::ToolResult(result) = &block.kind else { return false };
        if result.room != TextRoom::Text {
            return false;
        }
        match &result.content {
            ResultContent::Text(text, span) => self.append_to_text(*text, *span, line),
            ResultContent::Opaque(_) => return false,
            ResultContent::Absent(Some(null)) => self.replace(*null, quote_text(line)),
            ResultContent::Absent(None) => {
                self.append_member(block.span, api.result_member_name(), &quote_text(line))
            }
            ResultContent::Parts { span, parts } => {
                match parts.iter().rev().find_map(|part| part.text) {
                    Some((text, inside)) => self.append_to_text(text, inside, line),
                    None => {
                        let last = parts.last().map(|part| part.span);
                        self.append_element(*span, last, &format_text_part(api, line));
                    }
                }
            }
        }
        true
    }

    /// Adds a text at the end of a message: after an empty line in its string or in its last block
    /// if that is a text, so that clients may write either form; otherwise as a new block, or as
    /// the content if there is none. Edits nothing where no text can go: after calls or results
    /// that are members or items themselves.
    pub fn append_to_message(&mut self, api: Api, message: &Message<'_>, text: &str) {
        match &message.content {
            Content::Text(old, span) => self.append_to_text(*old, *span, text),
            Content::Blocks { span, blocks } => match blocks.last() {
                Some(Block { kind: BlockKind::Text { text: old, span }, .. }) => {
                    self.append_to_text(*old, *span, text);
                }
                last if *span != message.span => {
                    let last = last.map(|block| block.span);
                    self.append_element(*span, last, &format_text_part(api, text));
                }
                // The message has no list. A content of another shape precedes this one, which
                // wins.
                None if message.role != Role::System => {
                    self.append_member(message.span, "content", &quote_text(text));
                }
                _ => {}
            },
        }
    }

    /// Adds messages, each a JSON object, at the end of `messages` or `input`. An input that is a
    /// string becomes a list with the user message it stands for. A missing input is added. Call
    /// this at most once for a body whose messages are not a list.
    pub fn append_messages<M: AsRef<[u8]>>(&mut self, request: &Request<'_>, messages: &[M]) {
        if messages.is_empty() {
            return;
        }
        let joined = messages.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
        let list = || [b"[", joined.as_slice(), b"]"].concat();
        let span = request.messages.span;
        match span.slice_of(request.text) {
            _ if request.messages.string => {
                // The edits surround the string instead of replacing it, so that text can be added
                // to it as well. The second edit replaces the closing quote, because members may be
                // added after it, at the end of the body.
                let quote = Span::new(span.end.saturating_sub(1), span.end);
                self.insert(span.start, r#"[{"role":"user","content":"#);
                self.replace(quote, [b"\"},", joined.as_slice(), b"]"].concat());
            }
            "" => self.append_member(request.span, "input", &list()),
            "null" => self.replace(span, list()),
            list => {
                // Inserts after the last element, even if the view does not show that element.
                let inner = list.strip_suffix(']').unwrap_or(list).trim_ascii_end();
                let end = span.start + inner.len();
                let last = (inner != "[").then_some(Span::new(end, end));
                self.append_element(span, last, &joined);
            }
        }
    }

    /// Sets `tool_choice` to a JSON value, replacing any present value.
    pub fn set_tool_choice(&mut self, request: &Request<'_>, json: &str) {
        self.set_member(request, request.tool_choice.as_ref().map(|c| c.span), "tool_choice", json);
    }

    /// Sets the output limit in tokens, replacing any present value.
    pub fn set_max_tokens(&mut self, request: &Request<'_>, tokens: u64) {
        let span = request.max_tokens.map(|m| m.span);
        let tokens = tokens.max(request.api.min_output_tokens());
        self.set_member(request, span, request.limit_member, &tokens.to_string());
    }

    /// Limits how often the provider may run a tool of its own for this request: Anthropic's by the
    /// tool's `max_uses`, all tools of Responses by a single `max_tool_calls`. A smaller number
    /// stays. Returns false and edits nothing if the API has no such limit. Call this once for each
    /// tool, and with Responses once for each body.
    pub fn limit_tool_uses(&mut self, request: &Request<'_>, tool: &Tool<'_>, most: u64) -> bool {
        match request.api {
            Api::Anthropic => {
                let said = find_max_uses(request.text, tool.span);
                match said {
                    Some((Some(uses), _)) if uses <= most => {}
                    Some((_, value)) => self.replace(value, most.to_string()),
                    None => {
                        self.append_member(tool.span, "max_uses", most.to_string().as_bytes());
                    }
                }
            }
            Api::Responses => match request.terms.max_tool_calls {
                Some((uses, _)) if uses <= most => {}
                said => {
                    let span = said.map(|(_, span)| span);
                    self.set_member(request, span, "max_tool_calls", &most.to_string());
                }
            },
            Api::Chat => return false,
        }
        true
    }

    /// Makes a stream of Chat Completions report its usage: sets `stream_options.include_usage` to
    /// true and keeps the other options. `text` is the body, `object` the span of its object.
    /// Returns false and edits nothing if the request asks for it already.
    pub fn request_stream_usage(
        &mut self,
        text: &str,
        object: Span,
        options: Option<StreamOptions>,
    ) -> bool {
        const MEMBER: &[u8] = br#""include_usage":true"#;
        let Some(options) = options else {
            self.append_member(object, "stream_options", br#"{"include_usage":true}"#);
            return true;
        };
        match options.include_usage {
            Some(asked) if asked.value => return false,
            Some(asked) => self.replace(asked.span, "true"),
            None if is_empty_object(options.span.slice_of(text)) => {
                self.replace(options.span, [b"{", MEMBER, b"}"].concat());
            }
            None => self.append_member(options.span, "include_usage", b"true"),
        }
        true
    }

    fn set_member(&mut self, request: &Request<'_>, old: Option<Span>, name: &str, json: &str) {
        match old {
            Some(span) => self.replace(span, json),
            // At the end, so that it also overrides an earlier value of another shape.
            None => self.append_member(request.span, name, json.as_bytes()),
        }
    }
}

/// Returns `max_uses` of a tool and the span of its value. Of a repeated member the last value
/// wins.
fn find_max_uses(body: &str, tool: Span) -> Option<(Option<u64>, Span)> {
    let mut found = None;
    let mut cursor = Cursor::new(tool.slice_of(body));
    // The tool was scanned with the request, so there is no error to report.
    let _ = cursor.read_members(|cursor, member| {
        if member.key.eq_str("max_uses") {
            let uses = cursor.clone().read_uint_or_skip()?;
            let span = cursor.skip_value()?;
            found = Some((uses, Span::new(tool.start + span.start, tool.start + span.end)));
        }
        Ok::<_, Error>(())
    });
    found
}

/// Returns `{"type":"text","text":…}`, with the type's name for the API.
fn format_text_part(api: Api, text: &str) -> Vec<u8> {
    let mut out = br#"{"type":"#.to_vec();
    write_str(&mut out, api.text_part_type());
    out.extend_from_slice(br#","text":"#);
    write_str(&mut out, text);
    out.push(b'}');
    out
}

/// Returns true if a scanned object has no members.
fn is_empty_object(object: &str) -> bool {
    object.strip_prefix('{').is_some_and(|rest| rest.trim_ascii_start() == "}")
}
