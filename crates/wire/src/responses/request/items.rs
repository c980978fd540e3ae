//! The input of a request and its items.

use super::RequestError;
use super::members::{self, RequestTools};
use crate::caller;
use crate::json::{Cursor, Error, Kind, MemberKey, Span, Str};

/// `input`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'a> {
    /// No input. The span is that of a literal `null`, if one is written.
    Absent(Option<Span>),
    /// A string, equivalent to one user message, and its span with quotes.
    Text(Str<'a>, Span),
    /// A list of items.
    Items(Items<'a>),
}

impl Default for Input<'_> {
    fn default() -> Self {
        Self::Absent(None)
    }
}

/// The items of an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Items<'a> {
    /// The list's span.
    pub span: Span,
    /// The items, in order.
    pub list: Vec<Item<'a>>,
}

/// An item of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// The item object's span.
    pub span: Span,
    /// `id`; empty where absent.
    pub id: Str<'a>,
    /// True if code that the model wrote made the call, or reads the output (`caller`).
    pub by_code: bool,
    /// The item's kind.
    pub kind: ItemKind<'a>,
}

/// The kind of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemKind<'a> {
    /// `message`, or an item with a role and no type.
    Message {
        /// The speaker's role.
        role: RequestRole,
        /// The content.
        content: RequestContent<'a>,
        /// `phase`: `commentary` or `final_answer`, on the model's own messages.
        phase: Option<Str<'a>>,
    },
    /// `function_call`, with arguments in JSON text.
    FunctionCall(Call<'a>),
    /// `custom_tool_call`, with any text as its input.
    CustomToolCall(Call<'a>),
    /// `function_call_output`
    FunctionCallOutput(Output<'a>),
    /// `custom_tool_call_output`
    CustomToolCallOutput(Output<'a>),
    /// `reasoning`
    Reasoning {
        /// The value of `encrypted_content`, unless absent or `null`.
        encrypted: Option<Span>,
    },
    /// `item_reference`, or an item with only an id.
    ItemReference,
    /// `configuration_update`
    ConfigurationUpdate,
    /// `additional_tools`: tools declared in the input (recorded from Codex 0.169, which declares
    /// all of its tools this way).
    AdditionalTools(RequestTools<'a>),
    /// `compaction`
    Compaction,
    /// A call of a built-in tool, run by the provider (`web_search_call`) or by the client
    /// (`local_shell_call`).
    ToolCall {
        /// `type`
        kind: Str<'a>,
        /// `call_id`; empty where absent.
        call_id: Str<'a>,
    },
    /// The output of a built-in tool's call.
    ToolOutput {
        /// `type`
        kind: Str<'a>,
        /// The call that the output answers, and its content if that is text.
        output: Output<'a>,
    },
    /// Anything else.
    Other {
        /// `type`; empty where absent.
        kind: Str<'a>,
    },
}

/// A call of a client's tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// `call_id`; empty where absent.
    pub call_id: Str<'a>,
    /// `name`; empty where absent.
    pub name: Str<'a>,
    /// `namespace`, if the tool is in one.
    pub namespace: Option<Str<'a>>,
    /// `arguments` of a function, `input` of a custom tool; empty where absent.
    pub arguments: Str<'a>,
    /// The span of that value, quotes included; empty where absent.
    pub span: Span,
}

/// The output of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output<'a> {
    /// The id of the call that the output answers; empty where absent.
    pub call_id: Str<'a>,
    /// The tool's output.
    pub content: RequestContent<'a>,
}

/// The content of a message or of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestContent<'a> {
    /// No content. The span is that of a literal `null`, if one is written.
    Absent(Option<Span>),
    /// Neither text nor parts, such as a computer's screenshot; the value's span.
    Other(Span),
    /// A string, and its span with quotes.
    Text(Str<'a>, Span),
    /// A list of parts.
    Parts {
        /// The list's span.
        span: Span,
        /// The parts, in order.
        parts: Vec<RequestPart<'a>>,
    },
}

/// A part of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart<'a> {
    /// The part's span.
    pub span: Span,
    /// `type`; empty where absent.
    pub kind: Str<'a>,
    /// The text of an `input_text`, `output_text`, `text` or `refusal` part, or the `stdout` of a
    /// command, and its span with quotes.
    pub text: Option<(Str<'a>, Span)>,
}

/// The role of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestRole {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `system`
    System,
    /// `developer`
    Developer,
    /// A role this module does not know.
    Other,
}

pub(super) fn read_input<'a>(cursor: &mut Cursor<'a>) -> Result<(Input<'a>, Span), RequestError> {
    match cursor.peek()? {
        Kind::Null => {
            let span = cursor.skip_value()?;
            Ok((Input::Absent(Some(span)), span))
        }
        Kind::String => {
            let (text, span) = cursor.read_string()?;
            Ok((Input::Text(text, span), span))
        }
        Kind::Array => {
            let mut list = Vec::new();
            let span = cursor.read_elements(|cursor| {
                if cursor.peek()? != Kind::Object {
                    return Err(shape_error(cursor, "input[]", "an object"));
                }
                list.push(read_item(cursor)?);
                Ok::<_, RequestError>(())
            })?;
            Ok((Input::Items(Items { span, list }), span))
        }
        Kind::Object | Kind::Number | Kind::Bool => {
            Err(shape_error(cursor, "input", "a string or a list of items"))
        }
    }
}

