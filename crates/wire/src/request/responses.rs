//! The view of a Responses request.

use super::{
    Block, BlockKind, CallInput, Content, Message, Messages, OutputLimit, Part, PricingTerms,
    Request, RequestError, ResultContent, Role, TextRoom, Thinking, ThinkingMode, Tool, ToolChoice,
    ToolChoiceKind, ToolResult, Tools, append_block, ends_in_result, known_name, room,
};
use crate::{
    Api,
    json::{Span, Str},
    responses::{
        self, Input as Given, Item, ItemKind, Output, RequestContent as Said, RequestRole as Who,
        RequestToolChoiceKind as Choice,
    },
};

/// Reads a request body.
pub(super) fn scan_body(body: &[u8]) -> Result<Request<'_>, RequestError> {
    responses::RequestBody::from_body(body).map(view_request)
}

fn view_request(request: responses::RequestBody<'_>) -> Request<'_> {
    let messages = match &request.input {
        Given::Absent(span) => {
            let span = span.unwrap_or_default();
            Messages { span, string: false, list: Vec::new() }
        }
        Given::Text(text, span) => {
            let said = Content::Text(*text, *span);
            let list = vec![Message { role: Role::User, name: None, span: *span, content: said }];
            Messages { span: *span, string: true, list }
        }
        Given::Items(items) => {
            let mut list = Vec::with_capacity(items.list.len());
            for item in &items.list {
                add_item(&mut list, item);
            }
            Messages { span: items.span, string: false, list }
        }
    };
    Request {
        api: Api::Responses,
        text: request.text,
        span: request.span,
        model: request.model,
        stream: request.stream,
        max_tokens: request.max_output_tokens.map(|max| OutputLimit {
            value: max.value,
            span: max.span,
            member: max.span,
        }),
        system: request.instructions,
        tools: view_tools(request.tools, &request.input),
        tool_choice: request.tool_choice.map(view_tool_choice),
        thinking: view_thinking(request.reasoning.as_ref()),
        cache_control: false,
        user_id: request.user,
        cache_key: request.prompt_cache_key,
        metadata: request.metadata,
        thread: None,
        limit_member: "max_output_tokens",
        stream_options: None,
        previous: request.previous_response_id,
        elsewhere: request.conversation.is_some(),
        conversation: request.conversation.and_then(|conversation| conversation.id),
        stored: request.store != Some(false),
        apart: request.background.then_some("background"),
        terms: PricingTerms {
            max_tool_calls: request.max_tool_calls.map(|most| (most.value, most.span)),
            ..request.terms
        },
        messages,
    }
}

/// Returns the tools of the request and those that its input declares.
fn view_tools<'a>(
    own: Option<responses::RequestTools<'a>>,
    input: &Given<'a>,
) -> Option<Tools<'a>> {
    let more = match input {
        Given::Items(items) => items.list.as_slice(),
        Given::Absent(_) | Given::Text(..) => &[],
    };
    let more = more.iter().filter_map(|item| match &item.kind {
        ItemKind::AdditionalTools(tools) => Some(tools),
        _ => None,
    });
    let mut all = None;
    for tools in own.iter().chain(more) {
        let all = all.get_or_insert_with(|| Tools { span: tools.span, list: Vec::new() });
        tools.list.iter().for_each(|tool| add_tool(&mut all.list, tool));
    }
    all
}

/// Adds a tool after the tools within it, which are the client's as well.
fn add_tool<'a>(list: &mut Vec<Tool<'a>>, tool: &responses::RequestTool<'a>) {
    for inner in &tool.tools {
        let (name, span) = (inner.name, inner.span);
        list.push(Tool { name, kind: None, span, cache_control: false });
    }
    let own = ["function", "custom", "namespace"].iter().any(|own| tool.kind.eq_str(own));
    let kind = (!own).then_some(tool.kind);
    list.push(Tool { name: tool.name, kind, span: tool.span, cache_control: false });
}

