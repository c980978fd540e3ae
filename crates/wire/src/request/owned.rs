//! A request that keeps its body: the view of [`Request`], without its borrow.
//!
//! The body is read once. After that [`OwnedRequest::view`] hands out the view again, without
//! looking at the body and without a way to fail.

use super::{
    BlockKindOf, BlockOf, CallInputOf, ContentOf, MessageOf, MessagesOf, PartOf, Request,
    RequestError, RequestOf, ResultContentOf, ThreadOf, ToolChoiceKindOf, ToolChoiceOf, ToolOf,
    ToolResultOf, ToolsOf,
};
use crate::Api;
use crate::json::Str;

/// A request with its body, in whatever holds bytes.
#[derive(Clone, Debug)]
pub struct OwnedRequest<B> {
    spans: RequestOf<KeptStr, ()>,
    body: B,
}

/// A string of a request, without its borrow.
#[derive(Clone, Debug)]
enum KeptStr {
    /// A string of the body: its first byte, its length, and the number of its escapes.
    InBody { start: usize, len: usize, escapes: usize },
    /// A word of this crate's own, in place of a string.
    Apart(Box<str>),
}

impl<B: AsRef<[u8]>> OwnedRequest<B> {
    /// Reads a request body of the given API.
    ///
    /// # Errors
    /// Fails where [`Request::from_body`] does.
    pub fn from_body(api: Api, body: B) -> Result<Self, RequestError> {
        let request = Request::from_body(api, body.as_ref())?;
        let spans = request.map_strings((), |string| KeptStr::from_str(*string, request.text));
        Ok(Self { spans, body })
    }

    /// Keeps a request with its body, from which it was read.
    #[must_use]
    pub fn from_request(request: &Request<'_>, body: B) -> Self {
        debug_assert_eq!(request.text.as_bytes(), body.as_ref(), "the body is another request's");
        let spans = request.map_strings((), |string| KeptStr::from_str(*string, request.text));
        Self { spans, body }
    }

    /// Returns the view of the request.
    #[must_use]
    pub fn view(&self) -> Request<'_> {
        // The body was read as text, and has not changed.
        let text = std::str::from_utf8(self.body.as_ref()).unwrap_or_default();
        self.spans.map_strings(text, |string| string.in_text(text))
    }

    /// Returns the body.
    #[must_use]
    pub const fn body(&self) -> &B {
        &self.body
    }

    /// Returns the API the request was written for.
    #[must_use]
    pub const fn api(&self) -> Api {
        self.spans.api
    }

    /// True if the client asks for a stream.
    #[must_use]
    pub const fn is_streaming(&self) -> bool {
        self.spans.stream
    }

    /// Returns the output limit in tokens, if the request has one.
    #[must_use]
    pub fn output_limit(&self) -> Option<u64> {
        self.spans.max_tokens.map(|limit| limit.value)
    }
}

