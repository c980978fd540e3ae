//! A request body as a view of spans into its original bytes.
//!
//! [`RequestBody::from_body`] reads the whole body once and records the spans of what a governor
//! needs. Everything else is skipped untouched. It checks the JSON and the shape of the members it
//! knows, and nothing more: the API decides whether it accepts the request. Of a repeated key the
//! last value wins, as in the provider's parser.

mod members;
mod messages;
#[cfg(test)]
mod tests;
mod thinking;

pub use members::{
    Flag, MaxTokens, RequestTool, RequestToolChoice, RequestToolChoiceKind, RequestTools,
    ResponseFormat, StreamOptions, ToolKind,
};
pub use messages::{
    Member, PartKind, RequestContent, RequestMessage, RequestMessages, RequestPart, RequestRole,
    ToolCall, ToolCallKind,
};
pub use thinking::{RequestThinking, RequestedThinking};

use crate::json::{self, Cursor, Kind, Span, Str};
use crate::request::{PricingTerms, RequestError};

/// A borrowed view of a Chat Completions request.
#[derive(Clone, Debug, Default)]
pub struct RequestBody<'a> {
    /// The whole body; every span points into it.
    pub text: &'a str,
    /// The body's object.
    pub span: Span,
    /// `model`
    pub model: Str<'a>,
    /// `stream`, false where absent.
    pub stream: bool,
    /// `stream_options`, if it is an object.
    pub stream_options: Option<StreamOptions>,
    /// `max_tokens`, if it is a whole number.
    pub max_tokens: Option<MaxTokens>,
    /// `max_completion_tokens`, if it is a whole number.
    pub max_completion_tokens: Option<MaxTokens>,
    /// `tools`
    pub tools: Option<RequestTools<'a>>,
    /// The value of the deprecated `functions`, if it is a list.
    pub functions: Option<Span>,
    /// `tool_choice`
    pub tool_choice: Option<RequestToolChoice<'a>>,
    /// `parallel_tool_calls`, if it is a boolean.
    pub parallel_tool_calls: Option<Flag>,
    /// The thinking settings, in any dialect.
    pub thinking: RequestThinking<'a>,
    /// `user`
    pub user: Option<Str<'a>>,
    /// The value of `metadata`, unless null.
    pub metadata: Option<Span>,
    /// `prompt_cache_key`
    pub prompt_cache_key: Option<Str<'a>>,
    /// `store`, if it is a boolean.
    pub store: Option<bool>,
    /// `n`: the number of choices requested. A value that is not a whole number counts as
    /// [`u64::MAX`].
    pub n: Option<u64>,
    /// `response_format`, if it is an object.
    pub response_format: Option<ResponseFormat<'a>>,
    /// The members that affect the price.
    pub terms: PricingTerms,
    /// `messages`
    pub messages: RequestMessages<'a>,
}

impl<'a> RequestBody<'a> {
    /// Reads a request body.
    ///
    /// # Errors
    /// Fails if the body is not JSON, if it has no `model` string or no `messages` list, or if a
    /// message has no `role` or a `content` that is neither a string, null nor a list.
    pub fn from_body(body: &'a [u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let mut found = RequestMembers::default();
        let span = cursor.read_members(|cursor, member| found.read_member(cursor, member))?;
        cursor.expect_end()?;
        Ok(Self {
            text: cursor.text(),
            span,
            model: found.model.ok_or(RequestError::Missing { member: "model" })?,
            messages: found.messages.ok_or(RequestError::Missing { member: "messages" })?,
            ..found.body
        })
    }

    /// Returns the smaller of the two output limits in tokens, if there is any.
    #[must_use]
    pub fn output_limit(&self) -> Option<u64> {
        let limits = [self.max_tokens, self.max_completion_tokens];
        limits.into_iter().flatten().map(|limit| limit.value).min()
    }

    /// Returns true if the request asks for the usage of its stream.
    #[must_use]
    pub fn includes_usage(&self) -> bool {
        let asked = self.stream_options.and_then(|options| options.include_usage);
        asked.is_some_and(|asked| asked.value)
    }
}

/// The top-level members read so far. Those that must be there are kept apart from the body.
#[derive(Default)]
struct RequestMembers<'a> {
    model: Option<Str<'a>>,
    messages: Option<RequestMessages<'a>>,
    body: RequestBody<'a>,
}

impl<'a> RequestMembers<'a> {
    fn read_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: json::MemberKey<'a>,
    ) -> Result<(), RequestError> {
        let (key, body) = (member.span, &mut self.body);
        match &*member.key.unescape() {
            "model" => self.model = cursor.read_text_or_skip()?,
            "stream" => body.stream = cursor.read_bool_or_skip()? == Some(true),
            "stream_options" => body.stream_options = members::read_stream_options(cursor)?,
            "max_tokens" => body.max_tokens = members::read_max_tokens(cursor, key)?,
            "max_completion_tokens" => {
                body.max_completion_tokens = members::read_max_tokens(cursor, key)?;
            }
            "tools" => body.tools = members::read_tools(cursor)?,
            "functions" => {
                let list = cursor.peek()? == Kind::Array;
                body.functions = Some(cursor.skip_value()?).filter(|_| list);
            }
            "tool_choice" => body.tool_choice = members::read_tool_choice(cursor, key)?,
            "parallel_tool_calls" => body.parallel_tool_calls = members::read_flag(cursor)?,
            "user" => body.user = cursor.read_text_or_skip()?,
            "metadata" => body.metadata = cursor.skip_unless_null()?,
            "prompt_cache_key" => body.prompt_cache_key = cursor.read_text_or_skip()?,
            "store" => body.store = cursor.read_bool_or_skip()?,
            "n" => {
                // Some servers accept `"2"` for 2.
                let absent = cursor.peek()? == Kind::Null;
                let other = (!absent).then_some(u64::MAX);
                body.n = cursor.read_uint_or_skip()?.or(other);
            }
            "response_format" => body.response_format = members::read_response_format(cursor)?,
            "messages" => self.messages = Some(messages::read_messages(cursor)?),
            key => {
                body.terms.read_member(key, cursor, false)?;
                body.thinking.read_member(key, cursor)?;
            }
        }
        Ok(())
    }
}
