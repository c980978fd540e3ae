//! The items of a response and the response around them. The streamed and the whole form come from
//! the same items.

use super::request::Prompt;
use crate::constraints::AllowedTurn;
use crate::json::{Json, json_object};
use crate::models::open::{Caching, Dialect};
use crate::openai::{IssuedId, Sealer};
use crate::pieces::cut_text;
use crate::turn::{Part, Stop};
use crate::usage::Usage;

/// One item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    made: ItemContent,
    /// True if the item is cut in the middle.
    cut: bool,
}

#[derive(Debug)]
enum ItemContent {
    Reasoning { summary: Option<String>, open: Option<String>, seal: Option<String> },
    Message { text: String, refusal: bool, last: bool },
    Call { custom: bool, call_id: String, name: String, input: String },
    Search { input: String },
}

/// One event within an item. The stream adds ids and numbers.
pub(super) struct ItemEvent {
    pub(super) kind: &'static str,
    pub(super) fields: Vec<(String, Json)>,
    pub(super) is_delta: bool,
}

/// A response.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) id: String,
    pub(super) created: u64,
    /// The model's name in the response.
    pub(super) name: String,
    pub(super) items: Vec<Item>,
    pub(super) usage: Usage,
    /// The reason why the response is incomplete, if it is.
    pub(super) incomplete: Option<&'static str>,
}

/// A builder for the items of a response.
pub(super) struct ResponseBuilder<'a> {
    pub(super) prompt: &'a Prompt<'a>,
    pub(super) seal: Sealer,
    pub(super) number: u64,
}

impl ResponseBuilder<'_> {
    /// Builds the items of a turn.
    pub(super) fn build_items(&self, lawful: &AllowedTurn) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut reasoning: Option<usize> = None;
        let calls = lawful.parts.iter().any(Part::is_call);
        for (i, part) in lawful.parts.iter().enumerate() {
            let index = items.len();
            let id = |prefix: &str| {
                // DeepSeek's ids do not refer to reasoning.
                let reasoning = reasoning.filter(|_| !self.is_deepseek());
                IssuedId { number: self.number, reasoning, index }.id_with(prefix)
            };
            let (id, made) = match part {
                Part::Text(text) => {
                    let refusal = lawful.stop == Stop::Refusal;
                    (id("msg"), ItemContent::Message { text: text.clone(), refusal, last: !calls })
                }
                Part::Thinking(_) | Part::RedactedThinking => {
                    let issued = IssuedId { number: self.number, reasoning: None, index };
                    reasoning = Some(index);
                    (issued.id_with("rs"), self.build_reasoning(part, index))
                }
                Part::Tool { id: own, name, input } => {
                    let call_id = own.clone().unwrap_or_else(|| id("call"));
                    let custom = self.prompt.is_custom(name);
                    let (name, input) = (name.clone(), input.clone());
                    let prefix = if custom { "ctc" } else { "fc" };
                    (id(prefix), ItemContent::Call { custom, call_id, name, input })
                }
                Part::ServerTool { input, .. } => {
                    (id("ws"), ItemContent::Search { input: input.clone() })
                }
                // The results of a search are not shown.
                Part::ServerResult { .. } => continue,
            };
            let cut = lawful.cut && i + 1 == lawful.parts.len();
            items.push(Item { id, made, cut });
        }
        items
    }

    fn is_deepseek(&self) -> bool {
        self.prompt.model.dialect == Dialect::DeepSeek
    }

    fn build_reasoning(&self, part: &Part, index: usize) -> ItemContent {
        let text = match part {
            Part::Thinking(text) => text.as_str(),
            _ => "",
        };
        if self.is_deepseek() {
            return ItemContent::Reasoning {
                summary: None,
                open: Some(text.to_owned()),
                seal: None,
            };
        }
        let shown = self.prompt.summary && !text.is_empty();
        let summary = shown.then(|| format!("**Thinking**\n\n{text}"));
        let seal = self.prompt.encrypted.then(|| self.seal.make_token(self.number, index, ""));
        ItemContent::Reasoning { summary, open: None, seal }
    }
}

