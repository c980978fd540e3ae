//! The parsed Responses request: its own items, after those that the server stores.

use crate::constraints::ThinkingPresence;
use crate::history::{History, Role, Tool, ToolCall, ToolResult, add_to_turn};
use crate::json::{Json, json_object};
use crate::models::open::OpenModel;
use crate::openai::Tools;
use std::borrow::Cow;

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message(Role),
    Reasoning,
    /// A call of a tool that the client runs.
    Call,
    Output,
    /// Any other item of the model or the provider.
    Made,
    Reference,
    Unknown,
}

impl ItemKind {
    pub(super) fn from_item(item: &Json) -> Self {
        match item.str_at("type") {
            None | Some("message") => match item.str_at("role") {
                Some("assistant") => Self::Message(Role::Assistant),
                Some("system" | "developer") => Self::Message(Role::System),
                Some("user") => Self::Message(Role::User),
                _ => Self::Unknown,
            },
            Some("reasoning") => Self::Reasoning,
            Some("item_reference") => Self::Reference,
            Some(kind) if kind.ends_with("_call_output") => Self::Output,
            Some("function_call" | "custom_tool_call" | "local_shell_call" | "computer_call") => {
                Self::Call
            }
            Some("shell_call" | "apply_patch_call") => Self::Call,
            Some(kind)
                if kind.ends_with("_call")
                    || matches!(kind, "compaction" | "mcp_list_tools" | "tool_search_output") =>
            {
                Self::Made
            }
            Some(
                "mcp_approval_request"
                | "mcp_approval_response"
                | "configuration_update"
                | "additional_tools",
            ) => Self::Made,
            Some(_) => Self::Unknown,
        }
    }

    /// True for an item that the model said.
    pub(super) fn is_model(self) -> bool {
        matches!(self, Self::Message(Role::Assistant) | Self::Reasoning | Self::Call)
    }
}

/// Returns the items of a request: those of `input`, or its text as one message.
pub(super) fn input_items(body: &Json) -> Vec<Json> {
    match body.get("input") {
        Some(Json::Str(text)) => {
            let part = json_object([("type", "input_text".into()), ("text", text.as_str().into())]);
            vec![json_object([
                ("type", "message".into()),
                ("role", "user".into()),
                ("content", Json::List(vec![part])),
            ])]
        }
        Some(list) => list.items().to_vec(),
        None => Vec::new(),
    }
}

/// A request that has passed the rules for its shape.
#[derive(Debug)]
pub(super) struct Prompt<'a> {
    pub(super) model: OpenModel,
    pub(super) body: &'a Json,
    /// All items, the stored ones first.
    pub(super) items: &'a [Json],
    pub(super) tools: Tools<'a>,
    pub(super) thinking: ThinkingPresence,
    pub(super) max_tokens: u64,
    pub(super) stream: bool,
    pub(super) background: bool,
    pub(super) store: bool,
    /// True if reasoning is shown as a summary.
    pub(super) summary: bool,
    /// True if reasoning carries what it needs to come back without the server's memory.
    pub(super) encrypted: bool,
}

impl<'a> Prompt<'a> {
    /// Returns the conversation as scenarios see it.
    pub(super) fn to_history(&self) -> History<'a> {
        let mut turns = Vec::new();
        for item in self.items.iter().skip(self.head_len()) {
            match ItemKind::from_item(item) {
                ItemKind::Message(role) => {
                    let said = message_texts(item).into_iter().map(Cow::Borrowed);
                    add_to_turn(&mut turns, role, |turn| turn.texts.extend(said));
                }
                ItemKind::Call => {
                    add_to_turn(&mut turns, Role::Assistant, |turn| {
                        turn.calls.push(to_tool_call(item))
                    });
                }
                ItemKind::Output => {
                    add_to_turn(&mut turns, Role::User, |turn| {
                        turn.results.push(to_tool_result(item))
                    });
                }
                _ => {}
            }
        }
        let allowed =
            |name: &str| self.tools.allowed.as_ref().is_none_or(|names| names.contains(&name));
        let tools =
            self.declared_tools().into_iter().filter_map(read_tool).filter(|t| allowed(t.name));
        let tools = tools.collect();
        let (choice, parallel) = (self.tools.choice, self.tools.parallel);
        History { turns, tools, choice, parallel, paused: 0 }
    }

    /// Returns the texts before the conversation begins.
    pub(super) fn head_texts(&self) -> Vec<&'a str> {
        let mut head: Vec<&str> = self.body.str_at("instructions").into_iter().collect();
        head.extend(self.items.iter().take(self.head_len()).flat_map(message_texts));
        head
    }

    fn head_len(&self) -> usize {
        let system = |item: &&Json| {
            ItemKind::from_item(item) == ItemKind::Message(Role::System)
                || !added_tools(item).is_empty()
        };
        self.items.iter().take_while(system).count()
    }

    /// Returns the tools of the request: in its field, in items (where Codex has all of them), and
    /// in namespaces.
    fn declared_tools(&self) -> Vec<&'a Json> {
        let tools = self.tools.all.iter().chain(self.items.iter().flat_map(added_tools));
        let in_space = |tool: &'a Json| match tool.str_at("type") {
            Some("namespace") => tool.get("tools").map_or(&[][..], Json::items),
            _ => std::slice::from_ref(tool),
        };
        tools.flat_map(in_space).collect()
    }

    /// True if a tool takes a text instead of JSON.
    pub(super) fn is_custom(&self, name: &str) -> bool {
        let custom = |t: &&Json| t.str_at("type") == Some("custom");
        self.declared_tools().into_iter().filter(custom).any(|t| t.str_at("name") == Some(name))
    }
}

/// Returns the tools that an item adds.
fn added_tools(item: &Json) -> &[Json] {
    match item.str_at("type") {
        Some("additional_tools") => item.get("tools").map_or(&[][..], Json::items),
        _ => &[],
    }
}

/// Returns the texts of a message.
pub(super) fn message_texts(item: &Json) -> Vec<&str> {
    match item.get("content") {
        Some(Json::Str(text)) => vec![text],
        Some(parts) => parts.items().iter().filter_map(|p| p.str_at("text")).collect(),
        None => Vec::new(),
    }
}

fn to_tool_call(item: &Json) -> ToolCall<'_> {
    let arguments = item.str_at("arguments").unwrap_or("");
    let input = Json::parse(arguments.as_bytes()).unwrap_or(Json::Map(Vec::new()));
    let text = |key: &str| item.str_at(key).unwrap_or("");
    ToolCall { id: text("call_id"), name: text("name"), input: Cow::Owned(input) }
}

fn to_tool_result(item: &Json) -> ToolResult<'_> {
    let text = match item.get("output") {
        Some(Json::Str(text)) => Cow::Borrowed(text.as_str()),
        Some(parts) => {
            let texts: Vec<&str> = parts.items().iter().filter_map(|p| p.str_at("text")).collect();
            Cow::Owned(texts.join("\n"))
        }
        None => Cow::Borrowed(""),
    };
    let failed = crate::openai::is_failure(&text);
    ToolResult { id: item.str_at("call_id").unwrap_or(""), text, failed }
}

fn read_tool(json: &Json) -> Option<Tool<'_>> {
    let mine = matches!(json.str_at("type"), Some("function" | "custom"));
    mine.then_some(Tool::from_schema(json.str_at("name")?, json.get("parameters")))
}
