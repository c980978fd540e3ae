//! A client with tools and a loop, knowing nothing of softland.

use serde_json::{Value, json};

use super::reading::{Response, read};
use super::{Message, Running};

/// Turns of a run at most.
const TURNS: u32 = 60;

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    /// Its own headers.
    pub(crate) headers: Vec<String>,
    /// Its next request.
    pub(crate) body: Value,
}

impl Client {
    /// With two tools and a question.
    pub(crate) fn new(stream: bool) -> Self {
        let tools = ["read_file", "list_dir"].map(|name| {
            json!({"name": name, "input_schema": {"type": "object",
                "properties": {"path": {"type": "string"}}, "required": ["path"]}})
        });
        let body = json!({
            "model": "claude-sonnet-4-5", "max_tokens": 4000, "stream": stream, "tools": tools,
            "messages": [{"role": "user", "content": "Look at the notes and say what is in them."}]
        });
        let headers = ["x-api-key: any", "anthropic-version: 2023-06-01"].map(str::to_owned);
        Self { headers: headers.into(), body }
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
        self.set("messages", json!([{"role": "user", "content": question}]))
    }

    /// The request as bytes.
    pub(crate) fn request(&self, gateway: &Running) -> String {
        let headers: Vec<&str> = self.headers.iter().map(String::as_str).collect();
        gateway.request("POST /v1/messages", &headers, &self.body.to_string())
    }

    pub(crate) async fn post(&self, gateway: &Running) -> Message {
        gateway.ask(self.request(gateway)).await
    }

    pub(crate) fn messages(&mut self) -> &mut Vec<Value> {
        self.body["messages"].as_array_mut().expect("messages")
    }

    /// Somebody says something.
    pub(crate) fn says(&mut self, text: &str) {
        self.messages().push(json!({"role": "user", "content": text}));
    }

    /// Takes a response into the history, and runs its calls; true if there were any.
    pub(crate) fn takes(&mut self, content: &[Value]) -> bool {
        self.messages().push(json!({"role": "assistant", "content": content}));
        let calls = content.iter().filter(|block| block["type"] == "tool_use");
        let results: Vec<Value> = calls
            .map(|block| {
                let text = format!("notes of {}", block["input"]);
                json!({"type": "tool_result", "tool_use_id": block["id"], "content": text})
            })
            .collect();
        let called = !results.is_empty();
        if called {
            self.messages().push(json!({"role": "user", "content": results}));
        }
        called
    }

    /// One turn that must succeed.
    pub(crate) async fn turn(&mut self, gateway: &Running) -> (Message, Response) {
        let message = self.post(gateway).await;
        assert_eq!(message.status(), 200, "{}", message.text());
        let response = read(&message);
        self.takes(&response.content);
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