impl Item {
    /// Returns the item when it begins. The seal of reasoning is not complete yet.
    pub(super) fn added_json(&self, id: &str) -> Json {
        match &self.made {
            ItemContent::Reasoning { seal, open, .. } => {
                let half = seal.as_ref().map(|s| s.get(..s.len() / 2).unwrap_or("").to_owned());
                reasoning_json(id, None, open.as_ref().map(|_| ""), half.as_deref())
            }
            ItemContent::Message { last, .. } => message_json(id, Vec::new(), "in_progress", *last),
            ItemContent::Call { custom, call_id, name, .. } => {
                call_json(id, *custom, call_id, name, "", "in_progress")
            }
            ItemContent::Search { .. } => search_json(id, "in_progress", None),
        }
    }

    /// Returns the item when it is done.
    pub(super) fn done_json(&self, id: &str) -> Json {
        let status = if self.cut { "incomplete" } else { "completed" };
        match &self.made {
            ItemContent::Reasoning { summary, open, seal } => {
                reasoning_json(id, summary.as_deref(), open.as_deref(), seal.as_deref())
            }
            ItemContent::Message { text, refusal, last } => {
                message_json(id, vec![text_part(text, *refusal)], status, *last)
            }
            ItemContent::Call { custom, call_id, name, input } => {
                call_json(id, *custom, call_id, name, input, status)
            }
            ItemContent::Search { input } => search_json(id, status, Some(input)),
        }
    }

    /// Returns the events between begin and end.
    pub(super) fn to_events(&self) -> Vec<ItemEvent> {
        match &self.made {
            ItemContent::Message { text, refusal, .. } => text_steps(text, *refusal),
            ItemContent::Call { custom, input, .. } => call_steps(input, *custom),
            ItemContent::Reasoning { summary: Some(text), .. } => summary_steps(text),
            ItemContent::Reasoning { open: Some(text), .. } => open_steps(text),
            ItemContent::Reasoning { .. } => Vec::new(),
            ItemContent::Search { .. } => [
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
            ]
            .map(|kind| new_event(kind, Vec::new()))
            .into(),
        }
    }
}

fn new_event(kind: &'static str, fields: Vec<(&str, Json)>) -> ItemEvent {
    let is_delta = fields.iter().any(|(key, _)| *key == "delta");
    let fields = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    ItemEvent { kind, fields, is_delta }
}

fn text_steps(text: &str, refusal: bool) -> Vec<ItemEvent> {
    let at = || ("content_index", Json::from(0));
    let (delta, done, key) = if refusal {
        ("response.refusal.delta", "response.refusal.done", "refusal")
    } else {
        ("response.output_text.delta", "response.output_text.done", "text")
    };
    let logprobs = || (!refusal).then(|| ("logprobs", Json::List(Vec::new())));
    let mut steps = vec![new_event(
        "response.content_part.added",
        vec![at(), ("part", text_part("", refusal))],
    )];
    for piece in cut_text(text) {
        let mut fields = vec![at(), ("delta", piece.into())];
        fields.extend(logprobs());
        steps.push(new_event(delta, fields));
    }
    let mut fields = vec![at(), (key, text.into())];
    fields.extend(logprobs());
    steps.push(new_event(done, fields));
    steps.push(new_event(
        "response.content_part.done",
        vec![at(), ("part", text_part(text, refusal))],
    ));
    steps
}

fn call_steps(input: &str, custom: bool) -> Vec<ItemEvent> {
    let (delta, done, key) = if custom {
        ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "input")
    } else {
        (
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "arguments",
        )
    };
    let mut steps: Vec<ItemEvent> =
        cut_text(input).map(|piece| new_event(delta, vec![("delta", piece.into())])).collect();
    steps.push(new_event(done, vec![(key, input.into())]));
    steps
}

