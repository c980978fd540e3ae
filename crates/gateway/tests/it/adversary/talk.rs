//! A client's messages in each protocol: its requests, and the entries of its history.

use serde_json::{Value, json};
use softland_session::core::models;
use softland_session::wire::Api;
use softland_sim::{Dialect, OpenModel, Reasoning, find_open_model};

use crate::adversary::case::Case;
use crate::adversary::hostile::{self, TOOLS};
use crate::support::reading::Response;

/// A client's side of one protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Talk<'a> {
    pub(crate) api: Api,
    case: &'a Case,
}

/// Returns the simulator's name for the case's model, if the model is an unlisted one.
pub(crate) fn aliases(case: &Case) -> Vec<(String, String)> {
    case.rules_of.iter().map(|listed| (case.model.clone(), listed.clone())).collect()
}

impl<'a> Talk<'a> {
    pub(crate) fn of(case: &'a Case) -> Self {
        Self { api: case.api, case }
    }

    /// The model whose rules hold, of OpenAI's protocols.
    pub(crate) fn rules(self) -> Option<OpenModel> {
        (self.api != Api::Anthropic).then(|| find_open_model(self.case.rules()).unwrap())
    }

    pub(crate) fn path(self) -> &'static str {
        match self.api {
            Api::Anthropic => "/v1/messages",
            Api::Chat => "/v1/chat/completions",
            Api::Responses => "/v1/responses",
        }
    }

    pub(crate) fn headers(self) -> &'static [&'static str] {
        match self.api {
            Api::Anthropic => &["x-api-key: any", "anthropic-version: 2023-06-01"],
            Api::Chat | Api::Responses => &["authorization: Bearer any"],
        }
    }

    /// A whole body, the history last.
    pub(crate) fn body(self, head: &Value, history: &[Value]) -> String {
        let mut body = head.to_string();
        body.pop();
        let key = if self.api == Api::Responses { "input" } else { "messages" };
        format!(r#"{body},"{key}":{}}}"#, Value::Array(history.to_vec()))
    }

    /// Returns the members of each request beside the history.
    pub(crate) fn head(self) -> Value {
        let (case, manner) = (self.case, &self.case.manner);
        let own = manner.answer_tool.then_some("hand_in");
        let tools: Vec<Value> = TOOLS.iter().copied().chain(own).map(|t| self.tool(t)).collect();
        let mut head = json!({"model": case.model, "tools": tools, "stream": !manner.whole});
        match self.api {
            Api::Anthropic => self.anthropic(&mut head),
            Api::Chat => self.chat(&mut head),
            Api::Responses => self.responses(&mut head),
        }
        head
    }

    fn tool(self, name: &str) -> Value {
        let schema = json!({"type": "object"});
        match self.api {
            Api::Anthropic => json!({"name": name, "input_schema": schema}),
            Api::Chat => {
                json!({"type": "function", "function": {"name": name, "parameters": schema}})
            }
            Api::Responses => json!({"type": "function", "name": name, "parameters": schema}),
        }
    }

    fn anthropic(self, head: &mut Value) {
        head["max_tokens"] = 8000.into();
        let rules = models::find_capability(None, self.case.rules());
        if self.case.manner.thinking && rules.thinking_adaptive {
            head["thinking"] = json!({"type": "adaptive", "display": "summarized"});
        }
        if self.case.manner.cache {
            head["cache_control"] = json!({"type": "ephemeral"});
        }
    }

    fn chat(self, head: &mut Value) {
        let (rules, manner) = (self.rules().unwrap(), &self.case.manner);
        let own = matches!(rules.dialect, Dialect::OpenAi | Dialect::Azure);
        // Most clients ask for no limit.
        if manner.shape == 3 {
            head[if own { "max_completion_tokens" } else { "max_tokens" }] = 8000.into();
        }
        if manner.cache && !manner.whole {
            head["stream_options"] = json!({"include_usage": true});
        }
        match rules.dialect {
            Dialect::OpenRouter if manner.thinking => head["reasoning"] = json!({"enabled": true}),
            Dialect::DeepSeek | Dialect::Zai if !manner.thinking => {
                head["thinking"] = json!({"type": "disabled"});
            }
            _ => {}
        }
    }

    fn responses(self, head: &mut Value) {
        let (rules, manner) = (self.rules().unwrap(), &self.case.manner);
        if manner.shape == 3 {
            head["max_output_tokens"] = 8000.into();
        }
        // What the provider keeps has its reasoning there, and nothing to read along.
        if !manner.cache {
            head["store"] = false.into();
            head["include"] = json!(["reasoning.encrypted_content"]);
        }
        if manner.thinking && rules.reasoning != Reasoning::Never {
            head["reasoning"] = json!({"summary": "auto"});
        }
    }

    /// A turn of the model's, as it goes into the history.
    pub(crate) fn turn(self, reply: &Response) -> Vec<Value> {
        match self.api {
            Api::Anthropic => vec![json!({"role": "assistant", "content": reply.content})],
            Api::Chat => reply.items.clone(),
            Api::Responses => {
                let mut items = reply.items.clone();
                // Reasoning that was cut off from what it led to may not go back.
                let cut = reply.stop == "incomplete";
                while cut && items.last().is_some_and(|last| last["type"] == "reasoning") {
                    items.pop();
                }
                items
            }
        }
    }

    /// Returns the tools' results for these calls.
    pub(crate) fn results(self, reply: &Response) -> Vec<Value> {
        let calls = reply.calls().into_iter().enumerate();
        let results = calls.map(|(n, (id, name, input))| {
            let (text, failed) = hostile::tool_result(&name, &input.to_string(), n as u64 * 7 + 1);
            self.result(&id, &text, failed)
        });
        self.together(results.collect())
    }

    /// All calls are told the same.
    pub(crate) fn told(self, reply: &Response, text: &str) -> Vec<Value> {
        let results = reply.calls().into_iter().map(|(id, ..)| match self.api {
            Api::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
            Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Api::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": text})
            }
        });
        self.together(results.collect())
    }

    fn together(self, results: Vec<Value>) -> Vec<Value> {
        match self.api {
            _ if results.is_empty() => Vec::new(),
            Api::Anthropic => vec![json!({"role": "user", "content": results})],
            Api::Chat | Api::Responses => results,
        }
    }

    fn result(self, id: &str, text: &str, failed: bool) -> Value {
        let in_parts = self.case.manner.shape < 2 && !text.is_empty();
        let parts = |kind: &str| json!([{"type": kind, "text": text}]);
        match self.api {
            Api::Anthropic => {
                let content = match self.case.manner.shape {
                    0 if text.is_empty() => json!([]),
                    _ if in_parts => parts("text"),
                    _ => json!(text),
                };
                json!({"type": "tool_result", "tool_use_id": id, "is_error": failed,
                    "content": content})
            }
            Api::Chat => {
                // A Claude takes no blank text there.
                let claude = self.rules().unwrap().claude;
                let text = if text.is_empty() && claude { "(nothing)" } else { text };
                let content = if in_parts { parts("text") } else { json!(text) };
                json!({"role": "tool", "tool_call_id": id, "content": content})
            }
            Api::Responses => {
                let output = if in_parts { parts("input_text") } else { json!(text) };
                json!({"type": "function_call_output", "call_id": id, "output": output})
            }
        }
    }

    /// Returns true if a message of the history is the client's: a human's, the harness's, a
    /// result.
    pub(crate) fn is_clients(self, message: &Value) -> bool {
        matches!(message["role"].as_str(), Some("user" | "tool"))
            || message["type"] == "function_call_output"
    }

    /// The names of the calls in a message of the history.
    pub(crate) fn calls_in(self, message: &Value) -> Vec<&str> {
        match self.api {
            Api::Anthropic => {
                let blocks = message["content"].as_array().into_iter().flatten();
                let calls = blocks.filter(|block| block["type"] == "tool_use");
                calls.filter_map(|call| call["name"].as_str()).collect()
            }
            Api::Chat => {
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                calls.filter_map(|call| call["function"]["name"].as_str()).collect()
            }
            Api::Responses if message["type"] == "function_call" => {
                message["name"].as_str().into_iter().collect()
            }
            Api::Responses => Vec::new(),
        }
    }

    /// Returns true if the model says a text in a message of the history.
    pub(crate) fn is_said(self, message: &Value) -> bool {
        if message["role"] != "assistant" {
            return false;
        }
        match &message["content"] {
            Value::String(text) => !text.is_empty(),
            content => {
                let mut blocks = content.as_array().into_iter().flatten();
                blocks.any(|block| block["text"].is_string())
            }
        }
    }

    /// Puts another text into a message's results; whether there are any.
    pub(crate) fn change_results(self, message: &mut Value) -> bool {
        let other = json!("something else");
        match self.api {
            Api::Anthropic => {
                let Some(blocks) = message["content"].as_array_mut() else { return false };
                let results = blocks.iter_mut().filter(|block| block["type"] == "tool_result");
                results.map(|result| result["content"] = other.clone()).count() > 0
            }
            Api::Chat if message["role"] == "tool" => {
                message["content"] = other;
                true
            }
            Api::Responses if message["type"] == "function_call_output" => {
                message["output"] = other;
                true
            }
            Api::Chat | Api::Responses => false,
        }
    }
}
