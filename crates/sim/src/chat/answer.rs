//! A finished chat response before its form is chosen: ids given, reasoning sealed. The streamed
//! and the whole form come from the same pieces.

use super::request::Prompt;
use crate::constraints::AllowedTurn;
use crate::json::{Json, json_object};
use crate::models::open::{Caching, Dialect, OpenModel};
use crate::openai::{IssuedId, Sealer};
use crate::turn::{Part, Stop};
use crate::usage::Usage;

/// One response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) id: String,
    pub(super) created: u64,
    /// The model's name in the response.
    pub(super) name: String,
    pub(super) model: OpenModel,
    pub(super) pieces: Vec<AnswerPart>,
    pub(super) finish: &'static str,
    pub(super) native: &'static str,
    pub(super) usage: Usage,
    pub(super) cost_nano: u64,
}

/// A part of a response.
#[derive(Debug)]
pub(super) enum AnswerPart {
    Text(String),
    Refusal(String),
    Thought(ShownReasoning),
    Call(OutputCall),
}

/// Reasoning that is shown to the client.
#[derive(Debug)]
pub(super) struct ShownReasoning {
    pub(super) text: String,
    /// The token that proves it; `None` if the vendor signs nothing.
    pub(super) token: Option<String>,
    /// True if only the token is shown.
    pub(super) encrypted: bool,
    pub(super) index: usize,
}

/// A call in a response.
#[derive(Debug)]
pub(super) struct OutputCall {
    pub(super) index: usize,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// A builder for the pieces of a response.
pub(super) struct ResponseBuilder<'a> {
    pub(super) prompt: &'a Prompt<'a>,
    pub(super) seal: Sealer,
    pub(super) number: u64,
}

impl ResponseBuilder<'_> {
    /// Builds the pieces of a turn.
    pub(super) fn build_pieces(&self, lawful: &AllowedTurn) -> Vec<AnswerPart> {
        let refuses = lawful.stop == Stop::Refusal && self.prompt.model.has_refusals();
        let mut pieces: Vec<AnswerPart> = Vec::new();
        let (mut thoughts, mut calls) = (0, 0);
        for part in &lawful.parts {
            match part {
                Part::Text(text) if refuses => pieces.push(AnswerPart::Refusal(text.clone())),
                Part::Text(text) => add_text(&mut pieces, text),
                Part::Thinking(text) => pieces.extend(self.build_thought(text, &mut thoughts)),
                Part::RedactedThinking => pieces.extend(self.build_redacted(&mut thoughts)),
                Part::Tool { id, name, input } => {
                    let id = id.clone().unwrap_or_else(|| self.call_id(thoughts, calls));
                    let before = usize::from(self.counts_text() && has_text(&pieces));
                    let (name, arguments) = (name.clone(), input.clone());
                    pieces.push(AnswerPart::Call(OutputCall {
                        index: before + calls,
                        id,
                        name,
                        arguments,
                    }));
                    calls += 1;
                }
                // Calls that the provider runs itself are not shown here.
                Part::ServerTool { .. } | Part::ServerResult { .. } => {}
            }
        }
        pieces
    }

    /// True for the compatibility layer, which numbers calls as the content blocks they were.
    fn counts_text(&self) -> bool {
        self.prompt.model.dialect == Dialect::AnthropicCompat
    }

    fn call_id(&self, thoughts: usize, index: usize) -> String {
        let sealed = self.prompt.model.dialect == Dialect::OpenRouter;
        let reasoning = if sealed { thoughts.checked_sub(1) } else { None };
        let prefix = if self.prompt.model.claude { "toolu" } else { "call" };
        IssuedId { number: self.number, reasoning, index }.id_with(prefix)
    }

    fn build_thought(&self, text: &str, thoughts: &mut usize) -> Option<AnswerPart> {
        if !self.shows_thoughts() {
            return None;
        }
        let index = *thoughts;
        *thoughts += 1;
        let routed = self.prompt.model.dialect == Dialect::OpenRouter;
        let encrypted = routed && self.prompt.model.id.starts_with("openai/");
        let shown = if encrypted { "" } else { text };
        let signs = encrypted || (routed && self.prompt.model.claude);
        let token = signs.then(|| self.seal.make_token(self.number, index, shown));
        Some(AnswerPart::Thought(ShownReasoning {
            text: shown.to_owned(),
            token,
            encrypted,
            index,
        }))
    }

    fn build_redacted(&self, thoughts: &mut usize) -> Option<AnswerPart> {
        if self.prompt.model.dialect != Dialect::OpenRouter || !self.shows_thoughts() {
            return None;
        }
        let index = *thoughts;
        *thoughts += 1;
        let token = Some(self.seal.make_token(self.number, index, ""));
        Some(AnswerPart::Thought(ShownReasoning {
            text: String::new(),
            token,
            encrypted: true,
            index,
        }))
    }

    fn shows_thoughts(&self) -> bool {
        match self.prompt.model.dialect {
            Dialect::OpenAi | Dialect::Azure | Dialect::AnthropicCompat => false,
            Dialect::OpenRouter => {
                let reasoning = self.prompt.body.get("reasoning");
                let exclude = reasoning.and_then(|r| r.get("exclude")).and_then(Json::as_bool);
                exclude != Some(true)
            }
            Dialect::DeepSeek | Dialect::Zai | Dialect::Groq | Dialect::Xai => true,
        }
    }
}

