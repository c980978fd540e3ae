//! A request body as a view of spans into its original bytes.
//!
//! [`RequestBody::from_body`] reads the whole body once and records the spans of what a governor
//! needs. Everything else is skipped untouched. It checks the JSON and the shape of the members it
//! knows, and nothing more: the API decides whether it accepts the request. Of a repeated key the
//! last value wins, as in the provider's parser.

mod items;
mod members;
#[cfg(test)]
mod tests;

pub use items::{
    Call, Input, Item, ItemKind, Items, Output, RequestContent, RequestPart, RequestRole,
};
pub use members::{
    Conversation, FlagMember, Include, NumberMember, Reasoning, RequestTool, RequestToolChoice,
    RequestToolChoiceKind, RequestTools,
};

use crate::json::{self, Cursor, Kind, Span, Str};
use crate::request::{PricingTerms, RequestError};

/// A borrowed view of a Responses request.
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
    /// `background`, false where absent. A value that is not a boolean counts as true.
    pub background: bool,
    /// `store`, if stated. The API's default is true.
    pub store: Option<bool>,
    /// `max_output_tokens`, if it is a whole number.
    pub max_output_tokens: Option<NumberMember>,
    /// `max_tool_calls`: a limit of built-in tools only, never of the client's functions.
    pub max_tool_calls: Option<NumberMember>,
    /// The value of `instructions`.
    pub instructions: Option<Span>,
    /// `tools`
    pub tools: Option<RequestTools<'a>>,
    /// `tool_choice`
    pub tool_choice: Option<RequestToolChoice<'a>>,
    /// `parallel_tool_calls`, if stated. Changing it invalidates the prompt cache.
    pub parallel_tool_calls: Option<FlagMember>,
    /// `reasoning`
    pub reasoning: Option<Reasoning<'a>>,
    /// `include`
    pub include: Option<Include>,
    /// `previous_response_id` and the value's span: the provider keeps the history.
    pub previous_response_id: Option<(Str<'a>, Span)>,
    /// `conversation`: the provider keeps the history.
    pub conversation: Option<Conversation<'a>>,
    /// The value of `metadata`.
    pub metadata: Option<Span>,
    /// The value of `client_metadata`, in which Codex names its session.
    pub client_metadata: Option<Span>,
    /// `user`
    pub user: Option<Str<'a>>,
    /// `prompt_cache_key`
    pub prompt_cache_key: Option<Str<'a>>,
    /// `text.format.type`: `text`, `json_object` or `json_schema`.
    pub text_format: Option<Str<'a>>,
    /// The members that affect the price.
    pub terms: PricingTerms,
    /// `input`
    pub input: Input<'a>,
    /// Every top-level member, in order.
    pub members: Vec<Member<'a>>,
}

/// A top-level member of any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key.
    pub key: Str<'a>,
    /// The value's span.
    pub value: Span,
}

impl<'a> RequestBody<'a> {
    /// Reads a request body.
    ///
    /// # Errors
    /// Fails if the body is not JSON, has no `model` string, or has an `input` that is neither
    /// absent, a string nor a list of objects.
    pub fn from_body(body: &'a [u8]) -> Result<Self, RequestError> {
        let mut cursor = Cursor::from_bytes(body)?;
        let mut found = RequestMembers::default();
        let span = cursor.read_members(|cursor, member| found.read_member(cursor, member))?;
        cursor.expect_end()?;
        let model = found.model.ok_or(RequestError::Missing { member: "model" })?;
        Ok(Self { text: cursor.text(), span, model, ..found.body })
    }

    /// Returns the span of a top-level member's value. Of a repeated key the last value wins.
    #[must_use]
    pub fn find_member(&self, name: &str) -> Option<Span> {
        self.members.iter().rev().find(|member| member.key.eq_str(name)).map(|member| member.value)
    }

    /// Returns the items of `input`, or none if it is absent or a string.
    #[must_use]
    pub fn items(&self) -> &[Item<'a>] {
        match &self.input {
            Input::Items(items) => &items.list,
            Input::Absent(_) | Input::Text(..) => &[],
        }
    }
}

/// The top-level members read so far. The model, which must be there, is kept apart from the body.
#[derive(Default)]
struct RequestMembers<'a> {
    model: Option<Str<'a>>,
    body: RequestBody<'a>,
}

impl<'a> RequestMembers<'a> {
    fn read_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: json::MemberKey<'a>,
    ) -> Result<(), RequestError> {
        let value = match &*member.key.unescape() {
            "input" => {
                let (input, span) = items::read_input(cursor)?;
                self.body.input = input;
                span
            }
            "tools" => {
                let (tools, span) = members::read_tools(cursor)?;
                self.body.tools = tools;
                span
            }
            name => {
                let mut ahead = cursor.clone();
                let present = ahead.peek()? != Kind::Null;
                let span = ahead.skip_value()?;
                self.read_value(name, cursor, present.then_some(span))?;
                *cursor = ahead;
                span
            }
        };
        self.body.members.push(Member { key: member.key, value });
        Ok(())
    }

    /// Reads a member. `value` is the span of its value, unless that is `null`.
    fn read_value(
        &mut self,
        name: &str,
        cursor: &mut Cursor<'a>,
        value: Option<Span>,
    ) -> Result<(), RequestError> {
        match name {
            "model" => self.model = cursor.read_text_or_skip()?,
            "stream" => self.body.stream = cursor.read_bool_or_skip()? == Some(true),
            "background" => {
                // Some servers accept `"true"` for true.
                let absent = cursor.peek()? == Kind::Null;
                self.body.background = cursor.read_bool_or_skip()?.unwrap_or(!absent);
            }
            "store" => self.body.store = cursor.read_bool_or_skip()?,
            "max_output_tokens" => {
                self.body.max_output_tokens = members::read_count(cursor, value)?
            }
            "max_tool_calls" => self.body.max_tool_calls = members::read_count(cursor, value)?,
            "instructions" => self.body.instructions = value,
            "tool_choice" => self.body.tool_choice = members::read_tool_choice(cursor, value)?,
            "parallel_tool_calls" => {
                self.body.parallel_tool_calls = members::read_flag(cursor, value)?
            }
            "reasoning" => self.body.reasoning = members::read_reasoning(cursor, value)?,
            "include" => self.body.include = members::read_include(cursor, value)?,
            "previous_response_id" => {
                self.body.previous_response_id = cursor.read_string_or_skip()?
            }
            "conversation" => self.body.conversation = members::read_conversation(cursor, value)?,
            "metadata" => self.body.metadata = value,
            "client_metadata" => self.body.client_metadata = value,
            "user" => self.body.user = cursor.read_text_or_skip()?,
            "prompt_cache_key" => self.body.prompt_cache_key = cursor.read_text_or_skip()?,
            "text" => self.body.text_format = members::read_text_format(cursor)?,
            name => self.body.terms.read_member(name, cursor, false)?,
        }
        Ok(())
    }
}
