//! Readers for the messages of a Messages request.

use crate::{
    caller,
    json::{Cursor, Error, Kind, MemberKey, Span, Str},
    request::{
        Block, BlockKind, CallInput, Content, Message, Messages, Part, RequestError, ResultContent,
        Role, ToolResult, room,
    },
};

pub(super) fn read_messages<'a>(cursor: &mut Cursor<'a>) -> Result<Messages<'a>, RequestError> {
    RequestError::expect_kind(cursor, &[Kind::Array], "messages", "a list of messages")?;
    // Room for a short history. A longer one doubles it as often as needed.
    let mut list = Vec::with_capacity(8);
    let span = cursor.read_elements(|cursor| {
        list.push(read_message(cursor)?);
        Ok::<_, RequestError>(())
    })?;
    Ok(Messages { span, string: false, list })
}

fn read_message<'a>(cursor: &mut Cursor<'a>) -> Result<Message<'a>, RequestError> {
    RequestError::expect_kind(cursor, &[Kind::Object], "messages[]", "an object")?;
    let (mut role, mut content) = (None, None);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "role" => role = cursor.read_text_or_skip()?.map(read_role),
            "content" => content = Some(read_content(cursor)?),
            _ => {}
        }
        Ok::<_, RequestError>(())
    })?;
    Ok(Message {
        role: role.ok_or(RequestError::Missing { member: "messages[].role" })?,
        name: None,
        span,
        content: content.ok_or(RequestError::Missing { member: "messages[].content" })?,
    })
}

fn read_role(role: Str<'_>) -> Role {
    match &*role.unescape() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        _ => Role::Other,
    }
}

fn read_content<'a>(cursor: &mut Cursor<'a>) -> Result<Content<'a>, RequestError> {
    const ALLOWED: &str = "a string or a list of blocks";
    RequestError::expect_kind(cursor, &[Kind::String, Kind::Array], "messages[].content", ALLOWED)?;
    if cursor.peek()? == Kind::String {
        let (text, span) = cursor.read_string()?;
        return Ok(Content::Text(text, span));
    }
    // Most messages have one or two blocks. The default growth would make room for four.
    let mut blocks = Vec::with_capacity(2);
    let span = cursor.read_elements(|cursor| {
        RequestError::expect_kind(cursor, &[Kind::Object], "messages[].content[]", "an object")?;
        blocks.push(read_block(cursor)?);
        Ok::<_, RequestError>(())
    })?;
    Ok(Content::Blocks { span, blocks })
}

/// A block's members of any type, because the type may come last.
#[derive(Default)]
struct BlockMembers<'a> {
    kind: Str<'a>,
    text: Option<(Str<'a>, Span)>,
    id: Str<'a>,
    name: Str<'a>,
    input: Span,
    tool_use_id: Str<'a>,
    is_error: bool,
    cache_control: bool,
    by_code: bool,
    content: Option<ResultContent<'a>>,
}

fn read_block<'a>(cursor: &mut Cursor<'a>) -> Result<Block<'a>, Error> {
    let mut fields = BlockMembers::default();
    let span = cursor.read_members(|cursor, member| fields.read_member(cursor, member))?;
    Ok(Block { span, cache_control: fields.cache_control, kind: fields.into_kind() })
}

impl<'a> BlockMembers<'a> {
    fn read_member(&mut self, cursor: &mut Cursor<'a>, member: MemberKey<'a>) -> Result<(), Error> {
        match &*member.key.unescape() {
            "type" => self.kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "text" => self.text = cursor.read_string_or_skip()?,
            "id" => self.id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "name" => self.name = cursor.read_text_or_skip()?.unwrap_or_default(),
            "input" => self.input = cursor.skip_value()?,
            "tool_use_id" => self.tool_use_id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "is_error" => self.is_error = cursor.read_bool_or_skip()? == Some(true),
            "cache_control" => self.cache_control = cursor.peek()? != Kind::Null,
            "content" => self.content = read_result_content(cursor)?,
            "caller" => self.by_code = caller::read_is_code(cursor)?,
            _ => {}
        }
        Ok(())
    }

    fn into_kind(self) -> BlockKind<'a> {
        let Self { kind, id, name, input, .. } = self;
        match (&*kind.unescape(), self.text) {
            ("text", Some((text, span))) => BlockKind::Text { text, span },
            ("tool_use", _) => {
                let input = CallInput::Json(input);
                BlockKind::ToolUse { id, name, input, server: false, by_code: self.by_code }
            }
            ("server_tool_use" | "mcp_tool_use", _) => {
                let input = CallInput::Json(input);
                BlockKind::ToolUse { id, name, input, server: true, by_code: false }
            }
            ("tool_result", _) => {
                let content = self.content.unwrap_or(ResultContent::Absent(None));
                BlockKind::ToolResult(ToolResult {
                    tool_use_id: self.tool_use_id,
                    is_error: self.is_error,
                    room: room::content_room(&content),
                    content,
                })
            }
            ("thinking", _) => BlockKind::Thinking,
            ("redacted_thinking", _) => BlockKind::RedactedThinking,
            _ => BlockKind::Other { kind },
        }
    }
}

/// Reads the content of a tool result. Returns `None` for content that no result of a client tool
/// may have. Only results of client tools are examined.
fn read_result_content<'a>(cursor: &mut Cursor<'a>) -> Result<Option<ResultContent<'a>>, Error> {
    match cursor.peek()? {
        Kind::String => {
            let (text, span) = cursor.read_string()?;
            Ok(Some(ResultContent::Text(text, span)))
        }
        Kind::Array => {
            let mut parts = Vec::new();
            let span = cursor.read_elements(|cursor| {
                parts.push(read_part(cursor)?);
                Ok::<_, Error>(())
            })?;
            Ok(Some(ResultContent::Parts { span, parts }))
        }
        Kind::Null => Ok(Some(ResultContent::Absent(Some(cursor.skip_value()?)))),
        Kind::Object | Kind::Number | Kind::Bool => {
            cursor.skip_value()?;
            Ok(None)
        }
    }
}

fn read_part<'a>(cursor: &mut Cursor<'a>) -> Result<Part<'a>, Error> {
    if cursor.peek()? != Kind::Object {
        let span = cursor.skip_value()?;
        return Ok(Part { span, kind: Str::default(), text: None });
    }
    let (mut kind, mut text) = (Str::default(), None);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "text" => text = cursor.read_string_or_skip()?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    Ok(Part { span, kind, text: text.filter(|_| kind == "text") })
}