impl KeptStr {
    fn from_str(string: Str<'_>, text: &str) -> Self {
        let (raw, escapes) = (string.raw(), string.escape_count());
        let start = (raw.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
        let start = start.filter(|start| text.get(*start..).is_some_and(|t| t.len() >= raw.len()));
        match start {
            Some(start) => Self::InBody { start, len: raw.len(), escapes },
            None => Self::Apart(raw.into()),
        }
    }

    fn in_text<'a>(&'a self, text: &'a str) -> Str<'a> {
        match self {
            Self::InBody { start, len, escapes } => {
                Str::new(text.get(*start..start + len).unwrap_or_default(), *escapes)
            }
            Self::Apart(word) => Str::new(word, 0),
        }
    }
}

impl<S, T> RequestOf<S, T> {
    /// Returns the same request with another text and other strings.
    fn map_strings<'s, R, U>(&'s self, text: U, f: impl Fn(&'s S) -> R + Copy) -> RequestOf<R, U> {
        RequestOf {
            api: self.api,
            text,
            span: self.span,
            model: f(&self.model),
            stream: self.stream,
            max_tokens: self.max_tokens,
            system: self.system,
            tools: self.tools.as_ref().map(|tools| ToolsOf {
                span: tools.span,
                list: tools.list.iter().map(|tool| tool.map_strings(f)).collect(),
            }),
            tool_choice: self.tool_choice.as_ref().map(|choice| choice.map_strings(f)),
            thinking: self.thinking,
            cache_control: self.cache_control,
            user_id: self.user_id.as_ref().map(f),
            cache_key: self.cache_key.as_ref().map(f),
            metadata: self.metadata,
            thread: (self.thread.as_ref())
                .map(|thread| ThreadOf { previous: thread.previous.as_ref().map(f) }),
            limit_member: self.limit_member,
            stream_options: self.stream_options,
            previous: self.previous.as_ref().map(|(id, span)| (f(id), *span)),
            elsewhere: self.elsewhere,
            conversation: self.conversation.as_ref().map(f),
            stored: self.stored,
            apart: self.apart,
            terms: self.terms,
            messages: MessagesOf {
                span: self.messages.span,
                string: self.messages.string,
                list: self.messages.list.iter().map(|message| message.map_strings(f)).collect(),
            },
        }
    }
}

impl<S> ToolOf<S> {
    fn map_strings<'s, R>(&'s self, f: impl Fn(&'s S) -> R) -> ToolOf<R> {
        ToolOf {
            name: f(&self.name),
            kind: self.kind.as_ref().map(f),
            span: self.span,
            cache_control: self.cache_control,
        }
    }
}

impl<S> ToolChoiceOf<S> {
    fn map_strings<'s, R>(&'s self, f: impl Fn(&'s S) -> R) -> ToolChoiceOf<R> {
        let kind = match &self.kind {
            ToolChoiceKindOf::Auto => ToolChoiceKindOf::Auto,
            ToolChoiceKindOf::Any => ToolChoiceKindOf::Any,
            ToolChoiceKindOf::None => ToolChoiceKindOf::None,
            ToolChoiceKindOf::Tool(name) => ToolChoiceKindOf::Tool(f(name)),
            ToolChoiceKindOf::Other(kind) => ToolChoiceKindOf::Other(f(kind)),
        };
        let Self { disable_parallel, span, member, .. } = *self;
        ToolChoiceOf { kind, disable_parallel, span, member }
    }
}

impl<S> MessageOf<S> {
    fn map_strings<'s, R>(&'s self, f: impl Fn(&'s S) -> R + Copy) -> MessageOf<R> {
        let content = match &self.content {
            ContentOf::Text(text, span) => ContentOf::Text(f(text), *span),
            ContentOf::Blocks { span, blocks } => ContentOf::Blocks {
                span: *span,
                blocks: blocks.iter().map(|block| block.map_strings(f)).collect(),
            },
        };
        MessageOf { role: self.role, name: self.name.as_ref().map(f), span: self.span, content }
    }
}

impl<S> BlockOf<S> {
    fn map_strings<'s, R>(&'s self, f: impl Fn(&'s S) -> R + Copy) -> BlockOf<R> {
        let kind = match &self.kind {
            BlockKindOf::Text { text, span } => BlockKindOf::Text { text: f(text), span: *span },
            BlockKindOf::ToolUse { id, name, input, server, by_code } => BlockKindOf::ToolUse {
                id: f(id),
                name: f(name),
                input: match input {
                    CallInputOf::Json(span) => CallInputOf::Json(*span),
                    CallInputOf::Item(span) => CallInputOf::Item(*span),
                    CallInputOf::Text(text) => CallInputOf::Text(f(text)),
                },
                server: *server,
                by_code: *by_code,
            },
            BlockKindOf::ToolResult(result) => BlockKindOf::ToolResult(result.map_strings(f)),
            BlockKindOf::Thinking => BlockKindOf::Thinking,
            BlockKindOf::RedactedThinking => BlockKindOf::RedactedThinking,
            BlockKindOf::Other { kind } => BlockKindOf::Other { kind: f(kind) },
        };
        BlockOf { span: self.span, cache_control: self.cache_control, kind }
    }
}

impl<S> ToolResultOf<S> {
    fn map_strings<'s, R>(&'s self, f: impl Fn(&'s S) -> R + Copy) -> ToolResultOf<R> {
        let content = match &self.content {
            ResultContentOf::Absent(span) => ResultContentOf::Absent(*span),
            ResultContentOf::Opaque(span) => ResultContentOf::Opaque(*span),
            ResultContentOf::Text(text, span) => ResultContentOf::Text(f(text), *span),
            ResultContentOf::Parts { span, parts } => {
                let part = |part: &'s PartOf<S>| PartOf {
                    span: part.span,
                    kind: f(&part.kind),
                    text: part.text.as_ref().map(|(text, span)| (f(text), *span)),
                };
                ResultContentOf::Parts { span: *span, parts: parts.iter().map(part).collect() }
            }
        };
        ToolResultOf {
            tool_use_id: f(&self.tool_use_id),
            is_error: self.is_error,
            content,
            room: self.room,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every API's body, with escapes, media, results, words of this crate's own and odd members.
    const BODIES: [(Api, &str); 3] = [
        (
            Api::Anthropic,
            r#"{"model":"m\u00e9","max_tokens":5,"stream":true,"system":[{"type":"text","text":"s"}],
            "tools":[{"name":"a","type":"web_search_1"}],"tool_choice":{"type":"tool","name":"a"},
            "metadata":{"user_id":"u"},"messages":[{"role":"user","content":"a\nb"},
            {"role":"assistant","content":[{"type":"thinking"},{"type":"tool_use","id":"t1",
            "name":"a","input":{"x":1}}]},{"role":"user","content":[{"type":"tool_result",
            "tool_use_id":"t1","content":[{"type":"text","text":"r"},{"type":"image"}]}]}]}"#,
        ),
        (
            Api::Chat,
            r#"{"model":"m","messages":[{"role":"system","content":"s"},{"role":"user","name":"n",
            "content":[{"type":"text","text":"q"},{"type":"image_url"}]},{"role":"assistant",
            "content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f",
            "arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]}"#,
        ),
        (
            Api::Responses,
            r#"{"model":"m","previous_response_id":"resp_1","store":false,"input":[
            {"role":"user","content":"q"},{"type":"reasoning","summary":[]},
            {"type":"web_search_call","id":"w"},{"type":"function_call","call_id":"c","name":"f",
            "arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"}]}"#,
        ),
    ];

    #[test]
    fn the_view_is_the_same_as_when_the_body_was_read() {
        for (api, body) in BODIES {
            let read = Request::from_body(api, body.as_bytes()).unwrap();
            let kept = OwnedRequest::from_request(&read, body);
            assert_eq!(format!("{read:?}"), format!("{:?}", kept.view()), "{api:?}");
            assert_eq!(*kept.body(), body);
        }
    }
}
