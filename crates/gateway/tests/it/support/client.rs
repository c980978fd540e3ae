//! A client with tools and a loop, knowing nothing of softland.

use serde_json::{Value, json};
use softland_session::wire::Api;

use super::reading::{Response, read};
use super::{Message, Running, script};

/// Turns of a run at most.
const TURNS: u32 = 60;

/// Every API.
pub(crate) const APIS: [Api; 3] = [Api::Anthropic, Api::Chat, Api::Responses];

/// Every API, streaming and not.
pub(crate) fn all() -> impl Iterator<Item = (Api, bool)> {
    APIS.into_iter().flat_map(|api| [true, false].map(|stream| (api, stream)))
}

const QUESTION: &str = "Look at the notes and say what is in them.";

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    /// Its API.
    pub(crate) api: Api,
    /// Its own headers.
    pub(crate) headers: Vec<String>,
    /// Its next request.
    pub(crate) body: Value,
}

impl Client {
    /// With two tools and a question, on Anthropic's API.
    pub(crate) fn new(stream: bool) -> Self {
        Self::on(Api::Anthropic, stream)
    }

    /// With two tools and a question.
    pub(crate) fn on(api: Api, stream: bool) -> Self {
        let tools = ["read_file", "list_dir"].map(|name| {
            let schema = json!({"type": "object", "properties": {"path": {"type": "string"}},
                "required": ["path"]});
            match api {
                Api::Anthropic => json!({"name": name, "input_schema": schema}),
                Api::Chat => json!({"type": "function",
                    "function": {"name": name, "parameters": schema}}),
                Api::Responses => json!({"type": "function", "name": name, "parameters": schema}),
            }
        });
        let mut body = json!({"stream": stream, "tools": tools});
        match api {
            Api::Anthropic => {
                body["model"] = "claude-sonnet-4-5".into();
                body["max_tokens"] = 4000.into();
            }
            Api::Chat => body["model"] = "gpt-4.1".into(),
            Api::Responses => {
                body["model"] = "gpt-5.2".into();
                body["store"] = false.into();
            }
        }
        let headers: &[&str] = match api {
            Api::Anthropic => &["x-api-key: any", "anthropic-version: 2023-06-01"],
            Api::Chat | Api::Responses => &["authorization: Bearer any"],
        };
        let headers = headers.iter().map(|header| (*header).to_owned()).collect();
        Self { api, headers, body }.asking(QUESTION)
    }

    /// With one more header.
    pub(crate) fn with(mut self, header: &str) -> Self {
        self.headers.push(header.to_owned());
        self
    }

    /// With a member of the body.
    pub(crate) fn set(mut self, key: &str, value: Value) -> Self {
        self.body[key] = value;
        self
    }

    /// With this question instead.
    pub(crate) fn asking(self, question: &str) -> Self {
        let history = self.history();
        self.set(history, json!([{"role": "user", "content": question}]))
    }

    /// The request as bytes.
    pub(crate) fn request(&self, gateway: &Running) -> String {
        self.request_of(gateway, &self.body.to_string())
    }

    /// The request with this body in the place of its own.
    pub(crate) fn request_of(&self, gateway: &Running, body: &str) -> String {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        let path = match self.api {
            Api::Anthropic => "POST /v1/messages",
            Api::Chat => "POST /v1/chat/completions",
            Api::Responses => "POST /v1/responses",
        };
        gateway.request(path, &headers, body)
    }

    pub(crate) async fn post(&self, gateway: &Running) -> Message {
        gateway.ask(self.request(gateway)).await
    }

    /// The same where the provider's stream breaks off: of Chat Completions the client's does, too.
    pub(crate) async fn post_to_a_break(&self, gateway: &Running) -> Message {
        let message = gateway.ask_for_part(self.request(gateway)).await;
        let breaks = self.api == Api::Chat && self.body["stream"] == true;
        assert!(breaks || !message.is_cut, "it broke off: {message:?}");
        message
    }

    /// The member that its history is.
    fn history(&self) -> &'static str {
        if self.api == Api::Responses { "input" } else { "messages" }
    }

    pub(crate) fn messages(&mut self) -> &mut Vec<Value> {
        let history = self.history();
        self.body[history].as_array_mut().expect("messages")
    }

    /// Somebody says something.
    pub(crate) fn says(&mut self, text: &str) {
        self.messages().push(json!({"role": "user", "content": text}));
    }

    /// Takes a turn of these blocks into the history, and runs its calls; true if there were any.
    pub(crate) fn takes(&mut self, content: &[Value]) -> bool {
        let items = script::items(self.api, content);
        self.messages().extend(items);
        self.runs(content)
    }

    /// A client of Chat Completions that wants to be told what its streams cost; the others are
    /// told in any case.
    pub(crate) fn told_usage(self) -> Self {
        if self.api == Api::Chat && self.body["stream"] == true {
            return self.set("stream_options", json!({"include_usage": true}));
        }
        self
    }

    /// With this limit of output.
    pub(crate) fn limited(self, tokens: u64) -> Self {
        let member = self.output_limit();
        self.set(member, json!(tokens))
    }

    /// The member that limits its output.
    pub(crate) fn output_limit(&self) -> &'static str {
        match self.api {
            Api::Anthropic => "max_tokens",
            Api::Chat => "max_completion_tokens",
            Api::Responses => "max_output_tokens",
        }
    }

    /// With these calls made.
    pub(crate) fn behind(mut self, calls: &[Value]) -> Self {
        self.takes(calls);
        self
    }

    /// The same in any protocol.
    pub(crate) fn takes_response(&mut self, response: &Response) -> bool {
        match self.api {
            Api::Anthropic => return self.takes(&response.content),
            Api::Chat | Api::Responses => self.messages().extend(response.items.iter().cloned()),
        }
        self.runs(&response.content)
    }

    fn runs(&mut self, content: &[Value]) -> bool {
        let calls = content.iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<Value> = calls
            .map(|block| {
                let (id, text) = (&block["id"], format!("notes of {}", block["input"]));
                match self.api {
                    Api::Anthropic => {
                        json!({"type": "tool_result", "tool_use_id": id, "content": text})
                    }
                    Api::Chat => json!({"role": "tool", "tool_call_id": id, "content": text}),
                    Api::Responses => {
                        json!({"type": "function_call_output", "call_id": id, "output": text})
                    }
                }
            })
            .collect();
        let called = !results.is_empty();
        match self.api {
            Api::Anthropic if called => {
                self.messages().push(json!({"role": "user", "content": results}));
            }
            Api::Anthropic => {}
            Api::Chat | Api::Responses => self.messages().extend(results),
        }
        called
    }

    /// One turn that must succeed.
    pub(crate) async fn turn(&mut self, gateway: &Running) -> (Message, Response) {
        let message = self.post(gateway).await;
        assert_eq!(message.status(), 200, "{}", message.text());
        let response = read(&message);
        self.takes_response(&response);
        (message, response)
    }

    /// Runs to the end: the number of turns, the last response and what it says.
    pub(crate) async fn run(&mut self, gateway: &Running) -> (u32, Message, Response) {
        for turn in 1..TURNS {
            let (message, response) = self.turn(gateway).await;
            if response.calls().is_empty() {
                return (turn, message, response);
            }
        }
        panic!("the run does not end");
    }
}