/// Adds a text. All texts of a response form one content.
fn add_text(pieces: &mut Vec<AnswerPart>, text: &str) {
    let text = if has_text(pieces) { format!("\n\n{text}") } else { text.to_owned() };
    pieces.push(AnswerPart::Text(text));
}

fn has_text(pieces: &[AnswerPart]) -> bool {
    pieces.iter().any(|p| matches!(p, AnswerPart::Text(_)))
}

/// Returns the `finish_reason`. With a named tool, OpenAI says `stop` although there is a call.
pub(super) fn finish_reason(prompt: &Prompt<'_>, lawful: &AllowedTurn) -> &'static str {
    let quirk = prompt.model.knows_fields() && prompt.names_a_tool();
    match lawful.stop {
        Stop::ToolUse if quirk => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens | Stop::ContextWindow => "length",
        Stop::Refusal if lawful.parts.is_empty() => "content_filter",
        Stop::Refusal | Stop::EndTurn | Stop::PauseTurn | Stop::StopSequence(_) => "stop",
    }
}

/// Returns the `usage` object.
pub(super) fn usage_json(answer: &Answer) -> Json {
    let of = &answer.usage;
    let prompt = of.total_input();
    let mut details = vec![
        ("cached_tokens".to_owned(), of.cache_read.into()),
        ("audio_tokens".to_owned(), 0.into()),
    ];
    let dialect = answer.model.dialect;
    let writes = matches!(answer.model.caching, Caching::MessageEnds { .. });
    if writes || dialect == Dialect::OpenRouter {
        details.push(("cache_write_tokens".to_owned(), of.cache_write_5m.into()));
    }
    let reasoning = json_object([("reasoning_tokens", of.thinking.into())]);
    let mut usage = vec![
        ("prompt_tokens".to_owned(), prompt.into()),
        ("completion_tokens".to_owned(), of.output.into()),
        ("total_tokens".to_owned(), (prompt + of.output).into()),
    ];
    if dialect == Dialect::DeepSeek {
        usage.push(("prompt_cache_hit_tokens".to_owned(), of.cache_read.into()));
        usage.push(("prompt_cache_miss_tokens".to_owned(), (prompt - of.cache_read).into()));
    }
    if dialect != Dialect::AnthropicCompat {
        usage.push(("prompt_tokens_details".to_owned(), Json::Map(details)));
        usage.push(("completion_tokens_details".to_owned(), reasoning));
    }
    if dialect == Dialect::OpenRouter {
        let cost = || Json::Float(to_dollars(answer.cost_nano));
        usage.push(("cost".to_owned(), cost()));
        usage.push(("is_byok".to_owned(), Json::Bool(false)));
        let details = json_object([("upstream_inference_cost", cost())]);
        usage.push(("cost_details".to_owned(), details));
    }
    Json::Map(usage)
}

#[expect(clippy::cast_precision_loss, reason = "shown only; the exact sum is kept apart")]
fn to_dollars(nano: u64) -> f64 {
    nano as f64 / 1e9
}
