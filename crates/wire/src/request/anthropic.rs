//! The view of a Messages request, read in one pass, because the view has this protocol's form.

mod blocks;
mod members;
#[cfg(test)]
mod tests;

use crate::{
    Api,
    json::{self, Cursor, Span, Str},
    request::{
        Messages, OutputLimit, PricingTerms, Request, RequestError, Thinking, Thread, ToolChoice,
        Tools,
    },
};

/// Reads a request body.
pub(super) fn scan_body(body: &[u8]) -> Result<Request<'_>, RequestError> {
    let mut cursor = Cursor::from_bytes(body)?;
    let mut found = RequestMembers::default();
    let span = cursor.read_members(|cursor, member| found.read_member(cursor, member))?;
    cursor.expect_end()?;
    Ok(Request {
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
        cache_key: None,
        metadata: None,
        thread: found.thread,
        limit_member: "max_tokens",
        stream_options: None,
        previous: None,
        elsewhere: false,
        conversation: None,
        stored: false,
        apart: None,
        terms: found.terms,
        messages: found.messages.ok_or(RequestError::Missing { member: "messages" })?,
    })
}

/// The top-level members read so far.
#[derive(Default)]
struct RequestMembers<'a> {
    model: Option<Str<'a>>,
    stream: bool,
    max_tokens: Option<OutputLimit>,
    system: Option<Span>,
    tools: Option<Tools<'a>>,
    tool_choice: Option<ToolChoice<'a>>,
    thinking: Thinking,
    cache_control: bool,
    user_id: Option<Str<'a>>,
    thread: Option<Thread<'a>>,
    terms: PricingTerms,
    messages: Option<Messages<'a>>,
}

impl<'a> RequestMembers<'a> {
    fn read_member(
        &mut self,
        cursor: &mut Cursor<'a>,
        member: json::MemberKey<'a>,
    ) -> Result<(), RequestError> {
        match &*member.key.unescape() {
            "model" => self.model = cursor.read_text_or_skip()?,
            "stream" => self.stream = cursor.read_bool_or_skip()? == Some(true),
            "max_tokens" => self.max_tokens = members::read_max_tokens(cursor, member.span)?,
            "system" => self.system = cursor.skip_unless_null()?,
            "tools" => self.tools = members::read_tools(cursor)?,
            "tool_choice" => self.tool_choice = members::read_tool_choice(cursor, member.span)?,
            "thinking" => self.thinking = members::read_thinking(cursor)?,
            "cache_control" => self.cache_control = cursor.skip_unless_null()?.is_some(),
            "metadata" => self.user_id = cursor.read_member_text_or_skip("user_id")?,
            "thread" => self.thread = members::read_thread(cursor)?,
            "messages" => self.messages = Some(blocks::read_messages(cursor)?),
            key => self.terms.read_member(key, cursor, true)?,
        }
        Ok(())
    }
}
