//! The items of a response and the response around them. The streamed and the whole form come from
//! the same items.

use super::request::Prompt;
use crate::json::{Json, map};
use crate::laws::Lawful;
use crate::models::open::{Caching, Dialect};
use crate::openai::{Issued, Seal};
use crate::pieces::pieces;
use crate::turn::{Part, Stop};
use crate::usage::Usage;

/// One item.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) id: String,
    made: Made,
    /// True if the item is cut in the middle.
    cut: bool,
}

#[derive(Debug)]
enum Made {
    Reasoning { summary: Option<String>, open: Option<String>, seal: Option<String> },
    Message { text: String, refusal: bool, last: bool },
    Call { custom: bool, call_id: String, name: String, input: String },
    Search { input: String },
}

/// One event within an item. The stream adds ids and numbers.
pub(super) struct Step {
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
pub(super) struct Maker<'a> {
    pub(super) prompt: &'a Prompt<'a>,
    pub(super) seal: Seal,
    pub(super) number: u64,
}

impl Maker<'_> {
    /// Builds the items of a turn.
    pub(super) fn items(&self, lawful: &Lawful) -> Vec<Item> {
        let mut items: Vec<Item> = Vec::new();
        let mut reasoning: Option<usize> = None;
        let calls = lawful.parts.iter().any(Part::is_call);
        for (i, part) in lawful.parts.iter().enumerate() {
            let index = items.len();
            let id = |prefix: &str| {
                // DeepSeek's ids do not refer to reasoning.
                let reasoning = reasoning.filter(|_| !self.is_deepseek());
                Issued { number: self.number, reasoning, index }.id(prefix)
            };
            let (id, made) = match part {
                Part::Text(text) => {
                    let refusal = lawful.stop == Stop::Refusal;
                    (id("msg"), Made::Message { text: text.clone(), refusal, last: !calls })
                }
                Part::Thinking(_) | Part::RedactedThinking => {
                    let issued = Issued { number: self.number, reasoning: None, index };
                    reasoning = Some(index);
                    (issued.id("rs"), self.reasoning(part, index))
                }
                Part::Tool { id: own, name, input } => {
                    let call_id = own.clone().unwrap_or_else(|| id("call"));
                    let custom = self.prompt.is_custom(name);
                    let (name, input) = (name.clone(), input.clone());
                    let prefix = if custom { "ctc" } else { "fc" };
                    (id(prefix), Made::Call { custom, call_id, name, input })
                }
                Part::ServerTool { input, .. } => (id("ws"), Made::Search { input: input.clone() }),
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

    fn reasoning(&self, part: &Part, index: usize) -> Made {
        let text = match part {
            Part::Thinking(text) => text.as_str(),
            _ => "",
        };
        if self.is_deepseek() {
            return Made::Reasoning { summary: None, open: Some(text.to_owned()), seal: None };
        }
        let shown = self.prompt.summary && !text.is_empty();
        let summary = shown.then(|| format!("**Thinking**\n\n{text}"));
        let seal = self.prompt.encrypted.then(|| self.seal.token(self.number, index, ""));
        Made::Reasoning { summary, open: None, seal }
    }
}

impl Item {
    /// Returns the item when it begins. The seal of reasoning is not complete yet.
    pub(super) fn added(&self, id: &str) -> Json {
        match &self.made {
            Made::Reasoning { seal, open, .. } => {
                let half = seal.as_ref().map(|s| s.get(..s.len() / 2).unwrap_or("").to_owned());
                reasoning(id, None, open.as_ref().map(|_| ""), half.as_deref())
            }
            Made::Message { last, .. } => message(id, Vec::new(), "in_progress", *last),
            Made::Call { custom, call_id, name, .. } => {
                call(id, *custom, call_id, name, "", "in_progress")
            }
            Made::Search { .. } => search(id, "in_progress", None),
        }
    }

    /// Returns the item when it is done.
    pub(super) fn done(&self, id: &str) -> Json {
        let status = if self.cut { "incomplete" } else { "completed" };
        match &self.made {
            Made::Reasoning { summary, open, seal } => {
                reasoning(id, summary.as_deref(), open.as_deref(), seal.as_deref())
            }
            Made::Message { text, refusal, last } => {
                message(id, vec![text_part(text, *refusal)], status, *last)
            }
            Made::Call { custom, call_id, name, input } => {
                call(id, *custom, call_id, name, input, status)
            }
            Made::Search { input } => search(id, status, Some(input)),
        }
    }

    /// Returns the events between begin and end.
    pub(super) fn steps(&self) -> Vec<Step> {
        match &self.made {
            Made::Message { text, refusal, .. } => text_steps(text, *refusal),
            Made::Call { custom, input, .. } => call_steps(input, *custom),
            Made::Reasoning { summary: Some(text), .. } => summary_steps(text),
            Made::Reasoning { open: Some(text), .. } => open_steps(text),
            Made::Reasoning { .. } => Vec::new(),
            Made::Search { .. } => [
                "response.web_search_call.in_progress",
                "response.web_search_call.searching",
                "response.web_search_call.completed",
            ]
            .map(|kind| step(kind, Vec::new()))
            .into(),
        }
    }
}

fn step(kind: &'static str, fields: Vec<(&str, Json)>) -> Step {
    let is_delta = fields.iter().any(|(key, _)| *key == "delta");
    let fields = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    Step { kind, fields, is_delta }
}

fn text_steps(text: &str, refusal: bool) -> Vec<Step> {
    let at = || ("content_index", Json::from(0));
    let (delta, done, key) = if refusal {
        ("response.refusal.delta", "response.refusal.done", "refusal")
    } else {
        ("response.output_text.delta", "response.output_text.done", "text")
    };
    let logprobs = || (!refusal).then(|| ("logprobs", Json::List(Vec::new())));
    let mut steps =
        vec![step("response.content_part.added", vec![at(), ("part", text_part("", refusal))])];
    for piece in pieces(text) {
        let mut fields = vec![at(), ("delta", piece.into())];
        fields.extend(logprobs());
        steps.push(step(delta, fields));
    }
    let mut fields = vec![at(), (key, text.into())];
    fields.extend(logprobs());
    steps.push(step(done, fields));
    steps.push(step("response.content_part.done", vec![at(), ("part", text_part(text, refusal))]));
    steps
}

fn call_steps(input: &str, custom: bool) -> Vec<Step> {
    let (delta, done, key) = if custom {
        ("response.custom_tool_call_input.delta", "response.custom_tool_call_input.done", "input")
    } else {
        (
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
            "arguments",
        )
    };
    let mut steps: Vec<Step> =
        pieces(input).map(|piece| step(delta, vec![("delta", piece.into())])).collect();
    steps.push(step(done, vec![(key, input.into())]));
    steps
}

fn summary_steps(text: &str) -> Vec<Step> {
    let at = || ("summary_index", Json::from(0));
    let part = |text: &str| map([("type", "summary_text".into()), ("text", text.into())]);
    let added = "response.reasoning_summary_part.added";
    let mut steps = vec![step(added, vec![at(), ("part", part(""))])];
    let delta = "response.reasoning_summary_text.delta";
    steps.extend(pieces(text).map(|piece| step(delta, vec![at(), ("delta", piece.into())])));
    let done = "response.reasoning_summary_text.done";
    steps.push(step(done, vec![at(), ("text", text.into())]));
    let done = "response.reasoning_summary_part.done";
    steps.push(step(done, vec![at(), ("part", part(text))]));
    steps
}

fn open_steps(text: &str) -> Vec<Step> {
    let at = || ("content_index", Json::from(0));
    let part = |text: &str| map([("type", "reasoning_text".into()), ("text", text.into())]);
    let mut steps = vec![step("response.content_part.added", vec![at(), ("part", part(""))])];
    let delta = "response.reasoning_text.delta";
    steps.extend(pieces(text).map(|piece| step(delta, vec![at(), ("delta", piece.into())])));
    steps.push(step("response.reasoning_text.done", vec![at(), ("text", text.into())]));
    steps.push(step("response.content_part.done", vec![at(), ("part", part(text))]));
    steps
}

fn text_part(text: &str, refusal: bool) -> Json {
    if refusal {
        return map([("type", "refusal".into()), ("refusal", text.into())]);
    }
    map([
        ("type", "output_text".into()),
        ("annotations", Json::List(Vec::new())),
        ("logprobs", Json::List(Vec::new())),
        ("text", text.into()),
    ])
}

fn reasoning(id: &str, summary: Option<&str>, open: Option<&str>, seal: Option<&str>) -> Json {
    let part = |kind: &str, text: &str| map([("type", kind.into()), ("text", text.into())]);
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

fn message(id: &str, content: Vec<Json>, status: &str, last: bool) -> Json {
    let phase = if last { "final_answer" } else { "commentary" };
    map([
        ("id", id.into()),
        ("type", "message".into()),
        ("status", status.into()),
        ("content", Json::List(content)),
        ("phase", phase.into()),
        ("role", "assistant".into()),
    ])
}

fn call(id: &str, custom: bool, call_id: &str, name: &str, input: &str, status: &str) -> Json {
    let (kind, key) =
        if custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    map([
        ("id", id.into()),
        ("type", kind.into()),
        ("status", status.into()),
        (key, input.into()),
        ("call_id", call_id.into()),
        ("name", name.into()),
    ])
}

fn search(id: &str, status: &str, input: Option<&str>) -> Json {
    let query = input.and_then(|i| Json::parse(i.as_bytes()).ok());
    let query = query.as_ref().and_then(|q| q.str_at("query")).unwrap_or("");
    map([
        ("id", id.into()),
        ("type", "web_search_call".into()),
        ("status", status.into()),
        ("action", map([("type", "search".into()), ("query", query.into())])),
    ])
}

impl Output {
    /// Returns the response when it is done.
    pub(super) fn json(&self, prompt: &Prompt<'_>) -> Json {
        let output = self.items.iter().map(|item| item.done(&item.id)).collect();
        self.finished(prompt, output)
    }

    /// Returns the finished response with these items.
    pub(super) fn finished(&self, prompt: &Prompt<'_>, output: Vec<Json>) -> Json {
        let status = if self.incomplete.is_some() { "incomplete" } else { "completed" };
        let ending = self.incomplete.map(|reason| map([("reason", reason.into())]));
        let usage = usage(&self.usage, prompt);
        self.envelope(prompt, status, output, (Json::Null, ending.unwrap_or(Json::Null)), usage)
    }

    /// Returns the response while it is being generated.
    pub(super) fn pending(&self, prompt: &Prompt<'_>, status: &str) -> Json {
        self.envelope(prompt, status, Vec::new(), (Json::Null, Json::Null), Json::Null)
    }

    /// Returns the failed response.
    pub(super) fn failed(&self, prompt: &Prompt<'_>) -> Json {
        let error = map([("code", "server_error".into()), ("message", FAILED.into())]);
        self.envelope(prompt, "failed", Vec::new(), (error, Json::Null), Json::Null)
    }

    fn envelope(
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
        let format = map([("format", map([("type", "text".into())]))]);
        map([
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
                echo("reasoning", map([("effort", Json::Null), ("summary", Json::Null)])),
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

fn usage(of: &Usage, prompt: &Prompt<'_>) -> Json {
    let mut details = vec![("cached_tokens".to_owned(), of.cache_read.into())];
    if matches!(prompt.model.caching, Caching::MessageEnds { .. }) {
        details.insert(0, ("cache_write_tokens".to_owned(), of.cache_write_5m.into()));
    }
    map([
        ("input_tokens", of.total_input().into()),
        ("input_tokens_details", Json::Map(details)),
        ("output_tokens", of.output.into()),
        ("output_tokens_details", map([("reasoning_tokens", of.thinking.into())])),
        ("total_tokens", (of.total_input() + of.output).into()),
    ])
}
