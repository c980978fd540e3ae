//! The view of a Chat Completions request.

use super::{
    Block, BlockKind, CallInput, Content, Message, Messages, OutputLimit, Part, Request,
    RequestError, ResultContent, Role, Thinking, ThinkingMode, Tool, ToolChoice, ToolChoiceKind,
    ToolResult, Tools, append_block, ends_in_result, known_name, room,
};
use crate::{
    Api,
    chat::{
        self, PartKind, RequestContent as Said, RequestMessage as Sent, RequestPart as SaidPart,
        RequestRole, RequestToolChoiceKind, RequestedThinking, ToolCallKind, ToolKind,
    },
    json::{Span, Str},
};

/// Reads a request body.
pub(super) fn scan_body(body: &[u8]) -> Result<Request<'_>, RequestError> {
    chat::RequestBody::from_body(body).map(view_request)
}

fn view_request(request: chat::RequestBody<'_>) -> Request<'_> {
    let apart = find_apart_member(&request);
    let max = request.max_completion_tokens.or(request.max_tokens);
    let mut list = Vec::with_capacity(request.messages.list.len());
    for message in &request.messages.list {
        add_message(&mut list, message);
    }
    Request {
        api: Api::Chat,
        text: request.text,
        span: request.span,
        model: request.model,
        stream: request.stream,
        max_tokens: max.map(|max| OutputLimit {
            value: max.value,
            span: max.span,
            member: max.member,
        }),
        system: None,
        tools: request.tools.map(view_tools),
        tool_choice: request.tool_choice.map(view_tool_choice),
        thinking: view_thinking(&request.thinking),
        cache_control: false,
        user_id: request.user,
        cache_key: request.prompt_cache_key,
        metadata: request.metadata,
        thread: None,
        limit_member: output_limit_member(&request.model.unescape()),
        stream_options: request.stream_options,
        previous: None,
        elsewhere: false,
        conversation: None,
        stored: false,
        apart,
        terms: request.terms,
        messages: Messages { span: request.messages.span, string: false, list },
    }
}

/// Returns the member that asks for something other than a single answer. Several choices are not a
/// single answer. Calls in the deprecated form have no ids, and their results are messages of
/// another kind, so no line and no refusal is written for them.
fn find_apart_member(request: &chat::RequestBody<'_>) -> Option<&'static str> {
    if request.n.is_some_and(|n| n > 1) {
        return Some("n");
    }
    let legacy = |message: &Sent<'_>| {
        let mut calls = message.tool_calls.iter();
        message.role == RequestRole::Function || calls.any(|call| call.kind == ToolCallKind::Legacy)
    };
    let uses = request.functions.is_some() || request.messages.list.iter().any(legacy);
    uses.then_some("functions")
}

/// Returns the member that limits the output. OpenAI's reasoning models refuse `max_tokens`; other
/// providers know nothing else.
fn output_limit_member(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let openai = ["gpt-", "chatgpt-", "o1", "o3", "o4"];
    if openai.iter().any(|prefix| name.starts_with(prefix)) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn view_tools(tools: chat::RequestTools<'_>) -> Tools<'_> {
    Tools { span: tools.span, list: tools.list.into_iter().map(view_tool).collect() }
}

fn view_tool(tool: chat::RequestTool<'_>) -> Tool<'_> {
    Tool {
        name: tool.name,
        kind: match tool.kind {
            ToolKind::Function | ToolKind::Custom => None,
            ToolKind::Other(kind) => Some(kind),
        },
        span: tool.span,
        cache_control: tool.cache_control,
    }
}

fn view_tool_choice(choice: chat::RequestToolChoice<'_>) -> ToolChoice<'_> {
    let kind = match choice.kind {
        RequestToolChoiceKind::None => ToolChoiceKind::None,
        RequestToolChoiceKind::Auto | RequestToolChoiceKind::AllowedTools { required: false } => {
            ToolChoiceKind::Auto
        }
        RequestToolChoiceKind::Required
        | RequestToolChoiceKind::AllowedTools { required: true } => ToolChoiceKind::Any,
        RequestToolChoiceKind::Function(name) | RequestToolChoiceKind::Custom(name) => {
            ToolChoiceKind::Tool(name)
        }
        RequestToolChoiceKind::Other(kind) => ToolChoiceKind::Other(kind),
    };
    ToolChoice { kind, disable_parallel: false, span: choice.span, member: choice.member }
}

fn view_thinking(thinking: &chat::RequestThinking<'_>) -> Thinking {
    let mode = match thinking.requested_thinking() {
        RequestedThinking::Default => ThinkingMode::Absent,
        RequestedThinking::On => ThinkingMode::Enabled { budget: thinking.budget.unwrap_or(0) },
        RequestedThinking::Off => ThinkingMode::Disabled,
    };
    Thinking { mode, span: thinking.thinking }
}

fn add_message<'a>(list: &mut Vec<Message<'a>>, message: &Sent<'a>) {
    let role = match message.role {
        RequestRole::System | RequestRole::Developer => Role::System,
        RequestRole::User => Role::User,
        RequestRole::Assistant => Role::Assistant,
        RequestRole::Tool | RequestRole::Function => {
            let joins = list.last().is_some_and(ends_in_result);
            append_block(list, Role::User, joins, view_result(message));
            return;
        }
        RequestRole::Other => Role::Other,
    };
    let content = match &message.content {
        Said::Text(text, span) if role != Role::Assistant => Content::Text(*text, *span),
        Said::Parts { span, parts } if role != Role::Assistant => {
            Content::Blocks { span: *span, blocks: parts.iter().map(view_part).collect() }
        }
        _ if role == Role::Assistant => {
            Content::Blocks { span: message.span, blocks: view_turn(message) }
        }
        _ => Content::Blocks { span: message.span, blocks: Vec::new() },
    };
    list.push(Message { role, name: message.name, span: message.span, content });
}

fn view_result<'a>(message: &Sent<'a>) -> Block<'a> {
    let content = match &message.content {
        Said::Absent => ResultContent::Absent(None),
        Said::Null(span) => ResultContent::Absent(Some(*span)),
        Said::Text(text, span) => ResultContent::Text(*text, *span),
        Said::Parts { span, parts } => ResultContent::Parts {
            span: *span,
            parts: parts.iter().map(view_result_part).collect(),
        },
    };
    let tool_use_id = message.tool_call_id.or(message.name).unwrap_or_default();
    let room = room::content_room(&content);
    let result = ToolResult { tool_use_id, is_error: false, content, room };
    make_block(message.span, BlockKind::ToolResult(result))
}

fn view_result_part<'a>(part: &SaidPart<'a>) -> Part<'a> {
    match part.kind {
        PartKind::Text(text, span) => {
            Part { span: part.span, kind: known_name("text"), text: Some((text, span)) }
        }
        _ => Part { span: part.span, kind: part_type_name(&part.kind), text: None },
    }
}