fn shape_error(
    cursor: &mut Cursor<'_>,
    member: &'static str,
    allowed: &'static str,
) -> RequestError {
    match cursor.skip_value() {
        Ok(span) => RequestError::Shape { member, allowed, at: span.start },
        Err(error) => error.into(),
    }
}

fn read_item<'a>(cursor: &mut Cursor<'a>) -> Result<Item<'a>, Error> {
    let mut fields = ItemMembers::default();
    let span = cursor.read_members(|cursor, member| fields.read_member(cursor, member))?;
    Ok(Item { span, id: fields.id, by_code: fields.by_code, kind: fields.into_kind() })
}

/// An item's members of any type, because the type may come last.
#[derive(Default)]
struct ItemMembers<'a> {
    kind: Str<'a>,
    id: Str<'a>,
    by_code: bool,
    role: Option<RequestRole>,
    phase: Option<Str<'a>>,
    call_id: Str<'a>,
    name: Str<'a>,
    namespace: Option<Str<'a>>,
    arguments: Option<(Str<'a>, Span)>,
    input: Option<(Str<'a>, Span)>,
    content: Option<RequestContent<'a>>,
    output: Option<RequestContent<'a>>,
    encrypted: Option<Span>,
    tools: Option<RequestTools<'a>>,
}

impl<'a> ItemMembers<'a> {
    fn read_member(&mut self, cursor: &mut Cursor<'a>, member: MemberKey<'a>) -> Result<(), Error> {
        match &*member.key.unescape() {
            "type" => self.kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "id" => self.id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "role" => self.role = cursor.read_text_or_skip()?.map(read_role),
            "phase" => self.phase = cursor.read_text_or_skip()?,
            "call_id" => self.call_id = cursor.read_text_or_skip()?.unwrap_or_default(),
            "name" => self.name = cursor.read_text_or_skip()?.unwrap_or_default(),
            "namespace" => self.namespace = cursor.read_text_or_skip()?,
            "arguments" => self.arguments = cursor.read_string_or_skip()?,
            "input" => self.input = cursor.read_string_or_skip()?,
            "content" => self.content = Some(read_content(cursor)?),
            "output" => self.output = Some(read_content(cursor)?),
            "caller" => self.by_code = caller::read_is_code(cursor)?,
            "tools" => self.tools = members::read_tools(cursor)?.0,
            "encrypted_content" => {
                self.encrypted = cursor.skip_unless_null()?;
            }
            _ => {}
        }
        Ok(())
    }

    fn into_kind(mut self) -> ItemKind<'a> {
        let kind = self.kind;
        match (&*kind.unescape(), self.role) {
            ("message", role) => self.take_message(role.unwrap_or(RequestRole::Other)),
            ("", Some(role)) => self.take_message(role),
            ("function_call", _) => ItemKind::FunctionCall(self.to_call(self.arguments)),
            ("custom_tool_call", _) => ItemKind::CustomToolCall(self.to_call(self.input)),
            ("function_call_output", _) => ItemKind::FunctionCallOutput(self.take_output()),
            ("custom_tool_call_output", _) => ItemKind::CustomToolCallOutput(self.take_output()),
            ("reasoning", _) => ItemKind::Reasoning { encrypted: self.encrypted },
            ("item_reference", _) => ItemKind::ItemReference,
            ("", None) if !self.id.is_empty() => ItemKind::ItemReference,
            ("configuration_update", _) => ItemKind::ConfigurationUpdate,
            ("additional_tools", _) if self.tools.is_some() => {
                ItemKind::AdditionalTools(self.tools.take().unwrap_or_default())
            }
            ("compaction" | "compaction_summary", _) => ItemKind::Compaction,
            (name, _) if name.ends_with("_call") => {
                ItemKind::ToolCall { kind, call_id: self.call_id }
            }
            (name, _) if name.ends_with("_output") => {
                ItemKind::ToolOutput { kind, output: self.take_output() }
            }
            _ => ItemKind::Other { kind },
        }
    }

    fn take_message(&mut self, role: RequestRole) -> ItemKind<'a> {
        let content = self.content.take().unwrap_or(RequestContent::Absent(None));
        ItemKind::Message { role, content, phase: self.phase }
    }

    fn to_call(&self, arguments: Option<(Str<'a>, Span)>) -> Call<'a> {
        let (arguments, span) = arguments.unwrap_or_default();
        let Self { call_id, name, namespace, .. } = *self;
        Call { call_id, name, namespace, arguments, span }
    }

    fn take_output(&mut self) -> Output<'a> {
        let content = self.output.take().unwrap_or(RequestContent::Absent(None));
        Output { call_id: self.call_id, content }
    }
}