fn summary_steps(text: &str) -> Vec<ItemEvent> {
    let at = || ("summary_index", Json::from(0));
    let part = |text: &str| json_object([("type", "summary_text".into()), ("text", text.into())]);
    let added = "response.reasoning_summary_part.added";
    let mut steps = vec![new_event(added, vec![at(), ("part", part(""))])];
    let delta = "response.reasoning_summary_text.delta";
    steps.extend(cut_text(text).map(|piece| new_event(delta, vec![at(), ("delta", piece.into())])));
    let done = "response.reasoning_summary_text.done";
    steps.push(new_event(done, vec![at(), ("text", text.into())]));
    let done = "response.reasoning_summary_part.done";
    steps.push(new_event(done, vec![at(), ("part", part(text))]));
    steps
}

fn open_steps(text: &str) -> Vec<ItemEvent> {
    let at = || ("content_index", Json::from(0));
    let part = |text: &str| json_object([("type", "reasoning_text".into()), ("text", text.into())]);
    let mut steps = vec![new_event("response.content_part.added", vec![at(), ("part", part(""))])];
    let delta = "response.reasoning_text.delta";
    steps.extend(cut_text(text).map(|piece| new_event(delta, vec![at(), ("delta", piece.into())])));
    steps.push(new_event("response.reasoning_text.done", vec![at(), ("text", text.into())]));
    steps.push(new_event("response.content_part.done", vec![at(), ("part", part(text))]));
    steps
}

fn text_part(text: &str, refusal: bool) -> Json {
    if refusal {
        return json_object([("type", "refusal".into()), ("refusal", text.into())]);
    }
    json_object([
        ("type", "output_text".into()),
        ("annotations", Json::List(Vec::new())),
        ("logprobs", Json::List(Vec::new())),
        ("text", text.into()),
    ])
}

fn reasoning_json(id: &str, summary: Option<&str>, open: Option<&str>, seal: Option<&str>) -> Json {
    let part = |kind: &str, text: &str| json_object([("type", kind.into()), ("text", text.into())]);
    let content = open.filter(|t| !t.is_empty()).map(|text| part("reasoning_text", text));
    let summary = summary.map(|text| part("summary_text", text));
    let mut item = vec![
        ("id".to_owned(), id.into()),
        ("type".to_owned(), "reasoning".into()),
        ("summary".to_owned(), Json::List(summary.into_iter().collect())),
        ("content".to_owned(), Json::List(content.into_iter().collect())),
    ];
    if let Some(seal) = seal {
        item.push(("encrypted_content".to_owned(), seal.into()));
    }
    Json::Map(item)
}

fn message_json(id: &str, content: Vec<Json>, status: &str, last: bool) -> Json {
    let phase = if last { "final_answer" } else { "commentary" };
    json_object([
        ("id", id.into()),
        ("type", "message".into()),
        ("status", status.into()),
        ("content", Json::List(content)),
        ("phase", phase.into()),
        ("role", "assistant".into()),
    ])
}

fn call_json(id: &str, custom: bool, call_id: &str, name: &str, input: &str, status: &str) -> Json {
    let (kind, key) =
        if custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    json_object([
        ("id", id.into()),
        ("type", kind.into()),
        ("status", status.into()),
        (key, input.into()),
        ("call_id", call_id.into()),
        ("name", name.into()),
    ])
}

fn search_json(id: &str, status: &str, input: Option<&str>) -> Json {
    let query = input.and_then(|i| Json::parse(i.as_bytes()).ok());
    let query = query.as_ref().and_then(|q| q.str_at("query")).unwrap_or("");
    json_object([
        ("id", id.into()),
        ("type", "web_search_call".into()),
        ("status", status.into()),
        ("action", json_object([("type", "search".into()), ("query", query.into())])),
    ])
}

