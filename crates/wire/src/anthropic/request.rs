//! A request body, seen through spans into its original bytes.
//!
//! [`Request::scan`] reads the whole body once and notes where the things are that a governor
//! needs; everything else is skipped untouched. It checks JSON and the shape of the members it
//! knows, nothing more: whether the API would take the request is the API's business. Where a key
//! stands twice, the last one wins, as in the provider's parser.

mod blocks;
mod members;
#[cfg(test)]
mod tests;

use std::fmt;

pub use blocks::{
    Block, BlockKind, Content, Input, Message, Messages, Part, ResultContent, Role, ToolResult,
};
pub use members::{
    MaxTokens, Thinking, ThinkingMode, Thread, Tool, ToolChoice, ToolChoiceKind, Tools,
};

use crate::Api;
use crate::chat::StreamOptions;
use crate::json::{self, Cursor, Span, Str};

/// A borrowed view of a Messages request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The API it was written for.
    pub api: Api,
    /// The whole body; every span points into it.
    pub text: &'a str,
    /// The body's object.
    pub span: Span,
    /// `model`
    pub model: Str<'a>,
    /// `stream`, false where absent.
    pub stream: bool,
    /// `max_tokens`, where it is a whole number.
    pub max_tokens: Option<MaxTokens>,
    /// The value of `system`, string or list.
    pub system: Option<Span>,
    /// `tools`
    pub tools: Option<Tools<'a>>,
    /// `tool_choice`
    pub tool_choice: Option<ToolChoice<'a>>,
    /// `thinking`
    pub thinking: Thinking,
    /// Whether there is a top-level `cache_control` (automatic caching).
    pub cache_control: bool,
    /// `metadata.user_id`
    pub user_id: Option<Str<'a>>,
    /// `thread`: the history, or a part of it, is the provider's.
    pub thread: Option<Thread<'a>>,
    /// The name of the member that limits the output, where there is none yet.
    pub limit_member: &'static str,
    /// `stream_options` of Chat Completions.
    pub stream_options: Option<StreamOptions>,
    /// `previous_response_id` of the Responses API, and its value's span.
    pub previous: Option<(Str<'a>, Span)>,
    /// The history, or a part of it, is the provider's and is found under another name than
    /// `previous`: `conversation` of the Responses API.
    pub elsewhere: bool,
    /// Whether the provider keeps the response, so that a later request may go on from it: `store`
    /// of the Responses API, which is on where it is absent.
    pub stored: bool,
    /// The member by which it asks for what is no single answer to this request: a `background`
    /// response, more choices than one (`n`).
    pub apart: Option<&'static str>,
    /// `messages`
    pub messages: Messages<'a>,
}

/// Why a body is not a request this module can view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// Not JSON.
    Json(json::Error),
    /// A member that must be there is not.
    Missing {
        /// The member's name.
        member: &'static str,
    },
    /// A member has a shape that the API does not know.
    Shape {
        /// Which member.
        member: &'static str,
        /// What it may be.
        allowed: &'static str,
        /// Byte offset of its value in the body.
        at: usize,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the request body is {error}"),
            Self::Missing { member } => write!(f, "the request has no `{member}`"),
            Self::Shape { member, allowed, at } => {
                write!(f, "`{member}` at byte {at} of the request must be {allowed}")
            }
        }
    }
}

impl std::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json(error) => Some(error),
            Self::Missing { .. } | Self::Shape { .. } => None,
        }
    }
}

impl From<json::Error> for RequestError {
    fn from(error: json::Error) -> Self {
        Self::Json(error)
    }
}

impl<'a> Request<'a> {
    /// Reads a request body.
    ///
    /// # Errors
    /// When it is not JSON, has no `model` string or no `messages` list, or a message has no
    /// `role` or a `content` that is neither a string nor a list of objects.
    pub fn scan(body: &'a [u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let mut found = Found::default();
        let span = cursor.members(|cursor, member| found.read(cursor, member))?;
        cursor.end()?;
        Ok(Self {
            api: Api::Anthropic,
            text: cursor.text(),
            span,
            model: found.model.ok_or(RequestError::Missing { member: "model" })?,
            stream: found.stream,
            max_tokens: found.max_tokens,
            system: found.system,
            tools: found.tools,
            tool_choice: found.tool_choice,
            thinking: found.thinking,
            cache_control: found.cache_control,
            user_id: found.user_id,
            thread: found.thread,
            limit_member: "max_tokens",
            stream_options: None,
            previous: None,
            elsewhere: false,
            stored: false,
            apart: None,
            messages: found.messages.ok_or(RequestError::Missing { member: "messages" })?,
        })
    }
}

/// The top-level members read so far.
#[derive(Default)]
struct Found<'a> {
    model: Option<Str<'a>>,
    stream: bool,
    max_tokens: Option<MaxTokens>,
    system: Option<Span>,
    tools: Option<Tools<'a>>,
    tool_choice: Option<ToolChoice<'a>>,
    thinking: Thinking,
    cache_control: bool,
    user_id: Option<Str<'a>>,
    thread: Option<Thread<'a>>,
    messages: Option<Messages<'a>>,
}

impl<'a> Found<'a> {
    fn read(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: json::Member<'a>,
    ) -> Result<(), RequestError> {
        match &*member.key.unescape() {
            "model" => self.model = cursor.string_or_skip()?.map(|(model, _)| model),
            "stream" => self.stream = cursor.bool_or_skip()? == Some(true),
            "max_tokens" => self.max_tokens = members::max_tokens(cursor, member.span)?,
            "system" => self.system = members::not_null(cursor)?,
            "tools" => self.tools = members::tools(cursor)?,
            "tool_choice" => self.tool_choice = members::tool_choice(cursor, member.span)?,
            "thinking" => self.thinking = members::thinking(cursor)?,
            "cache_control" => self.cache_control = members::not_null(cursor)?.is_some(),
            "metadata" => self.user_id = members::user_id(cursor)?,
            "thread" => self.thread = members::thread(cursor)?,
            "messages" => self.messages = Some(blocks::messages(cursor)?),
            _ => {}
        }
        Ok(())
    }
}
