//! The view of a Chat Completions request.

use super::{
    Block, BlockKind, Content, Input, MaxTokens, Message, Messages, Part, Request, RequestError,
    ResultContent, Role, Thinking, ThinkingMode, Tool, ToolChoice, ToolChoiceKind, ToolResult,
    Tools, is_results, join, known,
};
use crate::{
    Api,
    chat::{
        self, Asked, Content as Said, PartKind, RequestMessage as Sent, RequestPart as SaidPart,
        Role as Who, ToolCallKind, ToolChoiceKind as Choice, ToolKind,
    },
    json::{Span, Str},
};

/// Reads a request body.
pub(super) fn scan(body: &[u8]) -> Result<Request<'_>, RequestError> {
    chat::Request::scan(body).map(view)
}

fn view(request: chat::Request<'_>) -> Request<'_> {
    let apart = apart(&request);
    let max = request.max_completion_tokens.or(request.max_tokens);
    let mut list = Vec::with_capacity(request.messages.list.len());
    for message in &request.messages.list {
        add(&mut list, message);
    }
    Request {
        api: Api::Chat,
        text: request.text,
        span: request.span,
        model: request.model,
        stream: request.stream,
        max_tokens: max.map(|max| MaxTokens {
            value: max.value,
            span: max.span,
            member: max.member,
        }),
        system: None,
        tools: request.tools.map(tools),
        tool_choice: request.tool_choice.map(choice),
        thinking: thinking(&request.thinking),
        cache_control: false,
        user_id: request.user,
        cache_key: request.prompt_cache_key,
        metadata: request.metadata,
        thread: None,
        limit_member: limit_member(&request.model.unescape()),
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
fn apart(request: &chat::Request<'_>) -> Option<&'static str> {
    if request.n.is_some_and(|n| n > 1) {
        return Some("n");
    }
    let legacy = |message: &Sent<'_>| {
        let mut calls = message.tool_calls.iter();
        message.role == Who::Function || calls.any(|call| call.kind == ToolCallKind::Legacy)
    };
    let uses = request.functions.is_some() || request.messages.list.iter().any(legacy);
    uses.then_some("functions")
}

/// Returns the member that limits the output. OpenAI's reasoning models refuse `max_tokens`; other
/// providers know nothing else.
fn limit_member(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let openai = ["gpt-", "chatgpt-", "o1", "o3", "o4"];
    if openai.iter().any(|prefix| name.starts_with(prefix)) {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn tools(tools: chat::Tools<'_>) -> Tools<'_> {
    Tools { span: tools.span, list: tools.list.into_iter().map(tool).collect() }
}

fn tool(tool: chat::Tool<'_>) -> Tool<'_> {
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

fn choice(choice: chat::ToolChoice<'_>) -> ToolChoice<'_> {
    let kind = match choice.kind {
        Choice::None => ToolChoiceKind::None,
        Choice::Auto | Choice::AllowedTools { required: false } => ToolChoiceKind::Auto,
        Choice::Required | Choice::AllowedTools { required: true } => ToolChoiceKind::Any,
        Choice::Function(name) | Choice::Custom(name) => ToolChoiceKind::Tool(name),
        Choice::Other(kind) => ToolChoiceKind::Other(kind),
    };
    ToolChoice { kind, disable_parallel: false, span: choice.span, member: choice.member }
}

fn thinking(thinking: &chat::Thinking<'_>) -> Thinking {
    let mode = match thinking.asked() {
        Asked::Default => ThinkingMode::Absent,
        Asked::On => ThinkingMode::Enabled { budget: thinking.budget.unwrap_or(0) },
        Asked::Off => ThinkingMode::Disabled,
    };
    Thinking { mode, span: thinking.thinking }
}

fn add<'a>(list: &mut Vec<Message<'a>>, message: &Sent<'a>) {
    let role = match message.role {
        Who::System | Who::Developer => Role::System,
        Who::User => Role::User,
        Who::Assistant => Role::Assistant,
        Who::Tool | Who::Function => {
            let joins = list.last().is_some_and(is_results);
            join(list, Role::User, joins, result(message));
            return;
        }
        Who::Other => Role::Other,
    };
    let content = match &message.content {
        Said::Text(text, span) if role != Role::Assistant => Content::Text(*text, *span),
        Said::Parts { span, parts } if role != Role::Assistant => {
            Content::Blocks { span: *span, blocks: parts.iter().map(part).collect() }
        }
        _ if role == Role::Assistant => {
            Content::Blocks { span: message.span, blocks: turn(message) }
        }
        _ => Content::Blocks { span: message.span, blocks: Vec::new() },
    };
    list.push(Message { role, name: message.name, span: message.span, content });
}

fn result<'a>(message: &Sent<'a>) -> Block<'a> {
    let content = match &message.content {
        Said::Absent => ResultContent::Absent(None),
        Said::Null(span) => ResultContent::Absent(Some(*span)),
        Said::Text(text, span) => ResultContent::Text(*text, *span),
        Said::Parts { span, parts } => {
            ResultContent::Parts { span: *span, parts: parts.iter().map(result_part).collect() }
        }
    };
    let tool_use_id = message.tool_call_id.or(message.name).unwrap_or_default();
    block(message.span, BlockKind::ToolResult(ToolResult { tool_use_id, is_error: false, content }))
}

fn result_part<'a>(part: &SaidPart<'a>) -> Part<'a> {
    match part.kind {
        PartKind::Text(text, span) => {
            Part { span: part.span, kind: known("text"), text: Some((text, span)) }
        }
        _ => Part { span: part.span, kind: name_of(&part.kind), text: None },
    }
}

fn part<'a>(part: &SaidPart<'a>) -> Block<'a> {
    let kind = match part.kind {
        PartKind::Text(text, span) => BlockKind::Text { text, span },
        _ => BlockKind::Other { kind: name_of(&part.kind) },
    };
    block(part.span, kind)
}

/// Returns the blocks of a model's turn: reasoning, text, calls.
fn turn<'a>(message: &Sent<'a>) -> Vec<Block<'a>> {
    let mut blocks = Vec::new();
    let reasoning = [message.reasoning_content, message.reasoning, message.reasoning_details];
    if let Some(member) = reasoning.into_iter().flatten().next() {
        blocks.push(block(member.member, BlockKind::Thinking));
    }
    match &message.content {
        Said::Text(text, span) if !text.is_empty() => {
            blocks.push(block(*span, BlockKind::Text { text: *text, span: *span }));
        }
        Said::Parts { parts, .. } => blocks.extend(parts.iter().map(part)),
        Said::Text(..) | Said::Absent | Said::Null(_) => {}
    }
    if let Some(text) = message.refusal.filter(|text| !text.is_empty()) {
        blocks.push(block(message.span, BlockKind::Text { text, span: message.span }));
    }
    for call in &message.tool_calls {
        let (id, name) = (call.id, call.name);
        let input = Input::Text(call.arguments);
        blocks.push(block(call.span, BlockKind::ToolUse { id, name, input, server: false }));
    }
    blocks
}

fn name_of<'a>(kind: &PartKind<'a>) -> Str<'a> {
    match kind {
        PartKind::Text(..) => known("text"),
        PartKind::Refusal(_) => known("refusal"),
        PartKind::Image => known("image_url"),
        PartKind::File => known("file"),
        PartKind::Audio => known("input_audio"),
        PartKind::Other(kind) => *kind,
    }
}

fn block<'a>(span: Span, kind: BlockKind<'a>) -> Block<'a> {
    Block { span, cache_control: false, kind }
}
