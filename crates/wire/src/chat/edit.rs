//! Where edits go in a Chat Completions request: a line, a message, a top-level member.

#[cfg(test)]
mod tests;

use super::request::{Content, Message, Part, PartKind, Request, Role, StreamOptions};
use crate::{
    Splice,
    json::{Span, write_str},
    splice::quoted,
};

impl Splice {
    /// Adds `line` as the last line of a tool's result: after an empty line at the end of its
    /// string or of its last text part; where it has no text, as a text part or as its content.
    /// Content without any character becomes the line itself. Returns false, and edits nothing, if
    /// `message` has neither the role `tool` nor `function`.
    pub fn append_to_tool_message(&mut self, message: &Message<'_>, line: &str) -> bool {
        if !matches!(message.role, Role::Tool | Role::Function) {
            return false;
        }
        let last_text = |parts: &[Part<'_>]| parts.iter().rposition(is_text);
        self.append_to_content(message, line, last_text);
        true
    }

    /// Adds a text at the end of a message: after an empty line in its string or in its last part,
    /// if that is a text; else as a part of its own, or as its content.
    pub fn append_to_chat_message(&mut self, message: &Message<'_>, text: &str) {
        let last = |parts: &[Part<'_>]| parts.len().checked_sub(1);
        self.append_to_content(message, text, last);
    }

    /// Adds messages, each a JSON object, at the end of `messages`.
    pub fn append_chat_messages<M: AsRef<[u8]>>(&mut self, request: &Request<'_>, messages: &[M]) {
        if messages.is_empty() {
            return;
        }
        let joined = messages.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(b",".as_slice());
        let last = request.messages.list.last().map(|message| message.span);
        self.append_element(request.messages.span, last, &joined);
    }

    /// Sets `tool_choice` to a JSON value, replacing the one there is.
    pub fn set_chat_tool_choice(&mut self, request: &Request<'_>, json: &str) {
        self.set_chat_member(request, request.tool_choice.map(|c| c.span), "tool_choice", json);
    }

    /// Sets the output limit in tokens: in every member that states one, else in a new member
    /// called `absent`, as the model's vendor wants it (`max_completion_tokens` or `max_tokens`).
    pub fn set_chat_output_limit(&mut self, request: &Request<'_>, tokens: u64, absent: &str) {
        let stated = [request.max_tokens, request.max_completion_tokens];
        let mut any = false;
        for limit in stated.into_iter().flatten() {
            any = true;
            self.replace(limit.span, tokens.to_string());
        }
        if !any {
            self.set_chat_member(request, None, absent, &tokens.to_string());
        }
    }

    /// Makes the stream report its usage: `stream_options.include_usage` becomes true, and what
    /// else the options say stays. Returns false, and edits nothing, if the request says so.
    pub fn include_chat_usage(&mut self, request: &Request<'_>) -> bool {
        self.include_usage(request.text, request.span, request.stream_options)
    }

    /// The same of a body of which the object's span and its options are known.
    pub fn include_usage(
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
            None if is_empty(options.span.of(text)) => {
                self.replace(options.span, [b"{", MEMBER, b"}"].concat());
            }
            None => self.append_member(options.span, "include_usage", b"true"),
        }
        true
    }

    /// Sets a top-level member to a JSON value: in the place of the value at `old`, else as a new
    /// member.
    pub fn set_chat_member(
        &mut self,
        request: &Request<'_>,
        old: Option<Span>,
        name: &str,
        json: &str,
    ) {
        match old {
            Some(span) => self.replace(span, json),
            // At the end, so that it also wins over a value of another shape before it.
            None => self.append_member(request.span, name, json.as_bytes()),
        }
    }

    /// Takes members out of one object, or elements out of one list, with the commas they leave
    /// over. `body` is the text that the spans are of; a member's span begins at its key.
    pub fn remove_chat_spans(&mut self, body: &str, spans: &[Span]) {
        for cut in cuts(body.as_bytes(), spans) {
            self.replace(cut, "");
        }
    }

    /// Adds a text to a message's content: to the part that `place` picks, if it is a text, else
    /// as a new part.
    fn append_to_content(
        &mut self,
        message: &Message<'_>,
        text: &str,
        place: impl FnOnce(&[Part<'_>]) -> Option<usize>,
    ) {
        match &message.content {
            Content::Text(old, span) => self.append_to_text(*old, *span, text),
            Content::Null(null) => self.replace(*null, quoted(text)),
            Content::Absent => self.append_member(message.span, "content", &quoted(text)),
            Content::Parts { span, parts } => {
                let chosen = place(parts).and_then(|at| parts.get(at));
                match chosen.map(|part| part.kind) {
                    Some(PartKind::Text(old, inside)) => self.append_to_text(old, inside, text),
                    _ => {
                        let last = parts.last().map(|part| part.span);
                        self.append_element(*span, last, &text_part(text));
                    }
                }
            }
        }
    }
}

/// What must go for `spans` to go: neighbours as one piece, each piece with one comma.
pub(super) fn cuts(text: &[u8], spans: &[Span]) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut runs: Vec<Span> = Vec::new();
    for span in sorted {
        let between = |run: &Span| text.get(run.end..span.start).unwrap_or_default();
        match runs.last_mut() {
            Some(run) if between(run).trim_ascii() == b"," => run.end = span.end,
            _ => runs.push(span),
        }
    }
    runs.into_iter().map(|run| with_comma(text, run)).collect()
}

/// The run with the comma before it, or, where it is the first, the one behind it.
fn with_comma(text: &[u8], run: Span) -> Span {
    let before = text.get(..run.start).unwrap_or_default().trim_ascii_end();
    if before.ends_with(b",") {
        return Span::new(before.len() - 1, run.end);
    }
    let after = text.get(run.end..).unwrap_or_default();
    let space = after.len() - after.trim_ascii_start().len();
    let comma = after.get(space) == Some(&b',');
    Span::new(run.start, if comma { run.end + space + 1 } else { run.end })
}

fn is_text(part: &Part<'_>) -> bool {
    matches!(part.kind, PartKind::Text(..))
}

/// Whether a scanned object has no member.
fn is_empty(object: &str) -> bool {
    object.strip_prefix('{').is_some_and(|rest| rest.trim_ascii_start() == "}")
}

/// `{"type":"text","text":…}`
fn text_part(text: &str) -> Vec<u8> {
    let mut out = br#"{"type":"text","text":"#.to_vec();
    write_str(&mut out, text);
    out.push(b'}');
    out
}
