//! One client for all three protocols: sends requests, reads both forms of a response, continues
//! runs.

use serde_json::{Map, Value, json};
use softland_sim::{Config, Request, Response, Scenario, Sim};

/// A protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    Anthropic,
    Chat,
    Responses,
}

pub(crate) const ALL: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

/// A response in neutral form.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    /// The id, the name, and the input as text.
    pub(crate) calls: Vec<(String, String, String)>,
    /// `end`, `calls`, `length`, `refused`.
    pub(crate) stop: &'static str,
    pub(crate) output_tokens: u64,
    /// The messages or items that go back into the history.
    pub(crate) said: Vec<Value>,
}

pub(crate) fn sim(scenario: &str) -> Sim {
    Sim::new(Config::new(Scenario::from_name(scenario).unwrap()))
}

/// A tool's name, then its properties; the first is required.
const TOOLS: &[(&str, &[&str])] =
    &[("list_dir", &["path"]), ("grep", &["pattern", "path"]), ("read_file", &["path"])];

impl Api {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }

    /// Returns a model that accepts everything a scenario shows.
    pub(crate) fn model(self) -> &'static str {
        match self {
            Self::Anthropic => "claude-opus-4-6",
            Self::Chat => "gpt-4.1",
            Self::Responses => "gpt-5.2",
        }
    }

    pub(crate) fn tools(self) -> Value {
        let tool = |(name, properties): &(&str, &[&str])| {
            let fields: Map<String, Value> =
                properties.iter().map(|p| ((*p).to_owned(), json!({"type": "string"}))).collect();
            let schema =
                json!({"type": "object", "properties": fields, "required": [properties[0]]});
            match self {
                Self::Anthropic => json!({"name": name, "input_schema": schema}),
                Self::Chat => json!({"type": "function",
                    "function": {"name": name, "parameters": schema}}),
                Self::Responses => json!({"type": "function", "name": name, "parameters": schema}),
            }
        };
        TOOLS.iter().map(tool).collect()
    }

    pub(crate) fn body(self, model: &str, messages: Vec<Value>) -> Value {
        let mut body = json!({"model": model, "tools": self.tools()});
        body[self.history_key()] = Value::Array(messages);
        if self == Self::Anthropic {
            body["max_tokens"] = 4096.into();
        }
        body
    }

    pub(crate) fn question(self) -> Value {
        let text = "What do my notes say about deploying and rollbacks?";
        self.body(self.model(), vec![user(text)])
    }

    pub(crate) fn history_key(self) -> &'static str {
        if self == Self::Responses { "input" } else { "messages" }
    }

    pub(crate) fn none(self) -> Value {
        if self == Self::Anthropic { json!({"type": "none"}) } else { "none".into() }
    }

    pub(crate) fn any(self) -> Value {
        if self == Self::Anthropic { json!({"type": "any"}) } else { "required".into() }
    }

    pub(crate) fn named(self, name: &str) -> Value {
        match self {
            Self::Anthropic => json!({"type": "tool", "name": name}),
            Self::Chat => json!({"type": "function", "function": {"name": name}}),
            Self::Responses => json!({"type": "function", "name": name}),
        }
    }

    /// Allows only one call at a time.
    pub(crate) fn one_call(self, body: &mut Value) {
        if self == Self::Anthropic {
            body["tool_choice"] = json!({"type": "auto", "disable_parallel_tool_use": true});
        } else {
            body["parallel_tool_calls"] = false.into();
        }
    }

    pub(crate) fn post(self, sim: &Sim, now: u64, body: &Value) -> Response {
        let headers: &[(&str, &str)] = match self {
            Self::Anthropic => &[("x-api-key", "k"), ("anthropic-version", "2023-06-01")],
            _ => &[("authorization", "Bearer k")],
        };
        let headers: Vec<(String, String)> =
            headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let body = serde_json::to_vec(body).unwrap();
        let path = self.path();
        sim.respond(now, &Request { method: "POST", path, headers: &headers, body: &body })
    }

    /// Returns the status and JSON of a request that does not stream.
    pub(crate) fn json(self, sim: &Sim, body: &Value) -> (u16, Value) {
        let response = self.post(sim, 0, body);
        let (bytes, _) = response.collect_bytes();
        (response.status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    pub(crate) fn ask(self, sim: &Sim, body: &Value) -> Reply {
        let (status, json) = self.json(sim, body);
        assert_eq!(status, 200, "{self:?}: {json}");
        self.read(&json)
    }

    /// Returns the response of a streamed request.
    pub(crate) fn ask_stream(self, sim: &Sim, body: &Value) -> Reply {
        let mut body = body.clone();
        body["stream"] = true.into();
        if self == Self::Chat {
            body["stream_options"] = json!({"include_usage": true});
        }
        let response = self.post(sim, 0, &body);
        assert_eq!(response.status, 200, "{self:?}");
        self.read(&self.assemble(&response.collect_bytes().0))
    }

    /// Returns the whole form that a stream builds.
    pub(crate) fn assemble(self, bytes: &[u8]) -> Value {
        let events = events(bytes);
        match self {
            Self::Anthropic => crate::support::assemble(&events),
            Self::Chat => assemble_chat(&events),
            Self::Responses => events.last().unwrap()["response"].clone(),
        }
    }

    pub(crate) fn read(self, json: &Value) -> Reply {
        match self {
            Self::Anthropic => read_anthropic(json),
            Self::Chat => read_chat(json),
            Self::Responses => read_responses(json),
        }
    }

    /// Returns the results of all calls in the protocol's form.
    pub(crate) fn results(self, results: Vec<(String, String)>) -> Vec<Value> {
        let one = |(id, text): (String, String)| match self {
            Self::Anthropic => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
            Self::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
            Self::Responses => {
                json!({"type": "function_call_output", "call_id": id, "output": text})
            }
        };
        let list: Vec<Value> = results.into_iter().map(one).collect();
        if self == Self::Anthropic { vec![json!({"role": "user", "content": list})] } else { list }
    }

    /// Adds to the history of a request.
    pub(crate) fn push(self, body: &mut Value, more: Vec<Value>) {
        body[self.history_key()].as_array_mut().unwrap().extend(more);
    }

    /// Runs a plain tool loop: ends at the first turn without calls or after `most` requests.
    pub(crate) fn drive(
        self,
        sim: &Sim,
        body: &mut Value,
        most: usize,
        mut tool: impl FnMut(&str, &str) -> String,
    ) -> Run {
        let mut run = Run::default();
        while run.requests < most {
            let reply = self.ask(sim, body);
            run.requests += 1;
            let mut results = Vec::new();
            for (id, name, input) in &reply.calls {
                run.calls.push((name.clone(), input.clone()));
                results.push((id.clone(), tool(name, input)));
            }
            if !reply.text.is_empty() || !reply.calls.is_empty() {
                self.push(body, reply.said.clone());
            }
            run.last = reply;
            if results.is_empty() {
                break;
            }
            self.push(body, self.results(results));
        }
        run
    }
}

/// The result of a run of [`Api::drive`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    pub(crate) calls: Vec<(String, String)>,
    pub(crate) requests: usize,
    pub(crate) last: Reply,
}