impl Output {
    /// Returns the response when it is done.
    pub(super) fn to_json(&self, prompt: &Prompt<'_>) -> Json {
        let output = self.items.iter().map(|item| item.done_json(&item.id)).collect();
        self.finished_json(prompt, output)
    }

    /// Returns the finished response with these items.
    pub(super) fn finished_json(&self, prompt: &Prompt<'_>, output: Vec<Json>) -> Json {
        let status = if self.incomplete.is_some() { "incomplete" } else { "completed" };
        let ending = self.incomplete.map(|reason| json_object([("reason", reason.into())]));
        let usage = usage_json(&self.usage, prompt);
        self.envelope_json(
            prompt,
            status,
            output,
            (Json::Null, ending.unwrap_or(Json::Null)),
            usage,
        )
    }

    /// Returns the response while it is being generated.
    pub(super) fn pending_json(&self, prompt: &Prompt<'_>, status: &str) -> Json {
        self.envelope_json(prompt, status, Vec::new(), (Json::Null, Json::Null), Json::Null)
    }

    /// Returns the failed response.
    pub(super) fn failed_json(&self, prompt: &Prompt<'_>) -> Json {
        let error = json_object([("code", "server_error".into()), ("message", FAILED.into())]);
        self.envelope_json(prompt, "failed", Vec::new(), (error, Json::Null), Json::Null)
    }

    fn envelope_json(
        &self,
        prompt: &Prompt<'_>,
        status: &str,
        output: Vec<Json>,
        (error, incomplete): (Json, Json),
        usage: Json,
    ) -> Json {
        let echo = |key: &str, default: Json| {
            let given = prompt.body.get(key).filter(|v| **v != Json::Null);
            given.cloned().unwrap_or(default)
        };
        let format = json_object([("format", json_object([("type", "text".into())]))]);
        json_object([
            ("id", self.id.as_str().into()),
            ("object", "response".into()),
            ("created_at", self.created.into()),
            ("status", status.into()),
            ("background", Json::Bool(prompt.background)),
            ("error", error),
            ("incomplete_details", incomplete),
            ("instructions", echo("instructions", Json::Null)),
            ("max_output_tokens", echo("max_output_tokens", Json::Null)),
            ("max_tool_calls", echo("max_tool_calls", Json::Null)),
            ("metadata", echo("metadata", Json::Map(Vec::new()))),
            ("model", self.name.as_str().into()),
            ("output", Json::List(output)),
            ("parallel_tool_calls", Json::Bool(prompt.tools.parallel)),
            ("previous_response_id", echo("previous_response_id", Json::Null)),
            (
                "reasoning",
                echo("reasoning", json_object([("effort", Json::Null), ("summary", Json::Null)])),
            ),
            ("service_tier", "default".into()),
            ("store", Json::Bool(prompt.store)),
            ("temperature", echo("temperature", Json::Float(1.0))),
            ("text", echo("text", format)),
            ("tool_choice", echo("tool_choice", "auto".into())),
            ("tools", echo("tools", Json::List(Vec::new()))),
            ("top_p", echo("top_p", Json::Float(1.0))),
            ("truncation", echo("truncation", "disabled".into())),
            ("usage", usage),
            ("user", Json::Null),
        ])
    }
}

/// The message of a failed response.
pub(super) const FAILED: &str =
    "The server had an error while processing your request. Sorry about that!";

fn usage_json(of: &Usage, prompt: &Prompt<'_>) -> Json {
    let mut details = vec![("cached_tokens".to_owned(), of.cache_read.into())];
    if matches!(prompt.model.caching, Caching::MessageEnds { .. }) {
        details.insert(0, ("cache_write_tokens".to_owned(), of.cache_write_5m.into()));
    }
    json_object([
        ("input_tokens", of.total_input().into()),
        ("input_tokens_details", Json::Map(details)),
        ("output_tokens", of.output.into()),
        ("output_tokens_details", json_object([("reasoning_tokens", of.thinking.into())])),
        ("total_tokens", (of.total_input() + of.output).into()),
    ])
}
