//! The parsed Anthropic request: its body, and the conversation with adjacent messages of one role
//! merged. Parsing refuses only what cannot be read at all; `rules` decides the rest.

use crate::anthropic::error::{AnthropicResult, refuse_with};
use crate::history::{Choice, Role};
use crate::json::Json;
use crate::models::Model;
use crate::request::Request;

impl Request<'_> {
    /// True if an `anthropic-beta` header names this beta.
    pub(crate) fn has_beta(&self, name: &str) -> bool {
        self.headers
            .iter()
            .filter(|(k, _)| k.eq_ignore_ascii_case("anthropic-beta"))
            .any(|(_, v)| v.split(',').any(|one| one.trim() == name))
    }
}

/// A content block. A string content counts as one text block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    pub(crate) kind: &'a str,
    /// The text of a text block.
    pub(crate) text: &'a str,
    /// The JSON of the block; `None` for a string.
    json: Option<&'a Json>,
    /// The indexes of message and block in the request.
    pub(crate) at: (usize, usize),
}

impl<'a> Block<'a> {
    pub(crate) fn get(&self, key: &str) -> Option<&'a Json> {
        self.json.and_then(|json| json.get(key))
    }

    pub(crate) fn str_at(&self, key: &str) -> &'a str {
        self.get(key).and_then(Json::as_str).unwrap_or("")
    }

    /// Returns all fields of the block; none for a string.
    pub(crate) fn entries(&self) -> &'a [(String, Json)] {
        self.json.map_or(&[], Json::entries)
    }

    pub(crate) fn is_kind(&self, kind: &str) -> bool {
        self.kind == kind
    }

    pub(crate) fn is_thinking(&self) -> bool {
        matches!(self.kind, "thinking" | "redacted_thinking")
    }

    pub(crate) fn path(&self) -> String {
        format!("messages.{}.content.{}", self.at.0, self.at.1)
    }
}

/// A turn of the conversation: adjacent messages of one role.
#[derive(Clone, Debug)]
pub(crate) struct MessageTurn<'a> {
    pub(crate) role: Role,
    pub(crate) blocks: Vec<Block<'a>>,
    /// The index of its first message.
    pub(crate) at: usize,
    /// True for a system message with `clear_at`.
    pub(crate) clears: bool,
}

impl MessageTurn<'_> {
    pub(crate) fn has_block(&self, kind: &str) -> bool {
        self.blocks.iter().any(|b| b.is_kind(kind))
    }

    /// True if a server tool began or left something: such a turn may be sent back to continue it.
    pub(crate) fn is_paused(&self) -> bool {
        self.blocks.iter().any(|b| b.is_kind("server_tool_use") || b.is_kind("mcp_tool_use"))
    }
}

/// The thinking mode in effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    Off,
    Enabled,
    Adaptive,
}

/// A request that has passed the rules for its shape.
#[derive(Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) model: &'static Model,
    pub(crate) body: &'a Json,
    pub(crate) system: Vec<Block<'a>>,
    pub(crate) tools: &'a [Json],
    pub(crate) turns: Vec<MessageTurn<'a>>,
    pub(crate) max_tokens: u64,
    pub(crate) stream: bool,
    pub(crate) thinking: Thinking,
    pub(crate) omits_thinking: bool,
    pub(crate) choice: Choice<'a>,
    pub(crate) parallel: bool,
}

impl<'a> Prompt<'a> {
    /// Reads a body that `rules::shape` has accepted.
    ///
    /// # Errors
    /// Refuses with 400 if the conversation cannot be read.
    pub(crate) fn from_body(body: &'a Json, model: &'static Model) -> AnthropicResult<Self> {
        let choice = body.get("tool_choice");
        let thinking = body.get("thinking");
        Ok(Self {
            model,
            body,
            system: body.get("system").map(|s| read_blocks(s, 0)).unwrap_or_default(),
            tools: body.get("tools").map_or(&[], Json::items),
            turns: merge_turns(body.get("messages").map_or(&[], Json::items))?,
            max_tokens: body.get("max_tokens").and_then(Json::as_u64).unwrap_or(0),
            stream: body.get("stream").and_then(Json::as_bool).unwrap_or(false),
            thinking: match thinking.and_then(|t| t.str_at("type")) {
                Some("enabled") => Thinking::Enabled,
                Some("adaptive" | "between_tools") => Thinking::Adaptive,
                None if !model.thinking.disabled => Thinking::Adaptive,
                _ => Thinking::Off,
            },
            omits_thinking: match thinking.and_then(|t| t.str_at("display")) {
                Some(display) => display == "omitted",
                None => model.omits_thinking,
            },
            choice: match choice.and_then(|c| c.str_at("type")) {
                Some("any") => Choice::Any,
                Some("none") => Choice::None,
                Some("tool") => Choice::Tool(choice.and_then(|c| c.str_at("name")).unwrap_or("")),
                _ => Choice::Auto,
            },
            parallel: choice
                .and_then(|c| c.get("disable_parallel_tool_use"))
                .and_then(Json::as_bool)
                != Some(true),
        })
    }

    pub(crate) fn last_turn(&self) -> Option<&MessageTurn<'a>> {
        self.turns.last()
    }

    /// Returns the open tool loop: the turns after the last user message without tool results.
    pub(crate) fn open_loop(&self) -> &[MessageTurn<'a>] {
        let human = |t: &MessageTurn<'_>| t.role == Role::User && !t.has_block("tool_result");
        let start = self.turns.iter().rposition(human).map_or(0, |i| i + 1);
        self.turns.get(start..).unwrap_or(&[])
    }
}

/// Returns the blocks of a content, which may be a string.
pub(crate) fn read_blocks(content: &Json, message: usize) -> Vec<Block<'_>> {
    match content {
        Json::Str(text) => vec![Block { kind: "text", text, json: None, at: (message, 0) }],
        other => other
            .items()
            .iter()
            .enumerate()
            .map(|(i, json)| Block {
                kind: json.str_at("type").unwrap_or(""),
                text: json.str_at("text").unwrap_or(""),
                json: Some(json),
                at: (message, i),
            })
            .collect(),
    }
}

fn merge_turns(messages: &[Json]) -> AnthropicResult<Vec<MessageTurn<'_>>> {
    let mut turns: Vec<MessageTurn<'_>> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let role = match message.str_at("role") {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system") => Role::System,
            _ => {
                return refuse_with(format!(
                    "messages.{at}.role: Input should be 'user' or 'assistant'"
                ));
            }
        };
        let blocks = message.get("content").map(|c| read_blocks(c, at)).unwrap_or_default();
        let clears = message.get("clear_at").is_some();
        match turns.last_mut() {
            Some(turn) if turn.role == role && turn.clears == clears => turn.blocks.extend(blocks),
            _ => turns.push(MessageTurn { role, blocks, at, clears }),
        }
    }
    Ok(turns)
}