fn view_part<'a>(part: &SaidPart<'a>) -> Block<'a> {
    let kind = match part.kind {
        PartKind::Text(text, span) => BlockKind::Text { text, span },
        _ => BlockKind::Other { kind: part_type_name(&part.kind) },
    };
    make_block(part.span, kind)
}

/// Returns the blocks of a model's turn: reasoning, text, calls.
fn view_turn<'a>(message: &Sent<'a>) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let reasoning = [message.reasoning_content, message.reasoning, message.reasoning_details];
    if let Some(member) = reasoning.into_iter().flatten().next() {
        blocks.push(make_block(member.member, BlockKind::Thinking));
    }
    match &message.content {
        Said::Text(text, span) if !text.is_empty() => {
            blocks.push(make_block(*span, BlockKind::Text { text: *text, span: *span }));
        }
        Said::Parts { parts, .. } => blocks.extend(parts.iter().map(view_part)),
        Said::Text(..) | Said::Absent | Said::Null(_) => {}
    }
    if let Some(text) = message.refusal.filter(|text| !text.is_empty()) {
        blocks.push(make_block(message.span, BlockKind::Text { text, span: message.span }));
    }
    for call in &message.tool_calls {
        let (id, name) = (call.id, call.name);
        let input = CallInput::Text(call.arguments);
        let kind = BlockKind::ToolUse { id, name, input, server: false, by_code: false };
        blocks.push(make_block(call.span, kind));
    }
    blocks
}

fn part_type_name<'a>(kind: &PartKind<'a>) -> Str<'a> {
    match kind {
        PartKind::Text(..) => known_name("text"),
        PartKind::Refusal(_) => known_name("refusal"),
        PartKind::Image => known_name("image_url"),
        PartKind::File => known_name("file"),
        PartKind::Audio => known_name("input_audio"),
        PartKind::Other(kind) => *kind,
    }
}

fn make_block<'a>(span: Span, kind: BlockKind<'a>) -> Block<'a> {
    Block { span, cache_control: false, kind }
}