pub(crate) fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

pub(crate) fn assistant(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Returns the data of a stream's events, without `[DONE]` and comments.
pub(crate) fn events(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

fn append(to: &mut Value, key: &str, piece: &Value) {
    if let Some(piece) = piece.as_str() {
        to[key] = format!("{}{piece}", to[key].as_str().unwrap_or("")).into();
    }
}

fn assemble_chat(chunks: &[Value]) -> Value {
    let mut whole = json!({"choices": [{"message": {"role": "assistant"}, "finish_reason": null}]});
    for chunk in chunks {
        for key in ["id", "model", "usage"] {
            if !chunk[key].is_null() {
                whole[key] = chunk[key].clone();
            }
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        let delta = &choice["delta"];
        let message = &mut whole["choices"][0]["message"];
        for key in ["content", "refusal", "reasoning_content", "reasoning"] {
            append(message, key, &delta[key]);
        }
        for detail in delta["reasoning_details"].as_array().into_iter().flatten() {
            merge_detail(message, detail);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            merge_call(message, call);
        }
        if !choice["finish_reason"].is_null() {
            whole["choices"][0]["finish_reason"] = choice["finish_reason"].clone();
        }
    }
    let calls = whole["choices"][0]["message"]["tool_calls"].as_array_mut();
    for call in calls.into_iter().flatten() {
        call.as_object_mut().unwrap().remove("index");
    }
    whole
}

fn merge_detail(message: &mut Value, detail: &Value) {
    if message["reasoning_details"].is_null() {
        message["reasoning_details"] = json!([]);
    }
    let details = message["reasoning_details"].as_array_mut().unwrap();
    match details.iter_mut().find(|d| d["index"] == detail["index"]) {
        None => details.push(detail.clone()),
        Some(there) => {
            for key in ["text", "signature", "data"] {
                append(there, key, &detail[key]);
            }
        }
    }
}

fn merge_call(message: &mut Value, call: &Value) {
    if message["tool_calls"].is_null() {
        message["tool_calls"] = json!([]);
    }
    let calls = message["tool_calls"].as_array_mut().unwrap();
    match calls.iter_mut().find(|c| c["index"] == call["index"]) {
        None => calls.push(call.clone()),
        Some(there) => {
            append(&mut there["function"], "arguments", &call["function"]["arguments"]);
        }
    }
}

fn read_anthropic(json: &Value) -> Reply {
    let mut reply = Reply::default();
    for block in json["content"].as_array().unwrap() {
        match block["type"].as_str().unwrap() {
            "text" => reply.text.push_str(block["text"].as_str().unwrap()),
            "tool_use" => {
                let text = |key: &str| block[key].as_str().unwrap().to_owned();
                reply.calls.push((text("id"), text("name"), block["input"].to_string()));
            }
            _ => {}
        }
    }
    reply.stop = match json["stop_reason"].as_str().unwrap() {
        "tool_use" => "calls",
        "max_tokens" => "length",
        "refusal" => "refused",
        _ => "end",
    };
    reply.output_tokens = json["usage"]["output_tokens"].as_u64().unwrap();
    reply.said = vec![json!({"role": "assistant", "content": json["content"]})];
    reply
}

fn read_chat(json: &Value) -> Reply {
    let choice = &json["choices"][0];
    let message = &choice["message"];
    let text = |key: &str| message[key].as_str().unwrap_or("").to_owned();
    let mut reply = Reply { text: text("content"), ..Reply::default() };
    let refusal = text("refusal");
    reply.text.push_str(&refusal);
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        let at = |value: &Value| value.as_str().unwrap().to_owned();
        let function = &call["function"];
        reply.calls.push((at(&call["id"]), at(&function["name"]), at(&function["arguments"])));
    }
    reply.stop = match choice["finish_reason"].as_str().unwrap() {
        "length" => "length",
        "content_filter" => "refused",
        _ if !refusal.is_empty() => "refused",
        _ if !reply.calls.is_empty() => "calls",
        _ => "end",
    };
    reply.output_tokens = json["usage"]["completion_tokens"].as_u64().unwrap_or(0);
    reply.said = vec![message.clone()];
    reply
}

fn read_responses(json: &Value) -> Reply {
    let mut reply = Reply::default();
    let mut refused = false;
    for item in json["output"].as_array().unwrap() {
        let at = |key: &str| item[key].as_str().unwrap().to_owned();
        match item["type"].as_str().unwrap() {
            "message" => {
                let part = &item["content"][0];
                refused |= part["type"] == "refusal";
                let text = part["text"].as_str().or_else(|| part["refusal"].as_str());
                reply.text.push_str(text.unwrap());
            }
            "function_call" => reply.calls.push((at("call_id"), at("name"), at("arguments"))),
            _ => {}
        }
    }
    reply.stop = match json["incomplete_details"]["reason"].as_str() {
        Some("max_output_tokens") => "length",
        Some(_) => "refused",
        None if refused => "refused",
        None if !reply.calls.is_empty() => "calls",
        None => "end",
    };
    reply.output_tokens = json["usage"]["output_tokens"].as_u64().unwrap();
    reply.said = json["output"].as_array().unwrap().clone();
    reply
}
