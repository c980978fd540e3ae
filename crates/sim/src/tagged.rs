//! A model without tool calling: it reads about its tools in its instructions, writes calls as
//! text, and finds their results in the next user message.
//!
//! The instructions show the tag `<use_tool>` and hold each tool on a line of its own, as a JSON
//! object with `name` and `input_schema`. Every scenario works in this form.

use crate::history::{History, Role, Tool, ToolCall, ToolResult};
use crate::json::{Json, json_object};
use crate::openai::is_failure;
use crate::turn::{Part, Stop, Turn};
use std::borrow::Cow;

const OPENING: &str = "<use_tool>";
const CLOSING: &str = "</use_tool>";

/// The tools, calls and results that a conversation holds as text.
#[derive(Debug, Default)]
pub(crate) struct TaggedConversation {
    tools: Vec<Json>,
    /// One entry per turn.
    turns: Vec<TaggedTurn>,
}

#[derive(Debug, Default)]
struct TaggedTurn {
    calls: Vec<(String, String, Json)>,
    results: Vec<(String, String)>,
    /// The text beside the results.
    rest: String,
}

impl TaggedConversation {
    /// Reads a conversation. Empty if tools are declared, or if the instructions show none.
    pub(crate) fn from_history(history: &History<'_>, instructions: &[&str]) -> Self {
        if !history.tools.is_empty() || !instructions.iter().any(|text| text.contains(OPENING)) {
            return Self::default();
        }
        let lines = instructions.iter().flat_map(|text| text.lines());
        let tools: Vec<Json> = lines.filter_map(read_tool).collect();
        if tools.is_empty() {
            return Self::default();
        }
        let turns = history.turns.iter().map(|turn| match turn.role {
            Role::Assistant => {
                TaggedTurn { calls: read_calls(&turn.text()), ..TaggedTurn::default() }
            }
            Role::User => read_results(&turn.text()),
            Role::System => TaggedTurn::default(),
        });
        Self { turns: turns.collect(), tools }
    }

    /// True if the conversation uses this form.
    pub(crate) fn is_present(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Turns written calls and results into the history's calls and results.
    pub(crate) fn apply_to<'t>(&'t self, mut history: History<'t>) -> History<'t> {
        history.tools = self
            .tools
            .iter()
            .filter_map(|tool| {
                Some(Tool::from_schema(tool.str_at("name")?, tool.get("input_schema")))
            })
            .collect();
        for (turn, written) in history.turns.iter_mut().zip(&self.turns) {
            turn.calls.extend(written.calls.iter().map(|(id, name, input)| ToolCall {
                id,
                name,
                input: Cow::Borrowed(input),
            }));
            if written.results.is_empty() {
                continue;
            }
            turn.results.extend(written.results.iter().map(|(id, text)| ToolResult {
                id,
                text: Cow::Borrowed(text),
                failed: is_failure(text),
            }));
            turn.texts.clear();
            if !written.rest.is_empty() {
                turn.texts.push(Cow::Borrowed(&written.rest));
            }
        }
        history
    }

    /// Turns the calls of a turn into text.
    pub(crate) fn write_turn(&self, turn: Turn) -> Turn {
        if !self.is_present() || !turn.parts.iter().any(Part::is_call) {
            return turn;
        }
        let cut = turn.stop == Some(Stop::MaxTokens);
        let last = turn.parts.len().saturating_sub(1);
        let mut parts: Vec<Part> = Vec::new();
        for (at, part) in turn.parts.into_iter().enumerate() {
            let text = match part {
                Part::Text(text) => text,
                Part::Tool { name, input, .. } => call_text(&name, &input, cut && at == last),
                other => {
                    parts.push(other);
                    continue;
                }
            };
            match parts.last_mut() {
                Some(Part::Text(before)) => {
                    before.push('\n');
                    before.push_str(&text);
                }
                _ => parts.push(Part::Text(text)),
            }
        }
        Turn { parts, ..turn }
    }
}

/// Writes a call as text. A cut call ends within its input.
fn call_text(name: &str, input: &str, cut: bool) -> String {
    let name = Json::from(name).to_text();
    let begun = format!("{OPENING}\n{{\"name\": {name}, \"input\": {input}");
    if cut { begun } else { format!("{begun}}}\n{CLOSING}") }
}

fn read_tool(line: &str) -> Option<Json> {
    let line = line.trim();
    let json = line.starts_with('{').then(|| Json::parse(line.as_bytes()).ok()).flatten()?;
    (json.str_at("name").is_some() && json.get("input_schema").is_some()).then_some(json)
}

/// Reads the calls in a text. A malformed call still counts as a call.
fn read_calls(text: &str) -> Vec<(String, String, Json)> {
    let mut found = Vec::new();
    for piece in text.split(OPENING).skip(1) {
        let inside = piece.split(CLOSING).next().unwrap_or_default();
        let json = Json::parse(inside.trim().as_bytes()).unwrap_or_else(|_| json_object([]));
        let name = json.str_at("name").unwrap_or("unknown").to_owned();
        let input = json.get("input").cloned().unwrap_or_else(|| json_object([]));
        found.push((found.len().to_string(), name, input));
    }
    found
}

/// Reads the results in a text, in the order of their calls.
fn read_results(text: &str) -> TaggedTurn {
    let mut written = TaggedTurn::default();
    let mut pieces = text.split("<tool_result");
    let mut rest = vec![pieces.next().unwrap_or_default()];
    for piece in pieces {
        let (result, after) = piece.split_once("</tool_result>").unwrap_or((piece, ""));
        let inside = result.split_once(">").map_or("", |(_, inside)| inside);
        let inside = inside.strip_prefix('\n').unwrap_or(inside);
        let inside = inside.strip_suffix('\n').unwrap_or(inside);
        written.results.push((written.results.len().to_string(), inside.to_owned()));
        rest.push(after);
    }
    written.rest = rest.concat().trim().to_owned();
    written
}