fn read_role(role: Str<'_>) -> RequestRole {
    match &*role.unescape() {
        "user" => RequestRole::User,
        "assistant" => RequestRole::Assistant,
        "system" => RequestRole::System,
        "developer" => RequestRole::Developer,
        _ => RequestRole::Other,
    }
}

fn read_content<'a>(cursor: &mut Cursor<'a>) -> Result<RequestContent<'a>, Error> {
    match cursor.peek()? {
        Kind::String => {
            let (text, span) = cursor.read_string()?;
            Ok(RequestContent::Text(text, span))
        }
        Kind::Array => {
            // Most lists have one part. The default growth would make room for four.
            let mut parts = Vec::with_capacity(1);
            let span = cursor.read_elements(|cursor| {
                parts.push(read_part(cursor)?);
                Ok::<_, Error>(())
            })?;
            Ok(RequestContent::Parts { span, parts })
        }
        Kind::Null => Ok(RequestContent::Absent(Some(cursor.skip_value()?))),
        Kind::Object | Kind::Number | Kind::Bool => Ok(RequestContent::Other(cursor.skip_value()?)),
    }
}

fn read_part<'a>(cursor: &mut Cursor<'a>) -> Result<RequestPart<'a>, Error> {
    if cursor.peek()? != Kind::Object {
        let span = cursor.skip_value()?;
        return Ok(RequestPart { span, kind: Str::default(), text: None });
    }
    let (mut kind, mut text, mut stdout) = (Str::default(), None, None);
    let span = cursor.read_members(|cursor, member| {
        match &*member.key.unescape() {
            "type" => kind = cursor.read_text_or_skip()?.unwrap_or_default(),
            "text" | "refusal" => text = cursor.read_string_or_skip()?,
            "stdout" => stdout = cursor.read_string_or_skip()?,
            _ => {}
        }
        Ok::<_, Error>(())
    })?;
    let text = match &*kind.unescape() {
        "input_text" | "output_text" | "text" | "refusal" => text,
        // The output of a command has no type.
        "" => stdout,
        _ => None,
    };
    Ok(RequestPart { span, kind, text })
}
