//! The parsed chat request. Parsing refuses only what cannot be read at all; `rules` decides the
//! rest.

use crate::constraints::ThinkingPresence;
use crate::history::{Choice, History, Role, Tool, ToolCall, ToolResult, add_to_turn};
use crate::json::Json;
use crate::models::open::OpenModel;
use crate::openai::{ToolFormat, Tools};
use std::borrow::Cow;

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) speaker: Speaker,
    pub(crate) json: &'a Json,
    pub(crate) texts: Vec<&'a str>,
    pub(crate) calls: Vec<Call<'a>>,
    /// The index in the request.
    pub(crate) at: usize,
}

/// A call in an assistant message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    /// JSON text, or the text input of a custom tool.
    pub(crate) arguments: &'a str,
}

/// A request that has passed the rules for its shape.
#[derive(Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) model: OpenModel,
    pub(crate) body: &'a Json,
    pub(crate) messages: Vec<Message<'a>>,
    pub(crate) tools: Tools<'a>,
    pub(crate) thinking: ThinkingPresence,
    pub(crate) max_tokens: u64,
    pub(crate) stream: bool,
    /// True if the stream ends with its usage.
    pub(crate) usage: bool,
    pub(crate) obfuscation: bool,
}

impl<'a> Prompt<'a> {
    /// Returns the conversation as scenarios see it.
    pub(crate) fn to_history(&self) -> History<'a> {
        let mut turns = Vec::new();
        let head = self.messages.iter().take_while(|m| m.speaker == Speaker::System).count();
        for message in self.messages.iter().skip(head) {
            let role = match message.speaker {
                Speaker::System => Role::System,
                Speaker::Assistant => Role::Assistant,
                Speaker::User | Speaker::Tool => Role::User,
            };
            add_to_turn(&mut turns, role, |turn| {
                if message.speaker == Speaker::Tool {
                    turn.results.push(to_tool_result(message));
                } else {
                    turn.texts.extend(message.texts.iter().map(|t| Cow::Borrowed(*t)));
                    turn.calls.extend(message.calls.iter().map(to_tool_call));
                }
            });
        }
        let allowed =
            |name: &str| self.tools.allowed.as_ref().is_none_or(|names| names.contains(&name));
        let tools =
            self.tools.all.iter().filter_map(read_tool).filter(|t| allowed(t.name)).collect();
        let (choice, parallel) = (self.tools.choice, self.tools.parallel);
        History { turns, tools, choice, parallel, paused: 0 }
    }

    /// Returns the texts before the conversation begins.
    pub(crate) fn head_texts(&self) -> Vec<&'a str> {
        let system = self.messages.iter().take_while(|m| m.speaker == Speaker::System);
        system.flat_map(|m| m.texts.iter().copied()).collect()
    }

    /// True if a tool is forced by name.
    pub(crate) fn names_a_tool(&self) -> bool {
        matches!(self.tools.choice, Choice::Tool(_))
    }
}

impl<'a> Message<'a> {
    /// Reads one message, whose role is known to be valid.
    pub(crate) fn from_json(json: &'a Json, speaker: Speaker, at: usize) -> Self {
        let calls = json.get("tool_calls").map_or(&[][..], Json::items);
        let content = json.get("content");
        let texts = match content {
            Some(Json::Str(text)) => vec![text.as_str()],
            Some(parts) => parts.items().iter().filter_map(|p| p.str_at("text")).collect(),
            None => Vec::new(),
        };
        Self { speaker, json, texts, calls: calls.iter().map(read_call).collect(), at }
    }

    pub(crate) fn path(&self, field: &str) -> String {
        format!("messages.[{}].{field}", self.at)
    }
}

fn read_call(json: &Json) -> Call<'_> {
    let custom = json.str_at("type") == Some("custom");
    let (kind, text) = if custom { ("custom", "input") } else { ("function", "arguments") };
    let inner = |key: &str| json.get(kind).and_then(|f| f.str_at(key)).unwrap_or("");
    Call { id: json.str_at("id").unwrap_or(""), name: inner("name"), arguments: inner(text) }
}

fn to_tool_call<'a>(call: &Call<'a>) -> ToolCall<'a> {
    let input = Json::parse(call.arguments.as_bytes()).unwrap_or(Json::Map(Vec::new()));
    ToolCall { id: call.id, name: call.name, input: Cow::Owned(input) }
}

fn to_tool_result<'a>(message: &Message<'a>) -> ToolResult<'a> {
    let text = match message.texts.as_slice() {
        [one] => Cow::Borrowed(*one),
        many => Cow::Owned(many.join("\n")),
    };
    let failed = crate::openai::is_failure(&text);
    ToolResult { id: message.json.str_at("tool_call_id").unwrap_or(""), text, failed }
}

fn read_tool(json: &Json) -> Option<Tool<'_>> {
    let kind = json.str_at("type")?;
    let inner = ToolFormat::Nested.inner_json(json, kind)?;
    let mine = matches!(kind, "function" | "custom");
    mine.then_some(Tool::from_schema(inner.str_at("name")?, inner.get("parameters")))
}