fn view_tool_choice(choice: responses::RequestToolChoice<'_>) -> ToolChoice<'_> {
    let kind = match choice.kind {
        Choice::None => ToolChoiceKind::None,
        Choice::Auto => ToolChoiceKind::Auto,
        Choice::Required => ToolChoiceKind::Any,
        Choice::Function(name) | Choice::Custom(name) => ToolChoiceKind::Tool(name),
        Choice::AllowedTools { mode } if mode.eq_str("required") => ToolChoiceKind::Any,
        Choice::AllowedTools { .. } => ToolChoiceKind::Auto,
        Choice::Mcp | Choice::Hosted(_) | Choice::Other => ToolChoiceKind::Other(Str::default()),
    };
    ToolChoice { kind, disable_parallel: false, span: choice.span, member: choice.span }
}

fn view_thinking(reasoning: Option<&responses::Reasoning<'_>>) -> Thinking {
    let mode = match reasoning.and_then(|reasoning| reasoning.effort) {
        None => ThinkingMode::Absent,
        Some(effort) if effort.eq_str("none") => ThinkingMode::Disabled,
        Some(_) => ThinkingMode::Enabled { budget: 0 },
    };
    Thinking { mode, span: reasoning.map(|reasoning| reasoning.span) }
}

fn add_item<'a>(list: &mut Vec<Message<'a>>, item: &Item<'a>) {
    let (role, kind) = match &item.kind {
        ItemKind::Message { role, content, .. } => match role {
            Who::Assistant => {
                // The parts of the message share its item, which is the unit that can be left out
                // or moved. A message without text is still a turn.
                let mut blocks = view_texts(item.span, content);
                if blocks.is_empty() {
                    let kind = BlockKind::Other { kind: known_name("message") };
                    blocks.push(Block { span: item.span, cache_control: false, kind });
                }
                for block in blocks {
                    append_block(list, Role::Assistant, true, block);
                }
                return;
            }
            Who::User | Who::System | Who::Developer | Who::Other => {
                list.push(view_other_message(item, *role, content));
                return;
            }
        },
        ItemKind::FunctionCall(call) | ItemKind::CustomToolCall(call) => {
            let (id, name, input) = (call.call_id, call.name, CallInput::Text(call.arguments));
            let by_code = item.by_code;
            (Role::Assistant, BlockKind::ToolUse { id, name, input, server: false, by_code })
        }
        ItemKind::FunctionCallOutput(output) => {
            (Role::User, view_result(item, "function_call_output", output))
        }
        ItemKind::CustomToolCallOutput(output) => {
            (Role::User, view_result(item, "custom_tool_call_output", output))
        }
        ItemKind::Reasoning { .. } => (Role::Assistant, BlockKind::Thinking),
        // A reference may be to any item. Its item is the model's, as are all items that clients
        // refer to.
        ItemKind::ItemReference => {
            (Role::Assistant, BlockKind::Other { kind: known_name("item_reference") })
        }
        ItemKind::ConfigurationUpdate | ItemKind::AdditionalTools(_) => {
            let content = Content::Blocks { span: item.span, blocks: Vec::new() };
            list.push(Message { role: Role::System, name: None, span: item.span, content });
            return;
        }
        ItemKind::Compaction => {
            (Role::Assistant, BlockKind::Other { kind: known_name("compaction") })
        }
        ItemKind::ToolCall { kind, call_id } if !call_id.is_empty() => {
            let (id, name, input) = (*call_id, *kind, CallInput::Item(item.span));
            let by_code = item.by_code;
            (Role::Assistant, BlockKind::ToolUse { id, name, input, server: false, by_code })
        }
        ItemKind::ToolCall { kind, .. } => {
            let (name, input) = (*kind, CallInput::Item(item.span));
            let id = item.id;
            let by_code = item.by_code;
            (Role::Assistant, BlockKind::ToolUse { id, name, input, server: true, by_code })
        }
        ItemKind::ToolOutput { kind, output } => {
            (Role::User, view_result(item, &kind.unescape(), output))
        }
        ItemKind::Other { kind } => (Role::Assistant, BlockKind::Other { kind: *kind }),
    };
    let joins = role == Role::Assistant || list.last().is_some_and(ends_in_result);
    append_block(list, role, joins, Block { span: item.span, cache_control: false, kind });
}

/// Returns a message that does not come from the model.
fn view_other_message<'a>(item: &Item<'a>, role: Who, content: &Said<'a>) -> Message<'a> {
    let role = match role {
        Who::User => Role::User,
        Who::System | Who::Developer => Role::System,
        Who::Assistant | Who::Other => Role::Other,
    };
    let content = match content {
        Said::Text(text, span) => Content::Text(*text, *span),
        Said::Parts { span, parts } => {
            let blocks = parts.iter().map(|part| Block {
                span: part.span,
                cache_control: false,
                kind: match part.text {
                    Some((text, span)) => BlockKind::Text { text, span },
                    None => BlockKind::Other { kind: part.kind },
                },
            });
            Content::Blocks { span: *span, blocks: blocks.collect() }
        }
        Said::Absent(_) | Said::Other(_) => Content::Blocks { span: item.span, blocks: Vec::new() },
    };
    Message { role, name: None, span: item.span, content }
}

/// Returns the model's texts, each as a block with the item's span.
fn view_texts<'a>(item: Span, content: &Said<'a>) -> Vec<Block<'a>> {
    let text = |text: Str<'a>, span: Span| Block {
        span: item,
        cache_control: false,
        kind: BlockKind::Text { text, span },
    };
    match content {
        Said::Text(said, span) => vec![text(*said, *span)],
        Said::Parts { parts, .. } => {
            let texts = parts.iter().filter_map(|part| part.text);
            texts.map(|(said, span)| text(said, span)).collect()
        }
        Said::Absent(_) | Said::Other(_) => Vec::new(),
    }
}

/// Returns the output of an item of this type as a result.
fn view_result<'a>(item: &Item<'a>, kind: &str, output: &Output<'a>) -> BlockKind<'a> {
    let content = match &output.content {
        Said::Absent(span) => ResultContent::Absent(*span),
        Said::Text(text, span) => ResultContent::Text(*text, *span),
        Said::Parts { span, parts } => ResultContent::Parts {
            span: *span,
            parts: parts
                .iter()
                .map(|part| Part { span: part.span, kind: part.kind, text: part.text })
                .collect(),
        },
        // A screenshot: nothing can be added to it.
        Said::Other(span) => ResultContent::Opaque(*span),
    };
    let room = match item.by_code {
        true => TextRoom::Closed,
        false => room::output_room(kind, &content),
    };
    BlockKind::ToolResult(ToolResult {
        tool_use_id: output.call_id,
        is_error: false,
        content,
        room,
    })
}
