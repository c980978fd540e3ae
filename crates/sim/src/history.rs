//! A conversation in neutral form: the turns, calls with their results, the tools and how they may
//! be chosen. Protocols write it; scenarios and constraints read it. It depends on no protocol.

use crate::json::Json;
use std::borrow::Cow;

/// The speaker of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
    System,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
        }
    }
}

/// The meaning of `tool_choice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    Auto,
    Any,
    Tool(&'a str),
    None,
}

impl Choice<'_> {
    /// True if a call is required.
    pub(crate) fn is_forced(&self) -> bool {
        matches!(self, Self::Any | Self::Tool(_))
    }
}

/// A conversation without its system prompt.
#[derive(Clone, Debug)]
pub(crate) struct History<'a> {
    /// The turns; adjacent messages of one role are one turn. Results belong to the user.
    pub(crate) turns: Vec<HistoryTurn<'a>>,
    pub(crate) tools: Vec<Tool<'a>>,
    pub(crate) choice: Choice<'a>,
    pub(crate) parallel: bool,
    /// The number of server tool calls in the assistant turn that ends the request.
    pub(crate) paused: usize,
}

/// One turn of a conversation.
#[derive(Clone, Debug)]
pub(crate) struct HistoryTurn<'a> {
    pub(crate) role: Role,
    pub(crate) texts: Vec<Cow<'a, str>>,
    pub(crate) calls: Vec<ToolCall<'a>>,
    pub(crate) results: Vec<ToolResult<'a>>,
}

/// A call of one of the client's tools.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall<'a> {
    pub(crate) id: &'a str,
    pub(crate) name: &'a str,
    pub(crate) input: Cow<'a, Json>,
}

/// The result of a tool call.
#[derive(Clone, Debug)]
pub(crate) struct ToolResult<'a> {
    pub(crate) id: &'a str,
    pub(crate) text: Cow<'a, str>,
    pub(crate) failed: bool,
}

/// One declared tool.
#[derive(Clone, Debug)]
pub(crate) struct Tool<'a> {
    pub(crate) name: &'a str,
    pub(crate) properties: &'a [(String, Json)],
    pub(crate) required: Vec<&'a str>,
}

impl<'a> HistoryTurn<'a> {
    pub(crate) fn new(role: Role) -> Self {
        Self { role, texts: Vec::new(), calls: Vec::new(), results: Vec::new() }
    }

    /// Returns the turn's own text, without that of tool results.
    pub(crate) fn text(&self) -> String {
        self.texts.join("\n")
    }
}

impl<'a> Tool<'a> {
    /// Creates a tool from its name and the JSON schema of its input.
    pub(crate) fn from_schema(name: &'a str, schema: Option<&'a Json>) -> Self {
        let at = |key: &str| schema.and_then(|s| s.get(key));
        let required = at("required").map_or(&[][..], Json::items);
        Self {
            name,
            properties: at("properties").map_or(&[], Json::entries),
            required: required.iter().filter_map(Json::as_str).collect(),
        }
    }
}

/// Changes the last turn if it has this role; otherwise begins a new turn.
pub(crate) fn add_to_turn<'a>(
    turns: &mut Vec<HistoryTurn<'a>>,
    role: Role,
    change: impl FnOnce(&mut HistoryTurn<'a>),
) {
    match turns.last_mut() {
        Some(turn) if turn.role == role => change(turn),
        _ => {
            let mut turn = HistoryTurn::new(role);
            change(&mut turn);
            turns.push(turn);
        }
    }
}
